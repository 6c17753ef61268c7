"""Huber's loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Vector
from ml_core.losses.named import Named
from ml_core.losses.residual import ProximalOfResidual, SmoothOfResidual, within
from ml_core.numerics.weighted_median import zero_of


@dataclass(frozen=True)
class Huber(Named, SmoothOfResidual, ProximalOfResidual):
    """ρ(r) = ½ r² for |r| ≤ delta, delta (|r| - ½ delta) beyond: squares that outliers pull with bounded force.

    Convex, once differentiable; delta 1.345 (in units of the noise) keeps 95 % of the efficiency of the mean.

    References
    ----------
    Huber (1964), Robust estimation of a location parameter, Annals of Mathematical Statistics 35.
    """

    name = "huber"
    delta: Annotated[float, Field(ge=1e-100, le=1e100, description="Residual where it turns linear.")] = 1.345

    def rho(self, r: Vector) -> Vector:
        """½ c² + delta (|r| - c) with c = min(|r|, delta)."""
        size = np.abs(r)
        c = np.minimum(size, self.delta)
        return 0.5 * c * c + self.delta * (size - c)

    def psi(self, r: Vector) -> Vector:
        """The residual r, clipped to ±delta."""
        return np.clip(r, -self.delta, self.delta)

    def bend(self, r: Vector) -> Vector:
        """1 inside, 0 beyond."""
        return (np.abs(r) <= self.delta).astype(np.float64)

    def omega(self, r: Vector) -> Vector:
        """min(1, delta/|r|)."""
        return self.delta / np.maximum(np.abs(r), self.delta)

    def prox_rho(self, v: Vector, step: Any) -> Vector:
        """v less step times ψ of v/(1 + step)."""
        return v - step * self.psi(v / (1.0 + step))

    def rho_star(self, u: Vector) -> Vector:
        """½ u² for |u| ≤ delta."""
        return 0.5 * u * u + within(u, self.delta)

    def start(self, y: Vector, s: Vector) -> Vector:
        """The zero of Σ s ψ(c - y), linear between the breaks y ± delta."""
        breaks = np.sort(np.concatenate([y - self.delta, y + self.delta]))
        return np.array([zero_of(lambda c: float(s @ self.psi(c - y)), breaks)])
