"""A step along a descent direction that meets the strong Wolfe conditions, or Armijo's alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ml_core.arrays import Vector

ARMIJO = 1e-4
EPS = float(np.finfo(float).eps)
Fun = Callable[[Vector], tuple[float, Vector]]
Found = tuple[float, Vector, float, Vector]
"""The step length t, and point, value and gradient there."""


def strong_wolfe(
    fun: Fun, w: Vector, f: float, g: Vector, p: Vector, *, first: float, curvature: float = 0.1, tries: int = 60
) -> Found | None:
    """t with f(w + tp) ≤ f + 10⁻⁴ t g·p and |∇f(w + tp)·p| ≤ curvature |g·p|; None if rounding or tries end it.

    A bracket shrinks by secants of the slope along p, halved where those are slow. Secants are exact on quadratics: at
    least one is taken, so there the step is exact. Nocedal, Wright (2006), Numerical Optimization, section 3.5.
    """
    start = float(g @ p)
    if not start < 0:
        return None
    low, low_slope, high, high_slope, t = 0.0, start, np.inf, np.nan, first
    found, width = None, np.inf
    for trial in range(tries):
        point = w + t * p
        with np.errstate(over="ignore", invalid="ignore"):
            value, gradient = fun(point)
        slope = float(gradient @ p) if np.isfinite(value) and np.isfinite(gradient).all() else np.nan
        enough = bool(value <= f + ARMIJO * t * start + 8 * EPS * abs(f))
        if enough and abs(slope) <= curvature * -start:
            better = found is None or value <= found[2]
            found = (t, point, value, gradient) if better else found
            if trial > 0 or abs(slope) <= 1e-9 * -start:
                return found
        if enough and slope < 0:
            low, low_slope = t, slope
        else:
            high, high_slope = t, slope if np.isfinite(slope) and slope > 0 else np.nan
        width, last = high - low, width
        t = 0.5 * (low + high) if width > 0.5 * last else _next(low, low_slope, high, high_slope, start, t)
        if np.isfinite(high) and high - low <= 4 * EPS * high:
            break
    return found


def _next(low: float, low_slope: float, high: float, high_slope: float, start: float, t: float) -> float:
    """The zero of the secant of the slopes inside the bracket, or beyond it while there is none."""
    if np.isinf(high):
        bend = (low_slope - start) / low
        guess = low - low_slope / bend if bend > 0 else np.inf
        return min(max(guess, 1.01 * t), 10.0 * t)
    middle = 0.5 * (low + high)
    if not np.isfinite(high_slope):
        return middle
    guess = low + (high - low) * low_slope / (low_slope - high_slope)
    edge = 1e-3 * (high - low)
    return guess if low + edge <= guess <= high - edge else middle


def backtracking(fun: Fun, w: Vector, f: float, g: Vector, p: Vector, *, first: float, tries: int = 60) -> Found | None:
    """The first of t = first, first/2, … with f(w + tp) ≤ f + 10⁻⁴ t g·p."""
    start, t = float(g @ p), first
    for _ in range(tries):
        point = w + t * p
        with np.errstate(over="ignore", invalid="ignore"):
            value, gradient = fun(point)
        if np.isfinite(value) and np.isfinite(gradient).all() and value <= f + ARMIJO * t * start + 8 * EPS * abs(f):
            return t, point, value, gradient
        t /= 2
    return None
