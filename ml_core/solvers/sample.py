"""Some rows of a table that comes in chunks: the same ones however the table is cut and whatever the order of its rows.

A row's key is a hash of its cells and the seed; the rows of the smallest keys are kept (bottom-k sampling), a repeated
row once, with the sum of its weights. So the sample is uniform over the distinct rows, it holds all of them when they
are few, and a kept row carries its exact weight.

References
----------
Cohen, Kaplan (2007), Summarizing data using bottom-k sketches, PODC.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.splitmix import GOLDEN, mixed

CELLS = 1 << 22
MOST_ROWS = 1 << 16


def room(d: int) -> int:
    """Rows of d columns that a sample may hold: 65,536, fewer where those exceed 32 MB."""
    return max(1024, min(MOST_ROWS, CELLS // d))


@dataclass(frozen=True)
class Sample:
    """Rows X (m, d), weights s (m,), and keys (m,): ascending, or none where all rows are kept in their order."""

    X: Matrix
    s: Vector
    keys: np.ndarray
    size: int

    @property
    def whole(self) -> bool:
        """Whether these are all rows, in order."""
        return len(self.keys) < len(self.X)

    def merge(self, other: Sample) -> Sample:
        """Of both sets of rows."""
        X, s = np.concatenate([self.X, other.X]), np.concatenate([self.s, other.s])
        keys = np.concatenate([self.keys, other.keys])
        return Sample(X, s, keys, self.size) if self.whole else _smallest(X, s, keys, self.size)


@dataclass(frozen=True)
class Draw:
    """The part whose total is a `Sample` of at most `size` distinct rows; `whole` keeps every row."""

    size: int
    seed: int
    whole: bool

    def __call__(self, X: Matrix, s: Vector) -> Sample:
        """Of a chunk."""
        if self.whole:
            return Sample(X, s, np.empty(0, dtype=np.uint64), self.size)
        return _smallest(X, s, keys_of(X, self.seed), self.size)


def keys_of(X: Matrix, seed: int) -> np.ndarray:
    """(n,) 64-bit hashes of the rows; 0 and -0 are one value."""
    key = np.full(len(X), mixed(np.array([seed], dtype=np.uint64) + GOLDEN)[0])
    for column in X.T:
        key = mixed((key ^ (column + 0.0).view(np.uint64)) + GOLDEN)
    return key


def _smallest(X: Matrix, s: Vector, keys: np.ndarray, size: int) -> Sample:
    """The distinct rows of the smallest keys, with their weights added up."""
    keys, first, group = np.unique(keys, return_index=True, return_inverse=True)
    weight = np.bincount(group, weights=s, minlength=len(keys)).astype(np.float64)
    return Sample(X[first[:size]], weight[:size], keys[:size], size)
