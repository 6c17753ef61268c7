"""Class labels behind a Gaussian process through inducing rows: Laplace's approximation and a corrected evidence.

Q = K_fu K_uu⁻¹K_uf = ΦΦᵀ stands for K, Φ (n, m): scores Φu, u ~ N(0, I) per function, so that everything is of the
Cm unknowns u. What Q leaves out of the prior, k - q, is averaged over: log p(y|f) loses ½ W(k - q) on average, which
taken at the mode gives Ψ(û) - ½ log|I + ΦᵀWΦ| - ½ Σᵢ Σ_c Wᵢcc (k - q)ᵢᵢ. With a normal likelihood this is the bound of
Titsias (2009); with all rows among the inducing ones it is the evidence of `curvature.Evidence`. O(C² n m²).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.gp.laplace import Labelled, mode
from ml_core.gp.sparse import diagonal_pull, projected
from ml_core.kernels import Kernel
from ml_core.numerics.positive import back, factor, half_logdet, invert, solve


@dataclass(frozen=True)
class Reduced:
    """`root` (C m, C m): the lower factor of I + ΦᵀWΦ, function by function."""

    root: Matrix
    half_logdet: float

    def inverse(self) -> Matrix:
        """(I + ΦᵀWΦ)⁻¹ in full, symmetric."""
        S = self.root.copy()
        invert(S)
        S = np.tril(S)
        return np.asarray(S + np.tril(S, -1).T)


@dataclass(frozen=True)
class Projection:
    """Q as a prior: scores Φu, a coefficient an inducing row. `U` (m, n) = Φᵀ = L⁻¹K_uf, `L` Lᵀ = K_uu.

    `short` (n,) = k - q, `length` the longest row of U, `jitter` what was added to factor K_uu.
    """

    U: Matrix
    L: Matrix
    short: Vector
    length: float
    jitter: float

    @classmethod
    def of(cls, Kuu: Matrix, Kuf: Matrix, diagonal: Vector) -> Projection:
        """From K_uu (m, m), which is overwritten, K_uf (m, n) and k(x, x) (n,)."""
        U, jitter = projected(Kuu, Kuf)
        short = np.maximum(diagonal - np.einsum("ij,ij->j", U, U), 0.0)
        return cls(U, Kuu, short, float(np.linalg.norm(U, axis=1).max()), jitter)

    @property
    def size(self) -> int:
        """m."""
        return len(self.U)

    def scores(self, a: Matrix) -> Matrix:
        """Φ u."""
        return np.asarray(self.U.T @ a)

    def gather(self, V: Matrix) -> Matrix:
        """Φᵀ V: û = Φᵀ s(1_y - p) at the mode."""
        return np.asarray(self.U @ V)

    def norm(self, a: Matrix, f: Matrix) -> float:
        """Σ uᵀu."""
        return float(np.vdot(a, a))

    def unit(self, weight: Vector) -> float:
        """The longest row of Φᵀ times the length of the weights."""
        return max(self.length * float(np.linalg.norm(weight)), float(np.finfo(float).tiny))

    def curvature(self, rows: Labelled, f: Matrix) -> Reduced:
        """At scores f (n, C); O(C² n m²)."""
        p, (C, m) = rows.chances(f), (f.shape[1], self.size)
        H = np.zeros((C, m, C, m))
        for c in range(C):
            for e in range(c + 1):
                H[c, :, e] = (self.U * rows.pair(p, c, e)) @ self.U.T
                H[e, :, c] = H[c, :, e].T
        whole = H.reshape(C * m, C * m)
        whole[np.diag_indices_from(whole)] += 1.0
        factor(whole)
        return Reduced(whole, half_logdet(whole))

    def step(self, curve: Reduced, g: Matrix) -> Matrix:
        """(I + ΦᵀWΦ)⁻¹ g."""
        return np.asarray(solve(curve.root, g.T.ravel()[:, None]).reshape(g.shape[1], -1).T)

    def slack(self, rows: Labelled, f: Matrix) -> float:
        """½ Σᵢ Σ_c Wᵢcc (k - q)ᵢᵢ, nats."""
        p = rows.chances(f)
        return 0.5 * sum(float(rows.pair(p, c, c) @ self.short) for c in range(f.shape[1]))

    def dense(self) -> Matrix:
        """Q (n, n)."""
        return np.asarray(self.U.T @ self.U)


class SparseEvidence:
    """The corrected evidence through the inducing rows Z (m, d) and its derivatives; each mode starts from the last."""

    def __init__(self, Z: Matrix) -> None:
        self.Z = Z
        self.last: Matrix | None = None

    def __call__(self, rows: Labelled, kernel: Kernel, _: float = 0.0) -> tuple[float, Vector]:
        """Value and derivatives by the kernel's logs; O(C² n m²).

        With v the derivative by the mode and u = (I + W Q)⁻¹v, G = ½ Σ_c [a aᵀ + u aᵀ + a uᵀ + R_c] weighs ∂Q, where
        the diagonal W of -(Q + W⁻¹)⁻¹ = R - W cancels that of ½ W ∂(k - q); -½ ΣW weighs ∂k(x, x).
        """
        Kuu, pull_uu = kernel.traced(self.Z)
        Kuf, pull_uf = kernel.traced(self.Z, rows.X)
        prior = Projection.of(Kuu.copy(), Kuf, kernel.diag(rows.X))
        at = mode(rows, prior, self.last)
        self.last = at.f
        curve, p = prior.curvature(rows, at.f), rows.chances(at.f)
        spread, taken = _spread(rows, p, prior, curve.inverse())
        own = np.einsum("ncc->nc", spread) - 2.0 * np.einsum("nce,ne->nc", spread, p)
        v = -0.5 * rows.curved(p, own)
        u = v - rows.curved(p, prior.scores(prior.step(curve, prior.gather(v))))
        a = rows.residual(at.f)
        TG = 0.5 * back(prior.L, prior.gather(a + u) @ a.T + prior.gather(a) @ u.T + taken)
        TGT = TG @ back(prior.L, prior.U).T
        own_weight = sum(rows.pair(p, c, c) for c in range(p.shape[1]))
        gradient = pull_uf(2.0 * TG) - pull_uu(0.5 * (TGT + TGT.T))
        gradient -= 0.5 * diagonal_pull(kernel, rows.X, np.asarray(own_weight))
        return at.value - curve.half_logdet - prior.slack(rows, at.f), gradient


def _spread(rows: Labelled, p: Matrix, prior: Projection, S: Matrix) -> tuple[np.ndarray, Matrix]:
    """(n, C, C) posterior covariances of each row's scores, and Φᵀ Σ_c R_c (m, n) = Σ_ce (I - S)_ce Φᵀ W_ce.

    S = (I + ΦᵀWΦ)⁻¹, R the part of W - (Q + W⁻¹)⁻¹ = WΦ S ΦᵀW that belongs to one function.
    """
    U, (n, C), m = prior.U, p.shape, prior.size
    blocks, spread, taken = S.reshape(C, m, C, m), np.zeros((n, C, C)), np.zeros_like(U)
    for c in range(C):
        for e in range(c + 1):
            both = 0.5 * (blocks[c, :, e] + blocks[e, :, c]) @ U
            spread[:, c, e] = spread[:, e, c] = np.einsum("ij,ij->j", both, U)
            taken += ((U - both) if c == e else -2.0 * both) * rows.pair(p, c, e)
        spread[:, c, c] += prior.short
    return spread, taken
