"""Linear support vector machines by dual coordinate descent: for tables too wide for an interior-point step.

min over w, b of  ½ ‖w‖² + Σ capᵢ max(0, 1 - yᵢ(w·xᵢ + b)), or with squared slack and soft = 1/(2 capᵢ). The free
intercept makes Σ αᵢyᵢ = 0; that constraint is met by the method of multipliers, whose multiplier is b.

Source: Hsieh, Chang, Lin, Keerthi, Sundararajan (2008), A dual coordinate descent method for large-scale linear SVM,
ICML; Bertsekas (1982), Constrained optimization and Lagrange multiplier methods.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core import progress
from ml_core.arrays import Vector
from ml_core.numerics.sparse_rows import Rows, layout, squares
from ml_core.solvers.base import spent
from ml_core.solvers.dual_sweeps import sweep

WORK = 5e7
OUTER = 200
DECREASE = 0.1
STIFF = 0.1
Trace = tuple[list[float], list[float]]


@dataclass(frozen=True)
class LinearDual:
    """w, b and a feasible α; rounds over the rows; whether slopes and balance met the tolerance; dual and gap."""

    w: Vector
    b: float
    alpha: Vector
    n_iter: int
    converged: bool
    trace: list[float]
    gaps: list[float]


def dual_coordinate(X: Rows, sign: Vector, cap: Vector, *, squared: bool, tol: float, max_iter: int,
                    seed: int = 0) -> LinearDual:  # fmt: skip
    """Rounds until the projected slopes of all rows lie within tol and what Σ αᵢyᵢ lacks moves no score by more.

    At most max_iter rounds, while there is time. Between changes of b rows stay shrunk; the last rounds are over all
    of them.
    """
    n, d = X.shape
    square, rows = squares(X), layout(X)
    size = max(float(square.mean()), 1e-300)
    tau = STIFF * size
    soft = 0.5 / cap if squared else np.zeros(n)
    bound = np.full(n, np.inf) if squared else cap
    alpha, w, b = np.zeros(n), np.zeros(d), np.zeros(1)
    order, state = np.arange(n), np.array([n, np.inf, -np.inf, 1.0 + seed % (1 << 40)])
    done, trace, gaps, goal, calm, spread, near = 0, [], [], 0.1, False, float("inf"), 0.5 * tol
    for _ in range(OUTER):
        whole, spread = spread <= near, np.inf
        while spread > goal and not spent(done, max_iter):
            most = max(1, int(WORK * n / (4 * rows[0].size * max(state[0], 1.0))))
            rounds, spread = sweep(*rows, sign, bound, soft, square + tau + soft, alpha, w, b, tau, order, state, goal,
                                   whole, min(most, max_iter - done))  # fmt: skip
            done += rounds
            dual = float(alpha.sum() - 0.5 * w @ w - 0.5 * soft @ alpha**2)
            trace.append(dual)
            gaps.append(_primal(X, sign, cap, w, float(b[0]), squared) - dual)
            progress.tick(done, max_iter, "rounds", dual_objective=dual, duality_gap=gaps[-1])
        calm = whole and spread <= near and abs(float(alpha @ sign)) * size <= near
        if calm or spent(done, max_iter):
            break
        goal = max(near, DECREASE * goal)
        b += tau * (alpha @ sign)
    alpha = balanced(alpha, sign, None if squared else cap)
    w = np.asarray(X.T @ (alpha * sign))
    return LinearDual(w, float(b[0]), alpha, done, calm, trace, gaps)


def balanced(alpha: Vector, sign: Vector, cap: Vector | None = None) -> Vector:
    """α with Σ αᵢyᵢ = 0: the free ones (below `cap`) give way; where they cannot, the heavier side is scaled down."""
    off = float(alpha @ sign)
    if off == 0.0:
        return alpha
    heavy = sign == np.sign(off)
    room = np.where(heavy, alpha, 0.0)
    if cap is not None:
        room = np.where((alpha > 0) & (alpha < cap), np.where(heavy, alpha, cap - alpha), 0.0)
    if room.sum() > abs(off):
        return np.asarray(alpha - np.sign(off) * sign * room * (abs(off) / room.sum()))
    return np.where(heavy, alpha * (1.0 - abs(off) / max(alpha[heavy].sum(), 1e-300)), alpha)


def _primal(X: Rows, sign: Vector, cap: Vector, w: Vector, b: float, squared: bool) -> float:
    slack = np.maximum(0.0, 1.0 - sign * (X @ w + b))
    return float(0.5 * w @ w + cap @ (slack**2 if squared else slack))
