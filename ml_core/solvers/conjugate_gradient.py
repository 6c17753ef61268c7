"""Directions from gradients, lengths from a line search: nonlinear conjugate gradients and steepest descent."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ml_core import progress
from ml_core.arrays import Vector
from ml_core.solvers.base import NEVER, Solution, spent
from ml_core.solvers.line_search import Fun, backtracking, strong_wolfe

Way = Literal["polak_ribiere", "steepest"]


def conjugate_gradient(fun: Fun, w0: Vector, *, tol: float, max_iter: int, way: Way = "polak_ribiere") -> Solution:
    """p ← -g + β p with β = max(0, g·(g - g₋)/g₋·g₋), and a strong Wolfe step along p, until max |g| ≤ tol.

    β = 0 restarts; so does a p that does not descend. At most d steps on a quadratic in d unknowns, up to rounding.
    "steepest": β = 0 throughout, and steps by backtracking from twice the last one. Nocedal, Wright (2006), chapter 5.
    """
    w = w0
    f, g = fun(w)
    p, t, trace = -g, 1.0 / max(float(np.sqrt(g @ g)), 1.0), []
    for k in range(max_iter + 1):
        trace.append(f)
        progress.tick(k, max_iter, objective=f)
        if np.abs(g).max(initial=0.0) <= tol:
            return Solution(w, k, True, "gradient", trace)
        if reason := spent(k, max_iter):
            return Solution(w, k, False, reason, trace)
        if way == "steepest":
            found = backtracking(fun, w, f, g, p, first=2.0 * t)
        else:
            found = strong_wolfe(fun, w, f, g, p, first=t)
            if found is None and not np.array_equal(p, -g):
                p = -g
                found = strong_wolfe(fun, w, f, g, p, first=t)
        if found is None:
            return Solution(w, k, False, "line_search", trace)
        slope, old = float(g @ p), g
        t, w, f, g = found
        beta = max(0.0, float(g @ (g - old) / (old @ old))) if way == "polak_ribiere" else 0.0
        p = -g + beta * p
        if not g @ p < 0:
            p = -g
        if way == "polak_ribiere" and g @ p < 0:
            t *= min(max(slope / float(g @ p), 1e-3), 1e3)
    raise AssertionError(NEVER)
