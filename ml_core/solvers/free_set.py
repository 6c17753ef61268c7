"""The end of decomposition: the linear system of the free variables, which pairs alone approach only slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ml_core import progress
from ml_core.arrays import Matrix, Vector

JITTER = 1e-12
FLAT = 1e-11
Index = np.ndarray
Step = tuple[Vector, bool]
"""A direction, and whether it is one without curvature, to be followed up to a bound."""


class Curvature(Protocol):
    """The kernel matrix of the free variables, however it is held."""

    def step(self, on: Index, v: Vector, ones: Matrix) -> Step | None:
        """d with K d + b = v within each group and Σ d = 0 per group, for the variables `on`; None if there is none."""

    def times(self, on: Index, d: Vector) -> Vector:
        """K d over all, for d at `on`."""


@dataclass
class Held(Curvature):
    """K (m, m) itself: Cholesky with a jitter; where K is singular the step is that of a proximal term."""

    K: Matrix

    def step(self, on: Index, v: Vector, ones: Matrix) -> Step | None:
        """O(m³)."""
        A = self.K[np.ix_(on, on)] if len(on) < len(self.K) else self.K.copy()
        A.flat[:: len(A) + 1] += JITTER * max(float(np.trace(A)) / len(A), 1e-300)
        try:
            factor = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
            both = cho_solve(factor, np.column_stack([v, ones]), check_finite=False)
            b = np.linalg.solve(ones.T @ both[:, 1:], ones.T @ both[:, 0])
        except (LinAlgError, np.linalg.LinAlgError):
            return None
        return both[:, 0] - both[:, 1:] @ b, False

    def times(self, on: Index, d: Vector) -> Vector:
        """O(m²)."""
        return np.asarray(self.K[:, on] @ d)


@dataclass
class LowRank(Curvature):
    """K = Z Zᵀ, Z (m, r): by singular values of the rows less their mean, which keep the digits that K has lost."""

    Z: Matrix

    def step(self, on: Index, v: Vector, ones: Matrix) -> Step | None:
        """O(m r²)."""
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
    on = np.arange(len(f.v))
    for step in range(most):
        progress.pulse()
        on = on[(f.beta[on] > f.lo[on]) & (f.beta[on] < f.hi[on])]
        if len(on) < 2:
            return step
        ones = (f.group[on][:, None] == np.unique(f.group[on])).astype(np.float64)
        found = f.K.step(on, f.v[on], ones)
        if found is None or not np.isfinite(found[0]).all():
            return step
        d = found[0] - ones @ ((ones.T @ found[0]) / ones.sum(axis=0))
        room = np.where(d > 0, f.hi[on] - f.beta[on], f.beta[on] - f.lo[on])
        with np.errstate(divide="ignore", invalid="ignore"):
            limit = np.where(d != 0, room / np.abs(d), np.inf)
        first = int(limit.argmin())
        t = float(limit[first]) if found[1] else min(1.0, float(limit[first]))
        if not np.isfinite(t):
            return step
        new = np.clip(f.beta[on] + t * d, f.lo[on], f.hi[on])
        if t == limit[first]:
            new[first] = f.hi[on[first]] if d[first] > 0 else f.lo[on[first]]
        change = new - f.beta[on]
        f.beta[on] = new
        f.v -= f.K.times(on, change)
        if t == 1.0 and np.abs(change).max() <= 1e-13 * np.abs(new).max():
            return step + 1
    return most
