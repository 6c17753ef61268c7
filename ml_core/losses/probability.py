"""Logarithmic losses of predictions that are probabilities, or one score per class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Curvature, Derived, Interval
from ml_core.numerics.stable import logsumexp, softmax

CLIP = 1e-15


@dataclass(frozen=True)
class LogProbability:
    """ℓ(p, T) = -Σⱼ Tⱼ log pⱼ for shares T (n, K) of the classes; p is kept within [1e-15, 1].

    Slope -T/p. Classes may be predicted by K probabilities, or two of them by one: p of the second class (`single`).
    """

    classes: int
    single: bool = False
    convex = True
    domain = Interval(0.0, 1.0)
    curvature_bound = np.inf

    @property
    def width(self) -> int:
        """K, or 1 for a single probability."""
        return 1 if self.single else self.classes

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """Both."""
        return self.value(eta, y), self.gradient(eta, y)

    def value(self, eta: Matrix, y: Vector) -> Vector:
        """(n,) ℓ."""
        return np.asarray(-xlogy(*self._pairs(eta, y)).sum(axis=1)) + 0.0

    def gradient(self, eta: Matrix, y: Vector) -> Matrix:
        """(n, K) -T/p, or (n, 1) (p - y)/(p (1 - p))."""
        T, p = self._pairs(eta, y)
        g = -T / p
        return g[:, :1] - g[:, 1:] if self.single else g + 0.0

    def start(self, y: Vector, s: Vector) -> Vector:
        """The weighted shares."""
        return np.atleast_1d(s @ y / s.sum())

    def to_json(self) -> dict[str, Any]:
        """What was evaluated."""
        return {"loss": "logistic" if self.single else "categorical_cross_entropy", "given": "probabilities",
                "clip": CLIP}  # fmt: skip

    def _pairs(self, eta: Matrix, y: Vector) -> tuple[Matrix, Matrix]:
        if not self.single:
            return y, np.clip(eta, CLIP, 1.0)
        t, p = y.reshape(-1, 1), eta
        return np.hstack([t, 1.0 - t]), np.clip(np.hstack([p, 1.0 - p]), CLIP, 1.0)


@dataclass(frozen=True)
class LogScores(Derived):
    """ℓ(u, T) = log Σₖ e^uₖ - Σₖ Tₖ uₖ for scores u and shares T (n, K) that sum to 1: softmax inside."""

    classes: int
    domain = Interval(0.0, 1.0)
    curvature_bound = 0.5
    """diag p - ppᵀ ≤ ½ I."""

    @property
    def width(self) -> int:
        """K."""
        return self.classes

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """(n,) ℓ and (n, K) p - T; differences of scores keep the digits of small losses."""
        own = (y * eta).sum(axis=1, keepdims=True)
        return logsumexp(eta - own, axis=1), softmax(eta) - y

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, Curvature]:
        """Also (n, K, K) diag p - ppᵀ."""
        value, g = self.value_gradient(eta, y)
        p = g + y
        return value, g, p[:, :, None] * np.eye(self.classes) - p[:, :, None] * p[:, None, :]

    def conjugate(self, u: Matrix, y: Vector) -> Vector:
        """(n,) Σ p log p at p = u + T, where that is a distribution."""
        p = u + y
        inside = (p.min(axis=1) >= -1e-12) & (np.abs(p.sum(axis=1) - 1.0) <= 1e-9)
        p = np.maximum(p, 0.0)
        return np.where(inside, xlogy(p, p).sum(axis=1), np.inf)

    def start(self, y: Vector, s: Vector) -> Vector:
        """(K,) log shares, less their mean; infinite where a class is absent."""
        with np.errstate(divide="ignore", invalid="ignore"):
            u = np.log(s @ y / s.sum())
            return np.asarray(u - u.mean() if np.isfinite(u).all() else u)

    def to_json(self) -> dict[str, Any]:
        """What was evaluated."""
        return {"loss": "categorical_cross_entropy", "given": "scores"}
