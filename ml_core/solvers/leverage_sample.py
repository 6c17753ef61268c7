"""A sample of rows in which those of large size are certain: few rows whose Hessian is near that of all."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.jit import compiled, read_only, read_only_views


@compiled(lambda: (*read_only(np.ones((2, 3)), np.zeros(3), np.ones(3)), 1.0))
def _lengths(X, mean, unit, most):  # type: ignore[no-untyped-def]
    """(n,) min(‖(x - mean) unit‖², most)."""
    out = np.empty(len(X))
    for i in range(len(X)):
        total = 0.0
        for j in range(X.shape[1]):
            z = (X[i, j] - mean[j]) * unit[j]
            total += z * z
        out[i] = min(total, most)
    return out


@compiled(lambda: (*read_only(np.ones(3)), 2))
def _chances(size, m):  # type: ignore[no-untyped-def]
    """(n,) proportional to size (n,) below 1, of sum m."""
    chance, total, certain = np.zeros(len(size)), size.sum(), 0
    while total > 0.0:
        rate, found, left = (m - certain) / total, 0, 0.0
        for i in range(len(size)):
            if chance[i] < 1.0:
                chance[i] = min(size[i] * rate, 1.0)
                if chance[i] == 1.0:
                    found += 1
                else:
                    left += size[i]
        if found == 0:
            break
        certain, total = certain + found, left
    return chance


def squared_lengths(X: Matrix, mean: Vector, scale: Vector, most: float) -> Vector:
    """(n,) squared distances of the rows of X (n, d) from `mean` in units of `scale` (d,), at most `most`."""
    X, mean, unit = read_only_views(X, mean, 1.0 / scale)
    return np.asarray(_lengths(X, mean, unit, most))


def systematic(size: Vector, m: int) -> tuple[np.ndarray, Vector]:
    """About m of n rows, ascending, and the chance of each: proportional to its size > 0 (n,), at most 1. O(n).

    A row is taken where the running sum of the chances passes a whole number: no draw, so the same rows each time. A
    sum over the rows is estimated by that over the sample, each term over its chance. With ‖x‖² in units of the
    columns' scales for sizes, a sample holds the few rows that alone say something of a rare column.

    References
    ----------
    Madow (1949), On the theory of systematic sampling, II, Annals of Mathematical Statistics 20.
    Drineas, Mahoney, Muthukrishnan (2006), Sampling algorithms for l2 regression and applications, SODA.
    """
    (size,) = read_only_views(size)
    chance = _chances(size, m)
    rows = np.flatnonzero(np.diff(np.floor(np.cumsum(chance)), prepend=0.0) > 0)
    return rows, chance[rows]
