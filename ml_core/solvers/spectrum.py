"""Leading right singular vectors of a table that is shifted and scaled on the fly, with one sign convention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, lapack, qr, svd
from scipy.sparse.linalg import LinearOperator, svds

from ml_core.arrays import Matrix, Vector
from ml_core.progress import late, tick

BLOCK_CELLS = 1 << 20
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Spectrum:
    """Singular values (r,), descending, and right singular vectors (r, d) as rows, largest-magnitude entry positive.

    `square` is ‖A‖² (Frobenius); `whole` says that all min(n, d) values are here.
    """

    values: Vector
    vectors: Matrix
    square: float
    whole: bool = True
    converged: bool = True


@dataclass(frozen=True)
class Rows:
    """A = √sᵢ · (X - mean) / scale, (n, d): dense, or a block of rows at a time."""

    X: Matrix
    mean: Vector
    scale: Vector
    root: Vector | None = None

    def blocks(self) -> Iterator[Matrix]:
        """Consecutive row blocks of A."""
        size = max(BLOCK_CELLS // self.X.shape[1], 1)
        for at in range(0, len(self.X), size):
            yield self._cut(slice(at, at + size))

    def total(self, A: Matrix, done: int) -> Vector:
        """(d,) Σ √sᵢ aᵢ over the block A that starts at row `done`."""
        return np.asarray(A.sum(axis=0) if self.root is None else self.root[done : done + len(A)] @ A)

    def dense(self) -> Matrix:
        """A in full."""
        return self._cut(slice(None))

    def _cut(self, rows: slice) -> Matrix:
        A = self.X[rows] - self.mean
        if (self.scale != 1).any():
            A /= self.scale
        if self.root is not None:
            A *= self.root[rows, None]
        return A


def orient(V: Matrix) -> Matrix:
    """Rows of V (r, d) with the largest-magnitude entry made positive, the first of (nearly) equal ones."""
    size = np.abs(V)
    lead = (size >= size.max(axis=1, keepdims=True) * (1 - 1e-10)).argmax(axis=1)
    return np.ascontiguousarray(V * np.where(V[np.arange(len(V)), lead] < 0, -1.0, 1.0)[:, None])


def weighted_mean(X: Matrix, s: Vector) -> Vector:
    """(d,) mean in two passes, so that a large common offset costs no digits."""
    rows = Rows(X, s @ X / s.sum(), np.ones(X.shape[1]), np.sqrt(s))
    recentre(rows, float(s.sum()))
    return rows.mean


def recentre(rows: Rows, weight: float) -> None:
    """Move `rows.mean`, in place, by what a first pass of the mean left over."""
    rest, done = np.zeros_like(rows.mean), 0
    for A in rows.blocks():
        rest += rows.total(A, done)
        done += len(A)
    rows.mean[:] += rest / weight * rows.scale


def full(A: Matrix) -> Spectrum:
    """Thin SVD, by way of a QR factorisation when A (n, d) is tall; O(n d min(n, d))."""
    if len(A) > 2 * A.shape[1]:
        A = qr(A, mode="r", overwrite_a=True, check_finite=False)[0][: A.shape[1]]
    _, values, Vt = svd(A, full_matrices=False, check_finite=False)
    return Spectrum(values, orient(Vt), float(values @ values))


def gram(rows: Rows, weight: float = 0.0) -> Matrix:
    """AᵀA (d, d), summed over row blocks; O(n d²). With the total weight, `rows.mean` is made exact on the way."""
    if (G := _uncentred(rows, weight)) is not None:
        return G
    d, done = rows.X.shape[1], 0
    G, rest = np.zeros((d, d)), np.zeros(d)
    for A in rows.blocks():
        G += A.T @ A
        if weight > 0:
            rest += rows.total(A, done)
            done += len(A)
    if weight > 0:
        G -= np.outer(rest, rest) / weight
        rows.mean[:] += rest / weight * rows.scale
    return G


def _uncentred(rows: Rows, weight: float) -> Matrix | None:
    """XᵀX - weight · m mᵀ, which spares a copy of X; None where the mean is not small beside the largest variance."""
    X, m = rows.X, rows.mean
    if rows.root is not None or (rows.scale != 1).any():
        return None
    square = float(m @ m)
    if square > X[:: max(len(X) // 512, 1)].var(axis=0).max():
        return None
    G = X.T @ X - weight * np.outer(m, m)
    return np.asarray(G) if square <= np.diag(G).max() / len(X) else None


def of_gram(G: Matrix, k: int | None = None) -> Spectrum:
    """Singular values as roots of the eigenvalues of AᵀA, absolutely exact to ε λ₁ only; `k` leading ones; O(d³)."""
    d = len(G)
    part = None if k is None or 4 * k > d else (d - k, d - 1)
    if part is None:
        values, V, info = lapack.dsyevd(G, lower=1)
        if info != 0:
            values, V = eigh(G, check_finite=False)
    else:
        values, V = eigh(G, subset_by_index=part, check_finite=False)
    return Spectrum(np.sqrt(np.maximum(values[::-1], 0.0)), orient(V[:, ::-1].T), float(np.trace(G)), part is None)


def root_of_gram(G: Matrix) -> Matrix:
    """R (r, d) with RᵀR = G for positive semi-definite G of rank r, by Cholesky with pivots; O(d³)."""
    R, pivots, rank, _ = lapack.dpstrf(G, lower=0)
    out = np.zeros((rank, len(G)))
    out[:, pivots - 1] = np.triu(R)[:rank]
    return out


def lanczos(A: Matrix, k: int, rng: np.random.Generator) -> Spectrum:
    """`k` < min(n, d) leading triplets by implicitly restarted Lanczos, to machine precision; O(n d) a step."""
    steps = 0

    def forward(v: Vector) -> Vector:
        nonlocal steps
        steps += 1
        tick(steps, None, "matrix products")
        return A @ v

    operator = LinearOperator(A.shape, matvec=forward, rmatvec=lambda u: A.T @ u, dtype=np.float64)
    start = rng.normal(size=min(A.shape))
    _, values, Vt = svds(operator, k=k, tol=0.0, v0=start)
    order = np.argsort(-values, kind="stable")
    return Spectrum(values[order], orient(Vt[order]), float(np.vdot(A, A)), False)


def randomized(A: Matrix, k: int, rng: np.random.Generator, *, max_iter: int = 200) -> Spectrum:
    """`k` leading triplets by subspace iteration from a random block, until the values repeat to 14 digits.

    O(n d k) a step; slow when σ_{k+10} is near σ_k. Halko, Martinsson, Tropp (2011).
    """
    width = min(k + 10, *A.shape)
    Q, last, converged = rng.normal(size=(A.shape[1], width)), np.zeros(k), False
    for step in range(1, max_iter + 1):
        Q = qr(A.T @ qr(A @ Q, mode="economic", check_finite=False)[0], mode="economic", check_finite=False)[0]
        B = A @ Q
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(B.T @ B)[::-1][:k], 0.0))
        change = float(np.abs(values - last).max() / max(values[0], np.finfo(float).tiny))
        tick(step, max_iter, objective=float(values.sum()))
        last, converged = values, change <= 64 * EPS
        if converged or late():
            break
    _, values, Wt = svd(A @ Q, full_matrices=False, check_finite=False)
    return Spectrum(values[:k], orient(Wt[:k] @ Q.T), float(np.vdot(A, A)), False, converged)
