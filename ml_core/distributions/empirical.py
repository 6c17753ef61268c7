"""Empirical distributions: equal mass on given draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Vector
from ml_core.distributions.base import Distribution


@dataclass(frozen=True)
class Empirical(Distribution):
    """Mass 1/m on each of m draws; draws (n, m), one row per member of the batch."""

    family = "empirical"
    draws: Any

    @property
    def mean(self) -> Any:
        """(n,) average draw."""
        return np.mean(self.draws, axis=1)

    @property
    def variance(self) -> Any:
        """(n,) mean squared deviation of the draws (divisor m: this is the distribution, not a sample of another)."""
        return np.var(self.draws, axis=1)

    def log_density(self, x: Any) -> Vector:
        """(n,) log of the share of draws equal to x; -inf where none is."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.mean(np.asarray(self.draws) == np.asarray(x)[:, None], axis=1)))

    def cdf(self, x: Any) -> Vector:
        """(n,) share of draws at or below x."""
        return np.asarray(np.mean(np.asarray(self.draws) <= np.asarray(x)[:, None], axis=1))

    def quantile(self, p: float) -> Any:
        """Least draw with at least the share p of the draws at or below it."""
        return np.quantile(self.draws, p, axis=1, method="inverted_cdf")

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n) draws with replacement."""
        draws = np.asarray(self.draws)
        picks = rng.integers(draws.shape[1], size=(n_samples, len(draws)))
        return draws[np.arange(len(draws)), picks]
