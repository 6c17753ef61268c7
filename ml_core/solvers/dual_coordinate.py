"""Linear support vector machines by dual coordinate descent: for tables too wide for an interior-point step.

min over w, b of  ½ ‖w‖² + Σ capᵢ max(0, 1 - yᵢ(w·xᵢ + b)), or with squared slack and soft = 1/(2 capᵢ). The free
intercept makes Σ αᵢyᵢ = 0; that constraint is met by the method of multipliers, whose multiplier is b, with steps of
the secant.

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
from ml_core.solvers.dual_sweeps import combination, sweep

WORK = 5e7
OUTER = 200
STIFF = 0.1
"""Curvature of the penalty on Σ αᵢyᵢ, of the rows' mean ‖xᵢ‖²."""
NEAR = 0.25
"""Of the tolerance that is asked for, so that the objective too is as near as liblinear's at its tolerance."""
SHARE = 0.35
"""Slopes this much nearer to their goal than b to the multiplier: then the multiplier moves."""
FELL = 0.9
"""A line is taken through optima when Σ αᵢyᵢ falls to this or less."""


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


@dataclass(frozen=True)
class _Optimum:
    """α (n,) that is optimal at one multiplier, and what Σ αᵢyᵢ is there."""

    alpha: Vector
    multiplier: float
    off: float


@dataclass(frozen=True)
class _Line:
    """How the optimal α (n,) and Σ αᵢyᵢ change per unit of the multiplier, while no row meets or leaves a bound."""

    direction: Vector
    slope: float


def dual_coordinate(X: Rows, sign: Vector, cap: Vector, *, squared: bool, tol: float, max_iter: int,
                    seed: int = 0) -> LinearDual:  # fmt: skip
    """Rounds until the projected slopes of all rows lie within tol and what Σ αᵢyᵢ lacks moves no score by more.

    At most max_iter rounds, while there is time. Between changes of the multiplier rows stay shrunk; the last rounds
    are over all of them.
    """
    n, d = X.shape
    square, rows, near = squares(X), layout(X), NEAR * tol
    size = max(float(square.mean()), 1e-300)
    tau = STIFF * size
    soft = 0.5 / cap if squared else np.zeros(n)
    bound = np.full(n, np.inf) if squared else cap
    alpha, w, b, multiplier, bend = np.zeros(n), np.zeros(d), np.zeros(1), 0.0, square + tau + soft
    order, state = np.arange(n), np.array([n, np.inf, -np.inf, 1.0 + seed % (1 << 40)])
    done, trace, gaps, calm, last, line = 0, [], [], False, None, None
    for _ in range(OUTER):
        rounds, most, spread = 0, 0, np.inf
        while rounds == most and not spent(done, max_iter):
            most = max(1, int(WORK * n / (4 * rows[0].size * max(state[0], 1.0))))
            rounds, spread = sweep(*rows, sign, bound, soft, bend, alpha, w, b, tau, order, state, near, multiplier,
                                   STIFF * near, SHARE, min(most, max_iter - done))  # fmt: skip
            done += rounds
            dual = float(alpha.sum() - 0.5 * w @ w - 0.5 * soft @ alpha**2)
            trace.append(dual)
            gaps.append(_primal(X, sign, cap, w, float(b[0]), squared) - dual)
            progress.tick(done, max_iter, "rounds", dual_objective=dual, duality_gap=gaps[-1])
        now = _Optimum(alpha.copy(), multiplier, float(alpha @ sign))
        calm = state[0] == n and spread <= near and abs(now.off) * size <= near
        if calm or spent(done, max_iter):
            break
        first, line = last is None, _ahead(now, last, line)
        step, last = tau * now.off if line is None else -now.off / line.slope, now
        if spread <= near < abs(step) or (line is None and not first):
            state[:3] = n, np.inf, -np.inf
        if line is not None:
            alpha[:] = np.clip(alpha + step * line.direction, 0.0, bound)
            w[:] = combination(*rows, alpha * sign, d)
        multiplier += step
        b[0] = multiplier + tau * float(alpha @ sign)
    alpha = balanced(alpha, sign, None if squared else cap)
    return LinearDual(combination(*rows, alpha * sign, d), float(b[0]), alpha, done, calm, trace, gaps)


def _ahead(now: _Optimum, last: _Optimum | None, line: _Line | None) -> _Line | None:
    """The line through two optima, where Σ αᵢyᵢ fell between them; that before, where it hardly did; None at first."""
    if last is None or last.off == 0.0 or abs(now.off) > (FELL if line is None else 1.0) * abs(last.off):
        return None
    if line is not None and abs(now.off) > 0.5 * abs(last.off):
        return line
    change = now.multiplier - last.multiplier
    return _Line((now.alpha - last.alpha) / change, (now.off - last.off) / change)


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
