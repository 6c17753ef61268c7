"""Kernels of transformed rows: f(x) k(x, z) f(z), and k(φ(x), φ(z)), with f and φ from named lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PlainValidator, WithJsonSchema

from ml_core import naming
from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData, InvalidParameter, Issue, placed
from ml_core.kernels.base import Kernel, KernelSpec, Pull
from ml_core.kernels.stationary import TWO_PI

MAX_FEATURES = 5000


def _value(value: Any) -> float | str:
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and np.isfinite(value):
        return float(value)
    if isinstance(value, str) and value:
        return value
    raise ValueError("expected a finite number, or for function 'column' a name")


_VALUE = {"anyOf": [{"type": "number"}, {"type": "string", "minLength": 1}], "x-column": True}


def _inverse_norm(A: Matrix, value: float) -> Vector:
    size = np.linalg.norm(A, axis=1)
    if not (size > 0).all():
        raise InvalidData(f"row {int(np.argmin(size))} is 0 and has no inverse norm")
    return np.asarray(value / size)


WARPS: dict[str, Callable[[Matrix, float], Vector]] = {
    "constant": lambda A, c: np.full(len(A), c),
    "norm": lambda A, c: c * np.linalg.norm(A, axis=1),
    "inverse_norm": _inverse_norm,
    "gaussian": lambda A, c: np.exp(-0.5 * np.einsum("ij,ij->i", A / c, A / c)),
    "column": lambda A, c: A[:, int(c)],
}


@dataclass(frozen=True)
class WarpKernel(Kernel):
    """f(x) k(x, z) f(z) for a function f of a row, with one number c.

    constant: c; norm: c ‖x‖; inverse_norm: c/‖x‖ (of a linear kernel: the cosine); gaussian: exp(-‖x‖²/(2c²)); column:
    the value of column c.
    """

    name = "warp"
    function: Annotated[
        Literal["constant", "norm", "inverse_norm", "gaussian", "column"], Field(description="f, from this list.")
    ]
    term: KernelSpec
    value: Annotated[
        float | str,
        PlainValidator(_value),
        WithJsonSchema(_VALUE),
        Field(description="c: a factor, a length, or a column by name or by number from 0."),
    ] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        c = self.value
        if self.function == "column":
            whole = isinstance(c, str) or (c >= 0 and c == int(c))
            wrong = None if whole else f"warp column takes a name, or a number counted from 0, got {c}"
        elif isinstance(c, str):
            wrong = f"warp {self.function} takes a number, got {c!r}"
        else:
            short = self.function == "gaussian" and c <= 0
            wrong = f"warp gaussian takes a positive length, got {c}" if short else None
        if wrong:
            raise InvalidParameter(wrong, [Issue("/value", "value_error", wrong)])

    def located(self, width: int) -> WarpKernel:
        """With the number of the column that is f."""
        with placed("/term"):
            term = self.term.located(width)
        return WarpKernel(self.function, term, self._place(width) if self.function == "column" else self.value)

    def _place(self, width: int) -> int:
        with placed("/value"):
            return naming.place(self.value if isinstance(self.value, str) else int(self.value), width, "value")

    def _f(self, A: Matrix) -> Vector:
        c: Any = self._place(A.shape[1]) if self.function == "column" else self.value
        return WARPS[self.function](A, c)

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        out: Matrix = self.term._cross(A, B)
        return self._between(A, B, out)

    def _between(self, A: Matrix, B: Matrix, out: Matrix) -> Matrix:
        f = self._f(A)
        g = f if A is B else self._f(B)
        out *= f[:, None] * g
        return out

    def diag(self, A: Matrix) -> Vector:
        """f(x)² k(x, x)."""
        f = self._f(A)
        return np.asarray((f * f) * self.term.diag(A))

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        inner, pull = self.term.traced(A, None if gram else B)
        return self._between(A, B, inner.copy()), lambda W: pull(self._between(A, B, W.copy()))


def _monomials(A: Matrix, degree: int) -> Matrix:
    n, d = A.shape
    width = comb(d + degree, degree)
    if width > MAX_FEATURES:
        raise InvalidParameter(f"{width} monomials of {d} columns; at most {MAX_FEATURES}: use a polynomial kernel")
    out, at = np.ones((n, width)), 1
    for p in range(1, degree + 1):
        for columns in combinations_with_replacement(range(d), p):
            out[:, at] = np.prod(A[:, columns], axis=1)
            at += 1
    return out


def _waves(A: Matrix, degree: int) -> Matrix:
    angle = [TWO_PI * p * A for p in range(1, degree + 1)]
    return np.hstack([f(a) for a in angle for f in (np.cos, np.sin)])


MAPS: dict[str, Callable[[Matrix, int], Matrix]] = {
    "monomials": _monomials,
    "powers": lambda A, degree: np.hstack([A**p for p in range(1, degree + 1)]),
    "waves": _waves,
    "norm": lambda A, degree: np.linalg.norm(A, axis=1, keepdims=True) ** degree,
    "paraboloid": lambda A, degree: np.hstack([A, np.linalg.norm(A, axis=1, keepdims=True) ** degree]),
}


@dataclass(frozen=True)
class MapKernel(Kernel):
    """k(φ(x), φ(z)) for a feature map φ.

    monomials: all products of up to `degree` columns, 1 among them; powers: x, x², … of each column; waves: cos and sin
    of 2π p x, p = 1 … degree; norm: ‖x‖^degree; paraboloid: the columns and ‖x‖^degree.
    """

    name = "map"
    features: Annotated[
        Literal["monomials", "powers", "waves", "norm", "paraboloid"], Field(description="φ, from this list.")
    ]
    term: KernelSpec
    degree: Annotated[int, Field(ge=1, le=10, description="Order of the map.")] = 2

    def _of(self, A: Matrix) -> Matrix:
        with np.errstate(over="ignore"):
            out = MAPS[self.features](A, self.degree)
        if not np.isfinite(out).all():
            raise InvalidData(f"the map {self.features} of degree {self.degree} overflows; scale the inputs")
        return np.ascontiguousarray(out)

    def _both(self, A: Matrix, B: Matrix) -> tuple[Matrix, Matrix]:
        P = self._of(A)
        return P, P if A is B else self._of(B)

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        out: Matrix = self.term._cross(*self._both(A, B))
        return out

    def squared_distances(self, A: Matrix, B: Matrix) -> Matrix:
        """That of the term, between the mapped rows."""
        return np.asarray(self.term.squared_distances(self._of(A), self._of(B)))

    def ranks(self, A: Matrix, B: Matrix) -> Matrix:
        """Those of the term, between the mapped rows."""
        return np.asarray(self.term.ranks(self._of(A), self._of(B)))

    def distances_of(self, ranks: Matrix) -> Matrix:
        """Those of the term."""
        return np.asarray(self.term.distances_of(ranks))

    def diag(self, A: Matrix) -> Vector:
        """Diagonal of the mapped rows."""
        return np.asarray(self.term.diag(self._of(A)))

    def located(self, width: int) -> MapKernel:
        """Mapped columns have no names: the inner kernel takes numbers."""
        mapped = self._of(np.zeros((1, width))).shape[1]
        with naming.use(None), placed("/term"):
            return MapKernel(self.features, self.term.located(mapped), self.degree)

    def _filled(self, X: Matrix) -> MapKernel:
        return MapKernel(self.features, self.term._filled(self._of(X)), self.degree)

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        P, Q = self._both(A, B)
        values: Matrix
        values, pull = self.term.traced(P, None if gram else Q)
        return values.copy(), pull
