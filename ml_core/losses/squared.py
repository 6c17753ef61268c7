"""The squared loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Vector
from ml_core.losses.named import Named
from ml_core.losses.residual import ProximalOfResidual, SmoothOfResidual


@dataclass(frozen=True)
class Squared(Named, SmoothOfResidual, ProximalOfResidual):
    """ρ(r) = ½ r²: minus the log-likelihood of a normal target of variance 1; the best constant is the mean."""

    name = "squared"

    def rho(self, r: Vector) -> Vector:
        """½ r²."""
        return 0.5 * r * r

    def psi(self, r: Vector) -> Vector:
        """The residual r."""
        return r

    def bend(self, r: Vector) -> Vector:
        """1."""
        return np.ones_like(r)

    def omega(self, r: Vector) -> Vector:
        """1."""
        return np.ones_like(r)

    def prox_rho(self, v: Vector, step: Any) -> Vector:
        """v / (1 + step)."""
        return v / (1.0 + step)

    def rho_star(self, u: Vector) -> Vector:
        """½ u²."""
        return 0.5 * u * u

    def start(self, y: Vector, s: Vector) -> Vector:
        """The weighted mean."""
        return np.array([float(s @ y / s.sum())])
