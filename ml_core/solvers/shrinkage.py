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
from ml_core.numerics.singular import graded, graded_rank, lengths, singular
from ml_core.solvers.least_squares import triangular_inverse

EPS = float(np.finfo(float).eps)
SAFE = 1e-10
"""Least singular value over the largest from which the rank is beyond doubt."""
Parts = tuple[Matrix, Matrix, Matrix | None]
ROUNDING = 1e-9
"""Share of the solution, in units of the columns, below which a correction is one of rounding."""


@dataclass(frozen=True)
class Shrinkage:
    """W (p, r), c and m (r,), UᵀB (r, q), ‖B - U UᵀB‖² (q,), and A, B, K as `parts`.

    `rank` is that of [A; K], `own` counts the c that are more than rounding. Below p of the first, for alpha = 0 of the
    second, the solution is not unique and the shortest is taken (with K: in units of the columns).
    """

    W: Matrix
    c: Vector
    m: Vector
    seen: Matrix
    rest: Vector
    rank: int
    own: int
    parts: Parts

    @classmethod
    def of(cls, A: Matrix, B: Matrix, K: Matrix | None = None) -> Shrinkage:
        """Of A (n, p), B (n, q) and K (m, p); O((n + m) p²)."""
        K = None if K is None else _full_rank(K)
        unit = np.ones(A.shape[1]) if K is None else _diagonal(K)
        if K is not None and unit is None:
            return cls._general(A, B, K)
        assert unit is not None  # noqa: S101 - K is None or diagonal
        U, c, V = singular(A / unit)
        return cls._from(U, c, np.ones(len(c)), V / unit[:, None], A.shape[1], _own(A, c), (A, B, K))

    @classmethod
    def _general(cls, A: Matrix, B: Matrix, K: Matrix, alpha: float | None = None) -> Shrinkage:
        """Through orthonormal columns P of [A; √alpha K]: their upper rows' singular values are c, and m² = 1 - c².

        Where sizes differ by many orders the digits are those of penalties near `alpha`, by default the one that gives
        both blocks one size.
        """
        k = float(lengths(lengths(K)[:, None])[0]) or 1.0
        ratio = (float(lengths(lengths(A)[:, None])[0]) or 1.0) / k if alpha is None else float(np.sqrt(alpha))
        S = np.vstack([A, ratio * K])
        unit = 2.0 ** np.frexp(np.abs(S).max(axis=0, initial=0.0))[1]
        S = S / unit
        P, R, order = graded(S)
        r = graded_rank(S, R)
        P, to = P[:, :r], np.zeros((len(unit), r))
        to[order[:r]] = triangular_inverse(np.ascontiguousarray(R[:r, :r]))
        if r < len(unit):  # the shortest of many
            Q = graded(np.vstack([np.eye(r), np.linalg.solve(R[:r, :r], R[:r, r:]).T]))[0]
            to[order] = Q @ (Q.T @ to[order])
        U, c, Z = singular(P[: len(A)])
        m = np.sqrt(((P[len(A) :] @ Z) ** 2).sum(axis=0)) / ratio
        return cls._from(U, c, m, (to @ Z) / unit[:, None], r, _own(A, c), (A, B, K))

    def at(self, alpha: float) -> Shrinkage:
        """The same with all digits at this penalty."""
        A, B, K = self.parts
        if K is None or _diagonal(K) is not None:
            return self
        if alpha > 0:
            return self._general(A, B, K, alpha)
        unit = lengths(A)
        unit[unit == 0] = 1.0
        U, c, V = singular(A / unit)
        return self._from(U, c, np.ones(len(c)), V / unit[:, None], self.rank, _own(A, c), self.parts)

    @classmethod
    def _from(
        cls, U: Matrix, c: Vector, m: Vector, W: Matrix, rank: int, own: int, parts: Parts
    ) -> Shrinkage:
        B = parts[1]
        seen = U.T @ B
        return cls(W, c, m, seen, ((B - U @ seen) ** 2).sum(axis=0), rank, own, parts)

    def _over(self, alphas: Vector) -> Matrix:
        """(r, a) 1/(c² + alpha m²); 0 where that is nothing but rounding."""
        alphas = np.atleast_1d(alphas)
        real = np.arange(len(self.c)) < self.own
        kept = real[:, None] | ((alphas > 0)[None, :] & (self.m > 0)[:, None])
        total = self.c[:, None] ** 2 + self.m[:, None] ** 2 * alphas
        return np.divide(1.0, total, out=np.zeros_like(total), where=kept & (total > 0))

    def determined(self, alpha: float) -> int:
        """How many directions the rows, and the penalty where there is one, determine."""
        return self.rank if alpha > 0 else self.own

    def solve(self, alpha: float) -> Matrix:
        """w (p, q)."""
        over = self._over(np.array([alpha]))
        w = np.asarray(self.W @ (over * self.c[:, None] * self.seen))
        return w + self._correction(w, alpha, over)

    def _correction(self, w: Matrix, alpha: float, over: Matrix) -> Matrix:
        """The Newton step (p, q) from w, which gives tiny entries their digits; 0 where it is no rounding."""
        A, B, K = self.parts
        with np.errstate(over="ignore", invalid="ignore"):
            g = A.T @ (B - A @ w) - alpha * (w if K is None else K.T @ (K @ w))
            step = self.W @ (over * (self.W.T @ g))
            unit = np.hypot(lengths(A), np.sqrt(alpha) * (1.0 if K is None else lengths(K)))[:, None]
            small = np.abs(unit * step).max(axis=0) <= ROUNDING * np.abs(unit * w).max(axis=0)
        return np.where(small, step, 0.0)

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


def _diagonal(K: Matrix) -> Vector | None:
    """(p,) the diagonal, where K is diagonal and positive."""
    unit = np.diag(K)
    return unit if K.shape[0] == K.shape[1] and (unit > 0).all() and not (K - np.diag(unit)).any() else None


def _full_rank(K: Matrix) -> Matrix:
    """Rows with KᵀK, no more than there are independent ones: what is left of the others would be rounding."""
    _, R, order = graded(K)
    r = graded_rank(K, R)
    if r == len(K):
        return K
    out = np.zeros((r, K.shape[1]))
    out[:, order] = R[:r]
    return out


def _own(A: Matrix, c: Vector) -> int:
    """How many singular values are more than rounding: the rank of A with columns of one length."""
    if c.min(initial=np.inf) > SAFE * c.max(initial=0.0):
        return len(c)
    top = np.abs(A).max(axis=0, initial=0.0)
    A = A / np.where(top > 0, top, 1.0)
    size = svd(A / np.where(top > 0, np.linalg.norm(A, axis=0), 1.0), compute_uv=False, check_finite=False)
    return int((size > max(A.shape) * EPS * size.max(initial=0.0)).sum())
