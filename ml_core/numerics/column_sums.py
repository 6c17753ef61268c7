"""Moments of columns that can be merged: of chunks, in any order, without losing digits to an offset or a unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidData
from ml_core.numerics.column_moments import split_moments
from ml_core.statistics import SLACK, UNSEEN, left_over, two_sum


@portable
@dataclass(frozen=True)
class ColumnSums:
    """Σs, rows, and per column (d,): the mean, the deviation √(Σ s(x - mean)²/Σs), whether every cell is the same.

    `rest` is what rounding took from the mean; without it columns far from the origin would lose digits in a merge.
    """

    total: float
    rows: int
    mean: Vector
    rest: Vector
    sd: Vector
    constant: np.ndarray

    @classmethod
    def of(cls, X: Matrix, s: Vector) -> ColumnSums:
        """Of the rows of X (n, d), weights s (n,), perhaps none; O(n d), no copy."""
        if not len(X):
            none = np.zeros(X.shape[1])
            return cls(0.0, 0, none, none, none, none == 0)
        mean, rest, sd, constant = split_moments(X, s)
        return cls(float(s.sum()), len(X), mean, rest, np.where(constant, 0.0, sd), constant)

    def merge(self, other: ColumnSums) -> ColumnSums:
        """Of both sets of rows (Chan, Golub and LeVeque), in units in which no square overflows."""
        if not self.rows or not other.rows:
            return self if self.rows else other
        total = self.total + other.total
        p, q = self.total / total, other.total / total
        delta, unit = self._step(other)
        square = p * (self.sd / unit) ** 2 + q * (other.sd / unit) ** 2 + p * q * (delta / unit) ** 2
        constant = self.constant & other.constant & (delta == 0)
        mean, rest = two_sum(self.mean, self.rest + q * delta)
        return ColumnSums(total, self.rows + other.rows, mean, rest, np.sqrt(square) * unit, constant)

    def subtract(self, other: ColumnSums) -> ColumnSums:
        """Without the rows of `other`; InvalidData where these cannot have been there.

        A deviation keeps the digits of that of all rows, less those of the share of its square that is left.
        """
        if not other.rows:
            return self
        total, rows = left_over(self, other)
        p, q = self.total / total, other.total / total
        delta, unit = self._step(other)
        square = p * (self.sd / unit) ** 2 - q * (other.sd / unit) ** 2 - p * q * (delta / unit) ** 2
        if (square < -SLACK * p).any() or (self.constant & (other.sd > 0)).any():
            raise InvalidData(UNSEEN)
        constant = self.constant | (square <= SLACK * p)
        mean, rest = two_sum(self.mean, self.rest - q * delta)
        sd = np.where(constant, 0.0, np.sqrt(np.maximum(square, 0.0)) * unit)
        return ColumnSums(total, rows, mean, rest, sd, constant)

    def _step(self, other: ColumnSums) -> tuple[Vector, Vector]:
        """The difference of the means, and a unit (d,) that no deviation exceeds."""
        delta = (other.mean - self.mean) + (other.rest - self.rest)
        unit = np.maximum(np.maximum(self.sd, other.sd), np.abs(delta))
        return delta, np.where(unit > 0, unit, 1.0)


@dataclass(frozen=True)
class ColumnPart:
    """The part whose total is `ColumnSums`; None for no rows."""

    def __call__(self, X: Matrix, *rest: Vector) -> ColumnSums | None:
        """Of a chunk: X, perhaps y, and s."""
        return ColumnSums.of(X, rest[-1]) if len(X) else None
