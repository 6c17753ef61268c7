"""Limited-memory BFGS within bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from ml_core import progress
from ml_core.arrays import Vector
from ml_core.solvers.base import Reason, Solution

HUGE = 1e100
ROUNDING = 1e-5
"""Slope, relative to 1 + |f|, at which a line search may fail because f is flat to its rounding."""


def projected(g: Vector, v: Vector, low: Vector, high: Vector) -> Vector:
    """-g where following it leaves the box from its face: 0 there, so that a minimum within bounds has 0 everywhere."""
    return np.where(((v <= low) & (g > 0)) | ((v >= high) & (g < 0)), 0.0, g)


def bounded(
    value_gradient: Callable[[Vector], tuple[float, Vector]], v0: Vector, low: Vector, high: Vector, *, tol: float,
    max_iter: int, least_decrease: float = 1e-13,
) -> Solution:  # fmt: skip
    """Minimise over low ≤ v ≤ high (L-BFGS-B); stops when no entry of the projected gradient exceeds `tol`.

    Also stops once a step lowers f by less than `least_decrease` of itself. A point where f is not finite is a point
    too far. Ticks at each evaluation, and looks at the time after each step. O(gradient) plus O(D) a step.

    References
    ----------
    Byrd, Lu, Nocedal, Zhu (1995), A limited memory algorithm for bound constrained optimization, SIAM J. Sci. Comp. 16.
    """
    trace: list[float] = []
    over = False

    def told(v: Vector) -> tuple[float, Vector]:
        f, g = value_gradient(v)
        if not (np.isfinite(f) and np.isfinite(g).all()):
            f, g = HUGE, np.zeros_like(v)
        trace.append(f)
        progress.tick(len(trace), None, "evaluations", objective=f)
        return f, g

    def looked(_: Vector) -> None:
        nonlocal over
        if over := progress.late():
            raise StopIteration

    start = np.clip(v0, low, high)
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "gtol": tol, "ftol": least_decrease, "maxcor": 12}
    found = minimize(told, start, jac=True, method="L-BFGS-B", bounds=list(zip(low, high, strict=True)),
                     options=options, callback=looked)  # fmt: skip
    left = float(np.abs(projected(found.jac, found.x, low, high)).max(initial=0.0))
    reason: Reason = "gradient" if left <= tol else "max_iter" if found.nit >= max_iter else "time" if over else "step"
    settled = left <= tol or found.status == 0 or (found.status == 2 and left <= ROUNDING * (1.0 + abs(found.fun)))
    return Solution(np.asarray(found.x), int(found.nit), bool(settled), reason, trace)
