"""The minimum of least squares with an l1 penalty for given signs: a linear system, on columns that are independent.

min over w of  ½ wᵀH w - cᵀw + Σⱼ lⱼ|wⱼ|  with the signs of w. Where the columns with weight depend on each other the
minimum has weights on independent ones alone: along a direction v with H v = 0 the objective is linear until a weight
reaches 0, so going the way in which it does not grow loses a column and nothing else.

Source: Lee, Battle, Raina, Ng (2006), Efficient sparse coding algorithms, NIPS; for the columns that are lost the proof
of Carathéodory's theorem.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dpstrf

from ml_core.arrays import Matrix, Vector
from ml_core.solvers.unit_columns import EPS

CROSSINGS = 8


def settle_signs(G: Matrix, c: Vector, bound: Vector, mu: Vector, w: Vector) -> tuple[Vector, bool]:
    """From w (k,) towards the minimum for its signs; weights that reach 0 on the way stay there and it starts anew.

    G (k, k) products of the columns, bounds l and squared penalties μ (k,). The objective never grows. Also whether
    the minimum was reached; without it sweeps must go on from there.
    """
    for _ in range(CROSSINGS):
        on = np.flatnonzero(w)
        if not len(on):
            return w, True
        H, here = G[np.ix_(on, on)], w[on]
        H[np.diag_indices(len(on))] += mu[on]
        goal = c[on] - bound[on] * np.sign(here)
        x, w = _solve(H, goal), w.copy()
        if x is None:
            fewer = independent(H, here, H @ here - goal)
            if fewer is None:
                return w, False
            w[on] = fewer
            continue
        crossing = x * here < 0
        if not crossing.any():
            w[on] = x
            return w, True
        step = np.where(crossing, here / np.where(crossing, here - x, 1.0), 1.0)
        least = float(step.min())
        w[on] = np.where(crossing & (step <= least), 0.0, here + least * (x - here))
    return w, False


def _least_pivot(H: Matrix) -> float:
    """What a pivot of H (k, k) must exceed to be more than rounding, where its largest diagonal entry is 1."""
    return len(H) * 64 * EPS


def _solve(H: Matrix, goal: Vector) -> Vector | None:
    """H⁻¹ goal with one step of refinement; None where H is singular to working precision."""
    try:
        factor = cho_factor(H, check_finite=False)
    except LinAlgError:
        return None
    pivots = np.abs(np.diag(factor[0])) ** 2
    if pivots.min() < _least_pivot(H) * pivots.max():
        return None
    x = cho_solve(factor, goal, check_finite=False)
    return np.asarray(x + cho_solve(factor, goal - H @ x, check_finite=False))


def independent(H: Matrix, w: Vector, slope: Vector) -> Vector | None:
    """Weights (k,) on independent columns, found from w without 0 along the directions v with H v = 0; O(k³).

    `slope` (k,) of the objective says which way it falls along each. None where pivoting finds none dependent.
    """
    k = len(w)
    R, order, rank, _ = dpstrf(H, tol=_least_pivot(H) * H.diagonal().max())
    if rank == k:
        return None
    V = np.zeros((k, k - rank))
    order = order - 1
    V[order[:rank]] = -solve_triangular(R[:rank, :rank], R[:rank, rank:], check_finite=False)
    V[order[rank:], np.arange(k - rank)] = 1.0
    w = w.copy()
    for a in range(k - rank):
        v = V[:, a] if slope @ V[:, a] <= 0 else -V[:, a]
        if not (w * v < 0).any():
            v = -v
        meets = w * v < 0
        steps = np.where(meets, np.abs(w) / np.where(meets, np.abs(v), 1.0), np.inf)
        first = int(steps.argmin())
        w += steps[first] * v
        w[first] = 0.0
        V[:, a + 1 :] -= np.outer(v, V[first, a + 1 :] / v[first])
        V[first, a + 1 :] = 0.0
    return w
