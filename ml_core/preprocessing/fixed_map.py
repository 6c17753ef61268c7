"""Transforms that parameters and the number of columns determine: nothing is learned, so any chunk will do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost, clone
from ml_core.certificates import Certificate, Diagnostics
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.solvers.base import answered
from ml_core.sums import Census, Passes

EPS = float(np.finfo(float).eps)
MOST_COLUMNS = 100_000
SAMPLE = 256
TINY = float(np.finfo(float).tiny)


def check_width(width: int, d: int, parameter: str, value: Any, advice: str) -> int:
    """The width, or InvalidParameter with the count before any memory is used."""
    if width > MOST_COLUMNS:
        text = f"{parameter}={value} makes {width:,} columns of {d}; at most {MOST_COLUMNS:,} are made: {advice}"
        raise InvalidParameter(text, [Issue(f"/params/{parameter}", "too_wide", text)])
    return width


def spread_rows(X: Matrix, most: int = SAMPLE) -> Matrix:
    """At most `most` rows, evenly spaced over X."""
    return X if len(X) <= most else X[np.linspace(0, len(X) - 1, most).round().astype(np.int64)]


@dataclass(frozen=True)
class Worst:
    """Rows seen, and the largest value of each check."""

    rows: int
    values: Vector

    def merge(self, other: Worst) -> Worst:
        """Of both sets of rows."""
        return Worst(self.rows + other.rows, np.maximum(self.values, other.values))


@dataclass(frozen=True)
class Checked:
    """The part whose total is `Worst`."""

    model: Any

    def __call__(self, X: Matrix, s: Vector) -> Worst:
        """Of the rows of X."""
        return Worst(len(X), np.array(self.model._errors(X)))


@dataclass(frozen=True)
class Looked:
    """The part that only has the rows checked."""

    def __call__(self, X: Matrix, s: Vector) -> Worst:
        """Of the rows of X."""
        return Worst(len(X), np.zeros(0))


class FixedMap:
    """Mixin beside `Weighted`, before `Transformer`: implement `_width(d)`, `_narrower()`, `_map(X)` and `_names`.

    `_settle(d)` may keep what `_map` needs; `_errors(X)` gives one number per entry of `_claims(d)`, which says name,
    tolerance and meaning of each certificate. Weights change nothing.
    """

    n_features_out_: int

    def check(self, X: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Refuse rows or weights as `fit` would, and a width that no table should have."""
        super().check(X, y, sample_weight)  # type: ignore[misc]
        clone(self)._prepare(np.shape(X)[1])  # type: ignore[arg-type, attr-defined]

    def _fit(self, X: Matrix, s: Vector) -> None:
        self._prepare(X.shape[1])

    def _prepare(self, d: int) -> None:
        parameter, advice = self._narrower()  # type: ignore[attr-defined]
        value = getattr(self, parameter, d)
        self.n_features_out_ = check_width(self._width(d), d, parameter, value, advice)  # type: ignore[attr-defined]
        self._settle(d)

    def _settle(self, d: int) -> None:
        """Keep what depends on the number of columns."""

    def _transform(self, X: Matrix) -> Matrix:
        with np.errstate(over="ignore", invalid="ignore"):
            Z: Matrix = self._map(X)  # type: ignore[attr-defined]
            if math.isfinite(Z.sum()):
                return Z
        far = np.argwhere(~np.isfinite(Z))
        if len(far):
            i, j = far[0]
            text = f"row {i} gives a number beyond {np.finfo(float).max:.3g} in output column {j}; scale the columns"
            raise InvalidData(text, [Issue(f"/rows/{i}", "overflow", text)])
        return Z

    def _passes(self, census: Census) -> Passes:
        self._prepare(census.width)
        yield Looked()  # rows that cannot be used are refused here as by `fit`

    def _audit(self, census: Census) -> Passes:
        seen: Worst = yield Checked(self)
        out = Diagnostics(summary={
            "rows": seen.rows, "columns_in": census.width, "columns_out": self.n_features_out_,
        })  # fmt: skip
        claims = self._claims(census.width)  # type: ignore[attr-defined]
        out.certificates = [Certificate(name, float(v), tolerance, meaning)
                            for v, (name, tolerance, meaning) in zip(seen.values, claims, strict=True)]  # fmt: skip
        return out

    def _diagnose(self, X: Matrix, s: Vector) -> Diagnostics:
        return answered(self._audit(Census(len(X), X.shape[1])), lambda part: part(X, s))

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """A few operations for each cell of the output."""
        width = float(self._width(d))  # type: ignore[attr-defined]
        return Cost(flops=4.0 * n * width, memory_bytes=8.0 * n * width)


def relative(found: Matrix, want: Matrix, size: Matrix | float) -> float:
    """Largest |found - want| / size, where a size below the least normal number counts as that."""
    return float((np.abs(found - want) / np.maximum(size, TINY)).max(initial=0.0))
