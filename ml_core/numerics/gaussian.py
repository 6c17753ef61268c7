"""Gaussian groups: weighted moments by a centred syrk, log-densities of all groups at once, rank and condition.

A group's precision is held as its whitening matrix W with S⁻¹ = W Wᵀ: z = Wᵀ(x - m) has covariance I. W is triangular
where S has a Cholesky factor, and V Λ⁻½ where S is inverted on its support alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dtrtri

from ml_core.arrays import Matrix, Vector

LOG_2PI = float(np.log(2 * np.pi))
EPS = float(np.finfo(float).eps)
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Moments:
    """Of one group of rows: Σs, the weighted mean (d,), and the scatter Σ s(x-m)(x-m)ᵀ (d, d)."""

    total: float
    mean: Vector
    scatter: Matrix

    def merge(self, other: Moments) -> Moments:
        """Of both sets of rows (Chan, Golub and LeVeque)."""
        total, step = self.total + other.total, other.mean - self.mean
        share = other.total / total
        between = self.total * share * np.outer(step, step)
        return Moments(total, self.mean + share * step, self.scatter + other.scatter + between)


def moments(X: Matrix, s: Vector | None = None) -> Moments:
    """Weighted mean and scatter of the rows of X (n, d); O(n d²).

    Rows are measured from the first one, then from their mean, so that an offset costs no digits and a constant column
    has variance 0 exactly. The product ZᵀZ of one array with itself is a symmetric rank-k update.
    """
    origin = X[0].copy()
    Z = X - origin
    total = float(len(X)) if s is None else float(s.sum())
    mean = (Z.sum(axis=0) if s is None else s @ Z) / total
    Z -= mean
    if s is not None:
        Z *= np.sqrt(s)[:, None]
    return Moments(total, origin + mean, Z.T @ Z)


@dataclass(frozen=True)
class Spectrum:
    """What the eigenvalues say of a covariance matrix S (d, d), judged in units of its own standard deviations.

    `scale` (d,) are the standard deviations (1 for a constant column), `values` ascending and `vectors` belong to the
    correlation matrix; rank counts the values above 64 d eps of the largest. No change of units changes any of them.
    """

    scale: Vector
    values: Vector
    vectors: Matrix
    rank: int

    @classmethod
    def of(cls, S: Matrix) -> Spectrum:
        """Eigenvalues of D⁻¹SD⁻¹ with D² = diag S; O(d³)."""
        sd = np.sqrt(np.diag(S))
        scale = np.where(sd > 0, sd, 1.0)
        values, vectors = np.linalg.eigh(S / np.outer(scale, scale))
        return cls(scale, values, vectors, int((values > max(64 * len(S) * EPS * values[-1], 0.0)).sum()))

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue of the correlation matrix; infinite when it is singular."""
        return float(self.values[-1] / self.values[0]) if self.rank == len(self.scale) else float("inf")

    def dependent(self) -> list[int]:
        """Columns that a linear dependence (a null vector) touches."""
        null = self.vectors[:, : len(self.scale) - self.rank]
        return np.flatnonzero((np.abs(null) > 1e-6).any(axis=1)).tolist()


def whitening(S: Matrix) -> tuple[Matrix, float]:
    """W (d, d) upper triangular with S⁻¹ = W Wᵀ, and log|W| = -½ log|S|; LinAlgError unless S is positive definite."""
    scale = np.sqrt(np.diag(S))
    if not (scale > 0).all():
        raise np.linalg.LinAlgError("a variance is not positive")
    L = np.linalg.cholesky(S / np.outer(scale, scale))
    # dtrtri, not a triangular solve: the latter wakes every BLAS thread for a matrix of any size.
    W, info = dtrtri(L.T, lower=0)
    if info:
        raise np.linalg.LinAlgError(f"pivot {info} is zero")
    return np.ascontiguousarray(W / scale[:, None]), -float(np.log(scale).sum() + np.log(np.diag(L)).sum())


def pseudo_whitening(S: Matrix, rank: int) -> tuple[Matrix, float]:
    """W (d, d) with S⁺ = W Wᵀ on the `rank` leading eigenvectors, and -½ log of the product of their eigenvalues."""
    values, vectors = np.linalg.eigh(S)
    W, kept = np.zeros_like(S), np.arange(len(S) - rank, len(S))
    W[:, kept] = vectors[:, kept] / np.sqrt(values[kept])
    return W, -0.5 * float(np.log(values[kept]).sum())


def root(S: Matrix) -> Matrix:
    """R (d, d) with R Rᵀ = S for positive semi-definite S, for drawing."""
    values, vectors = np.linalg.eigh(S)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def log_densities(X: Matrix, means: Matrix, whiten: np.ndarray, log_scale: Vector) -> Matrix:
    """(n, K) log N(xᵢ | m_k, S_k) = -½‖W_kᵀ(xᵢ - m_k)‖² + log|W_k| - d/2 log 2π; O(n K d²), or O(n K d) for diagonals.

    means (K, d); whiten (K, d, d), or (K, d, 1) with the diagonals; log_scale (K,). Blocks of rows keep to the cache.
    """
    n, (K, d) = len(X), means.shape
    out = np.empty((n, K))
    step = max(64, BLOCK_BYTES // (16 * K * d))
    diagonal = whiten.shape[2] != d or d == 1
    with np.errstate(over="ignore", invalid="ignore"):
        for at in range(0, n, step):
            D = X[at : at + step] - means[:, None, :]
            Z = D * whiten[:, None, :, 0] if diagonal else D @ whiten
            out[at : at + step] = np.einsum("kbd,kbd->bk", Z, Z)
    out *= -0.5
    out += log_scale - 0.5 * d * LOG_2PI
    # Beyond 1e154 standard deviations a square overflows: the density is 0 to every digit, never "not a number".
    return np.where(np.isnan(out), -np.inf, out) if np.isnan(out.sum()) else out
