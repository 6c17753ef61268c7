"""The posterior over functions, exact or through inducing rows: mean, variance and covariance anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.gp.task import Mean
from ml_core.kernels import Kernel
from ml_core.kernels.weighted import weighted_sums
from ml_core.numerics.positive import half

BLOCK_BYTES = 1 << 25


@portable
@dataclass(frozen=True)
class Surface:
    """With u = L⁻¹k(rows, z): mean m(z) + kᵀweights; variance k(z,z) - ‖u‖² [+ ‖M⁻¹u‖²] + ‖R⁻¹(h(z) - Fᵀu)‖².

    `rows` (r, d); `weights` (r,); `root` L (r, r); `inner` M (r, r) of the sparse approximation; `beta` (p,) the mean's
    coefficients, `basis_root` R (p, p) the root of their precision, `basis_half` F (r, p).
    """

    kernel: Kernel
    mean: Mean
    rows: Matrix
    weights: Vector
    root: Matrix
    inner: Matrix | None
    beta: Vector
    basis_root: Matrix
    basis_half: Matrix

    def at(self, X: Matrix) -> Vector:
        """(n,) posterior mean; O(n r d)."""
        return self._mean(X, weighted_sums(self.kernel, X, self.rows, self.weights))

    def _mean(self, X: Matrix, sums: Vector) -> Vector:
        out = sums + self.mean.offset
        return out + self.mean.basis(X) @ self.beta if len(self.beta) else out

    def _blocks(self, X: Matrix) -> Iterator[Matrix]:
        step = max(16, BLOCK_BYTES // (8 * len(self.rows)))
        for i in range(0, len(X), step):
            yield X[i : i + step]

    def _roots(self, X: Matrix, K: Matrix) -> tuple[Matrix, list[Matrix]]:
        """u (r, n), and the factors whose squares add to the variance."""
        u = half(self.root, K.T)
        more = [] if self.inner is None else [half(self.inner, u)]
        if len(self.beta):
            more.append(half(self.basis_root, self.mean.basis(X).T - self.basis_half.T @ u))
        return u, more

    def marginal(self, X: Matrix) -> tuple[Vector, Vector]:
        """(n,) posterior mean and variance of the function; O(n r²)."""
        means, variances = [], []
        for P in self._blocks(X):
            K = self.kernel(P, self.rows)
            u, more = self._roots(P, K)
            left = self.kernel.diag(P) - np.einsum("ij,ij->j", u, u)
            for v in more:
                left = np.maximum(left, 0.0) + np.einsum("ij,ij->j", v, v)
            means.append(self._mean(P, K @ self.weights))
            variances.append(np.maximum(left, 0.0))
        return np.concatenate(means), np.concatenate(variances)

    def joint(self, X: Matrix) -> tuple[Vector, Matrix]:
        """(n,) mean and (n, n) covariance of the function at all rows."""
        K = self.kernel(X, self.rows)
        u, more = self._roots(X, K)
        C = self.kernel(X) - u.T @ u
        for v in more:
            C += v.T @ v
        C = 0.5 * (C + C.T)
        C[np.diag_indices_from(C)] = np.maximum(C.diagonal(), 0.0)
        return self._mean(X, K @ self.weights), C
