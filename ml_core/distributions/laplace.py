"""Laplace distributions: double-exponential errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Vector
from ml_core.distributions.base import Distribution


@dataclass(frozen=True)
class Laplace(Distribution):
    """Laplace(location, scale), both (n,): density e^(-|x - location| / scale) / (2 scale)."""

    family = "laplace"
    location: Any
    scale: Any

    @property
    def mean(self) -> Any:
        """location."""
        return self.location

    @property
    def variance(self) -> Any:
        """2 scale²."""
        return 2 * np.square(self.scale)

    def log_density(self, x: Any) -> Vector:
        """-|x - location| / scale - log(2 scale)."""
        return np.asarray(-np.abs(x - self.location) / self.scale - np.log(2 * self.scale))

    def cdf(self, x: Any) -> Vector:
        """(n,) share of the mass at or below x."""
        z = (x - self.location) / self.scale
        tail = 0.5 * np.exp(-np.abs(z))
        return np.asarray(np.where(z < 0, tail, 1 - tail))

    def quantile(self, p: float) -> Any:
        """location + scale sign(p - ½) · -log(2 min(p, 1 - p))."""
        with np.errstate(divide="ignore"):
            tail = -np.log(2 * np.minimum(p, 1 - p))
        return self.location + self.scale * (np.copysign(tail, p - 0.5) if p != 0.5 else 0.0)

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n) draws."""
        return rng.laplace(self.location, self.scale, size=(n_samples, len(self)))
