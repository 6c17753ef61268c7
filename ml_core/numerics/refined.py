"""Large well-conditioned systems by a factor of half the precision, refined to the accuracy of a double one.

A ≈ L Lᵀ in single precision takes half the time of Cholesky's factor in double. With it x ← x + (L Lᵀ)⁻¹(b - A x),
residuals in double, converges at a rate of about the condition times 6e-8 to what a double factor would give; where it
does not, `refined` says so and gives the matrix back. L stands in the lower triangle of A itself: its row i is half as
long as the one whose place it takes, so A's upper triangle, from which residuals are computed, stays.

References
----------
Higham (2002), Accuracy and Stability of Numerical Algorithms, SIAM, chapter 12.
Carson, Higham (2018), Accelerating the solution of linear systems by iterative refinement in three precisions, SIAM J.
Sci. Comput. 40(2).
"""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics import tiles
from ml_core.numerics.positive import restore

LEAST_ROWS = 1000
STEEPEST = 4e6
"""Most trace of A over its least eigenvalue: beyond, single precision may leave nothing to refine."""
STEPS = 20
SLOWEST = 0.25
EPS = float(np.finfo(float).eps)
SOUND, SETTLED = 16 * EPS, EPS / 16
"""Residuals, relative to ‖A‖‖x‖ + ‖b‖, that are rounding, and that no further step is worth."""
BLOCK = 64


def refined(A: Matrix, B: Matrix, least: float) -> Matrix | None:
    """A⁻¹B (n, q) for symmetric A (n, n) with eigenvalues of at least `least` > 0; O(n³/3 + n² q) per call.

    A's lower triangle is overwritten. None, A as it was, where A is small or its condition may be too large, or where
    refinement stops short of a residual of rounding's size.
    """
    diagonal = A.diagonal().copy()
    total = float(diagonal.sum())
    if len(A) < LEAST_ROWS or not total <= STEEPEST * least:
        return None
    scale = float(2.0 ** np.round(np.log2(total / len(A))))
    L, sums = A.view(np.float32)[:, : len(A)], np.zeros(len(A))
    for i in range(len(A)):
        row = A[i, : i + 1] / scale
        L[i, : i + 1] = row
        size = np.abs(row, out=row)
        sums[:i] += size[:i]
        sums[i] += size.sum()
    X = _iterated(A, diagonal, L, B, scale, scale * float(sums.max())) if tiles.cholesky(L) else None
    if X is None:
        restore(A, diagonal)
    return X


def _iterated(A: Matrix, diagonal: Vector, L: np.ndarray, B: Matrix, scale: float, norm: float) -> Matrix | None:
    """Steps while they make a residual four times as small; `norm` is ‖A‖ of the largest row sum."""
    X, R, size = np.zeros_like(B), B, np.abs(B).max(axis=0)
    left, terms = size, size
    for _ in range(STEPS):
        unit = np.where(left > 0.0, left, 1.0)
        step = np.ascontiguousarray((R / unit).T, dtype=np.float32)
        tiles.solved(L, step)
        moved = X + step.T * (unit / scale)
        R = B - product(A, diagonal, moved)
        most = np.abs(R).max(axis=0)
        if not (most < left).any():
            break
        slow = (most > SLOWEST * left).all()
        X, left, terms = moved, most, norm * np.abs(moved).max(axis=0) + size
        if slow or (left <= SETTLED * terms).all():
            break
    return X if (left <= SOUND * terms).all() else None


def product(A: Matrix, diagonal: Vector, X: Matrix) -> Matrix:
    """A X from the upper triangle of A (n, n) and its diagonal, in blocks of rows; O(n² q)."""
    out = diagonal[:, None] * X
    for i in range(0, len(A), BLOCK):
        j = min(i + BLOCK, len(A))
        own, beside = np.triu(A[i:j, i:j], 1), A[i:j, j:]
        out[i:j] += own @ X[i:j] + own.T @ X[i:j] + beside @ X[j:]
        out[j:] += beside.T @ X[i:j]
    return out
