"""Dirichlet distributions over probability vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, gammaln, xlogy

from ml_core.arrays import Vector
from ml_core.distributions.base import Distribution


@dataclass(frozen=True)
class Dirichlet(Distribution):
    """Dirichlet(concentration), (n, K): density Γ(Σa) / Π Γ(a_k) · Π x_k^(a_k - 1) on the simplex."""

    family = "dirichlet"
    concentration: Any

    @property
    def mean(self) -> Any:
        """(n, K) a / Σa."""
        return self.concentration / np.sum(self.concentration, axis=1, keepdims=True)

    @property
    def variance(self) -> Any:
        """(n, K) m (1 - m) / (Σa + 1), m the mean."""
        return self.mean * (1 - self.mean) / (np.sum(self.concentration, axis=1, keepdims=True) + 1)

    @property
    def mode(self) -> Any:
        """(n, K) (a - 1) / (Σa - K), interior only when every a exceeds 1; else NaN."""
        a = np.asarray(self.concentration, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = (a - 1) / (a.sum(axis=1, keepdims=True) - a.shape[1])
        return np.where((a > 1).all(axis=1, keepdims=True), value, np.nan)

    def log_density(self, x: Any) -> Vector:
        """(n,) log density of rows x (n, K); -inf off the simplex (sums may differ from 1 by 1e-9)."""
        a, x = np.asarray(self.concentration, dtype=np.float64), np.asarray(x, dtype=np.float64)
        legal = (x >= 0).all(axis=-1) & (np.abs(x.sum(axis=-1) - 1) <= 1e-9)
        z = np.where(legal[..., None], x, 0.5)
        value = gammaln(a.sum(axis=1)) - gammaln(a).sum(axis=1) + xlogy(a - 1, z).sum(axis=-1)
        return np.asarray(np.where(legal, value, -np.inf))

    def quantile(self, p: float) -> Any:
        """(n, K) quantiles of the marginals, which are Beta(a_k, Σa - a_k)."""
        total = np.sum(self.concentration, axis=1, keepdims=True)
        return betaincinv(self.concentration, total - self.concentration, p)

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n, K) draws."""
        return np.stack([rng.dirichlet(a, size=n_samples) for a in self.concentration], axis=1)
