"""Categorical distributions over one list of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Labels, Matrix, Vector
from ml_core.certificates import plain
from ml_core.distributions.base import Distribution


@dataclass(frozen=True)
class Categorical(Distribution):
    """P(label_k) = probabilities[i, k]: the batch shares `classes` (K,); `probabilities` (n, K) sum to 1 by row.

    A model with latent scores (one for two classes, else one each) tells their `latent_mean` and `latent_sd` (n, C).
    """

    family = "categorical"
    classes: list[Any]
    probabilities: Matrix
    latent_mean: Matrix | None = None
    latent_sd: Matrix | None = None

    def __len__(self) -> int:
        return len(self.probabilities)

    def _values(self) -> Vector:
        """(K,) the labels as numbers; NaN where any of them is no number (booleans and strings are none)."""
        kinds = (int, float, np.integer, np.floating)
        numbers = all(isinstance(c, kinds) and not isinstance(c, bool) for c in self.classes)
        return np.array(self.classes, dtype=np.float64) if numbers else np.full(len(self.classes), np.nan)

    @property
    def mean(self) -> Vector:
        """(n,) Σₖ pₖ labelₖ; NaN when the labels are not numbers."""
        return np.asarray(self.probabilities @ self._values())

    @property
    def variance(self) -> Vector:
        """(n,) Σₖ pₖ (labelₖ - mean)²; NaN when the labels are not numbers."""
        away = self._values() - self.mean[:, None]
        return np.asarray((self.probabilities * away**2).sum(axis=1))

    @property
    def mode(self) -> Labels:
        """(n,) most probable label, the first of equals."""
        return _array(self.classes)[self.probabilities.argmax(axis=1)]

    def log_density(self, x: Any) -> Vector:
        """(n,) log probability of the label x[i]; -inf for a label that is not among the classes."""
        number = {c: k for k, c in enumerate(self.classes)}
        at = np.array([number.get(v, -1) for v in np.asarray(x).tolist()], dtype=np.int64)
        with np.errstate(divide="ignore"):
            logs = np.log(self.probabilities[np.arange(len(self)), at])
        return np.where(at >= 0, logs, -np.inf)

    def sample(self, n_samples: int, rng: np.random.Generator) -> Labels:
        """(n_samples, n) labels."""
        edges = np.cumsum(self.probabilities, axis=1)
        u = rng.random((n_samples, len(self))) * edges[:, -1]
        return _array(self.classes)[(u[:, :, None] >= edges[None, :, :-1]).sum(axis=2)]

    def to_json(self, level: float = 0.9) -> list[dict[str, Any]]:
        """One object per member: classes, probabilities and, where the labels are numbers, mean, variance and sd."""
        shared = {"family": self.family, "classes": plain(list(self.classes))}
        parts = {"probabilities": self.probabilities, "latent_mean": self.latent_mean, "latent_sd": self.latent_sd}
        told = {k: plain(np.asarray(v)) for k, v in parts.items() if v is not None}
        rows = [shared | {k: v[i] for k, v in told.items()} for i in range(len(self))]
        if np.isnan(self._values()).any():
            return rows
        columns = (plain(self.mean), plain(self.variance), plain(self.sd))
        names = ("mean", "variance", "standard_deviation")
        return [row | dict(zip(names, m, strict=True)) for row, m in zip(rows, zip(*columns, strict=True), strict=True)]


def _array(labels: list[Any]) -> Labels:
    """(K,) labels with their own type; a mixture of types stays a mixture."""
    same = len({type(c) for c in labels}) == 1
    out = np.empty(len(labels), dtype=object)
    out[:] = labels
    return np.array(labels) if same else out
