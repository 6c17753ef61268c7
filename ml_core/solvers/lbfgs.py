"""Limited-memory BFGS with an optional starting inverse Hessian."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from ml_core import progress
from ml_core.arrays import Vector
from ml_core.solvers.base import NEVER, Solution, Steps, answered, at_once, spent

MEMORY = 12
ARMIJO = 1e-4
EPS = float(np.finfo(float).eps)
Pair = tuple[Vector, Vector]
Fun = Callable[[Vector], tuple[float, Vector]]
Ask = Callable[[Vector], Steps[tuple[float, Vector]]]
"""v → f, ∇f; may first yield what it must know of the rows."""


def lbfgs(
    value_gradient: Fun, v0: Vector, *, tol: float, max_iter: int, solve: Callable[[Vector], Vector] | None = None
) -> Solution:
    """Minimise from v0; stops when √(gᵀBg) ≤ tol, B the estimate of the inverse Hessian (distance left, its norm).

    `solve` is an approximate H⁻¹ that the memory corrects; without it, the usual scaled identity. O(n D q) per step.
    """

    def quiet(v: Vector) -> tuple[float, Vector]:
        with np.errstate(over="ignore", invalid="ignore"):
            return value_gradient(v)

    return answered(lbfgs_steps(at_once(quiet), v0, tol=tol, max_iter=max_iter, solve=solve))


def lbfgs_steps(
    ask: Ask, v0: Vector, *, tol: float, max_iter: int, solve: Callable[[Vector], Vector] | None = None
) -> Steps[Solution]:
    """`lbfgs` for an objective whose figures are asked for."""
    v, trace = v0, []
    pairs: deque[Pair] = deque(maxlen=MEMORY)
    f, g = yield from ask(v)
    for step in range(max_iter + 1):
        trace.append(f)
        p = direction(g, pairs, solve)
        left = max(float(g @ p), 0.0) ** 0.5
        progress.tick(step, max_iter, objective=f, distance=left)
        if left <= tol:
            return Solution(v, step, True, "gradient", trace)
        if reason := spent(step, max_iter):
            return Solution(v, step, False, reason, trace)
        found = yield from _search(ask, v, f, g, p)
        if found is None:
            small = left <= 1e-6 * max(1.0, np.sqrt(abs(f)))
            return Solution(v, step, bool(small), "step" if small else "line_search", trace)
        new, f, g_new = found
        remember(pairs, new - v, g_new - g)
        v, g = new, g_new
    raise AssertionError(NEVER)


def remember(pairs: deque[Pair], dv: Vector, dg: Vector) -> None:
    """Keep a step and its change of gradient when they show positive curvature beyond rounding."""
    if dv @ dg > EPS * float(np.sqrt((dv @ dv) * (dg @ dg))):
        pairs.append((dv, dg))


def direction(g: Vector, pairs: deque[Pair], solve: Callable[[Vector], Vector] | None) -> Vector:
    """B g by the two-loop recursion."""
    q = g.copy()
    used = []
    for dv, dg in reversed(pairs):
        a = (dv @ q) / (dv @ dg)
        q -= a * dg
        used.append(a)
    if solve is not None:
        q = solve(q)
    elif pairs:
        dv, dg = pairs[-1]
        q *= (dv @ dg) / (dg @ dg)
    else:
        q /= max(1.0, float(np.sqrt(g @ g)))
    for (dv, dg), a in zip(pairs, reversed(used), strict=True):
        q += (a - (dg @ q) / (dv @ dg)) * dv
    return q


def _search(ask: Ask, v: Vector, f: float, g: Vector, p: Vector) -> Steps[tuple[Vector, float, Vector] | None]:
    """A step with enough decrease and, by doubling at the start, enough progress (weak Wolfe by bisection)."""
    slope = float(g @ p)
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(40):
        trial = v - t * p
        ft, gt = yield from ask(trial)
        if not np.isfinite(ft) or ft > f - ARMIJO * t * slope + 8 * EPS * abs(f):
            high = t
        elif float(gt @ p) > 0.9 * slope:
            low = t
        else:
            return trial, ft, gt
        t = 2 * low if np.isinf(high) else 0.5 * (low + high)
    return None
