"""The logistic loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Curvature, Derived, Interval
from ml_core.losses.named import Named

PROX_STEPS = 60


@dataclass(frozen=True)
class Logistic(Named, Derived):
    """ℓ(η, y) = log(1 + e^η) - y η for y in [0, 1]; link logit.

    ∂ℓ/∂η = σ(η) - y, ∂²ℓ/∂η² = σ(η)(1 - σ(η)) ≤ ¼. Written with e^-|η|, so that nothing overflows and a well
    classified row keeps its small loss to full relative accuracy.
    """

    name = "logistic"
    domain = Interval(0.0, 1.0)
    """[0, 1]; values in between are shares of successes."""
    width = 1
    curvature_bound = 0.25
    """¼, reached at η = 0."""

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """(n,) ℓ and (n, 1) σ(η) - y."""
        t, e, p = _parts(eta)
        return _loss(t, e, y), (p - y)[:, None]

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, Curvature]:
        """Also (n, 1, 1) σ(1 - σ)."""
        t, e, p = _parts(eta)
        return _loss(t, e, y), (p - y)[:, None], (e / np.square(1.0 + e))[:, None, None]

    def start(self, y: Vector, s: Vector) -> Vector:
        """logit of the weighted mean; infinite when every y is 0 or every y is 1."""
        ones = float(s @ y)
        with np.errstate(divide="ignore"):
            return np.array([np.log(ones) - np.log(float(s @ (1.0 - y)))])

    def conjugate(self, u: Matrix, y: Vector) -> Vector:
        """(n,) p log p + (1 - p) log(1 - p) at p = u + y in [0, 1]."""
        p = u[:, 0] + y
        inside, p = (p >= -1e-12) & (p <= 1 + 1e-12), np.clip(p, 0.0, 1.0)
        return np.where(inside, xlogy(p, p) + xlog1py(1.0 - p, -p), np.inf)

    def prox(self, v: Matrix, y: Vector, step: float) -> Matrix:
        """(n, 1) the root of η - v + step (σ(η) - y): Newton's steps, kept inside a bracket."""
        low, high = v[:, 0] + step * (y - 1.0), v[:, 0] + step * y
        eta = np.clip(v[:, 0], low, high)
        for _ in range(PROX_STEPS):
            p = expit(eta)
            f = eta - v[:, 0] + step * (p - y)
            low, high = np.where(f <= 0, eta, low), np.where(f >= 0, eta, high)
            new = eta - f / (1.0 + step * p * (1.0 - p))
            eta = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        return eta[:, None]


def _parts(eta: Matrix) -> tuple[Vector, Vector, Vector]:
    """η, e^-|η| and σ(η), each (n,)."""
    t = eta[:, 0]
    e = np.exp(-np.abs(t))
    return t, e, np.where(t >= 0, 1.0, e) / (1.0 + e)


def _loss(t: Vector, e: Vector, y: Vector) -> Vector:
    return np.log1p(e) + (np.maximum(t, 0.0) - y * t)
