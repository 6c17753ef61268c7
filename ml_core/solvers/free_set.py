"""The end of decomposition: the linear system of the free variables, which pairs alone approach only slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.solvers.constrained import Constrained
from ml_core.solvers.free_step import follow, still_free
from ml_core.solvers.kernel_rows import add_rows

FLAT = 1e-11
FEW = 16
ENOUGH = 1e-13
ROUNDING = 1e-13
Index = np.ndarray
Step = tuple[Vector, bool]
"""A direction, and whether it is one without curvature, to be followed up to a bound."""


class Curvature(Protocol):
    """The kernel matrix of the free variables, however it is held."""

    def step(self, on: Index, v: Vector, own: Index) -> Step | None:
        """d with K d + b = v within each group and Σ d = 0 per group, for the variables `on`; None if there is none.

        v (m,) is of all variables, own (len(on),) the groups of those that move.
        """

    def times(self, on: Index, d: Vector) -> Vector:
        """K d over all, for d at `on`."""


class Held(Curvature):
    """K (m, m) itself: Cholesky with a jitter; where K is singular the step is that of a proximal term.

    A factor serves many steps: a variable that is free no more becomes a further constraint dᵢ = 0 for O(m²). When
    these are many, or the constraints are met no more, the rest is factored anew.
    """

    def __init__(self, K: Matrix) -> None:
        self.K = K
        self.system: Constrained | None = None

    def step(self, on: Index, v: Vector, own: Index) -> Step | None:
        """O(m³) with a new factor, else O(m²)."""
        found = self._again(on, v, own)
        if found is None:
            K = self.K[np.ix_(on, on)] if len(on) < len(self.K) else self.K.copy()
            self.base, self.own, self.out = on, own, np.empty(0, dtype=np.int64)
            self.system = Constrained(K, members(own))
            found = self._again(on, v, own)
        return None if found is None else (found, False)

    def times(self, on: Index, d: Vector) -> Vector:
        """O(m²)."""
        out = np.zeros(len(self.K))
        add_rows(self.K.reshape(-1), len(self.K), 0, on, d, out)
        return out

    def _again(self, on: Index, v: Vector, own: Index) -> Vector | None:
        """The step by the factor that is held, if it still serves."""
        if self.system is None or not self.system.definite:
            return None
        if len(on) == len(self.base):
            return self.system.solve(v[self.base])
        here = np.isin(self.base, on, assume_unique=True)
        gone = np.flatnonzero(~here)
        if too_many(gone, self.base) or (own.any() and len(np.unique(own)) < len(np.unique(self.own))):
            return None
        fresh = np.setdiff1d(gone, self.out, assume_unique=True)
        if len(fresh):
            self.system.add(units(fresh, len(self.base)))
            self.out = np.concatenate([self.out, fresh])
        d = self.system.solve(v[self.base])
        return None if d is None else d[here]


@dataclass
class LowRank(Curvature):
    """K = Z Zᵀ, Z (m, r): by singular values of the rows less their mean, which keep the digits that K has lost."""

    Z: Matrix

    def step(self, on: Index, v: Vector, own: Index) -> Step | None:
        """O(m r²)."""
        v, ones = v[on], members(own)
        count = ones.sum(axis=0)
        B = self.Z[on] - ones @ ((ones.T @ self.Z[on]) / count[:, None])
        U, s, _ = np.linalg.svd(B, full_matrices=False)
        rank = int(np.sum(s > FLAT * s[0]))
        U, s = U[:, :rank], s[:rank]
        held = U.T @ v
        left = v - ones @ ((ones.T @ v) / count) - U @ held
        if np.abs(left).max() > FLAT * (1.0 + np.abs(v).max()):
            return left, True
        return U @ (held / s**2), False

    def times(self, on: Index, d: Vector) -> Vector:
        """O(m r)."""
        return np.asarray(self.Z @ (d @ self.Z[on]))


def too_many(gone: Index, base: Index) -> bool:
    """Whether a new factor is due."""
    return len(gone) > FEW + len(base) // 8


def units(places: Index, size: int) -> Matrix:
    """(size, len(places)) columns of the unit matrix."""
    out = np.zeros((size, len(places)), order="F")
    out[places, np.arange(len(places))] = 1.0
    return out


def members(own: Index) -> Matrix:
    """(m, groups) columns of 0 and 1 that tell the group of each variable."""
    if not own.any():
        return np.ones((len(own), 1))
    return (own[:, None] == np.unique(own)).astype(np.float64)


@dataclass
class Free:
    """Free variables: v, β, bounds and group; β and v change in place."""

    K: Curvature
    v: Vector
    beta: Vector
    lo: Vector
    hi: Vector
    group: Index


def newton_on_free(f: Free, most: int) -> int:
    """Up to `most` steps to the optimum over the variables off their bounds, each cut where the first meets a bound.

    Returns how many steps were made.
    """
    on, groups = np.arange(len(f.v)), int(f.group.max(initial=0)) + 1
    for step in range(most):
        progress.pulse()
        on = still_free(f.beta, f.lo, f.hi, on)
        if len(on) < 2 or (step and progress.late()):
            return step
        found = f.K.step(on, f.v, f.group[on])
        if found is None or not np.isfinite(found[0]).all():
            return step
        change, flat = found
        t, moved, largest = follow(f.beta, f.lo, f.hi, f.group, groups, on, change, flat)
        if not np.isfinite(t):
            return step
        f.v -= f.K.times(on, change)
        if t == 1.0 and (moved <= ENOUGH * largest or (groups == 1 and _spread(f.v[on]) <= ROUNDING)):
            return step + 1
    return most


def _spread(v: Vector) -> float:
    """How far free variables of one group are from having the same v, in units of the largest or 1."""
    high, low = float(v.max()), float(v.min())
    return (high - low) / max(1.0, high, -low)
