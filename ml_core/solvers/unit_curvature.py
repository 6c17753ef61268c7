"""A loss whose Hessian over rows is their Gram matrix, and the bound of curvature that follows."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Derived, Interval
from ml_core.solvers.linear_objective import LinearObjective


class UnitCurvature(Derived):
    """Curvature 1: its Hessian is the Gram matrix."""

    domain = Interval()
    width = 1
    curvature_bound = 1.0

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """ℓ = 0, gradient 0."""
        return np.zeros(len(y)), np.zeros((len(y), 1))

    def start(self, y: Vector, s: Vector) -> Vector:
        """0, as good as any."""
        return np.zeros(1)

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, np.ndarray]:
        """ℓ = 0, gradient 0, curvature 1."""
        return np.zeros(len(y)), np.zeros((len(y), 1)), np.ones((len(y), 1, 1))


def lipschitz(problem: LinearObjective) -> float:
    """Bound of the Hessian's largest eigenvalue: the loss's bound times that of Z̃ᵀSZ̃, plus the largest penalty."""
    unit = LinearObjective(problem.X, problem.y, problem.s, UnitCurvature(), fit_intercept=problem.fit_intercept,
                           columns=problem.columns)  # fmt: skip
    top = np.linalg.eigvalsh(unit.second(unit.zero())[2])[-1]
    bias = 0.0 if problem.bias is None else float(problem.bias @ problem.bias)
    return float(problem.loss.curvature_bound * top + problem.l2.max()) + bias
