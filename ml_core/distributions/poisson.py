"""Poisson distributions: counts of independent events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, pdtr, pdtrik, xlogy

from ml_core.arrays import Vector
from ml_core.distributions.base import Distribution


@dataclass(frozen=True)
class Poisson(Distribution):
    """Poisson(rate), (n,): P(k) = rate^k e^(-rate) / k!."""

    family = "poisson"
    rate: Any

    @property
    def mean(self) -> Any:
        """rate."""
        return self.rate

    @property
    def variance(self) -> Any:
        """rate."""
        return self.rate

    def log_density(self, x: Any) -> Vector:
        """k log rate - rate - log k!; -inf unless k is a whole number of at least 0."""
        k = np.asarray(x, dtype=np.float64)
        legal = (k >= 0) & (k == np.floor(k))
        z = np.where(legal, k, 0.0)
        return np.asarray(np.where(legal, xlogy(z, self.rate) - self.rate - gammaln(z + 1), -np.inf))

    def cdf(self, x: Any) -> Vector:
        """(n,) share of the mass at or below x."""
        k = np.floor(np.asarray(x, dtype=np.float64))
        return np.asarray(np.where(k < 0, 0.0, pdtr(np.maximum(k, 0.0), self.rate)))

    def quantile(self, p: float) -> Any:
        """Least k whose cumulated mass reaches p."""
        k = np.maximum(np.ceil(pdtrik(p, self.rate)), 0.0)
        below = np.maximum(k - 1, 0.0)
        return np.where(pdtr(below, self.rate) >= p, below, k)

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n) draws."""
        return rng.poisson(self.rate, size=(n_samples, len(self))).astype(np.float64)
