"""What a loss offers: functions of the linear predictor η alone, so that any solver can chain them with any design.

Shapes, for n rows and q predictors a row: η (n, q), targets y (n,), or (n, q) where the target is a vector; value (n,),
gradient (n, q), curvature (n, q, q) or, when q = 1, (n, 1, 1). A solver asks for the weakest protocol that serves:
`Loss` (value), `Subdifferentiable` (a slope everywhere), `Smooth` (one slope), `TwiceSmooth` (curvature), and beside
these `Proximable` and `Reweighted`.
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
    """The values a target may take, from `low` to `high`, ends included; `whole` numbers, without 0, if it says so."""

    low: float = -np.inf
    high: float = np.inf
    whole: bool = False
    nonzero: bool = False

    def contains(self, y: Vector) -> NDArray[np.bool_]:
        """Elementwise membership."""
        inside = (y >= self.low) & (y <= self.high)
        if self.nonzero:
            inside = inside & (y != 0)
        return inside & (y == np.floor(y)) if self.whole else inside


@runtime_checkable
class Loss(Protocol):
    """ℓ(η, y)."""

    @property
    def domain(self) -> Interval:
        """Targets for which the loss is defined."""

    @property
    def width(self) -> int:
        """q, predictors per row."""

    @property
    def convex(self) -> bool:
        """Whether ℓ is convex in η."""

    def value(self, eta: Matrix, y: Vector) -> Vector:
        """(n,) ℓ."""

    def start(self, y: Vector, s: Vector) -> Vector:
        """(q,) the best constant η, argmin Σᵢ sᵢ ℓ(η, yᵢ); of an interval of them the middle."""


@runtime_checkable
class Subdifferentiable(Loss, Protocol):
    """With a slope at every η."""

    def gradient(self, eta: Matrix, y: Vector) -> Matrix:
        """(n, q) ∂ℓ/∂η; at a kink, an element of the subdifferential."""


@runtime_checkable
class Smooth(Subdifferentiable, Protocol):
    """Once differentiable in η, with a continuous gradient."""

    @property
    def curvature_bound(self) -> float:
        """Least upper bound of the largest eigenvalue of ∂²ℓ/∂η²; infinite when there is none."""

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """Both at once, sharing the exponentials."""


@runtime_checkable
class TwiceSmooth(Smooth, Protocol):
    """Also twice differentiable, apart from single points where the curvature jumps (there, one of its limits)."""

    def curvature(self, eta: Matrix, y: Vector) -> Curvature:
        """(n, q, q) ∂²ℓ/∂η², positive semidefinite where ℓ is convex."""

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, Curvature]:
        """Value, gradient and curvature at once, sharing the exponentials."""


@runtime_checkable
class Conjugable(Loss, Protocol):
    """Convex, with its Fenchel conjugate: what duality gaps are made of."""

    def conjugate(self, u: Matrix, y: Vector) -> Vector:
        """(n,) ℓ*(u, y) = sup over η of u·η - ℓ(η, y); infinite outside its domain."""


@runtime_checkable
class Proximable(Conjugable, Protocol):
    """Also with a proximal operator."""

    def prox(self, v: Matrix, y: Vector, step: float) -> Matrix:
        """(n, q) argmin over η of step·ℓ(η, y) + ½‖η - v‖²."""


@runtime_checkable
class Reweighted(Subdifferentiable, Protocol):
    """A loss of the residual that a weighted square touches from above: what reweighted least squares asks for."""

    def weight(self, eta: Matrix, y: Vector) -> Vector:
        """(n,) ω ≥ 0 with ∂ℓ/∂η = ω (η - y)."""


class Derived:
    """The single answers of a convex loss that computes them together."""

    convex = True

    def value(self: TwiceSmooth, eta: Matrix, y: Vector) -> Vector:
        """(n,) ℓ."""
        return self.value_gradient(eta, y)[0]

    def gradient(self: TwiceSmooth, eta: Matrix, y: Vector) -> Matrix:
        """(n, q) ∂ℓ/∂η."""
        return self.value_gradient(eta, y)[1]

    def curvature(self: TwiceSmooth, eta: Matrix, y: Vector) -> Curvature:
        """(n, q, q) ∂²ℓ/∂η²."""
        return self.all(eta, y)[2]
