"""The compiled loop of sequential minimal optimisation: pairs of variables whose kernel matrix is held."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled, divided, inner

FLAT = 1e-12  # least curvature of a pair, relative to its diagonal: duplicates have none
MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)


@inner
def _largest(bits: Codes) -> int:
    """The first place of the largest of float64 numbers, given their bits: as integers these compare in vector lanes.

    The bits of negative numbers, all but the sign turned round, are in the order of the numbers.
    """
    top = -MAGNITUDE
    for k in range(len(bits)):
        b = bits[k]
        b ^= (b >> 63) & MAGNITUDE
        top = b if b > top else top
    top ^= (top >> 63) & MAGNITUDE
    place = len(bits)
    for k in range(len(bits)):
        here = k if bits[k] == top else len(bits)
        place = here if here < place else place
    return place


@inner
def _first(v: Vector, up: Matrix, down: Matrix, x: Vector, bits: Codes) -> tuple[int, float, int]:
    """The variable that may rise with the largest v in the group that violates most, that violation, and the group."""
    best, worst, group = -1, 0.0, 0
    for g in range(len(up)):
        rise, fall = up[g], down[g]
        for k in range(len(x)):
            x[k] = v[k] + rise[k]
        i = _largest(bits)
        high = x[i]
        for k in range(len(x)):
            x[k] = fall[k] - v[k]
        violation = high + x[_largest(bits)]
        if violation > worst:
            best, worst, group = i, violation, g
    return best, worst, group


@divided
def _gains(i: int, row: Vector, v: Vector, fall: Vector, diag: Vector, x: Vector) -> None:
    """x ← (vᵢ - vⱼ)² / (Kᵢᵢ + Kⱼⱼ - 2 Kᵢⱼ) for every partner j that may fall and has a lower v, else 0."""
    n, own, high = len(row), diag[i % len(row)], v[i]
    for first in range(0, len(v), n):
        lower, open_, gain = v[first : first + n], fall[first : first + n], x[first : first + n]
        for k in range(n):
            step = high - lower[k] + open_[k]
            step = step if step > 0.0 else 0.0
            both = own + diag[k]
            bend = both - 2.0 * row[k]
            least = FLAT * both + 1e-300
            gain[k] = step * step / (bend if bend > least else least)


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
    up, down, x = np.full((groups, size), -np.inf), np.full((groups, size), -np.inf), np.empty(size)
    bits = x.view(np.int64)
    for k in range(size):
        up[group[k], k] = 0.0 if beta[k] < hi[k] else -np.inf
        down[group[k], k] = 0.0 if beta[k] > lo[k] else -np.inf
    worst = np.inf
    for step in range(most):
        i, worst, g = _first(v, up, down, x, bits)
        if worst <= tol:
            return step, worst
        _gains(i, K[i % n], v, down[g], diag, x)
        j = _largest(bits)
        if x[j] <= 0.0:
            return step, worst
        a, b = K[i % n], K[j % n]
        both = diag[i % n] + diag[j % n]
        t = (v[i] - v[j]) / max(both - 2.0 * a[j % n], FLAT * both + 1e-300)
        rise, fall = hi[i] - beta[i], beta[j] - lo[j]
        t = min(t, rise, fall)
        beta[i] = hi[i] if t == rise else beta[i] + t
        beta[j] = lo[j] if t == fall else beta[j] - t
        for k in (i, j):
            up[g, k] = 0.0 if beta[k] < hi[k] else -np.inf
            down[g, k] = 0.0 if beta[k] > lo[k] else -np.inf
        for first in range(0, len(v), n):
            part = v[first : first + n]
            for k in range(n):
                part[k] -= t * (a[k] - b[k])
    return most, worst
