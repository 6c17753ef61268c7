"""The losses of gamma targets, one per link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Curvature, Derived, Interval
from ml_core.losses.named import Named

SMALLEST = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Gamma(Named, Derived):
    """ℓ(η, y) = y e^-η + η for y > 0: minus the log-likelihood of a gamma target of mean e^η, over its shape.

    ∂ℓ/∂η = 1 - y e^-η, ∂²ℓ/∂η² = y e^-η, without a bound.
    """

    name = "gamma"
    domain = Interval(SMALLEST)
    width = 1
    curvature_bound = np.inf

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """(n,) ℓ and (n, 1) 1 - y e^-η."""
        with np.errstate(over="ignore"):
            ratio = y * np.exp(-eta[:, 0])
        return ratio + eta[:, 0], (1.0 - ratio)[:, None]

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, Curvature]:
        """Also (n, 1, 1) y e^-η."""
        value, r = self.value_gradient(eta, y)
        return value, r, (1.0 - r)[:, :, None]

    def start(self, y: Vector, s: Vector) -> Vector:
        """Log of the weighted mean."""
        return np.array([np.log(float(s @ y / s.sum()))])

    def conjugate(self, u: Matrix, y: Vector) -> Vector:
        """(n,) a log(a / y) - a at a = 1 - u ≥ 0."""
        a = 1.0 - u[:, 0]
        safe = np.maximum(a, SMALLEST)
        return np.where(a >= -1e-12, np.where(a > 0, a * np.log(safe / y), 0.0) - np.maximum(a, 0.0), np.inf)


@dataclass(frozen=True)
class InverseGamma(Named, Derived):
    """ℓ(η, y) = y η - log η for y > 0 and η > 0, infinite elsewhere: a gamma target of mean 1/η, the canonical link.

    ∂ℓ/∂η = y - 1/η, ∂²ℓ/∂η² = 1/η².
    """

    name = "gamma_inverse"
    domain = Interval(SMALLEST)
    width = 1
    curvature_bound = np.inf

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """(n,) ℓ and (n, 1) y - 1/η."""
        t = np.maximum(eta[:, 0], SMALLEST)
        return np.where(eta[:, 0] > 0, y * t - np.log(t), np.inf), (y - 1.0 / t)[:, None]

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, Curvature]:
        """Also (n, 1, 1) 1/η²."""
        value, r = self.value_gradient(eta, y)
        with np.errstate(over="ignore"):
            return value, r, np.square(y[:, None] - r)[:, :, None]

    def start(self, y: Vector, s: Vector) -> Vector:
        """One over the weighted mean."""
        return np.array([float(s.sum() / (s @ y))])
