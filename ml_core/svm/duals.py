"""Support vector machines as quadratic programs of the one form `BoxDual`."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidParameter, Issue
from ml_core.solvers.box_dual import BoxDual


def classification(sign: Vector, cap: Vector) -> BoxDual:
    """max Σα - ½ ΣΣ αᵢαⱼyᵢyⱼKᵢⱼ, 0 ≤ αᵢ ≤ capᵢ, Σ αᵢyᵢ = 0, for β = αy and labels ±1 (n,)."""
    zero = np.zeros((1, len(sign)))
    lo, hi = np.where(sign > 0, 0.0, -cap), np.where(sign > 0, cap, 0.0)
    return BoxDual(-sign[None], lo[None], hi[None], np.zeros((1, len(sign)), dtype=np.int64), zero)


def nu_classification(sign: Vector, weight: Vector, nu: float) -> BoxDual:
    """min ½ ΣΣ αᵢαⱼyᵢyⱼKᵢⱼ, 0 ≤ αᵢ ≤ wᵢ, Σα = nu Σw with half of it in each class.

    InvalidParameter states the largest feasible nu, twice the share of the lighter class.
    """
    total, sides = float(weight.sum()), [float(weight[sign < 0].sum()), float(weight[sign > 0].sum())]
    most = 2.0 * min(sides) / total
    if nu > most * (1 + 1e-12):
        text = f"nu={nu:g} is infeasible: half of it must fit in each class, so it can be at most {most:.12g} here"
        raise InvalidParameter(text, [Issue("/params/nu", "infeasible", text)])
    start = np.empty(len(sign))
    for side, mass in ((-1.0, sides[0]), (1.0, sides[1])):
        own = sign == side
        start[own] = side * weight[own] * min(1.0, 0.5 * nu * total / mass)
    lo, hi = np.where(sign > 0, 0.0, -weight), np.where(sign > 0, weight, 0.0)
    group = (sign > 0).astype(np.int64)[None]
    return BoxDual(np.zeros((1, len(sign))), lo[None], hi[None], group, start[None], groups=2)


def regression(t: Vector, cap: Vector, epsilon: float) -> BoxDual:
    """min ½ βᵀKβ - βᵀt + epsilon Σ|β|, |βᵢ| ≤ capᵢ, Σβ = 0; β is the sum of a rising and a falling copy."""
    n = len(t)
    zero = np.zeros(n)
    return BoxDual(np.array([epsilon - t, -epsilon - t]), np.array([zero, -cap]), np.array([cap, zero]),
                   np.zeros((2, n), dtype=np.int64), np.zeros((2, n)))  # fmt: skip


def nu_regression(t: Vector, cap: Vector, nu: float) -> BoxDual:
    """min ½ βᵀKβ - βᵀt with Σ|β| = nu Σcap (the tube's width is its multiplier), |βᵢ| ≤ capᵢ, Σβ = 0."""
    n, half = len(t), 0.5 * nu * cap
    zero, group = np.zeros(n), np.zeros((2, n), dtype=np.int64)
    group[1] = 1
    return BoxDual(np.array([-t, -t]), np.array([zero, -cap]), np.array([cap, zero]), group,
                   np.array([half, -half]), groups=2)  # fmt: skip


def one_class(weight: Vector, nu: float) -> BoxDual:
    """min ½ αᵀKα, 0 ≤ αᵢ ≤ wᵢ, Σα = nu Σw; the start fills the first rows."""
    n, before = len(weight), np.concatenate([[0.0], np.cumsum(weight)[:-1]])
    start = np.clip(nu * float(weight.sum()) - before, 0.0, weight)
    return BoxDual(np.zeros((1, n)), np.zeros((1, n)), weight[None].copy(), np.zeros((1, n), dtype=np.int64),
                   start[None])  # fmt: skip


def folded(beta: Matrix) -> Vector:
    """(n,) coefficients of the rows: the sum of the copies."""
    return np.asarray(beta.sum(axis=0))
