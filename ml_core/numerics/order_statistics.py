"""Exact quantiles of columns that are read in chunks: bisection over the doubles themselves, many places a pass."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.totals import Total

SLACK = 1e-12
"""Share of a rank that rounding of summed weights can cost."""
PLACES, MOST = 1 << 14, 1 << 20
SIGN = np.uint64(1 << 63)


def ranked(X: Matrix, s: Vector, ranks: Vector) -> Matrix:
    """(m, d) of each column the least value whose weight, with all below it, is at least the share `ranks` (m,)."""
    wanted = ranks * (1 - SLACK) * s.sum()
    if (s == 1).all():
        at = np.maximum(np.ceil(wanted).astype(np.int64) - 1, 0)
        return np.asarray(np.partition(X, np.unique(at), axis=0)[at])
    order = np.argsort(X, axis=0, kind="stable")
    at = np.column_stack([np.searchsorted(np.cumsum(s[o]), wanted) for o in order.T])
    return np.take_along_axis(X, np.take_along_axis(order, np.minimum(at, len(X) - 1), axis=0), axis=0)


@dataclass(frozen=True)
class Below(Total):
    """(d, t) weight of the rows at or below each place, and of all."""

    weight: Matrix
    total: float


@dataclass(frozen=True)
class BelowPart:
    """The part whose total is `Below`; places (d, t) are keys, ascending."""

    places: np.ndarray

    def __call__(self, X: Matrix, s: Vector) -> Below:
        """Of rows."""
        t = self.places.shape[1]
        each = [np.bincount(np.searchsorted(p, keys(x)), s, t + 1)[:t] for p, x in zip(self.places, X.T, strict=True)]
        return Below(np.cumsum(each, axis=1), float(s.sum()))


def keys(x: Vector) -> np.ndarray:
    """(n,) unsigned whole numbers in the order of the doubles; 0 and -0 are one value."""
    bits = (x + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def values(k: np.ndarray) -> np.ndarray:
    """The doubles of these keys."""
    return np.asarray(np.where(k & SIGN, k ^ SIGN, ~k).astype(np.uint64).view(np.float64))


def order_statistics(ranks: Vector, d: int) -> Generator[Any, Any, Matrix]:
    """`ranked` of d columns whose rows are asked for, in at most 32 passes; 6 of ten ranks and up to 60 columns."""
    m = len(ranks)
    ends = keys(np.array([-1.0, 1.0]) * np.finfo(float).max)
    low, high = np.full((d, m, 1), ends[0]), np.full((d, m, 1), ends[1])
    parts = max(4, min(PLACES // m, MOST // (m * d)))
    count = np.arange(1, parts + 1, dtype=np.uint64)
    while (low < high).any():
        step = (high - low) // np.uint64(parts) + np.uint64(1)
        places = low + np.minimum(step * count - np.uint64(1), high - low)
        flat = np.sort(places.reshape(d, -1), axis=1)
        found: Below = yield BelowPart(flat)
        at = np.stack([np.searchsorted(f, p) for f, p in zip(flat, places, strict=True)])
        weight = np.take_along_axis(found.weight, at.reshape(d, -1), axis=1).reshape(places.shape)
        first = (weight >= (ranks * (1 - SLACK) * found.total)[:, None]).argmax(axis=2)[:, :, None]
        before = np.take_along_axis(places, np.maximum(first - 1, 0), axis=2) + np.uint64(1)
        low, high = np.where(first > 0, before, low), np.take_along_axis(places, first, axis=2)
    return values(high[:, :, 0].T)
