"""One coordinate, or a block of them, at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.solvers.base import NEVER, Solution, spent
from ml_core.solvers.line_search import strong_wolfe

FLAT = 1e-12


class SecondOrder(Protocol):
    """What the search asks of an objective."""

    def value_gradient(self, w: Vector) -> tuple[float, Vector]:
        """f, ∇f."""

    def second(self, w: Vector) -> tuple[float, Vector, Matrix]:
        """f, ∇f, ∇²f."""


def coordinate_search(
    objective: SecondOrder, w0: Vector, *, block: int, tol: float, max_iter: int,
    order: Callable[[int, int], np.ndarray] | None = None,
) -> Solution:  # fmt: skip
    """Minimise over each block in turn with the others held; sweeps until max |∇f| ≤ tol. f never rises.

    Newton's step of the block, from the Hessian at the sweep's start, its length by a strong Wolfe search: on
    quadratics the exact minimum over the block. `order(sweep, d)` permutes the coordinates. O(d gradients) a sweep.
    """
    w, d = w0, len(w0)
    f, g = objective.value_gradient(w)
    trace = [f]
    for sweep in range(max_iter + 1):
        progress.tick(sweep, max_iter, "sweeps", objective=f)
        if np.abs(g).max(initial=0.0) <= tol:
            return Solution(w, sweep, True, "gradient", trace)
        if reason := spent(sweep, max_iter):
            return Solution(w, sweep, False, reason, trace)
        H, moved = objective.second(w)[2], False
        places = np.arange(d) if order is None else order(sweep, d)
        for a in range(0, d, block):
            at = places[a : a + block]
            p = np.zeros(d)
            p[at] = _direction(H[np.ix_(at, at)], g[at])
            found = strong_wolfe(objective.value_gradient, w, f, g, p, first=1.0)
            if found is not None:
                _, w, f, g = found
                moved = True
        if not moved:
            return Solution(w, sweep, False, "line_search", trace)
        trace.append(f)
    raise AssertionError(NEVER)


def _direction(H: Matrix, g: Vector) -> Vector:
    """-|H|⁻¹ g, curvatures of either sign by size: downhill always."""
    values, Q = np.linalg.eigh(H)
    size = np.abs(values)
    return -Q @ ((Q.T @ g) / np.maximum(size, FLAT * max(float(size.max()), 1.0)))
