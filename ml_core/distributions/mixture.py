"""Finite mixtures of normal distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import plain
from ml_core.distributions.base import Distribution
from ml_core.distributions.normal import MultivariateNormal, Normal

BISECTIONS = 200


@dataclass(frozen=True)
class Mixture(Distribution):
    """Σₖ weights[i, k] · componentsₖ[i]: weights (n, K) sum to 1 by row; K components, batches of n of one family."""

    family = "mixture"
    weights: Matrix
    components: list[Normal] | list[MultivariateNormal]

    def __len__(self) -> int:
        return len(self.weights)

    def _parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights, means and variances, (K, n) or (K, n, d), shaped to multiply."""
        means = np.stack([np.asarray(c.mean, dtype=np.float64) for c in self.components])
        variances = np.stack([np.asarray(c.variance, dtype=np.float64) for c in self.components])
        w = np.asarray(self.weights).T
        return w.reshape(w.shape + (1,) * (means.ndim - 2)), means, variances

    @property
    def mean(self) -> Any:
        """Σₖ wₖ mₖ, (n,) or (n, d)."""
        w, m, _ = self._parts()
        return (w * m).sum(axis=0)

    @property
    def variance(self) -> Any:
        """Σₖ wₖ (vₖ + (mₖ - mean)²): variance within plus between, (n,) or of each coordinate (n, d)."""
        w, m, v = self._parts()
        return (w * (v + (m - (w * m).sum(axis=0)) ** 2)).sum(axis=0)

    def log_density(self, x: Any) -> Vector:
        """Log Σₖ wₖ N(x|k), by log-sum-exp."""
        with np.errstate(divide="ignore"):
            logs = np.log(np.asarray(self.weights).T) + np.stack([c.log_density(x) for c in self.components])
        return np.asarray(logsumexp(logs, axis=0))

    def quantile(self, p: float) -> Any:
        """Root of Σₖ wₖ Φ((q - mₖ)/sₖ) = p, of each coordinate; bisection between the components' own quantiles."""
        w, m, v = self._parts()
        sd = np.sqrt(v)
        each = np.stack([c.quantile(p) for c in self.components])
        low, high = each.min(axis=0), each.max(axis=0)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            below = (w * ndtr((middle - m) / sd)).sum(axis=0) < p
            settled = (middle == low) | (middle == high)
            low, high = np.where(below, middle, low), np.where(below, high, middle)
            if settled.all():
                break
        return 0.5 * (low + high)

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n[, d]) draws: a component, then a value."""
        edges = np.cumsum(self.weights, axis=1)
        pick = (rng.random((n_samples, len(self)))[:, :, None] * edges[:, -1:] >= edges[None, :, :-1]).sum(axis=2)
        drawn = np.stack([c.sample(n_samples, rng) for c in self.components])
        at = pick.reshape((1, *pick.shape) + (1,) * (drawn.ndim - 3))
        return np.asarray(np.take_along_axis(drawn, at, axis=0)[0])

    def to_json(self, level: float = 0.9) -> list[dict[str, Any]]:
        """One object per member: weights, components (each with its family), moments and the interval at `level`."""
        parts = [c.to_json(level) for c in self.components]
        interval = self.interval(level)
        columns = {"mean": plain(self.mean), "variance": plain(self.variance), "standard_deviation": plain(self.sd)}
        return [
            {"family": self.family, "weights": w, "components": [part[i] for part in parts]}
            | {k: v[i] for k, v in columns.items()}
            | {"interval": plain(interval[i]), "level": level}  # type: ignore[index]
            for i, w in enumerate(plain(np.asarray(self.weights)))
        ]
