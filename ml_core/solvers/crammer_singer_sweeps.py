"""The compiled loop of the dual of Crammer and Singer's support vector machine: one row, all classes, at a time."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled, inner, regrouped


@regrouped
def _scores(W: Matrix, x: Vector, G: Vector) -> None:
    for m in range(len(G)):
        total, row = 0.0, W[m]
        for k in range(len(x)):
            total += row[k] * x[k]
        G[m] = total


@inner
def _project(B: Vector, a: float, label: int, cap: float, order: Vector, out: Vector) -> None:
    """out = argmin ½ a ‖z‖² + B·z with Σ z = 0 and z ≤ cap at the label, ≤ 0 elsewhere; order is work space."""
    K = len(B)
    for m in range(K):
        order[m] = B[m] + (a * cap if m == label else 0.0)
    order.sort()
    total = order[K - 1] - a * cap
    r = 1
    while r < K and total < r * order[K - 1 - r]:
        total += order[K - 1 - r]
        r += 1
    level = total / r
    for m in range(K):
        out[m] = min(cap if m == label else 0.0, (level - B[m]) / a)


@inner
def _violation(G: Vector, own: Vector, label: int, cap: float) -> float:
    """Adds the margin to the scores G of the other classes; the highest less the lowest whose α may rise."""
    high, low = -np.inf, np.inf
    for m in range(len(G)):
        G[m] += 0.0 if m == label else 1.0
        high = max(high, G[m])
        if own[m] < (cap if m == label else 0.0):
            low = min(low, G[m])
    return max(0.0, high - low)


@inner
def _move(W: Matrix, x: Vector, own: Vector, new: Vector, least: float) -> None:
    for m in range(len(own)):
        move = new[m] - own[m]
        if abs(move) > least:
            own[m] = new[m]
            row = W[m]
            for k in range(len(x)):
                row[k] += move * x[k]


@compiled(lambda: (np.eye(2), np.arange(2), np.ones(2), np.ones(2), np.zeros((2, 2)), np.zeros((2, 2)), np.arange(2),
                   np.array([2.0, 1.0, 1.0]), 1e-3, 2))  # fmt: skip
def sweep_classes(X: Matrix, y: Codes, cap: Vector, square: Vector, alpha: Matrix, W: Matrix, order: Codes,
                  state: Vector, tol: float, most: int) -> tuple[int, float]:  # fmt: skip
    """Up to `most` rounds over the active rows in random order, α (n, K) and W (K, d) in place.

    Rows whose conditions hold are set aside and come back before the end is believed. `state` keeps how many rows are
    active, the violation below which rows are set aside, and the seed. Returns rounds and the last largest violation.
    """
    n, K = alpha.shape
    G, B, work, new = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    active, loose, seed = int(state[0]), state[1], np.uint64(state[2])
    worst = np.inf
    for turn in range(most):
        worst, at = 0.0, 0
        whole = active == n
        while at < active:
            seed = seed * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            pick = at + int((seed >> np.uint64(33)) % np.uint64(active - at))
            i = order[pick]
            order[pick], order[at] = order[at], i
            _scores(W, X[i], G)
            own, a, c = alpha[i], square[i], cap[i]
            gap = _violation(G, own, y[i], c)
            worst = max(worst, gap)
            if gap <= 0.1 * loose:
                active -= 1
                order[at], order[active] = order[active], i
                continue
            at += 1
            for m in range(K):
                B[m] = G[m] - a * own[m]
            _project(B, a, y[i], c, work, new)
            _move(W, X[i], own, new, 1e-15 * c)
        if worst <= loose or active == 0:
            if whole and worst <= tol:
                state[0], state[1], state[2] = n, loose, float(seed >> np.uint64(12))
                return turn + 1, worst
            active, loose = n, max(0.5 * loose, tol) if worst <= loose else loose
    state[0], state[1], state[2] = active, loose, float(seed >> np.uint64(12))
    return most, worst
