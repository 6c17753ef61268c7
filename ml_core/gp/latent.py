"""The approximate posterior over the scores of a Gaussian process classifier, anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.gp.laplace import Curvature, Labelled, Mode
from ml_core.kernels import Kernel
from ml_core.kernels.weighted import weighted_sums
from ml_core.numerics.positive import half

BLOCK_BYTES = 1 << 25


@portable
@dataclass(frozen=True)
class LatentSurface:
    """Scores at z: means `offset` (C,) + kᵀ`weights`, covariances k(z,z) - kᵀ(K + W⁻¹)⁻¹k, k = k(`rows`, z).

    `rows` (n, d); `weights` (n, C); of the curvature at the mode: `widths` (n, C), `roots` (C, n, n), `inner` (n, n) or
    None.
    """

    kernel: Kernel
    rows: Matrix
    weights: Matrix
    widths: Matrix
    roots: np.ndarray
    inner: Matrix | None
    offset: Vector

    @classmethod
    def of(cls, kernel: Kernel, rows: Labelled, at: Mode, curve: Curvature) -> LatentSurface:
        """Around a mode."""
        inner = None if curve.inner is None else np.tril(curve.inner)
        roots = np.stack([np.tril(L) for L in curve.roots])
        return cls(kernel, rows.X, at.a, curve.widths, roots, inner, rows.offset)

    @property
    def curvature(self) -> Curvature:
        """What of it solves."""
        return Curvature(self.widths, list(self.roots), self.inner, 0.0)

    def at(self, X: Matrix) -> Matrix:
        """(m, C) means; O(m n d)."""
        return weighted_sums(self.kernel, X, self.rows, self.weights) + self.offset

    def spread(self, X: Matrix) -> tuple[Matrix, np.ndarray]:
        """(m, C) means and (m, C, C) covariances of the scores of each row; O(m C n²)."""
        means, covariances, curve = [], [], self.curvature
        for P in self._blocks(X):
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

    def _blocks(self, X: Matrix) -> list[Matrix]:
        step = max(16, BLOCK_BYTES // (8 * len(self.rows)))
        return [X[i : i + step] for i in range(0, len(X), step)]
