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
from ml_core.numerics.jit import compiled

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


def levels(dual: BoxDual, beta: Matrix, v: Matrix) -> Levels:
    """m and M of every group; O(copies n)."""
    found = _survey(*_flat(dual), dual.groups, beta.ravel(), v.ravel())
    return Levels(found[0], found[1])


def firm(dual: BoxDual, beta: Matrix, v: Matrix, found: Levels, margin: float = 0.0) -> Index:
    """(n,) whether all copies of a row sit at bounds that v, beyond m and M by more than `margin`, holds them to."""
    above, below = np.maximum(found.high, found.low) + margin, np.minimum(found.high, found.low) - margin
    held = ((beta >= dual.hi) & (v > above[dual.group])) | ((beta <= dual.lo) & (v < below[dual.group]))
    return np.asarray(held.all(axis=0))


def multipliers(dual: BoxDual, beta: Matrix, v: Matrix) -> tuple[Vector, Index]:
    """b of every group, the mean of v over free variables, and how many these are; without any, the middle of m, M."""
    found = _survey(*_flat(dual), dual.groups, beta.ravel(), v.ravel())
    return found[3], found[2].astype(np.int64)


def gap(dual: BoxDual, beta: Matrix, v: Matrix, b: Vector) -> float:
    """Duality gap Σ (max over the box of z (v - b) less β (v - b)) ≥ 0: primal at (β, b) less dual at β."""
    return float(_gap(*_flat(dual), beta.ravel(), v.ravel(), b))


def _flat(dual: BoxDual) -> tuple[Vector, Vector, Index]:
    return dual.lo.ravel(), dual.hi.ravel(), dual.group.ravel()


@compiled(lambda: (np.zeros(2), np.ones(2), np.zeros(2, np.int64), 1, np.zeros(2), np.zeros(2)))
def _survey(lo: Vector, hi: Vector, group: Index, groups: int, beta: Vector, v: Vector) -> Matrix:
    """(4, groups): highest v that may rise, lowest that may fall, number of free variables, multiplier.

    A group whose variables all sit at one side gets its end.
    """
    out = np.zeros((4, groups))
    out[0], out[1] = -np.inf, np.inf
    for k in range(len(v)):
        g, up, down = group[k], beta[k] < hi[k], beta[k] > lo[k]
        if up and v[k] > out[0, g]:
            out[0, g] = v[k]
        if down and v[k] < out[1, g]:
            out[1, g] = v[k]
        if up and down:
            out[2, g] += 1.0
            out[3, g] += v[k]
    for g in range(groups):
        high, low = out[0, g], out[1, g]
        if out[2, g] > 0.0:
            out[3, g] /= out[2, g]
        elif np.isfinite(high) and np.isfinite(low):
            out[3, g] = 0.5 * (high + low)
        else:
            out[3, g] = high if np.isfinite(high) else low
    return out


@compiled(lambda: (np.zeros(2), np.ones(2), np.zeros(2, np.int64), np.zeros(2), np.zeros(2), np.zeros(1)))
def _gap(lo: Vector, hi: Vector, group: Index, beta: Vector, v: Vector, b: Vector) -> float:
    total = 0.0
    for k in range(len(v)):
        u = v[k] - b[group[k]]
        total += max(hi[k] * u, lo[k] * u) - beta[k] * u
    return total


def dual_value(dual: BoxDual, beta: Matrix, v: Matrix) -> float:
    """-(½ βᵀKβ + cᵀβ), which a solver makes larger: K β = -(v + c)."""
    return float(0.5 * np.sum(beta * (v - dual.c)))
