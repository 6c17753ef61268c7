"""Means and standard deviations of columns that neither an offset nor a unit can spoil."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import TypeVar

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData
from ml_core.numerics.jit import compiled, merged, read_only, read_only_views
from ml_core.parallel import ordered_map, row_ranges

R = TypeVar("R")
BLOCK = 1024
"""Rows summed by themselves before they are added to the rest, so that long sums round little."""
TOGETHER = 4
"""Rows per visit of the sums, which stay in registers meanwhile."""
LEAST = float(np.finfo(float).smallest_subnormal)
SIGNLESS = np.int64(2**63 - 1)
FINEST = -1000
"""Least exponent of a unit, whose inverse must be finite."""
REACH = 1e300
"""Magnitude up to which differences of cells, and the sums used here, are finite."""


def explained_share(t: Vector | Matrix, f: Vector | Matrix, s: Vector) -> np.ndarray:
    """R² = 1 - Σ s(t - f)² / Σ s(t - mean)² per output, () or (q,): NaN where t is constant over the weighted rows."""
    kept = s > 0
    T, F, p = t[kept].reshape(int(kept.sum()), -1), f[kept].reshape(int(kept.sum()), -1), s[kept] / s.sum()
    _, sd, constant = column_moments(T, p)
    with np.errstate(over="ignore"):
        share = 1.0 - p @ ((T - F) / sd) ** 2
    return np.where(constant, np.nan, share)


def degrees(total: float, ddof: int) -> float:
    """Σ s - ddof, the divisor of a variance; InvalidData where the weights, read as counts, leave nothing."""
    if total <= ddof:
        raise InvalidData(f"ddof={ddof} reads weights as counts of rows, but they sum to {total:g}; use ddof=0")
    return total - ddof


@merged
def _visited(X: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows i to i + 3, the last row in place of those beyond it."""
    last = len(X) - 1
    return X[i], X[min(i + 1, last)], X[min(i + 2, last)], X[min(i + 3, last)]


@merged
def _shares(p: Vector, i: int) -> tuple[float, float, float, float]:
    """Weights i to i + 3, 0 for those beyond the last."""
    n = len(p)
    return (p[i], p[i + 1] if i + 1 < n else 0.0, p[i + 2] if i + 2 < n else 0.0, p[i + 3] if i + 3 < n else 0.0)


@compiled(lambda: read_only(np.ones((3, 2))))
def _tops(X: Matrix) -> Vector:
    """`magnitudes` of a range of rows; the bits of NaN are above infinity's."""
    n, d = X.shape
    cells, top = X.view(np.int64), np.zeros(d, np.int64)
    for i in range(0, n, TOGETHER):
        r0, r1, r2, r3 = _visited(cells, i)
        for j in range(d):
            w, x, y, z = r0[j] & SIGNLESS, r1[j] & SIGNLESS, r2[j] & SIGNLESS, r3[j] & SIGNLESS
            w, y = w if w > x else x, y if y > z else z
            w = w if w > y else y
            top[j] = w if w > top[j] else top[j]
    return top.view(np.float64)


def magnitudes(X: Matrix) -> Vector:
    """(d,) the largest |xᵢⱼ| of each column of X (n, d), NaN where a cell is one; ranges of rows on the threads."""
    (X,) = read_only_views(X)
    return reduce(np.maximum, _over_rows(lambda rows: _tops(X[rows]), X))


def _over_rows(function: Callable[[slice], R], X: Matrix) -> Iterator[R]:
    """Of ranges of rows on the threads, in order."""
    return ordered_map(function, row_ranges(*X.shape, square=False))


