"""Losses of the margin m = y η for labels y = ±1: ℓ(η, y) = φ(m), small where the sign is right."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Curvature, Interval


class OfMargin(ABC):
    """What follows from φ (`phi`), its slope, its conjugate and its proximal operator; all are convex."""

    convex = True
    domain = Interval(-1.0, 1.0, whole=True, nonzero=True)
    width = 1

    @abstractmethod
    def phi(self, m: Vector) -> Vector:
        """φ(m)."""

    @abstractmethod
    def slope(self, m: Vector) -> Vector:
        """φ'(m); at a kink, one of the slopes."""

    @abstractmethod
    def prox_phi(self, v: Vector, step: Any) -> Vector:
        """Argmin over m of step φ(m) + ½(m - v)²."""

    @abstractmethod
    def phi_star(self, a: Vector) -> Vector:
        """sup over m of a m - φ(m); infinite outside its domain."""

    @abstractmethod
    def best(self, plus: float, minus: float) -> float:
        """Argmin over c of plus φ(c) + minus φ(-c)."""

    def value(self, eta: Matrix, y: Vector) -> Vector:
        """(n,) φ(y η)."""
        return self.phi(y * eta[:, 0])

    def gradient(self, eta: Matrix, y: Vector) -> Matrix:
        """(n, 1) y φ'(y η)."""
        return (y * self.slope(y * eta[:, 0]))[:, None]

    def start(self, y: Vector, s: Vector) -> Vector:
        """(1,) from the weights of the two labels."""
        return np.array([self.best(float(s[y > 0].sum()), float(s[y < 0].sum()))])

    def prox(self, v: Matrix, y: Vector, step: float) -> Matrix:
        """(n, 1) y times the proximal operator of φ at y v."""
        return (y * self.prox_phi(y * v[:, 0], step))[:, None]

    def conjugate(self, u: Matrix, y: Vector) -> Vector:
        """(n,) φ*(y u)."""
        return self.phi_star(y * u[:, 0])


class SmoothOfMargin(OfMargin):
    """With a continuous slope and its own slope (`bend`)."""

    @abstractmethod
    def bend(self, m: Vector) -> Vector:
        """φ''(m)."""

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """(n,) φ and (n, 1) y φ'."""
        return self.value(eta, y), self.gradient(eta, y)

    def curvature(self, eta: Matrix, y: Vector) -> Curvature:
        """(n, 1, 1) φ''."""
        return self.bend(y * eta[:, 0])[:, None, None]

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, Curvature]:
        """Value, gradient, curvature."""
        m = y * eta[:, 0]
        return self.phi(m), (y * self.slope(m))[:, None], self.bend(m)[:, None, None]
