"""Least squares from a shifted Gram matrix: one pass over the rows, Cholesky, one refinement pass.

Shifting by the means of a sample of rows removes the offset that ruins raw sums of squares; scaling to a unit diagonal
makes the condition estimate honest. When it says that squaring the condition would cost the answer, nothing is returned
and the caller takes an orthogonal factorization.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import LinAlgError, cholesky, get_lapack_funcs

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.solvers.least_squares import triangular_inverse
from ml_core.solvers.linear_model import LinearFit

SAMPLE = 1024
BLOCK_BYTES = 1 << 19
LARGEST_CONDITION = 1e4


def solve_normal(X: Matrix, Y: Matrix, s: Vector | None, *, intercept: bool) -> LinearFit | None:
    """The fit, or None when the scaled design has a condition above 1e4. O(n p²), 3 passes over X at memory speed.

    One refinement step on the residuals of the rows leaves an error of about cond·2⁻⁵², as an orthogonal method would.
    """
    center, target = _pilot(X, intercept), _pilot(Y, intercept)
    G, d = _gram(X, Y, s, center, target), X.shape[1]
    first = 0 if intercept else 1
    A, g = G[first : d + 1, first : d + 1], G[first : d + 1, d + 1 :]
    root = _inverse_root(A)
    if root is None:
        return None
    x = root @ (root.T @ g)
    full = x if intercept else np.vstack([np.zeros((1, x.shape[1])), x])
    h, cross = _residuals(X, Y, s, center, target, full)
    dx = root @ (root.T @ h[first:])
    x, cross = x + dx, cross - dx.T @ h[first:]
    rss = np.maximum(np.diag(cross), 0.0)
    if not intercept:
        x, root = np.vstack([np.zeros((1, x.shape[1])), x]), np.vstack([np.zeros((1, d)), root])
    w, offset = np.ascontiguousarray(x[1:]), target + x[0]
    size = float(np.max(np.abs(dx).max(axis=0) / np.maximum(np.abs(x).max(axis=0), np.finfo(float).tiny)))
    return LinearFit(
        coef=w, intercept=offset - center @ w, center=center, offset=offset, scale=1.0 / np.sqrt(np.diag(G)[1 : d + 1]),
        root=np.ascontiguousarray(root), deviations=_deviations(root, center, intercept), rank=d + intercept, rss=rss,
        cross=cross, solver="normal_equations", n_iter=2, trace=[1.0, size],
    )  # fmt: skip


def _pilot(A: Matrix, shift: bool) -> Vector:
    """Means of at most 1024 rows spread over the data; zeros when the model has no intercept to absorb a shift."""
    if not shift:
        return np.zeros(A.shape[1])
    return np.asarray(A[:: max(1, len(A) // SAMPLE)].mean(axis=0))


def _blocks(n: int, k: int) -> Iterator[slice]:
    m = max(64, BLOCK_BYTES // (8 * k))
    for i in range(0, n, m):
        yield slice(i, min(n, i + m))


def _gram(X: Matrix, Y: Matrix, s: Vector | None, center: Vector, target: Vector) -> Matrix:
    """Bᵀ diag(s) B for B = [1, X - center, Y - target]; a block of rows at a time stays in cache."""
    (n, d), q = X.shape, Y.shape[1]
    G = np.zeros((1 + d + q, 1 + d + q))
    blocks = list(_blocks(n, 1 + d + q))
    buffer = np.empty((blocks[0].stop, 1 + d + q))
    for step, rows in enumerate(blocks, 1):
        B = buffer[: rows.stop - rows.start]
        B[:, 0] = 1.0
        np.subtract(X[rows], center, out=B[:, 1 : d + 1])
        np.subtract(Y[rows], target, out=B[:, d + 1 :])
        if s is not None:
            B *= np.sqrt(s[rows])[:, None]
        G += B.T @ B
        progress.tick(step, len(blocks), "blocks")
    return G


def _inverse_root(A: Matrix) -> Matrix | None:
    """K with K Kᵀ = A⁻¹, or None when A, scaled to a unit diagonal, is not safely positive definite."""
    size = np.sqrt(np.diag(A))
    if not (np.isfinite(size).all() and size.all()):
        return None
    C = A / size / size[:, None]
    try:
        R = cholesky(C, check_finite=False)
    except LinAlgError:
        return None
    (pocon,) = get_lapack_funcs(("pocon",), (R,))
    rcond, _ = pocon(R, np.abs(C).sum(axis=0).max())
    if rcond * LARGEST_CONDITION**2 < 1.0:
        return None
    return triangular_inverse(R) / size[:, None]


def _residuals(
    X: Matrix, Y: Matrix, s: Vector | None, center: Vector, target: Vector, x: Matrix
) -> tuple[Matrix, Matrix]:
    """[1, X - center]ᵀ diag(s) r and rᵀ diag(s) r (q, q) for r = Y - target - [1, X - center] x."""
    d, q = X.shape[1], Y.shape[1]
    h, cross = np.zeros((1 + d, q)), np.zeros((q, q))
    blocks = list(_blocks(len(X), d))
    buffer = np.empty((blocks[0].stop, d))
    for rows in blocks:
        B = np.subtract(X[rows], center, out=buffer[: rows.stop - rows.start])
        r = (Y[rows] - target - x[0]) - B @ x[1:]
        sr = r if s is None else r * s[rows, None]
        h[0] += sr.sum(axis=0)
        h[1:] += B.T @ sr
        cross += r.T @ sr
    return h, cross


def _deviations(root: Matrix, center: Vector, intercept: bool) -> Vector:
    v = (root * root).sum(axis=1)
    v[0] = ((root[0] - center @ root[1:]) ** 2).sum() if intercept else np.nan
    return np.asarray(np.sqrt(v))
