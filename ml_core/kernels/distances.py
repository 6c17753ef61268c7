"""Euclidean distances of rows that keep their digits."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist, pdist

from ml_core.arrays import Matrix

EPS = float(np.finfo(float).eps)
EXPANSION_ERROR = 1e-12
EXPANSION_COLUMNS = 24
BLOCK = 64
MEDIAN_ROWS = 1000


def median_distance(X: Matrix) -> float:
    """Median Euclidean distance of pairs among at most 1000 evenly spaced rows; 1 when it is 0 or there is no pair."""
    rows = X[np.linspace(0, len(X) - 1, min(len(X), MEDIAN_ROWS)).astype(np.int64)]
    middle = float(np.median(pdist(rows))) if len(rows) > 1 else 0.0
    return middle if middle > 0 else 1.0


def squared_distances(A: Matrix, B: Matrix) -> Matrix:
    """(n, m) ‖aᵢ - bⱼ‖², by subtraction: exact to rounding however far the rows lie from the origin. O(n m d)."""
    return np.asarray(cdist(A, B, "sqeuclidean"))


def fast_squared_distances(A: Matrix, B: Matrix) -> Matrix:
    """The same with absolute error below 1e-12: in many columns by expansion about the mean, where that is good enough.

    ‖a‖² + ‖b‖² - 2 a·b runs at the speed of matrix products, but loses about 4 eps (‖a‖² + ‖b‖²).
    """
    if A.shape[1] < EXPANSION_COLUMNS:
        return squared_distances(A, B)
    centre = B.mean(axis=0)
    P = A - centre
    Q = P if A is B else B - centre
    p, q = np.einsum("ij,ij->i", P, P), np.einsum("ij,ij->i", Q, Q)
    if not 4 * EPS * (p.max(initial=0.0) + q.max(initial=0.0)) <= EXPANSION_ERROR:
        return squared_distances(A, B)
    out = P @ Q.T
    out *= -2.0
    for i in range(0, len(out), BLOCK):  # p + q first: the sum is then the same on both sides of the diagonal
        block = out[i : i + BLOCK]
        block += p[i : i + BLOCK, None] + q
        np.maximum(block, 0.0, out=block)
    return np.asarray(out)
