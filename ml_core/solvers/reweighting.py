"""Iteratively reweighted least squares for a loss of the residual, with steps of Newton where these are safe."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Reweighted, TwiceSmooth
from ml_core.solvers.base import NEVER, Solution, spent

EPS = float(np.finfo(float).eps)
NEAR = 1e-2


class SmoothReweighted(TwiceSmooth, Reweighted, Protocol):
    """A loss with weights and a second derivative."""


def reweighted(
    A: Matrix, y: Vector, s: Vector, loss: SmoothReweighted, mu: Vector, w: Vector, *, tol: float, max_iter: int
) -> Solution:
    """A minimum of f(w) = Σᵢ sᵢ ℓ(aᵢᵀw, yᵢ) + ½ Σⱼ μⱼwⱼ² downhill from w (p,); O(n p²) a step.

    A step solves least squares with the weights s ω(r), whose sum of squares touches f from above, so f never rises
    (Weiszfeld; Holland, Welsch (1977), Robust regression using iteratively reweighted least squares). Once the slope is
    small a Newton step is tried first, kept where f does not rise; with a piecewise quadratic loss it ends exactly.
    Stops when |∇f| ≤ tol · Σ s |ℓ'| |a| of the start, or what rounding of residuals leaves, per column ("gradient"),
    and where f stands still to rounding ("objective").
    """
    size, lost = _sizes(A, y, s, loss, mu, w, tol)
    trace: list[float] = []
    f, g = _slope(A, y, s, loss, mu, w)
    for step in range(max_iter + 1):
        trace.append(f)
        left = float(np.abs(g / size).max(initial=0.0))
        progress.tick(step, max_iter, objective=f, gradient=left)
        if left <= tol:
            return Solution(w, step, True, "gradient", trace)
        if reason := spent(step, max_iter):
            return Solution(w, step, False, reason, trace)
        most = f + 4 * EPS * abs(f) + lost
        found = _newton(A, y, s, loss, mu, w, most, g) if left < NEAR else None
        if found is None:
            trial = _least_squares(A, y, s, loss, mu, w)
            found = (trial, *_slope(A, y, s, loss, mu, trial))
        if found[1] > most or np.array_equal(found[0], w):
            return Solution(w, step, left <= 100 * tol, "objective", trace)
        w, f, g = found
    raise AssertionError(NEVER)


def _sizes(
    A: Matrix, y: Vector, s: Vector, loss: SmoothReweighted, mu: Vector, w: Vector, tol: float
) -> tuple[Vector, float]:  # fmt: skip
    """(p,) of the terms of a slope at w, rounding of residuals in units of `tol` added; and what rounding costs f."""
    slope = s * np.abs(loss.value_gradient((A @ w)[:, None], y)[1][:, 0])
    rounding = 4 * EPS * (np.abs(A) @ np.abs(w) + np.abs(y))
    size = (slope + s * rounding / max(tol, EPS)) @ np.abs(A) + mu * np.abs(w)
    return np.where(size > 0, size, 1.0), float(slope @ rounding)


def _slope(A: Matrix, y: Vector, s: Vector, loss: SmoothReweighted, mu: Vector, w: Vector) -> tuple[float, Vector]:
    value, r = loss.value_gradient((A @ w)[:, None], y)
    return float(s @ value + 0.5 * mu @ w**2), (s * r[:, 0]) @ A + mu * w


def _least_squares(A: Matrix, y: Vector, s: Vector, loss: SmoothReweighted, mu: Vector, w: Vector) -> Vector:
    """argmin over w of Σ s ω (y - A w)² + Σ μ w²; where rows of weight are too few, the change is the shortest."""
    weight = s * loss.weight((A @ w)[:, None], y)
    r = y - A @ w
    G, g = (A.T * weight) @ A + np.diag(mu), (weight * r) @ A - mu * w
    step = _solved(G, g)
    return np.asarray(w + (lstsq(G, g, check_finite=False)[0] if step is None else step))


def _newton(
    A: Matrix, y: Vector, s: Vector, loss: SmoothReweighted, mu: Vector, w: Vector, most: float, g: Vector
) -> tuple[Vector, float, Vector] | None:
    """The point, value (at most `most`) and slope of a Newton step; None where f is not convex or it does not pay."""
    bend = s * loss.curvature((A @ w)[:, None], y)[:, 0, 0]
    step = _solved((A.T * bend) @ A + np.diag(mu), -g)
    if step is None:
        return None
    trial = w + step
    value, slope = _slope(A, y, s, loss, mu, trial)
    return (trial, value, slope) if value <= most and slope @ slope < 0.25 * (g @ g) else None


def _solved(G: Matrix, g: Vector) -> Vector | None:
    """G⁻¹g for a safely positive definite G."""
    try:
        factor = cho_factor(G, check_finite=False)
    except LinAlgError:
        return None
    pivots = np.abs(np.diag(factor[0])) ** 2
    if not pivots.min(initial=1.0) > 1e-13 * pivots.max(initial=0.0):
        return None
    x = cho_solve(factor, g, check_finite=False)
    return np.asarray(x + cho_solve(factor, g - G @ x, check_finite=False))
