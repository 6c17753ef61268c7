"""The likeliest shape of gamma targets, whose rows weigh alike or have precisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from ml_core.arrays import Matrix, Vector
from ml_core.solvers.base import Steps, Totals

SETTLED = 1e-10
STEPS = 50


def best_shape(gap: float) -> float:
    """The shape k of a gamma distribution with log k - ψ(k) = gap > 0, by Newton's steps in log k."""
    gap = max(gap, 1e-15)
    k = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(STEPS):
        value = np.log(k) - digamma(k) - gap
        slope = 1 - k * float(polygamma(1, k))
        step = value / slope
        k *= float(np.exp(-np.clip(step, -1, 1)))
        if abs(step) < 1e-14:
            break
    return float(k)


@dataclass(frozen=True)
class ShapePart:
    """Σ s (log ks + 1 - ψ(ks)), its slope in log k, and Σ (ks log ks - log Γ(ks))."""

    k: float

    def __call__(self, X: Matrix, y: Any, s: Vector) -> Totals:
        """Of rows with precisions s."""
        a = self.k * s
        slope = s @ (1 - a * polygamma(1, a))
        value = float((a * np.log(a) - gammaln(a)).sum())
        return Totals((float(s @ (np.log(a) + 1 - digamma(a))), float(slope), value))


def largest_over_shapes(ratios: float, total: float) -> Steps[float]:
    """max over k of Σ (ks (log r - r) + ks log ks - log Γ(ks)), of shapes ks; `ratios` is Σ s (log r - r), `total` Σ s.

    Newton's steps in log k, one pass over the rows each.
    """
    k = best_shape(-1.0 - ratios / total)
    for _ in range(STEPS):
        slope, bend, rest = (yield ShapePart(k)).each
        step = (slope + ratios) / bend
        if not abs(step) > SETTLED:
            break
        k *= float(np.exp(-np.clip(step, -1, 1)))
    return float(k * ratios + rest)
