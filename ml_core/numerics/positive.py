"""Large symmetric positive definite matrices factored in place: one matrix of memory, Cholesky's factor and inverse.

LAPACK's potrf and potri below `TILED` rows, tiles on the thread budget (`tiles.py`) from there on; potrs solves. A
matrix here is C-ordered and symmetric; its lower triangle becomes L with A = L Lᵀ and its upper triangle is kept, so
that a failed factorisation costs no copy to repeat with jitter.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dtrtrs

from ml_core.arrays import Matrix, Vector
from ml_core.numerics import tiles

FIRST_JITTER = 1e-10
MOST_JITTER = 1e-3
SOUND = 1e-15
TILED = 600


def factor(A: Matrix) -> float:
    """Overwrite the lower triangle of A (n, n) with its Cholesky factor; returns what was added to the diagonal.

    0 where A is positive definite; else 1e-10 of the mean diagonal, or as many times 10 as it takes. LinAlgError beyond
    1e-3. O(n³/3).
    """
    diagonal = A.diagonal().copy()
    scale = float(np.abs(diagonal).mean()) or 1.0
    jitter = 0.0
    while jitter <= MOST_JITTER * 1.001:
        if _factored(A) and _sound(A, diagonal):
            return jitter * scale
        if not np.isfinite(diagonal).all():
            break
        jitter = 10.0 * jitter if jitter else FIRST_JITTER
        restore(A, diagonal + jitter * scale)
    raise LinAlgError("the matrix is not positive definite, nor nearly so")


def _factored(A: Matrix) -> bool:
    return tiles.cholesky(A) if len(A) >= TILED else dpotrf(A.T, lower=0, clean=0, overwrite_a=1)[1] == 0


def _sound(A: Matrix, diagonal: Vector) -> bool:
    """No pivot is rounding alone."""
    return bool((A.diagonal() ** 2 > SOUND * np.abs(diagonal)).all())


def restore(A: Matrix, diagonal: Vector) -> None:
    """The lower triangle of A (n, n) from its upper one, and this diagonal."""
    for i in range(1, len(A)):
        A[i, :i] = A[:i, i]
    A[np.diag_indices_from(A)] = diagonal


def solve(L: Matrix, B: Matrix | Vector) -> Matrix:
    """A⁻¹B from `factor`'s triangle."""
    out, _ = dpotrs(L.T, B, lower=0)
    return np.asarray(out)


def half(L: Matrix, B: Matrix | Vector) -> Matrix:
    """L⁻¹B: squared column norms are bᵀA⁻¹b."""
    out, _ = dtrtrs(L.T, B, lower=0, trans=1)
    return np.asarray(out)


def back(L: Matrix, B: Matrix | Vector) -> Matrix:
    """L⁻ᵀB."""
    out, _ = dtrtrs(L.T, B, lower=0, trans=0)
    return np.asarray(out)


def invert(L: Matrix) -> None:
    """Overwrite `factor`'s triangle with the lower triangle of A⁻¹; O(2n³/3)."""
    if len(L) >= TILED:
        tiles.inverse(L)
    else:
        dpotri(L.T, lower=0, overwrite_c=1)


def half_logdet(L: Matrix) -> float:
    """½ log |A|."""
    return float(np.log(L.diagonal()).sum())
