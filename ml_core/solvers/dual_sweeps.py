"""The compiled loop of dual coordinate descent for linear support vector machines."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled
from ml_core.numerics.sparse_rows import NONE, add_row, row_dot


@compiled(lambda: (np.eye(2), NONE, NONE, np.array([1.0, -1.0]), np.ones(2), np.zeros(2), np.ones(2), np.zeros(2),
                   np.zeros(2), np.zeros(1), 1.0, np.arange(2), np.array([2.0, np.inf, -np.inf, 1.0]), 1e-3,
                   True, 2))  # fmt: skip
def sweep(values: Matrix, columns: Codes, starts: Codes, sign: Vector, cap: Vector, soft: Vector, bend: Vector,
          alpha: Vector, w: Vector, b: Vector, tau: float, order: Codes, state: Vector, tol: float, final: bool,
          most: int) -> tuple[int, float]:  # fmt: skip
    """Up to `most` rounds over the active rows in random order, α (n,), w (d,) and b (1,) in place.

    The rows are dense or sparse, in the layout of `sparse_rows`. Coordinate i: min over 0 ≤ αᵢ ≤ capᵢ of the dual,
    whose slope is yᵢ(w·xᵢ + b) - 1 + softᵢαᵢ and curvature bendᵢ. Firm rows go behind the active ones (shrinking) and
    come back before a `final` end is believed. `state` keeps how many are active, the two bounds of shrinking and the
    seed. Returns rounds and the last range of the projected slopes.
    """
    n = len(alpha)
    active, upper, lower, seed = int(state[0]), state[1], state[2], np.uint64(state[3])
    spread = np.inf
    for turn in range(most):
        top, bottom, at = -np.inf, np.inf, 0
        while at < active:
            seed = seed * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            pick = at + int((seed >> np.uint64(33)) % np.uint64(active - at))
            i = order[pick]
            order[pick], order[at] = order[at], i
            slope = sign[i] * (row_dot(values, columns, starts, i, w) + b[0]) - 1.0 + soft[i] * alpha[i]
            firm = (alpha[i] <= 0.0 and slope > upper) or (alpha[i] >= cap[i] and slope < lower)
            if firm:
                active -= 1
                order[at], order[active] = order[active], i
                continue
            at += 1
            pull = slope
            if alpha[i] <= 0.0:
                pull = min(slope, 0.0)
            elif alpha[i] >= cap[i]:
                pull = max(slope, 0.0)
            top, bottom = max(top, pull), min(bottom, pull)
            if abs(pull) > 1e-14:
                new = min(max(alpha[i] - slope / bend[i], 0.0), cap[i])
                move = (new - alpha[i]) * sign[i]
                alpha[i] = new
                b[0] += tau * move
                add_row(values, columns, starts, i, move, w)
        spread = max(top, 0.0) - min(bottom, 0.0) if at > 0 else 0.0
        whole = active == n or not final
        upper, lower = (top if top > 0 else np.inf), (bottom if bottom < 0 else -np.inf)
        if spread <= tol:
            if whole:
                state[0], state[1], state[2], state[3] = active, upper, lower, float(seed >> np.uint64(12))
                return turn + 1, spread
            active, upper, lower = n, np.inf, -np.inf
    state[0], state[1], state[2], state[3] = active, upper, lower, float(seed >> np.uint64(12))
    return most, spread
