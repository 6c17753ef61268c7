"""The approximate posterior over the scores of a Gaussian process classifier, anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.gp.curvature import Curvature, Gram
from ml_core.gp.laplace import Labelled, Mode
from ml_core.gp.sparse_laplace import Projection, Reduced
from ml_core.kernels import Kernel
from ml_core.kernels.weighted import weighted_sums
from ml_core.numerics.positive import back, half

BLOCK_BYTES = 1 << 25


@dataclass(frozen=True)
class Scores:
    """Scores at z of means `offset` (C,) + kᵀ`weights`, k = k(`rows`, z): `rows` (r, d), `weights` (r, C)."""

    kernel: Kernel
    rows: Matrix
    weights: Matrix
    offset: Vector

    def at(self, X: Matrix) -> Matrix:
        """(m, C) means; O(m r d)."""
        return weighted_sums(self.kernel, X, self.rows, self.weights) + self.offset

    def _blocks(self, X: Matrix, width: int) -> list[Matrix]:
        step = max(16, BLOCK_BYTES // (8 * width))
        return [X[i : i + step] for i in range(0, len(X), step)]


@portable
@dataclass(frozen=True)
class LatentSurface(Scores):
    """Of all rows: covariances k(z,z) - kᵀ(K + W⁻¹)⁻¹k.

    `rows` (n, d); `weights` (n, C); of the curvature at the mode: `widths` (n, C), `roots` (C, n, n), `inner` (n, n) or
    None.
    """

    widths: Matrix
    roots: np.ndarray
    inner: Matrix | None

    @classmethod
    def of(cls, kernel: Kernel, rows: Labelled, at: Mode, curve: Curvature) -> LatentSurface:
        """Around a mode."""
        inner = None if curve.inner is None else np.tril(curve.inner)
        roots = np.stack([np.tril(L) for L in curve.roots])
        return cls(kernel, rows.X, at.a, rows.offset, curve.widths, roots, inner)

    @property
    def curvature(self) -> Curvature:
        """What of it solves."""
        return Curvature(self.widths, list(self.roots), self.inner, 0.0)

    def prior(self, X: Matrix) -> Gram:
        """Of the scores at the training rows X."""
        return Gram(self.kernel(X))

    @property
    def inducing(self) -> None:
        """No rows stand for others."""
        return None

    @property
    def coefficients(self) -> Matrix:
        """(n, C) of the mode under `prior`."""
        return self.weights

    def spread(self, X: Matrix) -> tuple[Matrix, np.ndarray]:
        """(m, C) means and (m, C, C) covariances of the scores of each row; O(m C n²)."""
        means, covariances, curve = [], [], self.curvature
        for P in self._blocks(X, len(self.rows)):
            K = self.kernel(P, self.rows)
            means.append(K @ self.weights + self.offset)
            covariances.append(curve.spread(K.T, self.kernel.diag(P)))
        return np.concatenate(means), np.concatenate(covariances)

    def joint(self, X: Matrix) -> tuple[np.ndarray, Matrix]:
        """(C m,) means and (C m, C m) covariance of all scores of all rows, score by score."""
        K, prior, curve = self.kernel(X, self.rows), self.kernel(X), self.curvature
        m, C = len(X), self.weights.shape[1]
        out = np.zeros((C, m, C, m))
        solved = [curve.block(c, K.T) for c in range(C)]
        for c in range(C):
            out[c, :, c] = prior - K @ solved[c]
        if self.inner is not None:
            halves = [half(self.inner, E) for E in solved]
            for c, u in enumerate(halves):
                for e, v in enumerate(halves):
                    out[c, :, e] += u.T @ v
        S = out.reshape(C * m, C * m)
        return (K @ self.weights + self.offset).T.ravel(), 0.5 * (S + S.T)


@portable
@dataclass(frozen=True)
class SparseLatent(Scores):
    """Through inducing rows: covariances [c = e](k(z,z) - ‖u‖²) + uᵀS_ce u, u = L⁻¹k, S = (I + ΦᵀWΦ)⁻¹ in blocks.

    `rows` (r, d) inducing; `weights` (r, C); `root` L (r, r); `halves` (C r, C r) inverse of the root of I + ΦᵀWΦ.
    """

    root: Matrix
    halves: Matrix

    @classmethod
    def of(cls, kernel: Kernel, Z: Matrix, offset: Vector, prior: Projection, at: Mode, curve: Reduced) -> SparseLatent:
        """Around a mode."""
        L = np.tril(prior.L)
        inverse = np.tril(half(curve.root, np.eye(len(curve.root))))
        return cls(kernel, Z, np.ascontiguousarray(back(L, at.a)), offset, L, np.ascontiguousarray(inverse))

    def prior(self, X: Matrix) -> Projection:
        """Of the scores at the training rows X."""
        return Projection.of(self.kernel(self.rows), self.kernel(self.rows, X), self.kernel.diag(X))

    @property
    def inducing(self) -> Matrix:
        """The rows that stand for all."""
        return self.rows

    @property
    def coefficients(self) -> Matrix:
        """(r, C) of the mode under `prior`."""
        return np.asarray(self.root.T @ self.weights)

    def _parts(self, K: Matrix) -> tuple[Matrix, list[Matrix]]:
        """u (r, m), and for each function the (C r, m) matrix whose products are its covariances through S."""
        u, r = half(self.root, K.T), len(self.rows)
        return u, [self.halves[c * r :, c * r : (c + 1) * r] @ u for c in range(self.weights.shape[1])]

    def spread(self, X: Matrix) -> tuple[Matrix, np.ndarray]:
        """(m, C) means and (m, C, C) covariances of the scores of each row; O(m C² r²)."""
        C = self.weights.shape[1]
        means, covariances = [], []
        for P in self._blocks(X, len(self.rows) * C * C):
            K = self.kernel(P, self.rows)
            u, parts = self._parts(K)
            out = np.zeros((len(P), C, C))
            for c, v in enumerate(parts):
                for e, w in enumerate(parts[: c + 1]):
                    out[:, c, e] = out[:, e, c] = np.einsum("ij,ij->j", v, w[-len(v) :])
                out[:, c, c] += np.maximum(self.kernel.diag(P) - np.einsum("ij,ij->j", u, u), 0.0)
            means.append(K @ self.weights + self.offset)
            covariances.append(out)
        return np.concatenate(means), np.concatenate(covariances)

    def joint(self, X: Matrix) -> tuple[np.ndarray, Matrix]:
        """(C m,) means and (C m, C m) covariance of all scores of all rows, score by score."""
        K, m, C = self.kernel(X, self.rows), len(X), self.weights.shape[1]
        u, parts = self._parts(K)
        left = self.kernel(X) - u.T @ u
        out = np.zeros((C, m, C, m))
        for c, v in enumerate(parts):
            for e, w in enumerate(parts[: c + 1]):
                out[c, :, e] = v.T @ w[-len(v) :]
                out[e, :, c] = out[c, :, e].T
            out[c, :, c] += left
        S = out.reshape(C * m, C * m)
        return (K @ self.weights + self.offset).T.ravel(), 0.5 * (S + S.T)
