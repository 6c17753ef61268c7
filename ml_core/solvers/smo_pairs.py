"""The compiled loop of sequential minimal optimisation: pairs of variables whose kernel matrix is held."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled, inner

FLAT = 1e-12  # least curvature of a pair, relative to its diagonal: duplicates have none


@inner
def _first(v: Vector, up: Vector, down: Vector, group: Codes, groups: int) -> tuple[int, float]:
    """The variable that may rise with the largest v in the group that violates most, and that violation."""
    best, worst = -1, 0.0
    for g in range(groups):
        i, high, low = -1, -np.inf, np.inf
        for k in range(len(v)):
            a, b = v[k] + up[k], v[k] + down[k]
            if groups > 1 and group[k] != g:
                continue
            if a > high:
                i, high = k, a
            low = min(low, b)
        if i >= 0 and high - low > worst:
            best, worst = i, high - low
    return best, worst


@inner
def _second(i: int, K: Matrix, v: Vector, down: Vector, diag: Vector, group: Codes, groups: int) -> int:
    """The partner that may fall with the largest (vᵢ - vⱼ)² / (Kᵢᵢ + Kⱼⱼ - 2 Kᵢⱼ)."""
    n = len(K)
    row, best, j, own = K[i % n], 0.0, -1, diag[i % n]
    for first in range(0, len(v), n):
        for r in range(n):
            k = first + r
            step = v[i] - v[k] - down[k]
            if step > 0.0 and (groups == 1 or group[k] == group[i]):
                bend = own + diag[r] - 2.0 * row[r]
                bend = max(bend, FLAT * (own + diag[r]) + 1e-300)
                gain = step * step / bend
                if gain > best:
                    best, j = gain, k
    return j


@compiled(lambda: (np.eye(2), np.ones(2), np.zeros(2), np.array([1.0, -1.0]), np.array([0.0, -1.0]),
                   np.array([1.0, 0.0]), np.zeros(2, np.int64), 1, 1e-3, 10))  # fmt: skip
def solve_pairs(K: Matrix, diag: Vector, beta: Vector, v: Vector, lo: Vector, hi: Vector, group: Codes, groups: int,
                tol: float, most: int) -> tuple[int, float]:  # fmt: skip
    """Up to `most` steps on pairs, β and v = -(Kβ + c) in place, until m - M ≤ tol; returns steps and the last m - M.

    K and its diagonal are of n rows; variables stand in one or more copies of these, one after the other.
    The first of a pair violates most, the second promises the largest gain of the dual (second-order selection).

    Source: Fan, Chen, Lin (2005), Working set selection using second order information for training SVM, JMLR 6.
    """
    n, size = len(K), len(v)
    up, down = np.empty(size), np.empty(size)
    for k in range(size):
        up[k] = 0.0 if beta[k] < hi[k] else -np.inf
        down[k] = 0.0 if beta[k] > lo[k] else np.inf
    worst = np.inf
    for step in range(most):
        i, worst = _first(v, up, down, group, groups)
        if worst <= tol:
            return step, worst
        j = _second(i, K, v, down, diag, group, groups)
        if j < 0:
            return step, worst
        a, b = K[i % n], K[j % n]
        both = diag[i % n] + diag[j % n]
        t = (v[i] - v[j]) / max(both - 2.0 * a[j % n], FLAT * both + 1e-300)
        rise, fall = hi[i] - beta[i], beta[j] - lo[j]
        t = min(t, rise, fall)
        beta[i] = hi[i] if t == rise else beta[i] + t
        beta[j] = lo[j] if t == fall else beta[j] - t
        for k in (i, j):
            up[k] = 0.0 if beta[k] < hi[k] else -np.inf
            down[k] = 0.0 if beta[k] > lo[k] else np.inf
        for first in range(0, len(v), n):
            part = v[first : first + n]
            for k in range(n):
                part[k] -= t * (a[k] - b[k])
    return most, worst
