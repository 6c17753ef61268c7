"""A penalty is data: four vectors, so that one solver serves ridge, lasso, elastic net, boxes and signs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Vector


@dataclass(frozen=True)
class Penalty:
    """Σⱼ l1ⱼ |wⱼ| + ½ l2ⱼ wⱼ² for low ≤ w ≤ high, infinite outside; each (d,), low ≤ 0 ≤ high where l1 > 0.

    Convex. Entries of an unpenalised intercept have l1 = l2 = 0 and no bounds.
    """

    l1: Vector
    l2: Vector
    low: Vector
    high: Vector

    @classmethod
    def of(
        cls, d: int, *, l1: float | Vector = 0.0, l2: float | Vector = 0.0, low: float | Vector = -np.inf,
        high: float | Vector = np.inf, free: int | None = None,
    ) -> Penalty:  # fmt: skip
        """From numbers or vectors; entry `free` is left alone."""
        l1, l2, low, high = (np.array(np.broadcast_to(np.asarray(v, dtype=np.float64), d)) for v in (l1, l2, low, high))
        if free is not None:
            l1[free], l2[free], low[free], high[free] = 0.0, 0.0, -np.inf, np.inf
        return cls(l1, l2, low, high)

    def value(self, w: Vector) -> float:
        """The penalty of w (d,)."""
        if (w < self.low).any() or (w > self.high).any():
            return np.inf
        return float(self.l1 @ np.abs(w) + 0.5 * self.l2 @ (w * w))

    def gradient(self, w: Vector) -> Vector:
        """(d,) the subgradient of least size inside the bounds: l1 sign(w) + l2 w."""
        return self.l1 * np.sign(w) + self.l2 * w

    def prox(self, v: Vector, step: float | Vector) -> Vector:
        """(d,) argmin over w of step · penalty + ½ ‖w - v‖²: soft threshold, shrink, clip."""
        soft = np.sign(v) * np.maximum(np.abs(v) - step * self.l1, 0.0)
        return np.clip(soft / (1.0 + step * self.l2), self.low, self.high)

    def conjugate(self, u: Vector) -> float:
        """sup over w of u·w - penalty: infinite where nothing bends an entry back."""
        soft = np.sign(u) * np.maximum(np.abs(u) - self.l1, 0.0)
        soft = np.where(np.abs(soft) <= 1e-12 * self.l1, 0.0, soft)
        with np.errstate(divide="ignore", invalid="ignore"):
            w = np.clip(np.where(soft == 0, 0.0, soft / self.l2), self.low, self.high)
            return float(np.where(np.isinf(w), np.inf, w * (soft - 0.5 * self.l2 * w)).sum())

    def distance(self, w: Vector, slope: Vector) -> Vector:
        """(d,) distance of -slope from the subdifferential at w: all 0 exactly at a minimum of smooth + penalty."""
        push = slope + self.l2 * w
        at_zero = np.maximum(np.abs(push) - self.l1, 0.0)
        off = np.where(w == 0, np.sign(push) * at_zero, push + self.l1 * np.sign(w))
        off = np.where(w <= self.low, np.minimum(off, 0.0), off)
        return np.abs(np.where(w >= self.high, np.maximum(off, 0.0), off))
