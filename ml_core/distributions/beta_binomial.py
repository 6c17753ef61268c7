"""Beta-binomial distributions: successes among future trials whose probability is uncertain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaln

from ml_core.arrays import Vector
from ml_core.distributions.base import Distribution


@dataclass(frozen=True)
class BetaBinomial(Distribution):
    """k of `trials` successes when p ~ Beta(alpha, beta); all (n,).

    P(k) = C(trials, k) B(k + alpha, trials - k + beta) / B(alpha, beta).
    """

    family = "beta_binomial"
    trials: Any
    alpha: Any
    beta: Any

    @property
    def mean(self) -> Any:
        """trials alpha / (alpha + beta)."""
        return self.trials * self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Any:
        """trials p (1-p) (alpha + beta + trials) / (alpha + beta + 1), p = alpha / (alpha + beta)."""
        total = self.alpha + self.beta
        return self.trials * (self.alpha / total) * (self.beta / total) * (total + self.trials) / (total + 1)

    def log_density(self, x: Any) -> Vector:
        """Log mass of k; -inf unless k is one of 0 … trials."""
        k = np.asarray(x, dtype=np.float64)
        legal = (k >= 0) & (k <= self.trials) & (k == np.floor(k))
        k = np.where(legal, k, 0.0)
        rest = self.trials - k
        choose = -np.log1p(self.trials) - betaln(k + 1, rest + 1)
        value = choose + betaln(k + self.alpha, rest + self.beta) - betaln(self.alpha, self.beta)
        return np.asarray(np.where(legal, value, -np.inf))

    def masses(self, member: int = 0) -> Vector:
        """(trials + 1,) probabilities of 0 … trials for one member of the batch."""
        one = BetaBinomial(*(np.asarray(v)[[member]] for v in (self.trials, self.alpha, self.beta)))
        return np.exp(one.log_density(np.arange(one.trials[0] + 1.0)))

    def cdf(self, x: Any) -> Vector:
        """(n,) share of the mass at or below x; O(trials)."""
        at = np.broadcast_to(np.asarray(x, dtype=np.float64), (len(self),))
        tables = (np.cumsum(self.masses(i)) for i in range(len(self)))
        values = [0.0 if k < 0 else t[int(min(k, len(t) - 1))] for k, t in zip(at, tables, strict=True)]
        return np.minimum(values, 1.0)

    def quantile(self, p: float) -> Any:
        """Least k whose cumulated mass reaches p; O(trials)."""
        cumulated = (np.cumsum(self.masses(i)) for i in range(len(self)))
        return np.array([min(np.searchsorted(t, p * (1 - 1e-14)), len(t) - 1) for t in cumulated], dtype=np.float64)

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n) draws: p from the beta, then k from the binomial."""
        p = rng.beta(self.alpha, self.beta, size=(n_samples, len(self)))
        return rng.binomial(np.asarray(self.trials, dtype=np.int64), p).astype(np.float64)
