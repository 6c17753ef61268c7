"""The ε-insensitive loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Vector
from ml_core.losses.named import Named
from ml_core.losses.residual import ProximalOfResidual, within
from ml_core.numerics.weighted_median import weighted_median


@dataclass(frozen=True)
class EpsilonInsensitive(Named, ProximalOfResidual):
    """ρ(r) = max(0, |r| - epsilon): residuals up to epsilon cost nothing; epsilon = 0 is the absolute loss.

    Convex, with kinks at ±epsilon, where the slope is taken as 0.

    References
    ----------
    Vapnik (1995), The Nature of Statistical Learning Theory, chapter 6.
    """

    name = "epsilon_insensitive"
    epsilon: Annotated[float, Field(ge=0, description="Residual up to which nothing is lost.")] = 0.1

    def rho(self, r: Vector) -> Vector:
        """max(0, |r| - epsilon)."""
        return np.maximum(np.abs(r) - self.epsilon, 0.0)

    def psi(self, r: Vector) -> Vector:
        """sign(r) beyond epsilon, else 0."""
        return np.where(np.abs(r) > self.epsilon, np.sign(r), 0.0)

    def prox_rho(self, v: Vector, step: Any) -> Vector:
        """v less step times its sign, but not below epsilon; inside, v."""
        size = np.abs(v)
        return np.sign(v) * np.where(size <= self.epsilon, size, np.maximum(size - step, self.epsilon))

    def rho_star(self, u: Vector) -> Vector:
        """epsilon |u| for |u| ≤ 1."""
        return self.epsilon * np.abs(u) + within(u, 1.0)

    def start(self, y: Vector, s: Vector) -> Vector:
        """The weighted median of all y ± epsilon, since ρ(r) = ½(|r - epsilon| + |r + epsilon|) - epsilon."""
        return np.array([weighted_median(np.concatenate([y - self.epsilon, y + self.epsilon]), np.tile(s, 2))])
