"""The compiled loop of dual coordinate descent for linear support vector machines."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled, merged
from ml_core.numerics.sparse_rows import NONE, add_row, fetch_row, row_dot

AHEAD = 2
"""Rows between the one in work and the one asked of memory, whose places are random."""


@merged
def _shuffle(order: Codes, active: int, seed: np.uint64) -> np.uint64:
    """The first `active` in random order, in place."""
    for at in range(active - 1):
        seed = seed * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        pick = at + int(((seed >> np.uint64(32)) * np.uint64(active - at)) >> np.uint64(32))
        order[at], order[pick] = order[pick], order[at]
    return seed


@compiled(lambda: (np.eye(2), NONE, NONE, np.array([1.0, -1.0]), np.ones(2), np.zeros(2), np.ones(2), np.zeros(2),
                   np.zeros(2), np.zeros(1), 1.0, np.arange(2), np.array([2.0, np.inf, -np.inf, 1.0]), 1e-3, 0.0, 1e-4,
                   0.5, 2))  # fmt: skip
def sweep(values: Matrix, columns: Codes, starts: Codes, sign: Vector, cap: Vector, soft: Vector, bend: Vector,
          alpha: Vector, w: Vector, b: Vector, tau: float, order: Codes, state: Vector, tol: float, multiplier: float,
          level: float, share: float, most: int) -> tuple[int, float]:  # fmt: skip
    """Up to `most` rounds over the active rows in random order, α (n,), w (d,) and b (1,) in place.

    The rows are dense or sparse, in the layout of `sparse_rows`. Coordinate i: min over 0 ≤ αᵢ ≤ capᵢ of the dual,
    whose slope is yᵢ(w·xᵢ + b) - 1 + softᵢαᵢ and curvature bendᵢ. Firm rows go behind the active ones (shrinking).
    `state` keeps how many are active, the two bounds of shrinking and the seed. Ends where the range of the projected
    slopes is within tol over all rows, firm ones included; sooner, without these, while b is further than `level` from
    the multiplier, once the range is within that `share` of the distance. Returns rounds and the last range.
    """
    n = len(alpha)
    active, upper, lower, seed = int(state[0]), state[1], state[2], np.uint64(state[3])
    spread, turn = np.inf, 0
    while turn < most:
        turn += 1
        seed = _shuffle(order, active, seed)
        top, bottom, kept = -np.inf, np.inf, 0
        for at in range(active):
            if at + AHEAD < active:
                fetch_row(values, columns, starts, order[at + AHEAD])
            i = order[at]
            slope = sign[i] * (row_dot(values, columns, starts, i, w) + b[0]) - 1.0 + soft[i] * alpha[i]
            if (alpha[i] <= 0.0 and slope > upper) or (alpha[i] >= cap[i] and slope < lower):
                continue
            order[at], order[kept] = order[kept], i
            kept += 1
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
        active = kept
        spread = max(top, 0.0) - min(bottom, 0.0) if active > 0 else 0.0
        upper, lower = (top if top > 0 else np.inf), (bottom if bottom < 0 else -np.inf)
        off = abs(b[0] - multiplier)
        if spread <= max(tol, share * off):
            if off > level or active == n:
                break
            active, upper, lower, spread = n, np.inf, -np.inf, np.inf
    state[0], state[1], state[2], state[3] = active, upper, lower, float(seed >> np.uint64(12))
    return turn, spread


@compiled(lambda: (np.eye(2), NONE, NONE, np.ones(2), 2))
def combination(values: Matrix, columns: Codes, starts: Codes, beta: Vector, d: int) -> Vector:
    """(d,) Σ βᵢxᵢ over the rows, those of β = 0 not read."""
    w = np.zeros(d)
    for i in range(len(beta)):
        if beta[i] != 0.0:
            add_row(values, columns, starts, i, beta[i], w)
    return w
