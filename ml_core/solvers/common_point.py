"""Whether the convex hulls of two sets of points meet: the linear program behind separability, and its witness."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from ml_core.arrays import Matrix, Vector

FEASIBLE, INFEASIBLE = 0, 2


def common_point(A: Matrix, B: Matrix) -> tuple[Vector, Vector] | None:
    """Weights a, b ≥ 0 of sum 1 with aᵀA = bᵀB, few of them positive; None where a hyperplane separates the sets.

    Exactly one of both exists (Farkas). Columns are brought to one unit; solved by HiGHS.
    """
    both = np.vstack([A, B])
    unit = np.abs(both - both.mean(axis=0)).max(axis=0)
    unit[unit == 0] = 1.0
    Z = (both - both.mean(axis=0)) / unit
    Z[len(A) :] *= -1.0
    ones = np.zeros((2, len(both)))
    ones[0, : len(A)] = ones[1, len(A) :] = 1.0
    goal = np.concatenate([np.zeros(Z.shape[1]), [1.0, 1.0]])
    out = linprog(np.zeros(len(both)), A_eq=np.vstack([Z.T, ones]), b_eq=goal, bounds=(0, None), method="highs-ds")
    if out.status == INFEASIBLE:
        return None
    if out.status != FEASIBLE:
        raise ArithmeticError(f"the linear program of separability ended with: {out.message}")
    return out.x[: len(A)], out.x[len(A) :]
