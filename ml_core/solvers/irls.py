"""Iteratively reweighted least squares."""

from __future__ import annotations

from ml_core import progress
from ml_core.arrays import Vector
from ml_core.solvers.base import NEVER, Solution, spent
from ml_core.solvers.newton import SecondOrder, inverse


def irls(objective: SecondOrder, v0: Vector, *, tol: float, max_iter: int) -> Solution:
    """Weighted least squares on the working response η - C⁻¹r, with weights C, until the change is ≤ tol.

    The normal equations are Z̃ᵀCZ̃ v = Z̃ᵀ(Cη - r) = H v - g, so no row is divided by its weight. A step that raises f is
    halved. The change is measured in the norm of H (standard errors). O(n D² q²) per step.
    """
    v, previous = v0, v0
    trace: list[float] = []
    for step in range(max_iter + 1):
        f, g, H = objective.second(v)
        halvings = 0
        while trace and not f <= trace[-1] * (1 + 1e-12) and halvings < 30:
            v = 0.5 * (v + previous)
            f, g, H = objective.second(v)
            halvings += 1
        trace.append(f)
        new = inverse(H)(H @ v - g)
        change = max(float((new - v) @ H @ (new - v)), 0.0) ** 0.5
        progress.tick(step, max_iter, objective=f, change=change)
        if change <= tol:
            return Solution(new, step, True, "step", trace)
        if reason := spent(step, max_iter):
            return Solution(v, step, False, reason, trace)
        previous, v = v, new
    raise AssertionError(NEVER)
