"""The compiled loop of the dual of Crammer and Singer's support vector machine: one row, all classes, at a time."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.dot import dot
from ml_core.numerics.jit import compiled, inner


@inner
def _project(B: Vector, a: float, label: int, cap: float, order: Vector, out: Vector) -> None:
    """out = argmin ½ a ‖z‖² + B·z with Σ z = 0 and z ≤ cap at the place `label`, ≤ 0 elsewhere; order: work space."""
    K = len(B)
    for m in range(K):
        order[m] = B[m] + (a * cap if m == label else 0.0)
    for m in range(1, K):
        value, k = order[m], m
        while k > 0 and order[k - 1] < value:
            order[k] = order[k - 1]
            k -= 1
        order[k] = value
    total = order[0] - a * cap
    r = 1
    while r < K and total < r * order[r]:
        total += order[r]
        r += 1
    level = total / r
    for m in range(K):
        out[m] = min(cap if m == label else 0.0, (level - B[m]) / a)


@inner
def _judge(W: Matrix, x: Vector, own: Vector, label: int, cap: float, live: Codes, G: Vector) -> tuple[float, float]:
    """G: scores with the margin of the classes `live`; their highest, and the lowest whose α may rise."""
    high, low = -np.inf, np.inf
    for k in range(len(live)):
        m = live[k]
        G[k] = dot(W[m], x) + (0.0 if m == label else 1.0)
        high = max(high, G[k])
        if own[m] < (cap if m == label else 0.0):
            low = min(low, G[k])
    return high, low


@inner
def _drop(own: Vector, label: int, live: Codes, count: int, G: Vector, low: float) -> int:
    """Move classes without α whose score is below `low` behind the live ones; how many stay."""
    k = 0
    while k < count:
        m = live[k]
        if m != label and own[m] == 0.0 and G[k] < low:
            count -= 1
            live[k], live[count] = live[count], m
            G[k], G[count] = G[count], G[k]
        else:
            k += 1
    return count


@inner
def _move(W: Matrix, x: Vector, own: Vector, live: Codes, new: Vector, least: float) -> None:
    for k in range(len(live)):
        m = live[k]
        move = new[k] - own[m]
        if abs(move) > least:
            own[m] = new[k]
            row = W[m]
            for j in range(len(x)):
                row[j] += move * x[j]


@compiled(lambda: (np.eye(2), np.arange(2), np.ones(2), np.ones(2), np.zeros((2, 2)), np.zeros((2, 2)), np.arange(2),
                   np.array([[0, 1], [0, 1]]), np.full(2, 2), np.array([2.0, 1.0, 1.0]), 1e-3, 2))  # fmt: skip
def sweep_classes(X: Matrix, y: Codes, cap: Vector, square: Vector, alpha: Matrix, W: Matrix, order: Codes,
                  live: Codes, count: Codes, state: Vector, tol: float, most: int) -> tuple[int, float]:  # fmt: skip
    """Up to `most` rounds over the active rows in random order, α (n, K) and W (K, d) in place.

    Rows whose conditions hold are set aside, and classes of a row that lie low (the first `count` of its `live` ones
    stay); all come back before the end is believed. `state` keeps how many rows are active, the violation below which
    rows are set aside, and the seed. Returns rounds and the last largest violation.
    """
    n, K = alpha.shape
    space = np.empty((4, K))
    active, loose, seed = int(state[0]), state[1], np.uint64(state[2])
    worst = np.inf
    for turn in range(most):
        worst, at = 0.0, 0
        whole = active == n
        if whole:
            count[:] = K
        while at < active:
            seed = seed * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            pick = at + int((seed >> np.uint64(33)) % np.uint64(active - at))
            i = order[pick]
            order[pick], order[at] = order[at], i
            own, a, c = alpha[i], square[i], cap[i]
            G = space[0]
            high, low = _judge(W, X[i], own, y[i], c, live[i, : count[i]], G)
            gap = max(0.0, high - low)
            worst = max(worst, gap)
            count[i] = _drop(own, y[i], live[i], count[i], G, min(low, high) - loose)
            if gap <= 0.1 * loose:
                active -= 1
                order[at], order[active] = order[active], i
                continue
            at += 1
            here, label = live[i, : count[i]], 0
            B, work, new = space[1, : count[i]], space[2], space[3]
            for k in range(len(here)):
                B[k] = G[k] - a * own[here[k]]
                label = k if here[k] == y[i] else label
            _project(B, a, label, c, work, new)
            _move(W, X[i], own, here, new, 1e-15 * c)
        if worst <= loose or active == 0:
            if whole and worst <= tol:
                state[0], state[1], state[2] = n, loose, float(seed >> np.uint64(12))
                return turn + 1, worst
            active, loose = n, max(0.5 * loose, tol) if worst <= loose else loose
    state[0], state[1], state[2] = active, loose, float(seed >> np.uint64(12))
    return most, worst
