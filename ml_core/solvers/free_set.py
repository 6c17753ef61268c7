"""The end of decomposition: the linear system of the free variables, which pairs alone approach only slowly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ml_core import progress
from ml_core.arrays import Matrix, Vector

JITTER = 1e-12
Index = np.ndarray


@dataclass
class Free:
    """Free variables: kernel matrix, v, bounds, group, β; `beta` changes in place, v with it."""

    K: Matrix
    v: Vector
    beta: Vector
    lo: Vector
    hi: Vector
    group: Index


def newton_on_free(f: Free, most: int) -> int:
    """Steps to the optimum over the variables off their bounds, each cut where the first meets a bound.

    Every step solves K d + b = v within the groups, Σ d = 0 per group, by Cholesky with a jitter (where K is singular
    the step is that of a proximal term, and is repeated). Returns how many steps were made; O(free³) each.
    """
    on = np.arange(len(f.v))
    for step in range(most):
        progress.pulse()
        on = on[(f.beta[on] > f.lo[on]) & (f.beta[on] < f.hi[on])]
        if len(on) < 2:
            return step
        d = _step(f.K[np.ix_(on, on)] if len(on) < len(f.v) else f.K, f.v[on], f.group[on])
        if d is None:
            return step
        room = np.where(d > 0, f.hi[on] - f.beta[on], f.beta[on] - f.lo[on])
        with np.errstate(divide="ignore", invalid="ignore"):
            limit = np.where(d != 0, room / np.abs(d), np.inf)
        first = int(limit.argmin())
        t = min(1.0, float(limit[first]))
        new = np.clip(f.beta[on] + t * d, f.lo[on], f.hi[on])
        if t < 1.0:
            new[first] = f.hi[on[first]] if d[first] > 0 else f.lo[on[first]]
        change = new - f.beta[on]
        f.beta[on] = new
        f.v -= f.K[:, on] @ change
        if t == 1.0 and np.abs(change).max() <= 1e-13 * np.abs(new).max():
            return step + 1
    return most


def _step(K: Matrix, v: Vector, group: Index) -> Vector | None:
    """d with K d + b = v within each group and Σ d = 0 per group; None where K has no factor."""
    A = K.copy()
    A.flat[:: len(A) + 1] += JITTER * max(float(np.trace(K)) / len(K), 1e-300)
    ones = (group[:, None] == np.unique(group)).astype(np.float64)
    try:
        factor = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    both = cho_solve(factor, np.column_stack([v, ones]), check_finite=False)
    try:
        b = np.linalg.solve(ones.T @ both[:, 1:], ones.T @ both[:, 0])
    except np.linalg.LinAlgError:
        return None
    d = both[:, 0] - both[:, 1:] @ b
    d -= ones @ ((ones.T @ d) / ones.sum(axis=0))
    return d if np.isfinite(d).all() else None
