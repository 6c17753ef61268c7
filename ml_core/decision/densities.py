"""Named densities of one class, given as JSON, for decisions with known distributions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.cholesky import Cholesky

LOG_2PI = float(np.log(2 * np.pi))
TAIL = 1e-18
Positive = Annotated[float, Field(gt=0)]


def _stats() -> Any:
    from scipy import stats  # noqa: PLC0415 - 13 MB and 0.3 s that only decisions with named densities need

    return stats


class Density(BaseModel):
    """A density on ℝ or ℝᵈ."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @property
    def dimension(self) -> int:
        """d."""
        return 1

    def log_density(self, x: Matrix) -> Vector:
        """(n,) natural logs for x (n, d)."""
        with np.errstate(divide="ignore"):
            return np.asarray(self._law().logpdf(x[:, 0]))

    def sample(self, n: int, rng: np.random.Generator) -> Matrix:
        """(n, d) draws."""
        return np.asarray(self._law().rvs(size=n, random_state=rng))[:, None]

    def range(self) -> tuple[float, float]:
        """Where all but a negligible share of the mass lies; the exact support where that is finite."""
        law = self._law()
        low, high = law.support()
        return (float(low) if np.isfinite(low) else float(law.ppf(TAIL)),
                float(high) if np.isfinite(high) else float(law.isf(TAIL)))  # fmt: skip

    def mass(self, a: float, b: float) -> float:
        """P(a < x ≤ b), from the tail that loses less."""
        law = self._law()
        return float(law.cdf(b) - law.cdf(a)) if a < law.median() else float(law.sf(a) - law.sf(b))

    def breaks(self) -> list[float]:
        """Points that a search of sign changes must not step over: ends of the support, and quantiles."""
        law = self._law()
        return [*self.range(), *map(float, law.ppf(np.linspace(0.0005, 0.9995, 200)))]

    def _law(self) -> Any:
        raise TypeError(f"{type(self).__name__} has no law of one variable")


class NormalDensity(Density):
    """N(mean, standard_deviation²) on the line."""

    kind: Literal["normal"]
    mean: float
    standard_deviation: Positive = 1.0

    def _law(self) -> Any:
        return _stats().norm(self.mean, self.standard_deviation)


class UniformDensity(Density):
    """Constant on [low, high]."""

    kind: Literal["uniform"]
    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> UniformDensity:
        if not self.low < self.high:
            raise ValueError("uniform needs low < high")
        return self

    def _law(self) -> Any:
        return _stats().uniform(self.low, self.high - self.low)


class LaplaceDensity(Density):
    """e^(-|x - location|/scale) / (2 scale)."""

    kind: Literal["laplace"]
    location: float
    scale: Positive = 1.0

    def _law(self) -> Any:
        return _stats().laplace(self.location, self.scale)


class ExponentialDensity(Density):
    """rate · e^(-rate x) for x ≥ 0."""

    kind: Literal["exponential"]
    rate: Positive = 1.0

    def _law(self) -> Any:
        return _stats().expon(scale=1.0 / self.rate)


class MultivariateNormalDensity(Density):
    """N(mean, covariance) on ℝᵈ."""

    kind: Literal["multivariate_normal"]
    mean: Annotated[list[float], Field(min_length=1)]
    covariance: list[list[float]]

    @model_validator(mode="after")
    def _positive(self) -> MultivariateNormalDensity:
        C = np.asarray(self.covariance, dtype=np.float64)
        d = len(self.mean)
        if C.shape != (d, d) or not np.allclose(C, C.T) or np.linalg.eigvalsh(C)[0] <= 0:
            raise ValueError(f"covariance must be a symmetric positive definite {d} × {d} matrix")
        return self

    @property
    def dimension(self) -> int:
        """Length of the mean."""
        return len(self.mean)

    def log_density(self, x: Matrix) -> Vector:
        """-½(x-m)ᵀC⁻¹(x-m) - ½ log|C| - d/2 log 2π."""
        factor = Cholesky.of(np.asarray(self.covariance))
        return -0.5 * (factor.quadratic(x - np.asarray(self.mean)) + factor.logdet + self.dimension * LOG_2PI)

    def sample(self, n: int, rng: np.random.Generator) -> Matrix:
        """m + L z."""
        z = rng.standard_normal((n, self.dimension))
        return np.asarray(self.mean + z @ Cholesky.of(np.asarray(self.covariance)).L.T)

    def _law(self) -> Any:
        if self.dimension == 1:
            return _stats().norm(self.mean[0], np.sqrt(self.covariance[0][0]))
        return super()._law()


NamedDensity = Annotated[
    NormalDensity | UniformDensity | LaplaceDensity | ExponentialDensity | MultivariateNormalDensity,
    Field(discriminator="kind"),
]
