"""The exponential loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import wrightomega, xlogy

from ml_core.arrays import Vector
from ml_core.losses.margin import SmoothOfMargin
from ml_core.losses.named import Named


@dataclass(frozen=True)
class Exponential(Named, SmoothOfMargin):
    """φ(m) = e^-m, what AdaBoost minimises: smooth, convex, without bounded curvature; infinite beyond m < -709.

    References
    ----------
    Friedman, Hastie, Tibshirani (2000), Additive logistic regression, Annals of Statistics 28.
    """

    name = "exponential"
    curvature_bound = np.inf

    def phi(self, m: Vector) -> Vector:
        """e^-m."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(-m))

    def slope(self, m: Vector) -> Vector:
        """-e^-m."""
        return -self.phi(m)

    def bend(self, m: Vector) -> Vector:
        """e^-m."""
        return self.phi(m)

    def prox_phi(self, v: Vector, step: Any) -> Vector:
        """v + W(step e^-v), Lambert's W from the logarithm of its argument."""
        return np.asarray(v + wrightomega(np.log(step) - v).real)

    def phi_star(self, a: Vector) -> Vector:
        """b log b - b, b = -a ≥ 0."""
        b = np.maximum(-a, 0.0)
        return np.where(a <= 1e-12, xlogy(b, b) - b, np.inf)

    def best(self, plus: float, minus: float) -> float:
        """½ log of the odds; infinite when one label is absent."""
        with np.errstate(divide="ignore"):
            return float(0.5 * (np.log(plus) - np.log(minus)))
