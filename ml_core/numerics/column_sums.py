"""Moments of columns that can be merged: of chunks, in any order, without losing digits to an offset or a unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.column_moments import column_moments


@dataclass(frozen=True)
class ColumnSums:
    """Σs, rows, and per column (d,): the mean, the deviation √(Σ s(x - mean)²/Σs), whether every cell is the same."""

    total: float
    rows: int
    mean: Vector
    sd: Vector
    constant: np.ndarray

    @classmethod
    def of(cls, X: Matrix, s: Vector) -> ColumnSums:
        """Of the rows of X (n, d), weights s (n,); O(n d), no copy."""
        mean, sd, constant = column_moments(X, s)
        return cls(float(s.sum()), len(X), mean, np.where(constant, 0.0, sd), constant)

    def merge(self, other: ColumnSums) -> ColumnSums:
        """Of both sets of rows (Chan, Golub and LeVeque), in units in which no square overflows."""
        total = self.total + other.total
        p, q = self.total / total, other.total / total
        delta = other.mean - self.mean
        unit = np.maximum(np.maximum(self.sd, other.sd), np.abs(delta))
        unit = np.where(unit > 0, unit, 1.0)
        square = p * (self.sd / unit) ** 2 + q * (other.sd / unit) ** 2 + p * q * (delta / unit) ** 2
        constant = self.constant & other.constant & (delta == 0)
        return ColumnSums(total, self.rows + other.rows, self.mean + q * delta, np.sqrt(square) * unit, constant)


@dataclass(frozen=True)
class ColumnPart:
    """The part whose total is `ColumnSums`; None for no rows."""

    def __call__(self, X: Matrix, *rest: Vector) -> ColumnSums | None:
        """Of a chunk: X, perhaps y, and s."""
        return ColumnSums.of(X, rest[-1]) if len(X) else None
