"""The squared loss of a vector target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Curvature, Derived, Interval
from ml_core.losses.named import Named


@dataclass(frozen=True)
class SquaredLength(Named, Derived):
    """ℓ(η, y) = ½ ‖η - y‖² for targets y (n, q): the squared loss of each entry, summed."""

    name = "squared_length"
    domain = Interval()
    curvature_bound = 1.0
    width: Annotated[int, Field(ge=1, description="q, entries of a target.")] = 1

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """(n,) ½ ‖r‖² and (n, q) r."""
        r = eta - y.reshape(eta.shape)
        return 0.5 * (r * r).sum(axis=1), r

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, Curvature]:
        """Also (n, q, q) unit matrices."""
        value, r = self.value_gradient(eta, y)
        return value, r, np.tile(np.eye(self.width), (len(eta), 1, 1))

    def prox(self, v: Matrix, y: Vector, step: float) -> Matrix:
        """(n, q) (v + step y) / (1 + step)."""
        return np.asarray((v + step * y.reshape(v.shape)) / (1.0 + step))

    def conjugate(self, u: Matrix, y: Vector) -> Vector:
        """(n,) ½ ‖u‖² + u·y."""
        return np.asarray((0.5 * u * u + u * y.reshape(u.shape)).sum(axis=1))

    def start(self, y: Vector, s: Vector) -> Vector:
        """(q,) the weighted mean of each entry."""
        return np.asarray(s @ y.reshape(len(s), -1) / s.sum())
