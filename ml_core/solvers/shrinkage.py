"""Least squares with a squared penalty for every strength of it, from one decomposition.

min over w of  ‖A w - B‖² + alpha ‖K w‖².  Vectors W with  A W = U diag(c),  K W = Q diag(m),  U and Q with orthonormal
columns, take both sums of squares apart:  w = W diag(c/(c² + alpha m²)) Uᵀ B. Without K (the identity) they are the
right singular vectors of A; else the generalized singular value decomposition of A and K.

References
----------
Golub, Heath, Wahba (1979), Generalized cross-validation as a method for choosing a good ridge parameter,
Technometrics 21(2). Hansen (1998), Rank-Deficient and Discrete Ill-Posed Problems, SIAM, chapter 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from ml_core.arrays import Matrix, Vector

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Shrinkage:
    """W (p, r), c and m (r,), UᵀB (r, q), and ‖B - U UᵀB‖² (q,); `count` scales what rounding can fake of c.

    `rank` is that of [A; K]: below p, the solution is not unique and the shortest (in units of the columns) is taken.
    """

    W: Matrix
    c: Vector
    m: Vector
    seen: Matrix
    rest: Vector
    rank: int
    count: int

    @classmethod
    def of(cls, A: Matrix, B: Matrix, K: Matrix | None = None) -> Shrinkage:
        """Of A (n, p), B (n, q) and K (m, p); O((n + m) p²)."""
        if K is None:
            U, c, Vt = svd(A, full_matrices=False, check_finite=False)
            return cls._from(U, c, np.ones(len(c)), Vt.T, B, A.shape[1], max(A.shape))
        a, k = (float(np.linalg.norm(M)) or 1.0 for M in (A, K))
        S = np.vstack([A / a, K / k])
        unit = np.sqrt((S * S).sum(axis=0))
        unit[unit == 0] = 1.0
        P, size, Yt = svd(S / unit, full_matrices=False, check_finite=False)
        r = int((size > max(S.shape) * EPS * size.max(initial=0.0)).sum())
        U, c, Zt = svd(P[: len(A), :r], full_matrices=False, check_finite=False)
        m = np.sqrt(((P[len(A) :, :r] @ Zt.T) ** 2).sum(axis=0))
        W = (Yt[:r].T / size[:r]) @ Zt.T / unit[:, None]
        return cls._from(U, a * c, k * m, W, B, r, max(S.shape))

    @classmethod
    def _from(cls, U: Matrix, c: Vector, m: Vector, W: Matrix, B: Matrix, rank: int, count: int) -> Shrinkage:
        seen = U.T @ B
        return cls(W, c, m, seen, ((B - U @ seen) ** 2).sum(axis=0), rank, count)

    def _over(self, alphas: Vector) -> Matrix:
        """(r, a) 1/(c² + alpha m²); 0 where that is nothing but rounding."""
        alphas = np.atleast_1d(alphas)
        least = self.count * EPS * self.c.max(initial=0.0)
        kept = (self.c > least)[:, None] | ((alphas > 0)[None, :] & (self.m > 0)[:, None])
        total = self.c[:, None] ** 2 + self.m[:, None] ** 2 * alphas
        return np.divide(1.0, total, out=np.zeros_like(total), where=kept & (total > 0))

    def solve(self, alpha: float) -> Matrix:
        """w (p, q)."""
        return np.asarray(self.W @ (self._over(np.array([alpha])) * self.c[:, None] * self.seen))

    def freedom(self, alphas: Vector) -> Vector:
        """(a,) trace of ∂(A w)/∂B, Σ c²/(c² + alpha m²)."""
        return np.asarray((self.c[:, None] ** 2 * self._over(alphas)).sum(axis=0))

    def rss(self, alphas: Vector) -> Matrix:
        """(a, q) ‖A w - B‖²."""
        left = 1.0 - self.c[:, None] ** 2 * self._over(alphas)
        return np.asarray((left**2).T @ self.seen**2 + self.rest)

    def directions(self, Z: Matrix) -> Matrix:
        """(n, r) rows in the coordinates that everything is diagonal in."""
        return np.asarray(Z @ self.W)

    def leverages(self, G: Matrix, alphas: Vector) -> Matrix:
        """(n, a) zᵀ(AᵀA + alpha KᵀK)⁻¹z of rows with directions G."""
        return np.asarray(G**2 @ self._over(alphas))

    def fitted(self, G: Matrix, alphas: Vector, k: int) -> Matrix:
        """(n, a) zᵀw of output k."""
        return np.asarray(G @ ((self.c * self.seen[:, k])[:, None] * self._over(alphas)))
