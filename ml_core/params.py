"""A constructor's signature is the one description of its parameters: for validation, JSON Schema, docs and forms."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from reprlib import Repr
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_type_hints

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    create_model,
)

from ml_core.errors import InvalidParameter, Issue

DEEPEST = 32
_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 8, 200, 200
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = 20
_depth: ContextVar[int] = ContextVar("depth of nested parts", default=0)
Alpha = Annotated[float, Field(ge=0, description="Strength of the penalty; 0 switches it off.")]
Tol = Annotated[float, Field(gt=0, description="Stopping tolerance, in the units the solver states.")]
MaxIter = Annotated[int, Field(ge=1, le=1_000_000_000_000, description="Most iterations.")]
Intercept = Annotated[bool, Field(description="Learn b; otherwise b = 0.")]
FreeIntercept = Annotated[bool, Field(description="Learn b, which is not penalised; otherwise b = 0.")]
PenalizeBias = Annotated[bool, Field(description="Penalise b as a coefficient.")]
ObjectiveScale = Annotated[
    Literal["sum", "mean"], Field(description="Whether the penalty stands beside the sum of losses or their mean.")
]
WeightKind = Annotated[
    Literal["frequency", "precision"],
    Field(description="Weights repeat rows (n = sum) or state precisions of the noise (n = rows)."),
]
Seed = Annotated[int, Field(ge=0, lt=2**63, description="Seed of every random choice; equal seeds give equal bits.")]


def _numbers(ndim: int, nullable: bool = False) -> Any:
    def convert(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
            array = value.astype(np.float64)
        else:
            flat = list(value)
            for _ in range(ndim - 1):
                flat = [x for part in flat for x in part]
            if any(isinstance(x, bool) or not (x is None or isinstance(x, (int, float, np.number))) for x in flat):
                raise ValueError("expected numbers")
            array = _array(value)
        if array.ndim != ndim:
            raise ValueError(f"expected {ndim} dimension(s), got {array.ndim}")
        if not nullable and not np.isfinite(array).all():
            raise ValueError("expected finite numbers")
        return array

    return BeforeValidator(lambda v: _as_value_error(convert, v))


def _array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value, dtype=np.float64)
    except ValueError:
        raise ValueError("expected lists of equal length") from None


def _as_value_error(convert: Any, value: Any) -> Any:
    try:
        return convert(value)
    except TypeError as e:
        raise ValueError(f"expected a list of numbers: {e}") from e


_NUMBERS = {"type": "array", "items": {"type": "number"}}
RealVector = Annotated[np.ndarray, _numbers(1), WithJsonSchema(_NUMBERS)]
"""A list of finite numbers; (n,) float64 array inside."""
RealMatrix = Annotated[np.ndarray, _numbers(2), WithJsonSchema({"type": "array", "items": _NUMBERS})]
"""A list of equally long lists of finite numbers; (n, d) float64 array inside."""
_TABLE = {"type": "array", "items": _NUMBERS}
RealStack = Annotated[np.ndarray, _numbers(3), WithJsonSchema({"type": "array", "items": _TABLE})]
"""A list of equally shaped matrices; (K, n, d) float64 array inside."""


def _column(value: Any) -> int | str:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    if isinstance(value, str) and value:
        return value
    raise ValueError("expected the name of a column, or its number counted from 0")


_COLUMN = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}], "x-column": True}
Column = Annotated[int | str, PlainValidator(_column), WithJsonSchema(_COLUMN)]
"""A column by name or number: `Estimator._column_of` tells its place in a fit, `naming.places` what is meant."""
Label = bool | int | float | str
"""A class label: any JSON scalar; null beside it where rows may lack one."""


def nested(check: Any, what: str, *, many: bool = False) -> Any:
    """Annotation of a parameter that is itself a part (estimator, kernel …), or a list of such parts.

    `check` gives the part or raises; the schema marks it `x-spec: what`. At most 32 parts stand within each other.
    """
    part = {"type": "object", "title": f"{what} spec", "x-spec": what}
    schema = {"type": "array", "minItems": 1, "items": part} if many else part
    return (AfterValidator(_not_too_deep(check, what)), WithJsonSchema(schema))


@contextmanager
def deeper(what: str) -> Iterator[None]:
    """One more part within others; InvalidParameter beyond `DEEPEST`."""
    depth = _depth.get()
    if depth >= DEEPEST:
        text = f"a {what} within {DEEPEST} others: parts may not be nested deeper"
        raise InvalidParameter(text, [Issue("", "too_deep", text)])
    token = _depth.set(depth + 1)
    try:
        yield
    finally:
        _depth.reset(token)


def _not_too_deep(check: Any, what: str) -> Any:
    """`check`, refusing parts within more than `DEEPEST` others."""

    @wraps(check)
    def checked(value: Any) -> Any:
        with deeper(what):
            return check(value)

    return checked


def signature(cls: type) -> Mapping[str, inspect.Parameter]:
    """Keyword parameters of a constructor or function, in order."""
    target: Any = cls
    return _signature(target)


@cache
def _signature(target: Any) -> Mapping[str, inspect.Parameter]:
    function = vars(target).get("__init__", target) if isinstance(target, type) else target
    return MappingProxyType({k: p for k, p in inspect.signature(function).parameters.items() if k != "self"})


@cache
def model_of(target: Any) -> type[BaseModel]:
    """The pydantic model of a constructor's or function's parameters: strict, closed."""
    hints = get_type_hints(target.__init__ if isinstance(target, type) else target, include_extras=True)  # type: ignore[misc]
    fields: dict[str, Any] = {}
    for name, p in signature(target).items():
        default = ... if p.default is inspect.Parameter.empty else p.default
        fields[name] = (hints[name], default)
    config = ConfigDict(
        strict=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False, protected_namespaces=()
    )
    made: type[BaseModel] = create_model(f"{target.__name__}Params", __config__=config, **fields)
    return made


def schema_of(target: Any) -> dict[str, Any]:
    """JSON Schema of the parameters, with descriptions, bounds and defaults.

    A default that only lets the class be constructed (an empty list where one item is the least) is none to offer.
    """
    schema = model_of(target).model_json_schema()
    for name, field in schema.get("properties", {}).items():
        if isinstance(field.get("default"), list) and len(field["default"]) < field.get("minItems", 0):
            del field["default"]
            schema.setdefault("required", []).append(name)
    return schema


@cache
def column_parameters(target: Any) -> tuple[str, ...]:
    """Names of the parameters that are a `Column`."""
    properties = model_of(target).model_json_schema().get("properties", {})
    return tuple(k for k, f in properties.items() if any(s.get("x-column") for s in (f, *f.get("anyOf", ()))))


def unwrap(value: Any) -> Any:
    """NumPy scalars → Python scalars, so that strict validation sees what was meant."""
    return value.item() if isinstance(value, np.generic) else value


def validate(target: Any, values: dict[str, Any], *, pointer: str = "/params") -> dict[str, Any]:
    """The validated values, or InvalidParameter with one issue per offending field."""
    try:
        model = model_of(target)(**{k: unwrap(v) for k, v in values.items()})
    except ValidationError as e:
        issues = [issue for err in e.errors(include_url=False) for issue in _issues(err, pointer)]
        text = "; ".join(f"{i.pointer.removeprefix(pointer).lstrip('/') or 'params'}: {i.detail}" for i in issues)
        raise InvalidParameter(f"{target.__name__}: {text}", issues) from e
    return {name: getattr(model, name) for name in type(model).model_fields}


def _issues(err: Any, pointer: str) -> list[Issue]:
    """The issue that pydantic reports or, from a nested spec, its own issues behind the outer parameter's pointer."""
    at = "/".join([pointer, *map(str, err["loc"])])
    inside = getattr(err.get("ctx", {}).get("error"), "issues", ())
    own = Issue(at, err["type"], f"{err['msg'].removeprefix('Value error, ')} (got {_SHORT.repr(err['input']):.80})")
    return [Issue(at + i.pointer, i.code, i.detail) for i in inside] or [own]
