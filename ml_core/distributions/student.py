"""Student's t distribution with location and scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, stdtrit

from ml_core.arrays import Vector
from ml_core.certificates import plain
from ml_core.distributions.base import Distribution
from ml_core.numerics.cholesky import Cholesky


@dataclass(frozen=True)
class StudentT(Distribution):
    """location + scale · t(degrees_of_freedom); each (n,), or (n, q) for several outputs.

    `epistemic_scale`, where given, is the standard error of the location: the part of the scale that more data would
    remove. The JSON then has an interval for the location, `mean_interval`, beside the one for an outcome.
    """

    family = "student_t"
    location: Any
    scale: Any
    degrees_of_freedom: Any
    epistemic_scale: Any = None

    @property
    def mean(self) -> Any:
        """The location; NaN for one degree of freedom or fewer."""
        return np.where(np.asarray(self.degrees_of_freedom) > 1, self.location, np.nan)

    @property
    def variance(self) -> Any:
        """scale² ν/(ν-2); infinite for 1 < ν ≤ 2, NaN below."""
        v = np.asarray(self.degrees_of_freedom, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            heavy = np.where(v > 1, np.inf, np.nan)
            return np.where(v > 2, np.square(self.scale) * v / (v - 2), heavy)

    def log_density(self, x: Any) -> Vector:
        """logΓ((ν+1)/2) - logΓ(ν/2) - ½log(νπ) - log s - (ν+1)/2 · log(1 + ((x-m)/s)²/ν)."""
        v = np.asarray(self.degrees_of_freedom, dtype=float)
        z = (x - self.location) / self.scale
        constant = gammaln((v + 1) / 2) - gammaln(v / 2) - 0.5 * np.log(v * np.pi)
        return np.asarray(constant - np.log(self.scale) - (v + 1) / 2 * np.log1p(z * z / v))

    def quantile(self, p: float) -> Any:
        """M + s t_ν⁻¹(p)."""
        if p == 0.5:
            return np.array(self.location, dtype=float)
        return self.location + np.asarray(self.scale) * stdtrit(self.degrees_of_freedom, p)

    def to_json(self, level: float = 0.9) -> list[dict[str, Any]]:
        """As every distribution, and the interval of the location where its standard error is known."""
        rows = super().to_json(level)
        if self.epistemic_scale is not None:
            part = StudentT(self.location, self.epistemic_scale, self.degrees_of_freedom).interval(level)
            for row, interval in zip(rows, plain(part), strict=True):
                row["mean_interval"] = interval
        return rows

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n) draws."""
        shape = (n_samples, *np.shape(self.location))
        return np.asarray(self.location + self.scale * rng.standard_t(np.broadcast_to(self.degrees_of_freedom, shape)))


@dataclass(frozen=True)
class MultivariateStudentT(Distribution):
    """location (n, d) and scale matrix (n, d, d) with degrees_of_freedom (n,): normal draws over √(χ²_ν/ν)."""

    family = "multivariate_student_t"
    location: Any
    scale_matrix: Any
    degrees_of_freedom: Any

    def _marginal(self) -> StudentT:
        sizes = np.sqrt(np.diagonal(self.scale_matrix, axis1=1, axis2=2))
        freedom = np.broadcast_to(np.asarray(self.degrees_of_freedom, dtype=float)[:, None], sizes.shape)
        return StudentT(np.asarray(self.location), sizes, freedom)

    @property
    def mean(self) -> Any:
        """(n, d) location; NaN for one degree of freedom or fewer."""
        return self._marginal().mean

    @property
    def variance(self) -> Any:
        """(n, d) variances of the coordinates, ν/(ν-2) of the diagonal."""
        return self._marginal().variance

    def quantile(self, p: float) -> Any:
        """(n, d) quantiles of the marginals."""
        return self._marginal().quantile(p)

    def log_density(self, x: Any) -> Vector:
        """logΓ((ν+d)/2) - logΓ(ν/2) - d/2 log(νπ) - ½log|S| - (ν+d)/2 log(1 + (x-m)ᵀS⁻¹(x-m)/ν), x (n, d)."""
        out = np.empty(len(self))
        for i, (m, S, v) in enumerate(zip(self.location, self.scale_matrix, self.degrees_of_freedom, strict=True)):
            factor, d = Cholesky.of(S), len(m)
            square = factor.quadratic((x[i] - m)[None])[0]
            out[i] = gammaln((v + d) / 2) - gammaln(v / 2) - 0.5 * (d * np.log(v * np.pi) + factor.logdet)
            out[i] -= (v + d) / 2 * np.log1p(square / v)
        return out

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n, d) draws."""
        freedom = np.asarray(self.degrees_of_freedom, dtype=float)
        z = rng.standard_normal((n_samples, *np.shape(self.location)))
        roots = np.stack([Cholesky.of(np.asarray(S)).L for S in self.scale_matrix])
        stretch = np.sqrt(freedom / rng.chisquare(freedom, size=(n_samples, len(freedom))))
        return np.asarray(self.location + np.einsum("nij,snj->sni", roots, z) * stretch[..., None])
