"""Whitening: columns made uncorrelated with variance 1, each staying as close to itself as that allows (ZCA-cor).

With z the standardised columns and P = V diag(λ) Vᵀ their correlation matrix, w = P^(-1/2) z has covariance I; of all
whitenings this one has the largest sum of correlations between w_j and z_j, and no unit of a column changes it. λ comes
from the singular values √λ of a triangular root of the scatter, so that nothing is squared. A direction with
√λ < 1.5e-8 times the largest (half the digits of a float) is dependent on the others: it is 0 in w, the covariance of w
is then the projector on the other directions, and the way back gives rows of the training data's span.

References
----------
Kessy, Lewin, Strimmer (2018), Optimal whitening and decorrelation, The American Statistician 72(4).
Bell, Sejnowski (1997), The "independent components" of natural scenes are edge filters, Vision Research 37(23).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from ml_core.arrays import Matrix
from ml_core.bundle import portable
from ml_core.numerics.triangle import Triangle

DEPENDENT = float(np.sqrt(np.finfo(float).eps))
"""Singular value, relative to the largest, below which a direction of the standardised columns is a dependent one."""


@portable
@dataclass(frozen=True)
class Whitening:
    """Matrix columns `places` (m,) that are mixed, P^(-1/2) and P^(1/2) (m, m), both symmetric, and the rank of P."""

    places: np.ndarray
    forward: Matrix
    backward: Matrix
    rank: int

    @classmethod
    def of(cls, found: Triangle, places: np.ndarray) -> Whitening:
        """From the scatter of the standardised columns at those places; O(m³)."""
        _, values, Vt = svd(found.root / np.sqrt(found.total), full_matrices=False, check_finite=False)
        kept = values > DEPENDENT * values[0]
        s, V = values[kept], Vt[kept].T
        return cls(places, (V / s) @ V.T, (V * s) @ V.T, int(kept.sum()))

    def apply(self, Z: Matrix) -> Matrix:
        """Standardised rows (n, k) → whitened ones."""
        return self._mixed(Z, self.forward)

    def undo(self, Z: Matrix) -> Matrix:
        """Whitened rows (n, k) → standardised ones."""
        return self._mixed(Z, self.backward)

    def _mixed(self, Z: Matrix, by: Matrix) -> Matrix:
        if len(self.places) == Z.shape[1]:
            return Z @ by
        out = Z.copy()
        out[:, self.places] = Z[:, self.places] @ by
        return out
