"""Means and standard deviations of columns that neither an offset nor a unit can spoil."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData
from ml_core.numerics.jit import compiled

BLOCK = 1024
"""Rows summed by themselves before they are added to the rest, so that long sums round little."""
LEAST = float(np.finfo(float).smallest_subnormal)
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


@compiled(lambda: (np.ones((3, 2)), np.ones(3), np.zeros(2), np.ones(2), np.zeros(2)))
def _sums(X: Matrix, p: Vector, middle: Vector, unit: Vector, shift: Vector) -> tuple[Vector, Vector]:
    """Σᵢ pᵢzᵢ and Σᵢ pᵢzᵢ² of z = (x - middle)/unit - shift, (d,) each."""
    n, d = X.shape
    first, second = np.zeros(d), np.zeros(d)
    part, squares = np.zeros(d), np.zeros(d)
    for i in range(n):
        for j in range(d):
            z = (X[i, j] - middle[j]) / unit[j] - shift[j]
            part[j] += p[i] * z
            squares[j] += p[i] * z * z
        if i % BLOCK == BLOCK - 1 or i == n - 1:
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

    Two passes over deviations from the middle of the range in units of the largest.
    """
    low, high, total = X.min(axis=0), X.max(axis=0), float(s.sum())
    constant = low == high
    middle = np.where(constant, low, 0.5 * low + 0.5 * high)
    unit = np.where(constant, 1.0, np.maximum(high - middle, middle - low))
    p = s / total
    shift, _ = _sums(X, p, middle, unit, np.zeros(X.shape[1]))
    rest, square = _sums(X, p, middle, unit, shift)
    step = (shift + rest) * unit
    mean = middle + step
    part = mean - middle
    lost = (middle - (mean - part)) + (step - part)
    return mean, lost, np.sqrt(np.maximum(square - rest * rest, 0.0)) * unit, constant
