"""The Poisson loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Curvature, Derived, Interval
from ml_core.losses.named import Named


@dataclass(frozen=True)
class Poisson(Named, Derived):
    """ℓ(η, y) = e^η - y η for y ≥ 0: minus the log-likelihood of a count of mean e^η, without what η does not change.

    ∂ℓ/∂η = e^η - y, ∂²ℓ/∂η² = e^η, without a bound. Where e^η overflows the loss is infinite.
    """

    name = "poisson"
    domain = Interval(0.0)
    """[0, ∞); counts per unit of exposure need not be whole."""
    width = 1
    curvature_bound = np.inf

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """(n,) ℓ and (n, 1) e^η - y."""
        t = eta[:, 0]
        with np.errstate(over="ignore"):
            mean = np.exp(t)
        return mean - y * t, (mean - y)[:, None]

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, Curvature]:
        """Also (n, 1, 1) e^η."""
        t = eta[:, 0]
        with np.errstate(over="ignore"):
            mean = np.exp(t)
        return mean - y * t, (mean - y)[:, None], mean[:, None, None]

    def start(self, y: Vector, s: Vector) -> Vector:
        """Log of the weighted mean; minus infinity when every y is 0."""
        with np.errstate(divide="ignore"):
            return np.array([np.log(float(s @ y / s.sum()))])

    def conjugate(self, u: Matrix, y: Vector) -> Vector:
        """(n,) m log m - m at m = u + y ≥ 0."""
        m = u[:, 0] + y
        inside, m = m >= -1e-12 * np.maximum(1.0, y), np.maximum(m, 0.0)
        return np.where(inside, xlogy(m, m) - m, np.inf)
