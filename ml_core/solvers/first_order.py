"""Gradient descent on any smooth objective, with all rows or few at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ml_core import progress
from ml_core.arrays import Vector
from ml_core.rng import generator
from ml_core.solvers.base import Solution


def minimise(
    value_gradient: Callable[[Vector], tuple[float, Vector]], w0: Vector, step: float, *, tol: float, max_iter: int
) -> Solution:
    """w ← w - step ∇f(w) until max |∇f| ≤ tol; converges for step < 2/L, L the largest curvature.

    Aborts as `diverged`, with the best point, once f is not finite or far above its start. O(gradient) a step.
    """
    w, best, least = w0, w0, np.inf
    trace: list[float] = []
    for k in range(max_iter + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            f, g = value_gradient(w)
        if not np.isfinite(f) or not np.isfinite(g).all() or (trace and f > trace[0] + 1e6 * (1 + abs(trace[0]))):
            return Solution(best, k, False, "diverged", trace)
        trace.append(f)
        progress.tick(k, max_iter, objective=f)
        if f <= least:
            best, least = w, f
        if np.abs(g).max() <= tol:
            return Solution(w, k, True, "gradient", trace)
        if k < max_iter:
            w = w - step * g
    return Solution(best, max_iter, False, "max_iter", trace)


def stochastic(
    partial_gradient: Callable[[Vector, np.ndarray], Vector], value_gradient: Callable[[Vector], tuple[float, Vector]],
    w0: Vector, n: int, step: float, *, batch: int, tol: float, max_iter: int, seed: int,
) -> Solution:  # fmt: skip
    """Steps along unbiased gradients of `batch` rows, in a new random order each epoch; steps shrink as 1/√epochs.

    The answer of an epoch is the average of its iterates (Polyak and Ruppert), which cancels the noise of the last one;
    stops when its full gradient is ≤ tol. `max_iter` counts epochs; O(n D q) each.
    """
    rng, w = generator(seed), w0
    trace: list[float] = []
    best, least = w0, np.inf
    for epoch in range(max_iter):
        order, mean = rng.permutation(n), np.zeros_like(w)
        starts = range(0, n, batch)
        for a in starts:
            w = w - step / np.sqrt(1 + epoch) * partial_gradient(w, order[a : a + batch])
            mean += w
        mean /= len(starts)
        f, g = value_gradient(mean)
        if not np.isfinite(f):
            return Solution(best, epoch, False, "diverged", trace)
        trace.append(f)
        progress.tick(epoch + 1, max_iter, "epochs", objective=f)
        if f < least:
            best, least = mean, f
        if np.abs(g).max() <= tol:
            return Solution(mean, epoch + 1, True, "gradient", trace)
    return Solution(best, max_iter, False, "max_iter", trace)
