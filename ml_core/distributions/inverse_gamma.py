"""Inverse gamma distributions: the conjugate prior of a variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaincc, gammainccinv, gammaln, xlogy

from ml_core.arrays import Vector
from ml_core.distributions.base import Distribution


@dataclass(frozen=True)
class InverseGamma(Distribution):
    """1 / Gamma(shape, rate=scale), both (n,): density scale^shape x^(-shape-1) e^(-scale/x) / Γ(shape), x > 0."""

    family = "inverse_gamma"
    shape: Any
    scale: Any

    @property
    def mean(self) -> Any:
        """scale / (shape - 1) where shape > 1, else NaN."""
        with np.errstate(divide="ignore"):
            return np.where(np.asarray(self.shape) > 1, self.scale / (self.shape - 1), np.nan)

    @property
    def variance(self) -> Any:
        """scale² / ((shape - 1)² (shape - 2)) where shape > 2, else NaN."""
        with np.errstate(divide="ignore"):
            value = np.square(self.scale / (self.shape - 1)) / (self.shape - 2)
        return np.where(np.asarray(self.shape) > 2, value, np.nan)

    def log_density(self, x: Any) -> Vector:
        """shape log scale - (shape+1) log x - scale/x - log Γ(shape); -inf at and below 0."""
        x = np.asarray(x, dtype=np.float64)
        z = np.where(x > 0, x, 1.0)
        value = xlogy(self.shape, self.scale) - (self.shape + 1) * np.log(z) - self.scale / z - gammaln(self.shape)
        return np.asarray(np.where(x > 0, value, -np.inf))

    def cdf(self, x: Any) -> Vector:
        """(n,) share of the mass at or below x."""
        x = np.asarray(x, dtype=np.float64)
        return np.asarray(np.where(x > 0, gammaincc(self.shape, self.scale / np.where(x > 0, x, 1.0)), 0.0))

    def quantile(self, p: float) -> Any:
        """scale over the inverse of the regularised upper incomplete gamma function."""
        return self.scale / gammainccinv(self.shape, p)

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n) draws."""
        return np.asarray(self.scale / rng.gamma(self.shape, size=(n_samples, len(self))))
