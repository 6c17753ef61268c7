"""Means and standard deviations of columns that neither an offset nor a unit can spoil."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData

BLOCK = 1024
"""Rows that stay in the cache between the operations on them."""
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


def degrees(s: Vector, ddof: int) -> float:
    """Σ s - ddof, the divisor of a variance; InvalidData where the weights, read as counts, leave nothing."""
    total = float(s.sum())
    if total <= ddof:
        raise InvalidData(f"ddof={ddof} reads weights as counts of rows, but they sum to {total:g}; use ddof=0")
    return total - ddof


def column_moments(X: Matrix, s: Vector, ddof: int = 0) -> tuple[Vector, Vector, np.ndarray]:
    """Mean, standard deviation (1 for a constant column) and whether the column is constant, (d,) each; O(n d).

    sd² = Σᵢ sᵢ(xᵢ - mean)² / (Σᵢ sᵢ - ddof), in two passes over deviations from the middle of the range in units of the
    largest. Where Σ s ≤ ddof the divisor is Σ s. |x| ≤ REACH.
    """
    low, high, total = X.min(axis=0), X.max(axis=0), float(s.sum())
    constant = low == high
    middle = np.where(constant, low, 0.5 * low + 0.5 * high)
    unit = np.where(constant, 1.0, np.maximum(high - middle, middle - low))
    p, blocks = s / total, [slice(i, i + BLOCK) for i in range(0, len(X), BLOCK)]
    shift, rest, square = np.zeros((3, X.shape[1]))
    for b in blocks:
        shift += p[b] @ ((X[b] - middle) / unit)
    for b in blocks:
        D = (X[b] - middle) / unit - shift
        rest += p[b] @ D
        square += p[b] @ (D * D)
    factor = total / (total - ddof) if total > ddof else 1.0
    var = factor * np.maximum(square - rest * rest, 0.0)
    sd = np.maximum(np.sqrt(var) * unit, LEAST)
    return middle + (shift + rest) * unit, np.where(constant, 1.0, sd), constant
