"""Gamma distributions on the positive numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincinv, gammaln, xlogy

from ml_core.arrays import Vector
from ml_core.distributions.base import Distribution


@dataclass(frozen=True)
class Gamma(Distribution):
    """Gamma(shape, rate), both (n,): density rate^shape x^(shape-1) e^(-rate x) / Γ(shape), x ≥ 0."""

    family = "gamma"
    shape: Any
    rate: Any

    @property
    def mean(self) -> Any:
        """shape / rate."""
        return self.shape / self.rate

    @property
    def variance(self) -> Any:
        """shape / rate²."""
        return self.shape / np.square(self.rate)

    def log_density(self, x: Any) -> Vector:
        """shape log rate + (shape-1) log x - rate x - log Γ(shape); -inf below 0."""
        x = np.asarray(x, dtype=np.float64)
        z = np.where(x >= 0, x, 1.0)
        value = xlogy(self.shape, self.rate) + xlogy(self.shape - 1, z) - self.rate * z - gammaln(self.shape)
        return np.asarray(np.where(x >= 0, value, -np.inf))

    def cdf(self, x: Any) -> Vector:
        """(n,) share of the mass at or below x."""
        return np.asarray(gammainc(self.shape, self.rate * np.maximum(x, 0.0)))

    def quantile(self, p: float) -> Any:
        """Inverse of the regularised lower incomplete gamma function, over rate."""
        return gammaincinv(self.shape, p) / self.rate

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n) draws."""
        return np.asarray(rng.gamma(self.shape, size=(n_samples, len(self))) / self.rate)
