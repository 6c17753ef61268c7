"""Where the columns of a matrix lie and how wide they are, as sums over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData
from ml_core.numerics.column_moments import REACH, column_moments


@dataclass(frozen=True)
class ColumnScale:
    """Rows, and per column (d,) the least and largest value, the mean, and the standard deviation (0 if constant)."""

    rows: int
    low: Vector
    high: Vector
    mean: Vector
    sd: Vector

    @classmethod
    def of(cls, X: Matrix, names: Sequence[str]) -> ColumnScale:
        """Of the rows of X (n, d), n ≥ 1; InvalidData names a column too large to be scaled. O(n d)."""
        low, high = X.min(axis=0), X.max(axis=0)
        _refuse_far(low, high, names)
        mean, sd, constant = column_moments(X, np.ones(len(X)))
        return cls(len(X), low, high, mean, np.where(constant, 0.0, sd))

    @classmethod
    def within(
        cls, rows: int, low: Vector, high: Vector, mean: Vector, sd: Vector, names: Sequence[str]
    ) -> ColumnScale:
        """Of columns of which this is known; InvalidData as of `of`."""
        _refuse_far(low, high, names)
        return cls(rows, low, high, mean, sd)

    def merge(self, other: ColumnScale) -> ColumnScale:
        """Of both sets of rows: n sd² = n₁ sd₁² + n₂ sd₂² + n₁n₂/n δ², in units of the largest term."""
        n = self.rows + other.rows
        own, theirs = self.rows / n, other.rows / n
        delta = other.mean - self.mean
        unit = np.maximum(np.maximum(self.sd, other.sd), np.abs(delta))
        unit[unit == 0] = 1.0
        terms = own * (self.sd / unit) ** 2 + theirs * (other.sd / unit) ** 2 + own * theirs * (delta / unit) ** 2
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return ColumnScale(n, low, high, self.mean + theirs * delta, unit * np.sqrt(terms))

    def affine(self, kinds: np.ndarray) -> tuple[Vector, Vector]:
        """Shift and scale by the kind of each column (d,): mean and standard deviation, of min_max minimum and range.

        The scale is 1 where the column is constant.
        """
        ranged = kinds == "min_max"
        size = np.where(ranged, self.high - self.low, self.sd)
        return np.where(ranged, self.low, self.mean), np.where(self.low == self.high, 1.0, size)


def _refuse_far(low: Vector, high: Vector, names: Sequence[str]) -> None:
    far = np.flatnonzero(np.maximum(high, -low) > REACH)
    if len(far):
        raise InvalidData(f"column {names[far[0]]!r} exceeds {REACH:g}, too large to be scaled; change its unit")
