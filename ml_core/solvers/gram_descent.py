"""Coordinate descent on a Gram matrix for least squares with an l1 penalty, until its duality gap is small enough.

min over w of  ½ - cᵀw + ½ wᵀG w + Σⱼ lⱼ|wⱼ| + ½ Σⱼ μⱼ wⱼ²  for targets of length 1 with correlations c.

Source: Friedman, Hastie, Tibshirani (2010), Regularization paths for generalized linear models via coordinate descent,
Journal of Statistical Software 33(1), section 2.2.
"""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled, inner, merged

SWEEPS = 10
RESTING = 1e-3
"""Largest step of a round, over the largest weight and the root of the goal, that ends rounds over some columns."""


@inner
def _step(pull: float, size: float, bound: float, mu: float, w: float) -> float:
    """From weight w to its best value, where the correlation with what the others leave is pull + size w."""
    pull += size * w
    over = abs(pull) - bound
    return (np.sign(pull) * over / (size + mu) if over > 0.0 else 0.0) - w


@merged
def _follow(row: Vector, step: float, q: Vector) -> None:
    """Bring q = G w up to date."""
    for i in range(len(q)):
        q[i] += row[i] * step


@inner
def _gap(c: Vector, bound: Vector, mu: Vector, sure: Vector, w: Vector, q: Vector) -> float:
    """The duality gap over the columns of a Gram matrix, targets of length 1 and q = G w; O(k)."""
    fitted, square, ridge, penalty, share = 0.0, 0.0, 0.0, 0.0, 1.0
    for j in range(len(w)):
        fitted += c[j] * w[j]
        square += w[j] * q[j]
        ridge += mu[j] * w[j] * w[j]
        penalty += bound[j] * abs(w[j])
        slope = abs(c[j] - q[j] - mu[j] * w[j]) - sure[j]
        if slope > bound[j]:
            share = min(share, bound[j] / slope)
    rr, tr = max(1.0 - 2.0 * fitted + square, 0.0), 1.0 - fitted
    dual = share * tr - 0.5 * share * share * (rr + ridge)
    return 0.5 * (rr + ridge) + penalty - dual


@inner
def _over_all(G: Matrix, c: Vector, bound: Vector, mu: Vector, w: Vector, q: Vector, on: Codes) -> int:
    """A round over all columns, in place; how many have weight, their numbers in `on`."""
    n_on = 0
    for j in range(len(w)):
        if G[j, j] > 0.0:
            step = _step(c[j] - q[j], G[j, j], bound[j], mu[j], w[j])
            if step != 0.0:
                w[j] += step
                _follow(G[j], step, q)
            if w[j] != 0.0:
                on[n_on] = j
                n_on += 1
    return n_on


@inner
def _over_some(
    G: Matrix, c: Vector, bound: Vector, mu: Vector, w: Vector, q: Vector, on: Codes, resting: float, rounds: int
) -> int:
    """Rounds over the columns `on`, in place, until steps are below `resting` largest weights; how many."""
    for done in range(rounds):
        moved, largest = 0.0, 0.0
        for j in on:
            step = _step(c[j] - q[j], G[j, j], bound[j], mu[j], w[j])
            if step != 0.0:
                w[j] += step
                moved = max(moved, abs(step))
                _follow(G[j], step, q)
            largest = max(largest, abs(w[j]))
        if moved <= resting * largest:
            return done + 1
    return rounds


@compiled(lambda: (np.eye(2), *(np.ones(2),) * 2, *(np.zeros(2) for _ in range(4)), 0.1, 2))
def descend(
    G: Matrix, c: Vector, bound: Vector, mu: Vector, sure: Vector, w: Vector, q: Vector, goal: float, rounds: int
) -> tuple[int, float]:
    """Rounds over all columns, each followed by rounds over those with weight, in place, until the gap is at most goal.

    w (k,), q = G w; of G, which may be larger, the first k rows and columns count, and those with G[j, j] = 0 stay out.
    Returns the rounds and the gap.
    """
    done, gap, on = 0, _gap(c, bound, mu, sure, w, q), np.empty(len(w), np.int64)
    while gap > goal and done < rounds:
        some = on[: _over_all(G, c, bound, mu, w, q, on)]
        resting = RESTING * np.sqrt(goal)
        done += 1 + _over_some(G, c, bound, mu, w, q, some, resting, min(SWEEPS, rounds - done - 1))
        gap = _gap(c, bound, mu, sure, w, q)
    return done, gap