@compiled(lambda: (np.ones((3, 2)), np.ones(3), np.ones(2)))
def _ends(X: Matrix, p: Vector, first: Vector) -> tuple[Vector, Vector, Vector]:
    """Least, largest and Σᵢ pᵢ(xᵢ - first) of each column, (d,) each."""
    n, d = X.shape
    low, high, mean = X[0].copy(), X[0].copy(), np.zeros(d)
    for i in range(0, n, TOGETHER):
        r0, r1, r2, r3 = _visited(X, i)
        p0, p1, p2, p3 = _shares(p, i)
        for j in range(d):
            w, x, y, z = r0[j], r1[j], r2[j], r3[j]
            less, more = w if w < x else x, w if w > x else x
            less, more = y if y < less else less, y if y > more else more
            less, more = z if z < less else less, z if z > more else more
            low[j] = less if less < low[j] else low[j]
            high[j] = more if more > high[j] else high[j]
            f = first[j]
            mean[j] += (p0 * (w - f) + p1 * (x - f)) + (p2 * (y - f) + p3 * (z - f))
    return low, high, mean


@compiled(lambda: (np.ones((3, 2)), np.ones(3), np.zeros(2), np.ones(2)))
def _sums(X: Matrix, p: Vector, middle: Vector, inverse: Vector) -> tuple[Vector, Vector]:
    """Σᵢ pᵢzᵢ and Σᵢ pᵢzᵢ² of z = (x - middle) · inverse, (d,) each."""
    n, d = X.shape
    first, second = np.zeros(d), np.zeros(d)
    part, squares = np.zeros(d), np.zeros(d)
    for i in range(0, n, TOGETHER):
        r0, r1, r2, r3 = _visited(X, i)
        p0, p1, p2, p3 = _shares(p, i)
        for j in range(d):
            m, u = middle[j], inverse[j]
            w, x, y, z = (r0[j] - m) * u, (r1[j] - m) * u, (r2[j] - m) * u, (r3[j] - m) * u
            pw, px, py, pz = p0 * w, p1 * x, p2 * y, p3 * z
            part[j] += (pw + px) + (py + pz)
            squares[j] += (pw * w + px * x) + (py * y + pz * z)
        if i % BLOCK == BLOCK - TOGETHER or i + TOGETHER >= n:
            first += part
            second += squares
            part[:] = 0.0
            squares[:] = 0.0
    return first, second


def column_moments(X: Matrix, s: Vector, ddof: int = 0) -> tuple[Vector, Vector, np.ndarray]:
    """Mean, standard deviation (1 for a constant column) and whether the column is constant, (d,) each; O(n d).

    sd² = Σᵢ sᵢ(xᵢ - mean)² / (Σᵢ sᵢ - ddof). Where Σ s ≤ ddof the divisor is Σ s. |x| ≤ REACH.
    """
    mean, _, sd, constant = split_moments(X, s)
    return mean, deviation(sd, constant, float(s.sum()), ddof), constant


def deviation(sd: Vector, constant: np.ndarray, total: float, ddof: int) -> Vector:
    """The standard deviation (d,) for the divisor total - ddof from that for total; 1 for a constant column."""
    factor = np.sqrt(total / (total - ddof)) if total > ddof else 1.0
    return np.where(constant, 1.0, np.maximum(sd * factor, LEAST))


def split_moments(X: Matrix, s: Vector) -> tuple[Vector, Vector, Vector, np.ndarray]:
    """Mean, what rounding took from it, √(Σ s(x - mean)²/Σs) and whether the column is constant, (d,) each; O(n d).

    A pass for the ends and about the mean, one for deviations from that, in units of a power of two near the largest.
    """
    p, first = s / s.sum(), X[0].copy()
    lows, highs, parts = zip(*_over_rows(lambda rows: _ends(X[rows], p[rows], first), X), strict=True)
    low, high = reduce(np.minimum, lows), reduce(np.maximum, highs)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = first + sum(parts)
    constant = low == high
    middle = np.where(0.5 * high - 0.5 * low < REACH, np.clip(middle, low, high), 0.5 * low + 0.5 * high)
    exponent = np.maximum(np.frexp(np.maximum(high - middle, middle - low))[1] - 1, FINEST)
    unit, inverse = np.ldexp(1.0, exponent), np.ldexp(1.0, -exponent)
    shift, square = np.sum(list(_over_rows(lambda rows: _sums(X[rows], p[rows], middle, inverse), X)), axis=0)
    step = shift * unit
    mean = middle + step
    part = mean - middle
    lost = (middle - (mean - part)) + (step - part)
    return mean, lost, np.sqrt(np.maximum(square - shift * shift, 0.0)) * unit, constant
