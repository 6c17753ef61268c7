"""Singular values with all their digits, also where columns (or rows) differ in size by many orders."""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, svd
from scipy.linalg.lapack import dgejsv

from ml_core.arrays import Codes, Matrix, Vector

EPS = float(np.finfo(float).eps)
GRADED = 1e3
"""Ratio of column or row lengths from which bidiagonalisation would lose more digits than it may."""


def singular(A: Matrix) -> tuple[Matrix, Vector, Matrix]:
    """U (n, r), c (r,) descending, V (p, r) with A = U diag(c) Vᵀ, r = min(n, p).

    Bidiagonalisation finds c to rounding of the largest. Where lengths of columns or rows differ widely, Jacobi's
    rotations find each c to rounding of itself times the condition of the matrix with these lengths made equal.

    References
    ----------
    Drmač, Veselić (2008), New fast and accurate Jacobi SVD algorithm, SIAM Journal on Matrix Analysis 29(4).
    """
    if max(_spread(A), _spread(A.T)) > GRADED:
        n, p = A.shape
        tall = A if n >= p else A.T
        c, U, V, work, _, info = dgejsv(tall, joba=2, jobu=0, jobv=0, jobp=0)  # jobp 1 would lift tiny entries
        if info == 0:
            U, V = (U, V) if n >= p else (V, U)
            return U, c * (work[0] / work[1]), V
    U, c, Vt = svd(A, full_matrices=False, check_finite=False)
    return U, c, Vt.T


def graded(A: Matrix) -> tuple[Matrix, Matrix, Codes]:
    """Q (n, r), R (r, p), order with A[:, order] = Q R, r = min(n, p), where rows and columns differ widely in size.

    Columns are pivoted and longer rows come first, so that each row of Q keeps its own digits beside much longer ones.
    Source: Cox, Higham (1998), Stability of Householder QR factorization for weighted least squares problems.
    """
    rows = np.argsort(-np.abs(A).max(axis=1, initial=0.0), kind="stable")
    Q = np.empty((len(A), min(A.shape)))
    Q[rows], R, order = qr(A[rows], mode="economic", pivoting=True, check_finite=False)
    return Q, R, order


def graded_rank(A: Matrix, R: Matrix) -> int:
    """How many pivots of `graded`'s R are more than rounding of the rows that were left."""
    sizes = np.sort(np.abs(A).max(axis=1, initial=0.0))[::-1][: len(R)]
    return int((np.abs(np.diag(R)) > max(A.shape) * EPS * sizes).sum())


def lengths(A: Matrix, s: Vector | None = None) -> Vector:
    """(p,) √(Σ s a²) of the columns of A (n, p), also where squares overflow or vanish."""
    top = np.abs(A).max(axis=0, initial=0.0)
    Z = A / np.where(top > 0, top, 1.0)
    return np.asarray(top * np.sqrt((Z * Z).sum(axis=0) if s is None else s @ (Z * Z)))


def _spread(A: Matrix) -> float:
    """The largest entry of the columns over the smallest that is not 0."""
    top = np.abs(A).max(axis=0, initial=0.0)
    top = top[top > 0]
    return float(top.max() / top.min()) if len(top) else 1.0
