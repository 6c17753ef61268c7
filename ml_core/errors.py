"""Every error the library raises on purpose.

MLError                      code
├─ InvalidParameter          invalid_parameter     also ValueError; `issues` point into the spec
├─ InvalidData               invalid_data          also ValueError; `issues` point at rows and columns
├─ UnknownName               unknown_name          also LookupError; no such algorithm, function, kernel …
├─ NotFittedError            not_fitted            also ValueError and AttributeError, as scikit-learn's is
├─ Incompatible              incompatible          a loss lacks what a solver needs
├─ OverBudget                over_budget           the estimate exceeds the memory or time that was granted
├─ BadBundle                 bad_bundle            a bundle that cannot be read
└─ Cancelled                 cancelled             raised by the progress hook, never caught here

DataConversionWarning is the one Python warning; facts about a fit are `Notice` values in its diagnostics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Issue:
    """One offending place. `pointer` is a JSON pointer into the spec (`/params/alpha`) or data (`/rows/17/age`)."""

    pointer: str
    code: str
    detail: str


def pointer(*parts: object) -> str:
    """JSON pointer (RFC 6901) to nested names: `~` and `/` inside a name are escaped."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


class MLError(Exception):
    """Base of the library's errors."""

    code = "ml_error"

    def __init__(self, message: str = "", issues: Iterable[Issue] = ()) -> None:
        self.issues = tuple(issues)
        super().__init__(message or (type(self).__doc__ or "").strip())


class InvalidParameter(MLError, ValueError):
    """A parameter has the wrong type or value."""

    code = "invalid_parameter"


class InvalidData(MLError, ValueError):
    """The data cannot be used."""

    code = "invalid_data"


MAX_ISSUES = 20
_all: ContextVar[bool] = ContextVar("every_issue", default=False)


def most_issues() -> int | None:
    """How many offending places a refusal names: 20, or within `every_issue` all of them (None)."""
    return None if _all.get() else MAX_ISSUES


@contextmanager
def every_issue() -> Iterator[None]:
    """Within this, refusals of rows name every offending cell."""
    token = _all.set(True)
    try:
        yield
    finally:
        _all.reset(token)


@contextmanager
def placed(prefix: str) -> Iterator[None]:
    """Issues with parameters point through `prefix`: what a nested estimator refuses stands inside the outer one."""
    try:
        yield
    except InvalidParameter as e:
        raise type(e)(str(e), [replace(i, pointer=prefix + i.pointer) for i in e.issues]) from e


class UnknownName(MLError, LookupError):
    """Nothing is registered under that name."""

    code = "unknown_name"


class NotFittedError(MLError, ValueError, AttributeError):
    """This estimator is not fitted yet: call fit first."""

    code = "not_fitted"


class Incompatible(MLError, TypeError):
    """A loss does not offer what the solver needs."""

    code = "incompatible"

    def __init__(self, loss: str, solver: str, missing: str) -> None:
        self.parts = (loss, solver, missing)
        super().__init__(f"solver {solver} needs {missing}, which loss {loss} does not have")

    def __reduce__(self) -> tuple[type[Incompatible], tuple[str, ...]]:
        return type(self), self.parts


class OverBudget(MLError):
    """The estimated cost exceeds what was granted."""

    code = "over_budget"


class BadBundle(MLError, ValueError):
    """The bundle cannot be read."""

    code = "bad_bundle"


class Cancelled(MLError):
    """The work was cancelled."""

    code = "cancelled"


class DataConversionWarning(UserWarning):
    """Data came in a shape that was converted."""
