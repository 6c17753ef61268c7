"""Linear systems with equality constraints that become more while the factor of the matrix stays."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from ml_core.arrays import Matrix, Vector

JITTER = 1e-12
MET = 1e-6


class Constrained:
    """K d + E λ = v with Eᵀd = 0 for K (m, m) positive semidefinite, made definite by a jitter, and E (m, k).

    K is overwritten by its factor, O(m³); a constraint more and a solution cost O(m² + m k) each. `definite` is False
    where K has no factor.
    """

    def __init__(self, K: Matrix, E: Matrix) -> None:
        K.flat[:: len(K) + 1] += JITTER * max(float(np.trace(K)) / len(K), 1e-300)
        self.factor, wrong = dpotrf(K.T, lower=1, clean=0, overwrite_a=1)
        self.definite = wrong == 0
        self.E = np.empty((len(K), 0))
        self.S = self.E
        if self.definite and E.size:
            self.add(E)

    def add(self, E: Matrix) -> None:
        """More constraints."""
        self.E = np.column_stack([self.E, E])
        self.S = np.column_stack([self.S, dpotrs(self.factor, E, lower=1)[0]])

    def solve(self, v: Vector) -> Vector | None:
        """d; None where it misses the constraints by more than `MET` of its size."""
        y = dpotrs(self.factor, v, lower=1)[0]
        if not self.E.size:
            return np.asarray(y)
        A, a = self.E.T @ self.S, self.E.T @ y
        try:
            d = y - self.S @ (np.linalg.solve(A, a) if len(a) > 1 else a / A[0])
        except np.linalg.LinAlgError:
            return None
        met = np.abs(self.E.T @ d).max() <= MET * np.abs(d).max()
        return np.asarray(d) if met else None
