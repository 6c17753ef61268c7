"""Bernoulli distributions: one flip, or a row of independent flips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlog1py, xlogy

from ml_core.arrays import Vector
from ml_core.distributions.base import Distribution


@dataclass(frozen=True)
class Bernoulli(Distribution):
    """1 with probability p, else 0; p is (n,), or (n, d) for rows of d independent flips."""

    family = "bernoulli"
    p: Any

    @property
    def mean(self) -> Any:
        """p."""
        return self.p

    @property
    def variance(self) -> Any:
        """p (1 - p)."""
        return self.p * (1 - self.p)

    def log_density(self, x: Any) -> Vector:
        """x log p + (1-x) log(1-p), summed over the flips of a row; -inf unless each x is 0 or 1."""
        x = np.asarray(x, dtype=np.float64)
        legal = (x == 0) | (x == 1)
        z = np.where(legal, x, 0.0)
        value = np.where(legal, xlogy(z, self.p) + xlog1py(1 - z, -np.asarray(self.p)), -np.inf)
        return np.asarray(value.sum(axis=-1) if np.ndim(self.p) == 2 else value)

    def cdf(self, x: Any) -> Vector:
        """Share of the mass at or below x, flip by flip."""
        x = np.asarray(x, dtype=np.float64)
        return np.where(x < 0, 0.0, np.where(x < 1, 1 - self.p, 1.0))

    def quantile(self, p: float) -> Any:
        """0 while p ≤ 1 - P(1), then 1."""
        return np.where(p <= 1 - np.asarray(self.p), 0.0, 1.0)

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n) or (n_samples, n, d) draws of 0.0 and 1.0."""
        return np.asarray(rng.random((n_samples, *np.shape(self.p))) < self.p, dtype=np.float64)
