"""Least squares from a shifted Gram matrix: one pass over the rows, Cholesky, one refinement pass.

Shifting by the means of a sample of rows removes the offset that ruins raw sums of squares; scaling to a unit diagonal
makes the condition estimate honest. When it says that squaring the condition would cost the answer, nothing is returned
and the caller takes an orthogonal factorization. Ranges of rows are summed on the thread budget and added in order.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, get_lapack_funcs

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.numerics.jit import compiled, read_only, read_only_views, regrouped
from ml_core.parallel import ordered_map, row_ranges
from ml_core.solvers.least_squares import triangular_inverse
from ml_core.solvers.linear_model import LinearFit

SAMPLE = 1024
BLOCK_BYTES = 1 << 19
LARGEST_CONDITION = 1e4


def solve_normal(X: Matrix, Y: Matrix, s: Vector, *, intercept: bool) -> LinearFit | None:
    """The fit, or None when the scaled design has a condition above 1e4. O(n p²), 2 passes over X at memory speed.

    One refinement step on the residuals of the rows leaves an error of about cond·2⁻⁵², as an orthogonal method would.
    """
    X, Y, s = read_only_views(X, Y, s)
    center, target = _pilot(X, intercept), _pilot(Y, intercept)
    (G, top), d = _gram(X, Y, s, center, target), X.shape[1]
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
        cross=cross, top=top, solver="normal_equations", n_iter=2, trace=[1.0, size],
    )  # fmt: skip


def _pilot(A: Matrix, shift: bool) -> Vector:
    """Means of at most 1024 rows spread over the data; zeros when the model has no intercept to absorb a shift."""
    if not shift:
        return np.zeros(A.shape[1])
    return np.asarray(A[:: max(1, len(A) // SAMPLE)].mean(axis=0))


@compiled(lambda: (*read_only(np.ones((2, 5)), np.ones((2, 1)), np.ones(2), np.ones(5), np.ones(1)),
                   np.ones((2, 7)), np.ones(6)))  # fmt: skip
def _shifted(X, Y, s, center, target, out, top):  # type: ignore[no-untyped-def]
    """√s [1, X - center, Y - target] (m, 1 + d + q) of a block of rows; `top` reaches over the cells of X and Y."""
    d = X.shape[1]
    for i in range(X.shape[0]):
        root = np.sqrt(s[i])
        out[i, 0] = root
        for j in range(d):
            x = X[i, j]
            size = abs(x)
            top[j] = size if size > top[j] else top[j]
            out[i, 1 + j] = root * (x - center[j])
        for k in range(Y.shape[1]):
            size = abs(Y[i, k])
            top[d + k] = size if size > top[d + k] else top[d + k]
            out[i, 1 + d + k] = root * (Y[i, k] - target[k])


def _gram(X: Matrix, Y: Matrix, s: Vector, center: Vector, target: Vector) -> tuple[Matrix, Vector]:
    """Bᵀ diag(s) B for B = [1, X - center, Y - target], and the largest magnitudes in the columns of X and Y."""
    k = 1 + X.shape[1] + Y.shape[1]
    block = max(64, BLOCK_BYTES // (8 * k))

    def of(rows: slice) -> tuple[Matrix, Vector]:
        G, top, buffer = np.zeros((k, k)), np.zeros(k - 1), np.empty((min(block, rows.stop - rows.start), k))
        for a in range(rows.start, rows.stop, block):
            at = slice(a, min(a + block, rows.stop))
            B = buffer[: at.stop - a]
            _shifted(X[at], Y[at], s[at], center, target, B, top)
            G += B.T @ B
        return G, top

    G, top, ranges = np.zeros((k, k)), np.zeros(k - 1), row_ranges(len(X), k)
    for step, (part, high) in enumerate(ordered_map(of, ranges), 1):
        G += part
        np.maximum(top, high, out=top)
        progress.tick(step, len(ranges), "blocks")
    return G, top


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


@regrouped
def _fitted(X, i, center, w, k):  # type: ignore[no-untyped-def]
    """(xᵢ - center)ᵀwₖ."""
    f = 0.0
    for j in range(X.shape[1]):
        f += (X[i, j] - center[j]) * w[k, j]
    return f


@compiled(lambda: (*read_only(np.ones((2, 5)), np.ones((2, 1)), np.ones(2), np.ones(5), np.ones((1, 1)),
                              np.ones((1, 5))), np.ones((1, 6)), np.ones((1, 1))))  # fmt: skip
def _add_residuals(X, Y, s, center, offset, w, h, cross):  # type: ignore[no-untyped-def]
    """Adds [1, X - center]ᵀ diag(s) r (q, 1 + d) and rᵀ diag(s) r (q, q) of a range of rows."""
    q, r = Y.shape[1], np.empty(Y.shape[1])
    for i in range(X.shape[0]):
        for k in range(q):
            r[k] = Y[i, k] - offset[0, k] - _fitted(X, i, center, w, k)
        for k in range(q):
            weighted = s[i] * r[k]
            h[k, 0] += weighted
            for j in range(X.shape[1]):
                h[k, 1 + j] += weighted * (X[i, j] - center[j])
            for m in range(q):
                cross[k, m] += weighted * r[m]


def _residuals(X: Matrix, Y: Matrix, s: Vector, center: Vector, target: Vector, x: Matrix) -> tuple[Matrix, Matrix]:
    """[1, X - center]ᵀ diag(s) r and rᵀ diag(s) r (q, q) for r = Y - target - [1, X - center] x."""
    d, q = X.shape[1], Y.shape[1]
    center, offset, w = read_only_views(center, (target + x[0])[None], x[1:].T)

    def of(rows: slice) -> tuple[Matrix, Matrix]:
        h, cross = np.zeros((q, 1 + d)), np.zeros((q, q))
        _add_residuals(X[rows], Y[rows], s[rows], center, offset, w, h, cross)
        return h, cross

    h, cross = np.zeros((q, 1 + d)), np.zeros((q, q))
    for part, product in ordered_map(of, row_ranges(len(X), d)):
        h, cross = h + part, cross + product
    return h.T, cross


def _deviations(root: Matrix, center: Vector, intercept: bool) -> Vector:
    v = (root * root).sum(axis=1)
    v[0] = ((root[0] - center @ root[1:]) ** 2).sum() if intercept else np.nan
    return np.asarray(np.sqrt(v))
