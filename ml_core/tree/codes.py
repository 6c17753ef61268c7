"""Columns as ranks: code i of a column is its i-th distinct value, so trees compare small integers, not floats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.parallel import ordered_map


@dataclass(frozen=True)
class Coded:
    """`ranks` (d, n) uint32, a line per column; column j's distinct values are `values[start[j]:start[j + 1]]`."""

    ranks: np.ndarray
    values: Vector
    start: np.ndarray

    @property
    def distinct(self) -> np.ndarray:
        """(d,) number of distinct values per column."""
        return np.diff(self.start)


def encode(X: Matrix) -> Coded:
    """Exact ranks of every column of X (n, d), equal values sharing one; O(n d log n), columns in parallel."""
    n, d = X.shape
    ranks = np.empty((d, n), dtype=np.uint32)

    def column(j: int) -> Vector:
        x = np.ascontiguousarray(X[:, j])
        order = np.argsort(x)
        ordered = x[order]
        fresh = np.empty(n, dtype=bool)
        fresh[0] = True
        np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
        ranks[j, order] = (np.cumsum(fresh) - 1).astype(np.uint32)
        return ordered[fresh]

    values = list(ordered_map(column, range(d)))
    start = np.concatenate([[0], np.cumsum([len(v) for v in values])]).astype(np.int64)
    return Coded(ranks, np.concatenate(values), start)
