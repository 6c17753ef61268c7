"""Losses of the residual r = η - y: ℓ(η, y) = ρ(r), one predictor a row, real targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Curvature, Interval


class OfResidual(ABC):
    """What follows from ρ (`rho`) and its slope ψ (`psi`)."""

    convex = True
    domain = Interval()
    width = 1

    @abstractmethod
    def rho(self, r: Vector) -> Vector:
        """ρ(r)."""

    @abstractmethod
    def psi(self, r: Vector) -> Vector:
        """ρ'(r); where ρ has a kink, 0 if the subdifferential holds it."""

    @abstractmethod
    def start(self, y: Vector, s: Vector) -> Vector:
        """(1,) argmin over c of Σ s ρ(c - y)."""

    def value(self, eta: Matrix, y: Vector) -> Vector:
        """(n,) ρ(η - y)."""
        return self.rho(eta[:, 0] - y)

    def gradient(self, eta: Matrix, y: Vector) -> Matrix:
        """(n, 1) ψ(η - y)."""
        return self.psi(eta[:, 0] - y)[:, None]


class SmoothOfResidual(OfResidual):
    """With a continuous ψ and its slope (`bend`)."""

    curvature_bound = 1.0
    """1: every ρ here is ½ r² near 0."""

    @abstractmethod
    def bend(self, r: Vector) -> Vector:
        """ψ'(r)."""

    @abstractmethod
    def omega(self, r: Vector) -> Vector:
        """ψ(r)/r, its limit at 0."""

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """(n,) ρ and (n, 1) ψ."""
        r = eta[:, 0] - y
        return self.rho(r), self.psi(r)[:, None]

    def curvature(self, eta: Matrix, y: Vector) -> Curvature:
        """(n, 1, 1) ψ'."""
        return self.bend(eta[:, 0] - y)[:, None, None]

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, Curvature]:
        """Value, gradient, curvature."""
        r = eta[:, 0] - y
        return self.rho(r), self.psi(r)[:, None], self.bend(r)[:, None, None]

    def weight(self, eta: Matrix, y: Vector) -> Vector:
        """(n,) ψ(r)/r."""
        return self.omega(eta[:, 0] - y)


class ProximalOfResidual(OfResidual):
    """With the proximal operator and the conjugate of ρ."""

    @abstractmethod
    def prox_rho(self, v: Vector, step: Any) -> Vector:
        """Argmin over r of step ρ(r) + ½(r - v)²."""

    @abstractmethod
    def rho_star(self, u: Vector) -> Vector:
        """sup over r of u r - ρ(r)."""

    def prox(self, v: Matrix, y: Vector, step: float) -> Matrix:
        """(n, 1) y + prox of ρ at v - y."""
        return (y + self.prox_rho(v[:, 0] - y, step))[:, None]

    def conjugate(self, u: Matrix, y: Vector) -> Vector:
        """(n,) u y + ρ*(u)."""
        return u[:, 0] * y + self.rho_star(u[:, 0])


def within(u: Vector, bound: float) -> Vector:
    """0 where |u| ≤ bound (up to rounding), infinite elsewhere."""
    return np.where(np.abs(u) <= bound * (1 + 1e-12), 0.0, np.inf)
