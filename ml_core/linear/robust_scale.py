"""Scales of residuals that outliers hardly move, and regressions of a loss whose width follows such a scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidParameter, Issue
from ml_core.numerics.weighted_median import weighted_median
from ml_core.solvers.base import Solution
from ml_core.solvers.reweighting import reweighted

CONSISTENT = 0.6744897501960817
"""Φ⁻¹(¾): the median of |z| for a standard normal z."""
ROUNDS = 200
SAME = 1e-12
EXACT = 1e-13
FAR = 3.0
NARROWEST = 1e-60

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
    objective, Owen (2007)): σ² = Σ_in s r²/(Σ s - width² Σ_out s), between scales that are too small and too large.
    `none`: the scale is 1. A scale of 0 to rounding ends it: of the rows at least half, or for `joint` the share
    1 - 1/width², lie on the line.
    """
    size, total, bounds = _first(y - A @ w, s, scale), 0, Between()
    level = EXACT * float(np.abs(y).max(initial=0.0))
    found = Solution(w, 0, True, "gradient")
    trace: list[float] = []
    for turn in range(ROUNDS):
        if size <= level:
            return Scaled(w, 0.0, total, True, trace)
        found = reweighted(A, y, s, loss(width * size), mu, w, tol=1e-13, max_iter=max_iter)
        w, total = found.w, total + found.n_iter
        trace += found.trace[-1:]
        r = y - A @ w
        new = bounds.next(size, *joint(r, s, width, size)) if scale == "joint" else mad(r, s)
        if scale == "none" or abs(new - size) <= SAME * size:
            return Scaled(w, size, total, found.converged, trace)
        if progress.late():
            break
        if scale == "mad" and turn > ROUNDS // 2:
            new = 0.5 * (new + size)
        size = new
    return Scaled(w, size, total, False, trace)


def check_width(name: str, width: float, size: float) -> None:
    """InvalidParameter where a width of the loss is nothing beside the `size` of what it is compared with."""
    if width < NARROWEST * size:
        text = f"{name} = {width:g} is below {NARROWEST:g} of what residuals are measured in ({size:g}); raise it"
        raise InvalidParameter(text, [Issue(f"/params/{name}", "too_small", text)])


def _first(r: Vector, s: Vector, scale: Scale) -> float:
    """Where to begin: `joint` above any scale at which too many rows are outside."""
    if scale == "none":
        return 1.0
    return mad(r, s) if scale == "mad" else float(np.sqrt(s @ r**2 / s.sum()))


def joint(r: Vector, s: Vector, width: float, size: float) -> tuple[float, float]:
    """The next scale by its equation, twice the last where too many rows are outside, and the slope of the objective.

    The objective Σ s (σ + σ ρ(r/σ)) is convex in σ, so a slope above 0 says that the scale is too large.
    """
    within = np.abs(r) <= width * size
    left = float(s.sum()) - width**2 * float(s[~within].sum())
    inner = float(s[within] @ r[within] ** 2)
    return (float(np.sqrt(inner / left)) if left > 0 else 2.0 * size), left - inner / size**2


@dataclass
class Between:
    """A scale between the largest that was too small and the smallest that was too large."""

    low: float = 0.0
    high: float = np.inf
    last: tuple[float, float] | None = None
    turn: int = 0

    def next(self, size: float, plain: float, slope: float) -> float:
        """By secants of the slope in log σ; at least `plain` while a side is unknown, then every third the middle."""
        self.low, self.high = (size, self.high) if slope < 0 else (self.low, size)
        guess, at = plain, float(np.log(size))
        if self.last is not None and self.last[1] != slope:
            step = -slope * (at - self.last[0]) / (slope - self.last[1])
            guess = size * float(np.exp(np.clip(step, -FAR, FAR)))
        self.last, self.turn = (at, slope), self.turn + 1
        if self.low == 0:
            return min(plain, guess)
        if self.high == np.inf:
            return max(plain, guess)
        kept = self.low < guess < self.high and self.turn % 3
        return guess if kept else float(np.sqrt(self.low) * np.sqrt(self.high))
