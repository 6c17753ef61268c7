"""Models that are functions of sums over rows, and fits from chunks that together need not fit in memory.

A model says once how it learns from sums: `_passes(census)` is a generator that yields *parts* (a part maps the checked
rows of one chunk to a value with `merge`), is sent their total over all rows, and learns from it. `Additive` models ask
once; k-means, mixtures and Newton's method ask again until they have converged. From that one statement come

    fit_chunks        fitting from chunks, on threads or, where `parallel.use_mapper` is in force, on other machines
    diagnose_chunks   certificates recomputed in one more pass over the rows (`_audit(census)`)
    update, forget    rows folded in or taken out of the kept sums (`Additive`)

Totals are merged in the order of the chunks, so where the chunks were read does not change a bit of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ml_core import parallel, params, progress, validation
from ml_core.arrays import Labels, Vector
from ml_core.base import Classifier, Estimator
from ml_core.capabilities import Forgets, Updates
from ml_core.certificates import Diagnostics, Notice
from ml_core.errors import InvalidData
from ml_core.numerics.column_moments import magnitudes
from ml_core.undefined import complete
from ml_core.validation import check_query

FEW = 1000
"""Rows of a chunk up to which numbers as labels need not recur in the chunk itself."""


Part = Callable[..., Any]  # (X[, y][, s]) as `_fit` gets them → sums, with `merge`; must be picklable
Passes = Generator[Part, Any, Any]


class Chunks(Protocol):
    """Rows in pieces. It is sent to whoever reads, so it holds references, not rows."""

    def __len__(self) -> int:
        """How many pieces there are."""

    def read(self, i: int) -> tuple[Any, Any, Any]:
        """X (m, d), y (m,) or None, weights (m,) or None of piece i."""


@dataclass(frozen=True)
class Census:
    """What one look at all rows tells: rows of positive weight, columns, the sorted labels of a classifier.

    `top` (d,) is the largest magnitude of each column, None where no bound asks for it.
    """

    rows: int
    width: int
    classes: Labels | None = None
    top: Vector | None = None

    def merge(self, other: Census) -> Census:
        """Of both sets of rows; InvalidData when their widths differ."""
        if other.width != self.width:
            raise InvalidData(f"one chunk has {self.width} columns and another {other.width}")
        known = [c.classes for c in (self, other) if c.classes is not None]
        if len({c.dtype.kind in "USO" for c in known}) > 1:
            raise InvalidData(f"one chunk has labels like {known[0][0]!r} and another like {known[1][0]!r}")
        classes = validation.distinct_labels(np.concatenate(known), "the chunks", rows=False)[0] if known else None
        tops = [c.top for c in (self, other) if c.top is not None]
        return Census(self.rows + other.rows, self.width, classes, np.max(tops, axis=0) if tops else None)


class Additive(Updates, Forgets):
    """Everything learned is a function of sums: implement `_sums(X[, y][, s])` and `_solve(sums)`.

    The sums need `merge` and `subtract`; `_solve` stores them as `sums_`. A refused update or forget changes nothing.
    `_audit` also gives the diagnostics of rows in memory, unless the model has more to say of these (`_diagnose`).
    """

    sums_: Any

    def _fit(self, *args: Any) -> None:
        self._solve(self._sums(*args))  # type: ignore[attr-defined]

    def _update(self, *args: Any) -> None:
        self._again(self._known().merge(self._sums(*args)))  # type: ignore[attr-defined]

    def _forget(self, *args: Any) -> None:
        self._again(self._known().subtract(self._sums(*args)))  # type: ignore[attr-defined]

    def _known(self) -> Any:
        return self.sums_

    def _again(self, sums: Any) -> None:
        before = vars(self).copy()
        self.notices_: list[Notice] = []
        try:
            self._solve(sums)  # type: ignore[attr-defined]
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _diagnose(self, *args: Any) -> Diagnostics:
        census = Census(len(args[0]), args[0].shape[1])
        out: Diagnostics = _drive(self._audit(census), lambda part: part(*args))  # type: ignore[attr-defined]
        return out

    def _passes(self, census: Census) -> Passes:
        self._solve((yield self._sums))  # type: ignore[attr-defined]


def chunkable(model: Any) -> bool:
    """Whether an estimator, or its class, can be fitted from chunks."""
    return hasattr(model, "_passes") and hasattr(model, "_audit")


def fit_chunks(estimator: Estimator, chunks: Chunks) -> Estimator:
    """Fit from chunks; the answer is that of `fit` up to the digits that the model's page states. Returns it.

    InvalidData and InvalidParameter are those of `fit`; the rows of `InvalidData` count within the chunk that it names.
    """
    values = params.validate(type(estimator), estimator.get_params(deep=False))
    for name in [k for k in vars(estimator) if k.endswith("_")]:
        delattr(estimator, name)
    estimator.notices_ = []
    census = total(_Count(estimator), chunks)
    if census.rows < estimator.min_rows:
        raise InvalidData(f"{type(estimator).__name__} needs {estimator.min_rows} rows of positive weight, "
                          f"got {census.rows}")  # fmt: skip
    if census.top is not None:
        validation.check_squares(census.top, type(estimator).__name__, estimator.largest)
    if census.classes is not None and len(census.classes) < 2:
        raise InvalidData(f"{type(estimator).__name__} needs two classes, got {list(census.classes)}")
    if isinstance(estimator, Classifier) and census.classes is not None:
        validation.check_recurring(census.classes, census.rows, type(estimator).__name__)
        estimator.classes_ = census.classes
    estimator._locate(values, census.width)
    with estimator._in_time():
        _drive(estimator._passes(census), lambda part: total(part, chunks, estimator))  # type: ignore[attr-defined]
    estimator.n_features_in_ = census.width
    return estimator


def diagnose_chunks(estimator: Estimator, chunks: Chunks) -> Diagnostics:
    """Certificates and statistics of the fit, recomputed from the fitted parameters and the rows of the chunks."""
    check_query(estimator)
    census = total(_Count(estimator), chunks)
    passes = estimator._audit(census)  # type: ignore[attr-defined]
    out: Diagnostics = _drive(passes, lambda part: total(part, chunks, estimator))
    return complete(out, estimator.notices_, estimator.remedy)


def _drive(passes: Passes, total_of: Callable[[Part], Any]) -> Any:
    """Answer every question of the generator with a total over all rows; what it returns at the end."""
    try:
        part = next(passes)
        while True:
            part = passes.send(total_of(part))
    except StopIteration as end:
        return end.value


def total(part: Part, chunks: Chunks, checker: Estimator | None = None) -> Any:
    """The part's value over all rows, merged in the order of the chunks; with `checker` it sees rows as `_fit` does.

    InvalidData when no chunk has a row of positive weight.
    """
    whole, read = None, parallel.spread_map(_of_chunk, range(len(chunks)), (part, chunks, checker))
    for done, sums in enumerate(read, start=1):
        progress.tick(done, total=len(chunks), unit="chunks")
        if sums is not None:
            whole = sums if whole is None else whole.merge(sums)
    if whole is None:
        raise InvalidData("there is no row of positive weight")
    return whole


def _of_chunk(i: int, part: Part, chunks: Chunks, checker: Estimator | None) -> Any:
    """The part's value of one chunk; None when none of its rows counts."""
    X, y, s = chunks.read(i)
    try:
        if checker is None:
            return part(X, y, s)
        if not len(X) or (s is not None and not np.any(s)):
            return None
        with parallel.use_threads(max(1, parallel.threads() // len(chunks))):  # the others read the other chunks
            return part(*checker._checked(X, y, s, fresh=False))
    except InvalidData as e:
        raise InvalidData(f"chunk {i} of {len(chunks)}: {e}", e.issues) from e


@dataclass(frozen=True)
class _Count:
    """The part of the census."""

    estimator: Estimator

    def __call__(self, X: Any, y: Any, s: Any) -> Census | None:
        keep = validation.check_weights(s, len(X)) > 0 if len(X) and (s is None or np.any(s)) else np.zeros(0, bool)
        if not keep.any():
            return None
        owner, shape = type(self.estimator).__name__, np.shape(X)
        if len(shape) != 2:
            raise InvalidData(f"{owner} expects a table (rows, columns), got an array of shape {shape}")
        labels, bounded = None, self.estimator.largest < np.inf
        if self.estimator.supervised and self.estimator.task == "classification":
            given = validation._column(y, len(keep), owner)[keep]
            labels = validation.distinct_labels(given, owner, rows=len(given) > FEW)[0]
        top = magnitudes(np.ascontiguousarray(X, dtype=np.float64)) if bounded else None
        return Census(int(keep.sum()), shape[1], labels, top)
