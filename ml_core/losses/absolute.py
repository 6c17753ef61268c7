"""The absolute loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.losses.named import Named
from ml_core.losses.residual import ProximalOfResidual, within
from ml_core.numerics.weighted_median import weighted_median


@dataclass(frozen=True)
class Absolute(Named, ProximalOfResidual):
    """ρ(r) = |r|: minus the log-likelihood of a Laplace target of scale 1, up to log 2; the best constant is a median.

    Convex, with a kink at 0, where the slope is taken as 0.
    """

    name = "absolute"

    def rho(self, r: Vector) -> Vector:
        """|r|."""
        return np.abs(r)

    def psi(self, r: Vector) -> Vector:
        """sign(r)."""
        return np.sign(r)

    def weight(self, eta: Matrix, y: Vector) -> Vector:
        """1/|r|, infinite where r = 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / np.abs(eta[:, 0] - y))

    def prox_rho(self, v: Vector, step: Any) -> Vector:
        """sign(v) max(|v| - step, 0)."""
        return np.sign(v) * np.maximum(np.abs(v) - step, 0.0)

    def rho_star(self, u: Vector) -> Vector:
        """0 for |u| ≤ 1."""
        return within(u, 1.0)

    def start(self, y: Vector, s: Vector) -> Vector:
        """The weighted median."""
        return np.array([weighted_median(y, s)])
