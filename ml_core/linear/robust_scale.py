"""Scales of residuals that outliers hardly move, and regressions of a loss whose width follows such a scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.weighted_median import weighted_median
from ml_core.solvers.base import Solution
from ml_core.solvers.reweighting import reweighted

CONSISTENT = 0.6744897501960817
"""Φ⁻¹(¾): the median of |z| for a standard normal z."""
ROUNDS = 200
SAME = 1e-12
EXACT = 1e-13

Scale = Literal["mad", "joint", "none"]


def mad(r: Vector, s: Vector) -> float:
    """The weighted median of |r| over 0.6745, which is σ for normal residuals about 0."""
    return weighted_median(np.abs(r), s) / CONSISTENT


@dataclass(frozen=True)
class Scaled:
    """A minimum w (p,) of the loss at its own scale, that scale, steps in all, whether both stand still, the trace."""

    w: Vector
    scale: float
    n_iter: int
    converged: bool
    trace: list[float]


def scaled_fit(
    A: Matrix, y: Vector, s: Vector, loss: Any, mu: Vector, w: Vector, *, width: float, scale: Scale, max_iter: int
) -> Scaled:
    """Fits of loss(width · scale) and its scale in turn, from w, until the scale repeats.

    `mad`: the scale is that of the residuals of the fit. `joint` (Huber's proposal 2 in the form of a joint convex
    objective, Owen (2007)): σ² = Σ_in s r²/(Σ s - width² Σ_out s). `none`: the scale is 1. A scale of 0 to rounding
    ends it: more than half the rows lie on the line.
    """
    size, total = _scale(A, y, s, w, width, scale, None), 0
    level = EXACT * float(np.abs(y).max(initial=0.0))
    found = Solution(w, 0, True, "gradient")
    trace: list[float] = []
    for turn in range(ROUNDS):
        if size <= level:
            return Scaled(w, 0.0, total, True, trace)
        found = reweighted(A, y, s, loss(width * size), mu, w, tol=1e-13, max_iter=max_iter)
        w, total = found.w, total + found.n_iter
        trace += found.trace[-1:]
        new = _scale(A, y, s, w, width, scale, size)
        if scale == "none" or abs(new - size) <= SAME * size:
            return Scaled(w, size, total, found.converged, trace)
        if turn > ROUNDS // 2:
            new = 0.5 * (new + size)
        size = new
    return Scaled(w, size, total, False, trace)


def _scale(A: Matrix, y: Vector, s: Vector, w: Vector, width: float, scale: Scale, last: float | None) -> float:
    r = y - A @ w
    if scale == "none":
        return 1.0
    if scale == "mad" or last is None:
        return mad(r, s)
    within = np.abs(r) <= width * last
    left = float(s.sum()) - width**2 * float(s[~within].sum())
    inner = float(s[within] @ r[within] ** 2)
    return float(np.sqrt(inner / left)) if left > 0 else 0.5 * last
