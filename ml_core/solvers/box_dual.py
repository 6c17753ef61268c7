"""The quadratic program that all support vector machines share, and what tells how far an answer is from optimal.

min over β of  ½ βᵀKβ + cᵀβ,  lo ≤ β ≤ hi,  Σ β = const within each group,  K positive semidefinite.

With αᵢ = |βᵢ| and pᵢ = yᵢcᵢ this is min ½ αᵀQα + pᵀα, Qᵢⱼ = yᵢyⱼKᵢⱼ. Variables stand in `copies` of the n rows, so that
regression, with two variables per row, needs no second kernel matrix. With v = -(Kβ + c), an answer is optimal when
m = max v over β < hi is at most M = min v over β > lo in every group: any b between is a multiplier of its constraint.

Source: Chang, Lin (2011), LIBSVM: a library for support vector machines, ACM TIST 2(3), section 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector

Index = np.ndarray


@dataclass(frozen=True)
class BoxDual:
    """`c`, `lo`, `hi`, `group` and the feasible `start` are (copies, n); groups are numbered 0 … groups-1."""

    c: Matrix
    lo: Matrix
    hi: Matrix
    group: Index
    start: Matrix
    groups: int = 1

    def rows(self, keep: Index) -> BoxDual:
        """The same of some rows."""
        c, lo, hi, group, start = (a[:, keep].copy() for a in (self.c, self.lo, self.hi, self.group, self.start))
        return BoxDual(c, lo, hi, group, start, self.groups)


@dataclass(frozen=True)
class Levels:
    """Per group: m (highest v that may rise), M (lowest that may fall); `violation` is the largest m - M."""

    high: Vector
    low: Vector

    @property
    def violation(self) -> float:
        """Largest m - M over the groups; negative where every multiplier of an interval is optimal."""
        return float(np.max(self.high - self.low))

    def middle(self) -> Vector:
        """A multiplier per group: halfway between m and M; a group whose variables all sit at one side gets its end."""
        high = np.where(np.isfinite(self.high), self.high, self.low)
        low = np.where(np.isfinite(self.low), self.low, high)
        return np.asarray(0.5 * (high + low))


def levels(dual: BoxDual, beta: Matrix, v: Matrix) -> Levels:
    """m and M of every group; O(copies n)."""
    up, down = np.where(beta < dual.hi, v, -np.inf), np.where(beta > dual.lo, v, np.inf)
    if dual.groups == 1:
        return Levels(np.array([up.max()]), np.array([down.min()]))
    own = [dual.group == g for g in range(dual.groups)]
    return Levels(np.array([up[o].max(initial=-np.inf) for o in own]),
                  np.array([down[o].min(initial=np.inf) for o in own]))  # fmt: skip


def multipliers(dual: BoxDual, beta: Matrix, v: Matrix) -> tuple[Vector, Index]:
    """b of every group, the mean of v over free variables, and how many these are; without any, the middle of m, M."""
    free = (beta > dual.lo) & (beta < dual.hi)
    count = np.bincount(dual.group[free], minlength=dual.groups)
    total = np.bincount(dual.group[free], v[free], dual.groups)
    return np.where(count > 0, total / np.maximum(count, 1), levels(dual, beta, v).middle()), count


def gap(dual: BoxDual, beta: Matrix, v: Matrix, b: Vector) -> float:
    """Duality gap Σ (max over the box of z (v - b) less β (v - b)) ≥ 0: primal at (β, b) less dual at β."""
    u = v - b[dual.group]
    return float(np.sum(np.maximum(dual.hi * u, dual.lo * u) - beta * u))


def dual_value(dual: BoxDual, beta: Matrix, v: Matrix) -> float:
    """-(½ βᵀKβ + cᵀβ), which a solver makes larger: K β = -(v + c)."""
    return float(0.5 * np.sum(beta * (v - dual.c)))
