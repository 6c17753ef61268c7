"""Beta distributions on [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, betaln, xlog1py, xlogy

from ml_core.arrays import Matrix, Vector
from ml_core.distributions.base import Distribution

INSIDE = (float(np.finfo(float).tiny), 1.0 - float(np.finfo(float).epsneg))


@dataclass(frozen=True)
class Beta(Distribution):
    """Beta(alpha, beta), both (n,): density x^(alpha-1) (1-x)^(beta-1) / B(alpha, beta) on [0, 1]."""

    family = "beta"
    alpha: Any
    beta: Any

    @property
    def mean(self) -> Any:
        """alpha / (alpha + beta)."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Any:
        """mean (1 - mean) / (alpha + beta + 1)."""
        total = self.alpha + self.beta
        return (self.alpha / total) * (self.beta / total) / (total + 1)

    @property
    def median(self) -> Any:
        """The value with half of the mass on each side."""
        return self.quantile(0.5)

    @property
    def mode(self) -> Any:
        """(alpha - 1) / (alpha + beta - 2), interior only when both exceed 1; else NaN."""
        inside = (np.asarray(self.alpha) > 1) & (np.asarray(self.beta) > 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(inside, (self.alpha - 1) / (self.alpha + self.beta - 2), np.nan)

    def log_density(self, x: Any) -> Vector:
        """(alpha-1) log x + (beta-1) log(1-x) - log B(alpha, beta); -inf outside [0, 1]."""
        x = np.asarray(x, dtype=np.float64)
        inside = (x >= 0) & (x <= 1)
        z = np.where(inside, x, 0.5)
        value = xlogy(self.alpha - 1, z) + xlog1py(self.beta - 1, -z) - betaln(self.alpha, self.beta)
        return np.asarray(np.where(inside, value, -np.inf))

    def cdf(self, x: Any) -> Vector:
        """(n,) share of the mass at or below x."""
        return np.asarray(betainc(self.alpha, self.beta, np.clip(x, 0.0, 1.0)))

    def quantile(self, p: float) -> Any:
        """Inverse of the regularised incomplete beta function."""
        return betaincinv(self.alpha, self.beta, p)

    def highest_density_interval(self, level: float) -> Matrix:
        """(n, 2) shortest intervals of probability `level`; NaN where alpha and beta < 1 (two pieces).

        Interior modes: the lower tail q solves f(F⁻¹(q)) = f(F⁻¹(q + level)). A monotone density puts the interval at
        its high end; the uniform density has no preference and gets the central one.
        """
        pairs = np.broadcast_arrays(np.atleast_1d(self.alpha), np.atleast_1d(self.beta))
        return np.array([_densest(float(a), float(b), level) for a, b in zip(*pairs, strict=True)]).reshape(-1, 2)

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n) draws."""
        return rng.beta(self.alpha, self.beta, size=(n_samples, len(self)))


def _densest(a: float, b: float, level: float) -> tuple[float, float]:
    if a < 1 and b < 1:
        return (np.nan, np.nan)
    if a == b:
        return (float(betaincinv(a, b, (1 - level) / 2)), float(betaincinv(a, b, (1 + level) / 2)))
    if a <= 1:
        return (0.0, float(betaincinv(a, b, level)))
    if b <= 1:
        return (float(betaincinv(a, b, 1 - level)), 1.0)

    def slope(q: float) -> float:
        if q <= 0.0 or q >= 1.0 - level:
            return 1e300 if q <= 0.0 else -1e300
        low, high = np.clip(betaincinv(a, b, np.array([q, q + level])), *INSIDE)
        rise = (a - 1) * (np.log(high) - np.log(low))
        return float(rise + (b - 1) * (np.log1p(-high) - np.log1p(-low)))

    q = brentq(slope, 0.0, 1.0 - level, xtol=1e-15, rtol=8.9e-16)
    return (float(betaincinv(a, b, q)), float(betaincinv(a, b, q + level)))
