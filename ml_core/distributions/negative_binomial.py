"""Negative binomial distributions: Poisson counts whose rate is uncertain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc, gammaln, nbdtrik, xlog1py, xlogy

from ml_core.arrays import Vector
from ml_core.distributions.base import Distribution


@dataclass(frozen=True)
class NegativeBinomial(Distribution):
    """Failures before the `size`-th success, each of probability `probability`; both (n,), size > 0 real.

    P(k) = Γ(k + size) / (k! Γ(size)) probability^size (1 - probability)^k. A Poisson count whose rate is
    Gamma(size, rate=b) has probability = b / (b + 1).
    """

    family = "negative_binomial"
    size: Any
    probability: Any

    @property
    def mean(self) -> Any:
        """size (1 - probability) / probability."""
        return self.size * (1 - self.probability) / self.probability

    @property
    def variance(self) -> Any:
        """size (1 - probability) / probability²."""
        return self.size * (1 - self.probability) / np.square(self.probability)

    def log_density(self, x: Any) -> Vector:
        """Log mass of k; -inf unless k is a whole number of at least 0."""
        k = np.asarray(x, dtype=np.float64)
        legal = (k >= 0) & (k == np.floor(k))
        z = np.where(legal, k, 0.0)
        choose = gammaln(z + self.size) - gammaln(z + 1) - gammaln(self.size)
        value = choose + xlogy(self.size, self.probability) + xlog1py(z, -np.asarray(self.probability))
        return np.asarray(np.where(legal, value, -np.inf))

    def cdf(self, x: Any) -> Vector:
        """(n,) share of the mass at or below x."""
        k = np.floor(np.asarray(x, dtype=np.float64))
        return np.asarray(np.where(k < 0, 0.0, betainc(self.size, np.maximum(k, 0.0) + 1, self.probability)))

    def quantile(self, p: float) -> Any:
        """Least k whose cumulated mass reaches p."""
        k = np.maximum(np.ceil(nbdtrik(p, self.size, self.probability)), 0.0)
        below = np.maximum(k - 1, 0.0)
        return np.where(self.cdf(below) >= p, below, k)

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n) draws."""
        return rng.negative_binomial(self.size, self.probability, size=(n_samples, len(self))).astype(np.float64)
