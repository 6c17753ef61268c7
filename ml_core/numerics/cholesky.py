"""A factored symmetric positive definite matrix: solves, log-determinant, quadratic forms; jitter is reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from ml_core.arrays import Matrix, Vector


@dataclass(frozen=True)
class Cholesky:
    """A + jitter·I = L Lᵀ with L (d, d) lower triangular."""

    L: Matrix
    jitter: float = 0.0

    @classmethod
    def of(cls, A: Matrix, *, jitter: bool = True) -> Cholesky:
        """Factor A, adding 1e-14 … 1e-4 times its mean diagonal only when the plain factorization fails."""
        scale = float(np.mean(np.diag(A))) or 1.0
        for power in (None, *range(-14, -3)) if jitter else (None,):
            add = 0.0 if power is None else abs(scale) * 10.0**power
            try:
                return cls(np.asarray(cholesky(A + add * np.eye(len(A)), lower=True, check_finite=False)), add)
            except LinAlgError:
                continue
        raise LinAlgError("the matrix is not positive definite")

    def solve(self, B: Matrix) -> Matrix:
        """A⁻¹B."""
        return np.asarray(solve_triangular(self.L, self.half(B), lower=True, trans=1, check_finite=False))

    def half(self, B: Matrix) -> Matrix:
        """L⁻¹B: column norms are the quadratic forms bᵀA⁻¹b."""
        return np.asarray(solve_triangular(self.L, B, lower=True, check_finite=False))

    @property
    def logdet(self) -> float:
        """log |A|."""
        return 2.0 * float(np.log(np.diag(self.L)).sum())

    def inverse(self) -> Matrix:
        """A⁻¹ for reports of covariances; computations use `solve`."""
        return self.solve(np.eye(len(self.L)))

    def quadratic(self, X: Matrix) -> Vector:
        """(n,) xᵢᵀA⁻¹xᵢ for the rows of X (n, d)."""
        return np.asarray((self.half(X.T) ** 2).sum(axis=0))
