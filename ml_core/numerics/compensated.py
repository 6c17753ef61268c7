"""Double-double arithmetic: a number is the unevaluated sum hi + lo of two doubles, good for 106 bits.

Used where a residual is the small difference of large numbers. The inputs must stay below 1e290 in size (the splitting
multiplies by 2²⁷); the callers scale by powers of two, which is exact.

References
----------
Dekker (1971), A floating-point technique for extending the available precision, Numerische Mathematik 18.
Ogita, Rump, Oishi (2005), Accurate sum and dot product, SIAM J. Sci. Comput. 26(6).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.jit import compiled, inner

SPLITTER = 134217729.0  # 2**27 + 1


def two_diff(a: Any, b: Any) -> tuple[Any, Any]:
    """(hi, lo) with hi = fl(a - b) and hi + lo = a - b exactly; elementwise, no overflow assumed."""
    hi = a - b
    part = hi - a
    return hi, (a - (hi - part)) - (b + part)


@inner
def two_sum(a: float, b: float) -> tuple[float, float]:
    """fl(a + b) and its rounding error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@inner
def two_prod(a: float, b: float) -> tuple[float, float]:
    """fl(a b) and its rounding error."""
    p = a * b
    t = SPLITTER * a
    ah = t - (t - a)
    al = a - ah
    t = SPLITTER * b
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@inner
def dd_mul(ah: float, al: float, bh: float, bl: float) -> tuple[float, float]:
    """Product of two double-doubles."""
    p, e = two_prod(ah, bh)
    e += ah * bl + al * bh
    s = p + e
    return s, e - (s - p)


@inner
def dd_add(ah: float, al: float, bh: float, bl: float) -> tuple[float, float]:
    """Sum of two double-doubles, accurate under cancellation."""
    s, e = two_sum(ah, bh)
    t, f = two_sum(al, bl)
    e += t
    u = s + e
    e = e - (u - s) + f
    s = u + e
    return s, e - (s - u)


def _warm_residual() -> tuple[Any, ...]:
    m = np.ones((2, 3))
    x = np.ones((2, 1))
    t = np.ones((1, 3))
    return m, m, x, x, t, t, t


@compiled(_warm_residual)
def residual(zh: Matrix, zl: Matrix, xh: Matrix, xl: Matrix, th: Matrix, tl: Matrix, r: Matrix) -> Matrix:
    """(q, n) doubles nearest to t - r - Zᵀx, for Z (p, n), x (p, q), t and r (q, n); every sum in double-double."""
    p, n = zh.shape
    q = th.shape[0]
    hi = np.empty(n)
    lo = np.empty(n)
    out = np.empty((q, n))
    for k in range(q):
        for i in range(n):
            hi[i], lo[i] = dd_add(th[k, i], tl[k, i], -r[k, i], 0.0)
        for j in range(p):
            a, b = -xh[j, k], -xl[j, k]
            if a != 0.0 or b != 0.0:
                for i in range(n):
                    u, v = dd_mul(zh[j, i], zl[j, i], a, b)
                    hi[i], lo[i] = dd_add(hi[i], lo[i], u, v)
        for i in range(n):
            out[k, i] = hi[i] + lo[i]
    return out


def _warm_normal() -> tuple[Any, ...]:
    m = np.ones((2, 3))
    return m, m, np.ones(3), np.ones((1, 3)), np.ones((2, 1))


@compiled(_warm_normal)
def normal_residual(zh: Matrix, zl: Matrix, s: Vector, r: Matrix, g: Matrix) -> Matrix:
    """(p, q) doubles nearest to g - Z diag(s) rᵀ, for Z (p, n), s (n,), r (q, n); every sum in double-double."""
    p, n = zh.shape
    q = r.shape[0]
    out = np.empty((p, q))
    for k in range(q):
        for j in range(p):
            hi, lo = g[j, k], 0.0
            for i in range(n):
                a, b = two_prod(-s[i], r[k, i])
                a, b = dd_mul(zh[j, i], zl[j, i], a, b)
                hi, lo = dd_add(hi, lo, a, b)
            out[j, k] = hi + lo
    return out


def _warm_power() -> tuple[Any, ...]:
    return np.ones(3), 2


@compiled(_warm_power)
def power(x: Vector, k: int) -> tuple[Vector, Vector]:
    """x**k as (hi, lo), by k - 1 double-double products: relative error below k·2⁻¹⁰⁴."""
    hi = x.copy()
    lo = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        for _ in range(k - 1):
            hi[i], lo[i] = dd_mul(hi[i], lo[i], x[i], 0.0)
    return hi, lo
