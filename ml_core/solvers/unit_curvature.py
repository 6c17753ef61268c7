"""A loss whose Hessian over rows is their Gram matrix."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Derived, Interval


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
