"""The perceptron's loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Vector
from ml_core.losses.margin import OfMargin
from ml_core.losses.named import Named


@dataclass(frozen=True)
class Perceptron(Named, OfMargin):
    """φ(m) = max(0, -m): only rows on the wrong side cost. Convex, with a kink at 0; η = 0 costs nothing anywhere.

    The slope at 0 is -1, so that a row on the boundary is learned from.

    References
    ----------
    Rosenblatt (1958), The perceptron, Psychological Review 65.
    """

    name = "perceptron"

    def phi(self, m: Vector) -> Vector:
        """max(0, -m)."""
        return np.maximum(-m, 0.0)

    def slope(self, m: Vector) -> Vector:
        """-1 up to 0, 0 beyond."""
        return np.where(m <= 0.0, -1.0, 0.0)

    def prox_phi(self, v: Vector, step: Any) -> Vector:
        """v + step, but not beyond 0; from 0 on v."""
        return np.where(v >= 0.0, v, np.minimum(v + step, 0.0))

    def phi_star(self, a: Vector) -> Vector:
        """0 in [-1, 0]."""
        return np.where((a <= 1e-12) & (a >= -1.0 - 1e-12), 0.0, np.inf)

    def best(self, plus: float, minus: float) -> float:
        """0, where nothing is lost."""
        return 0.0
