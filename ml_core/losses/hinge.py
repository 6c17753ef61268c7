"""The hinge loss and its square."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Vector
from ml_core.losses.margin import OfMargin, SmoothOfMargin
from ml_core.losses.named import Named


@dataclass(frozen=True)
class Hinge(Named, OfMargin):
    """φ(m) = max(0, 1 - m): rows beyond the margin cost nothing. Convex, with a kink at 1.

    References
    ----------
    Cortes, Vapnik (1995), Support-vector networks, Machine Learning 20.
    """

    name = "hinge"

    def phi(self, m: Vector) -> Vector:
        """max(0, 1 - m)."""
        return np.maximum(1.0 - m, 0.0)

    def slope(self, m: Vector) -> Vector:
        """-1 below the margin, 0 from 1 on."""
        return np.where(m < 1.0, -1.0, 0.0)

    def prox_phi(self, v: Vector, step: Any) -> Vector:
        """v + step, but not beyond 1; from 1 on v."""
        return np.where(v >= 1.0, v, np.minimum(v + step, 1.0))

    def phi_star(self, a: Vector) -> Vector:
        """The slope a itself, in [-1, 0]."""
        return np.where((a <= 1e-12) & (a >= -1.0 - 1e-12), a, np.inf)

    def best(self, plus: float, minus: float) -> float:
        """±1 by the larger weight, 0 when both are equal."""
        return float(np.sign(plus - minus))


@dataclass(frozen=True)
class SquaredHinge(Named, SmoothOfMargin):
    """φ(m) = ½ max(0, 1 - m)²: convex and once differentiable."""

    name = "squared_hinge"
    curvature_bound = 1.0
    """1, below the margin."""

    def phi(self, m: Vector) -> Vector:
        """½ max(0, 1 - m)²."""
        return 0.5 * np.square(np.maximum(1.0 - m, 0.0))

    def slope(self, m: Vector) -> Vector:
        """min(m - 1, 0)."""
        return np.minimum(m - 1.0, 0.0)

    def bend(self, m: Vector) -> Vector:
        """1 below the margin, 0 from 1 on."""
        return (m < 1.0).astype(np.float64)

    def prox_phi(self, v: Vector, step: Any) -> Vector:
        """(v + step)/(1 + step) below the margin, v from 1 on."""
        return np.where(v >= 1.0, v, (v + step) / (1.0 + step))

    def phi_star(self, a: Vector) -> Vector:
        """a + ½ a² for a ≤ 0."""
        return np.where(a <= 1e-12, a + 0.5 * a * a, np.inf)

    def best(self, plus: float, minus: float) -> float:
        """The difference of the weights over their sum."""
        return (plus - minus) / (plus + minus)
