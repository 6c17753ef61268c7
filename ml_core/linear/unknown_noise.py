"""A noise variance with an inverse-gamma prior, learned together with the coefficients in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.distributions.base import Distribution
from ml_core.distributions.inverse_gamma import InverseGamma
from ml_core.distributions.normal_inverse_gamma import NormalInverseGamma
from ml_core.distributions.student import StudentT
from ml_core.errors import InvalidData
from ml_core.solvers.gaussian_linear import Posterior, Prior, Sums, posterior


@portable
@dataclass(frozen=True)
class UnknownNoise:
    """σ² ~ InverseGamma(shape, scale); coefficients and outcomes are then Student's t with 2 shape degrees of freedom.

    `unit` = scale/shape is the squared scale of the t distribution of e = y - f(x).
    """

    shape: float
    scale: float

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the marginals."""
        return 2 * self.shape

    @property
    def unit(self) -> float:
        """Squared scale of the noise's marginal."""
        return self.scale / self.shape

    @property
    def mean(self) -> float | None:
        """E σ², None for a shape of at most 1."""
        return self.scale / (self.shape - 1) if self.shape > 1 else None

    def deviation(self, size: float) -> float | None:
        """Standard deviation of a marginal with the t scale `size`; None for a shape of at most 1, where it is none."""
        return None if self.shape <= 1 else float(size * np.sqrt(self.shape / (self.shape - 1)))

    def marginals(self, mean: Vector, root: Matrix) -> dict[str, Distribution]:
        """Of slopes and variance together, of the variance, and of the intercept; `root` (1 + d, k) in units of t."""
        shape, scale = np.array([self.shape]), np.array([self.scale])
        C = (root[1:] @ root[1:].T) / self.unit
        return {
            "coefficients": NormalInverseGamma(mean[None, 1:], C[None], shape, scale),
            "noise_variance": InverseGamma(shape, scale),
            "intercept": StudentT(mean[:1], np.sqrt((root[:1] ** 2).sum(axis=1)), 2 * shape),
        }


def learn(sums: Sums, prior: Prior, before: UnknownNoise) -> tuple[Posterior, UnknownNoise]:
    """The posterior for w | σ² ~ N(m₀, σ² S₀) and σ² as `before`, its root in the units of t; O(d³).

    shape_N = shape + n/2 (n - 1 with a flat intercept), scale_N = scale + ½(‖y - Φw_N‖² + (w_N - m₀)ᵀS₀⁻¹(w_N - m₀)).
    Source: Bernardo, Smith (1994), Bayesian Theory, appendix A.2; O'Hagan, Forster (2004), chapter 11.
    """
    p = posterior(sums, prior, 1.0)
    square = p.rss + p.distance
    after = UnknownNoise(before.shape + 0.5 * (sums.total - prior.flat), before.scale + 0.5 * square)
    if after.shape <= 0:
        raise InvalidData(f"weights that add up to {sums.total:g} leave σ² no posterior under a flat intercept: "
                          f"noise_shape + ½(Σ weights - 1) = {after.shape:g}; raise noise_shape, or give weights that "
                          "count rows")  # fmt: skip
    logs = p.log_evidence + 0.5 * square + before.shape * np.log(before.scale) - after.shape * np.log(after.scale)
    logs += gammaln(after.shape) - gammaln(before.shape)
    return replace(p, root=p.root * np.sqrt(after.unit), log_evidence=float(logs)), after
