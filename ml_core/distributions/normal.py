"""Normal distributions, one-dimensional and multivariate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ml_core.arrays import Vector
from ml_core.distributions.base import Distribution
from ml_core.numerics.cholesky import Cholesky

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Normal(Distribution):
    """N(mean, standard_deviation²), both (n,); `epistemic_sd` is the part that more data would remove, where known."""

    family = "normal"
    mean: Any
    standard_deviation: Any
    epistemic_sd: Any = None

    @property
    def variance(self) -> Any:
        """(n,) variances."""
        return np.square(self.standard_deviation)

    @property
    def sd(self) -> Any:
        """(n,) standard deviations."""
        return self.standard_deviation

    def log_density(self, x: Any) -> Vector:
        """-½((x-m)/s)² - log s - ½log 2π."""
        z = (x - self.mean) / self.standard_deviation
        return np.asarray(-0.5 * z * z - np.log(self.standard_deviation) - 0.5 * LOG_2PI)

    def quantile(self, p: float) -> Any:
        """m + s Φ⁻¹(p)."""
        return self.mean + self.standard_deviation * ndtri(p)

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n) draws."""
        return np.asarray(self.mean + self.standard_deviation * rng.standard_normal((n_samples, len(self))))


@dataclass(frozen=True)
class MultivariateNormal(Distribution):
    """N(mean, covariance): mean (n, d), covariance (n, d, d)."""

    family = "multivariate_normal"
    mean: Any
    covariance: Any

    @property
    def variance(self) -> Any:
        """(n, d) variances of the coordinates."""
        return np.diagonal(self.covariance, axis1=1, axis2=2)

    def quantile(self, p: float) -> Any:
        """(n, d) quantiles of the marginals."""
        return self.mean + self.sd * ndtri(p)

    def log_density(self, x: Any) -> Vector:
        """-½(x-m)ᵀC⁻¹(x-m) - ½log|C| - d/2 log 2π, by Cholesky, for x (n, d)."""
        out = np.empty(len(self))
        for i, (m, C) in enumerate(zip(self.mean, self.covariance, strict=True)):
            factor = Cholesky.of(C)
            out[i] = -0.5 * (factor.quadratic((x[i] - m)[None])[0] + factor.logdet + len(m) * LOG_2PI)
        return out

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n, d) draws."""
        z = rng.standard_normal((n_samples, *np.shape(self.mean)))
        roots = np.stack([Cholesky.of(C).L for C in self.covariance])
        return np.asarray(self.mean + np.einsum("nij,snj->sni", roots, z))
