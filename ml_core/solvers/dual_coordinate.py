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
from ml_core.arrays import Matrix, Vector
from ml_core.solvers.dual_sweeps import sweep

WORK = 5e7
OUTER = 200
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


def dual_coordinate(X: Matrix, sign: Vector, cap: Vector, *, squared: bool, tol: float, max_iter: int,
                    seed: int = 0) -> LinearDual:  # fmt: skip
    """Rounds until the projected slopes lie within tol and |Σ αᵢyᵢ| ≤ tol Σ α; at most max_iter rounds."""
    n, d = X.shape
    square = np.einsum("ij,ij->i", X, X)
    tau = max(float(square.mean()), 1e-300)
    soft = 0.5 / cap if squared else np.zeros(n)
    bound = np.full(n, np.inf) if squared else cap
    alpha, w, b = np.zeros(n), np.zeros(d), np.zeros(1)
    order, state = np.arange(n), np.array([n, np.inf, -np.inf, 1.0 + seed % (1 << 40)])
    done, trace, gaps, goal, calm = 0, [], [], 0.1, False
    each = max(1, int(WORK / (4 * n * d)))
    for _ in range(OUTER):
        spread = np.inf
        while spread > goal and done < max_iter:
            rounds, spread = sweep(X, sign, bound, soft, square + tau + soft, alpha, w, b, tau, order, state, goal,
                                   min(each, max_iter - done))  # fmt: skip
            done += rounds
            dual = float(alpha.sum() - 0.5 * w @ w - 0.5 * soft @ alpha**2)
            trace.append(dual)
            gaps.append(_primal(X, sign, cap, w, float(b[0]), squared) - dual)
            progress.tick(done, max_iter, "rounds", dual_objective=dual, duality_gap=gaps[-1])
        calm = spread <= tol and abs(alpha @ sign) <= tol * max(alpha.sum(), 1e-300)
        if calm or done >= max_iter:
            break
        goal = max(tol, 0.3 * goal)
        b += tau * (alpha @ sign)
        state[:3] = n, np.inf, -np.inf
    alpha = balanced(alpha, sign)
    w = (alpha * sign) @ X
    return LinearDual(w, float(b[0]), alpha, done, calm, trace, gaps)


def balanced(alpha: Vector, sign: Vector) -> Vector:
    """α with the heavier side scaled down so that Σ αᵢyᵢ = 0."""
    off = float(alpha @ sign)
    side = sign == np.sign(off)
    return np.where(side, alpha * (1.0 - abs(off) / max(alpha[side].sum(), 1e-300)), alpha) if off else alpha


def _primal(X: Matrix, sign: Vector, cap: Vector, w: Vector, b: float, squared: bool) -> float:
    slack = np.maximum(0.0, 1.0 - sign * (X @ w + b))
    return float(0.5 * w @ w + cap @ (slack**2 if squared else slack))
