"""What a loss offers: functions of the linear predictor η alone, so that any solver can chain them with any design.

A `Smooth` loss has value and gradient; a `TwiceSmooth` one also a curvature. Shapes, for n rows and q predictors a row:
η (n, q), value (n,), gradient (n, q), curvature (n, q, q) or, when q = 1, (n, 1, 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ml_core.arrays import Matrix, Vector

Curvature = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """The values a target may take, from `low` to `high`, ends included; `whole` numbers only if it says so."""

    low: float = -np.inf
    high: float = np.inf
    whole: bool = False

    def contains(self, y: Vector) -> NDArray[np.bool_]:
        """Elementwise membership."""
        inside = (y >= self.low) & (y <= self.high)
        return inside & (y == np.floor(y)) if self.whole else inside


@runtime_checkable
class Smooth(Protocol):
    """ℓ(η, y), convex and once differentiable in η."""

    @property
    def domain(self) -> Interval:
        """Targets for which the loss is defined."""

    @property
    def width(self) -> int:
        """q, predictors per row."""

    @property
    def curvature_bound(self) -> float:
        """Least upper bound of the largest eigenvalue of ∂²ℓ/∂η²; infinite when there is none."""

    def value(self, eta: Matrix, y: Vector) -> Vector:
        """(n,) ℓ."""

    def gradient(self, eta: Matrix, y: Vector) -> Matrix:
        """(n, q) ∂ℓ/∂η."""

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """Both at once, sharing the exponentials."""

    def start(self, y: Vector, s: Vector) -> Vector:
        """(q,) the best constant η, argmin Σᵢ sᵢ ℓ(η, yᵢ)."""


@runtime_checkable
class TwiceSmooth(Smooth, Protocol):
    """Also twice differentiable."""

    def curvature(self, eta: Matrix, y: Vector) -> Curvature:
        """(n, q, q) ∂²ℓ/∂η², positive semidefinite."""

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, Curvature]:
        """Value, gradient and curvature at once, sharing the exponentials."""


class Derived:
    """The single answers of a loss that computes them together."""

    def value(self: TwiceSmooth, eta: Matrix, y: Vector) -> Vector:
        """(n,) ℓ."""
        return self.value_gradient(eta, y)[0]

    def gradient(self: TwiceSmooth, eta: Matrix, y: Vector) -> Matrix:
        """(n, q) ∂ℓ/∂η."""
        return self.value_gradient(eta, y)[1]

    def curvature(self: TwiceSmooth, eta: Matrix, y: Vector) -> Curvature:
        """(n, q, q) ∂²ℓ/∂η²."""
        return self.all(eta, y)[2]
