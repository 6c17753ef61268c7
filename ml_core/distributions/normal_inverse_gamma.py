"""Normal-inverse-gamma distributions: weights and noise variance of a linear Gaussian model, together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammainccinv, stdtrit

from ml_core.arrays import Vector
from ml_core.distributions.base import Distribution
from ml_core.distributions.inverse_gamma import InverseGamma
from ml_core.distributions.normal import LOG_2PI
from ml_core.numerics.cholesky import Cholesky


@dataclass(frozen=True)
class NormalInverseGamma(Distribution):
    """v ~ InverseGamma(shape, scale) and w | v ~ N(location, v · relative_covariance).

    location (n, d), relative_covariance (n, d, d), shape and scale (n,). A point is a row (w, v) of d + 1 numbers, and
    so are mean, variance and the quantiles of the marginals: w_j is Student-t with 2 shape degrees of freedom.
    """

    family = "normal_inverse_gamma"
    location: Any
    relative_covariance: Any
    shape: Any
    scale: Any

    @property
    def _noise(self) -> InverseGamma:
        return InverseGamma(np.asarray(self.shape, dtype=np.float64), np.asarray(self.scale, dtype=np.float64))

    @property
    def mean(self) -> Any:
        """(n, d + 1): location where 2 shape > 1, scale / (shape - 1) where shape > 1, else NaN."""
        known = np.where(np.asarray(self.shape)[:, None] > 0.5, self.location, np.nan)
        return np.column_stack([known, self._noise.mean])

    @property
    def variance(self) -> Any:
        """(n, d + 1): scale / (shape - 1) · diagonal where shape > 1, variance of v where shape > 2, else NaN."""
        diagonal = np.diagonal(self.relative_covariance, axis1=1, axis2=2)
        return np.column_stack([diagonal * self._noise.mean[:, None], self._noise.variance])

    def log_density(self, x: Any) -> Vector:
        """(n,) joint log density of rows (w, v); -inf where v ≤ 0."""
        x = np.asarray(x, dtype=np.float64)
        w, v = x[:, :-1], x[:, -1]
        out = self._noise.log_density(v)
        for i in np.flatnonzero(v > 0):
            factor = Cholesky.of(np.asarray(self.relative_covariance[i]))
            distance = factor.quadratic((w[i] - self.location[i])[None])[0] / v[i]
            out[i] -= 0.5 * (distance + factor.logdet + w.shape[1] * (np.log(v[i]) + LOG_2PI))
        return out

    def quantile(self, p: float) -> Any:
        """(n, d + 1) quantiles of the marginals."""
        a, b = self._noise.shape, self._noise.scale
        diagonal = np.diagonal(self.relative_covariance, axis1=1, axis2=2)
        w = self.location + np.sqrt((b / a)[:, None] * diagonal) * stdtrit(2 * a, p)[:, None]
        return np.column_stack([w, b / gammainccinv(a, p)])

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n, d + 1) draws: v first, then w given v."""
        v = self._noise.sample(n_samples, rng)
        z = rng.standard_normal((n_samples, *np.shape(self.location)))
        roots = np.stack([Cholesky.of(np.asarray(C)).L for C in self.relative_covariance])
        w = self.location + np.sqrt(v)[..., None] * np.einsum("nij,snj->sni", roots, z)
        return np.concatenate([w, v[..., None]], axis=-1)
