"""The compiled loop of dual coordinate descent for linear support vector machines."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled, regrouped


@regrouped
def _dot(a: Vector, b: Vector) -> float:
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@compiled(lambda: (np.eye(2), np.array([1.0, -1.0]), np.ones(2), np.zeros(2), np.ones(2), np.zeros(2), np.zeros(2),
                   np.zeros(1), 1.0, np.arange(2), np.array([2.0, np.inf, -np.inf, 1.0]), 1e-3, 2))  # fmt: skip
def sweep(X: Matrix, sign: Vector, cap: Vector, soft: Vector, bend: Vector, alpha: Vector, w: Vector, b: Vector,
          tau: float, order: Codes, state: Vector, tol: float, most: int) -> tuple[int, float]:  # fmt: skip
    """Up to `most` rounds over the active rows in random order, α (n,), w (d,) and b (1,) in place.

    Coordinate i: min over 0 ≤ αᵢ ≤ capᵢ of the dual, whose slope is yᵢ(w·xᵢ + b) - 1 + softᵢαᵢ and curvature bendᵢ.
    Firm rows go behind the active ones (shrinking) and come back before the end is believed. `state` keeps how many
    are active, the two bounds of shrinking and the seed. Returns rounds and the last range of the projected slopes.
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
            slope = sign[i] * (_dot(w, X[i]) + b[0]) - 1.0 + soft[i] * alpha[i]
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
                row = X[i]
                for k in range(len(w)):
                    w[k] += move * row[k]
        spread = max(top, 0.0) - min(bottom, 0.0) if at > 0 else 0.0
        whole = active == n
        upper, lower = (top if top > 0 else np.inf), (bottom if bottom < 0 else -np.inf)
        if spread <= tol:
            if whole:
                state[0], state[1], state[2], state[3] = n, np.inf, -np.inf, float(seed >> np.uint64(12))
                return turn + 1, spread
            active, upper, lower = n, np.inf, -np.inf
    state[0], state[1], state[2], state[3] = active, upper, lower, float(seed >> np.uint64(12))
    return most, spread
