"""Least squares to the last digits: an orthogonal factorization refined with double-double residuals of the data.

The design [1, X] is never factored as it came. Columns are scaled by powers of two and, with an intercept, shifted by
their (rounded) means; both are exact reparametrisations when the shifted entries are kept as double-doubles. The factor
A⁺ = K Qᵀ of the rounded design then only steers the refinement of

    r + A x = b,   Aᵀ S r = g

whose residuals come from the double-double design: the error falls by about cond(A)·2⁻⁵³ a step until x is exact.

References
----------
Björck (1967), Iterative refinement of linear least squares solutions I, BIT 7.
Golub, Van Loan (2013), Matrix Computations, 4th ed., sections 5.3–5.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import qr
from scipy.linalg.lapack import dtrtri

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.compensated import normal_residual, power, residual, two_diff
from ml_core.numerics.singular import lengths, singular

EPS = float(np.finfo(float).eps)
MAX_STEPS = 12
Powers = tuple[tuple[int, int, int], ...]
ENOUGH = 2.0**-75
ROUNDINGS = 8
"""Roundings of cells, as large as the largest of their column allows, that a variation must exceed to be one."""


@dataclass(frozen=True)
class Design:
    """A = [1, (X - shift)/scale] (p, n) and b = (Y - target_shift)/target_scale (q, n), as double-doubles; weights s.

    `scale` holds powers of two; without intercept there is no column of ones and `shift` is 0. `noise` (p,) is what
    rounding can fake in each column, in units of 2⁻⁵² of its size.
    """

    hi: Matrix
    lo: Matrix
    target: Matrix
    target_lo: Matrix
    s: Vector
    shift: Vector
    scale: Vector
    target_shift: Vector
    target_scale: Vector
    noise: Vector
    intercept: bool


def _exponents(A: Matrix) -> np.ndarray:
    """(k,) e with max |a| in [2^(e-1), 2^e) by row; 0 for a row of zeros."""
    return np.frexp(np.abs(A).max(axis=1, initial=0.0))[1]


def _shifted(A: Matrix, lo: Matrix, s: Vector, shift: bool) -> tuple[Matrix, Matrix, Vector, Vector]:
    """Rows of A + lo minus their rounded weighted means: (hi, lo, shift, how far each row is from 0 in its spreads)."""
    mean = (A @ s) / s.sum() if shift else np.zeros(len(A))
    hi, err = two_diff(A, mean[:, None])
    top, spread = np.abs(A).max(axis=1, initial=0.0), np.abs(hi).max(axis=1)
    if shift:
        flat = spread <= ROUNDINGS * EPS * top
        hi[flat], err[flat], lo[flat], spread[flat] = 0.0, 0.0, 0.0, 0.0
        mean[flat] = A[flat, 0]
    noise = np.divide(top, spread, out=np.zeros(len(A)), where=spread > 0)
    hi, err = two_diff(hi, -(err + lo))
    return hi, err, mean, noise


def design(
    X: Matrix, Y: Matrix, s: Vector, *, intercept: bool, powers: Powers = (), tails: tuple[Matrix, Matrix] | None = None
) -> Design:
    """Scale and shift X (n, d) and Y (n, q), to which `tails` add what lies below their last bits.

    Each (column, base, exponent) of `powers` is formed in double-double.
    """
    e = _exponents(X.T)
    A, t = np.ldexp(X.T, -e[:, None]), _exponents(Y.T)
    below, target_below = tails or (np.zeros_like(X), np.zeros_like(Y))
    lo = np.ldexp(below.T, -e[:, None])
    for j, i, k in powers:
        base = np.ldexp(X[:, i], -e[i])
        hi_j, lo_j = power(base, k)
        lo_j = lo_j + k * base ** (k - 1) * np.ldexp(below[:, i], -e[i])
        A[j], lo[j] = np.ldexp(hi_j, int(k * e[i] - e[j])), np.ldexp(lo_j, int(k * e[i] - e[j]))
    hi, lo, shift, noise = _shifted(A, lo, s, intercept)
    B = np.ldexp(Y.T, -t[:, None])
    target, target_lo, target_shift, _ = _shifted(B, np.ldexp(target_below.T, -t[:, None]), s, intercept)
    second = np.frexp(np.sqrt((hi * hi) @ s / s.sum()))[1]
    hi, lo = np.ldexp(hi, -second[:, None]), np.ldexp(lo, -second[:, None])
    if intercept:
        hi, lo = np.vstack([np.ones(len(X)), hi]), np.vstack([np.zeros(len(X)), lo])
        noise = np.append(0.0, noise)
    hi, lo, target, target_lo = (np.ascontiguousarray(a) for a in (hi, lo, target, target_lo))
    return Design(
        hi, lo, target, target_lo, s=s, shift=np.ldexp(shift, e),
        scale=np.ldexp(1.0, e + second), target_shift=np.ldexp(target_shift, t), target_scale=np.ldexp(1.0, t),
        noise=np.maximum(max(hi.shape), ROUNDINGS * noise), intercept=intercept,
    )  # fmt: skip


@dataclass(frozen=True)
class Factor:
    """A⁺ = K Qᵀ for √S A: Q (n, r) orthonormal, K (p, r); `rows` (p, r) spans the row space, `kept` lists pivots."""

    Q: Matrix
    K: Matrix
    rows: Matrix
    kept: Codes


def triangular_inverse(R: Matrix) -> Matrix:
    """R⁻¹ of an upper triangle by LAPACK's trtri, which for small sizes is not slowed by threads as a solve is."""
    return np.asarray(dtrtri(R)[0])


def factorise(D: Design, *, method: Literal["qr", "svd"] = "qr", rcond: float | None = None) -> Factor:
    """Column-pivoted QR, or SVD, of the rounded weighted design, cut where a pivot falls below `rcond` of the largest.

    By default columns are made as long as they are sure, so that one cut, of what rounding of the data can fake, fits
    all: a column of little but rounding goes last and takes no other with it. O(n p²); tall designs are first reduced
    by an unpivoted blocked QR.
    """
    p, n = D.hi.shape
    A, least = (D.hi * np.sqrt(D.s)).T, float(D.noise.min())
    top = float(lengths(A).max(initial=0.0))
    sure = np.ones(p) if rcond is not None else np.ldexp(1.0, 1 - np.frexp(D.noise / least)[1])
    A = A * sure
    if method == "svd":
        U, size, V = singular(A)
        V[~A.any(axis=0)] = 0.0
        r = int((size > (EPS * least * top if rcond is None else rcond * size[0])).sum())
        return Factor(U[:, :r], sure[:, None] * V[:, :r] / size[:r], V[:, :r] / sure[:, None], np.arange(p))
    if n > 4 * p and n * p > 1 << 16:
        Q1, R1 = qr(A, mode="economic", check_finite=False)
        Q2, R, perm = qr(R1, mode="economic", pivoting=True, check_finite=False)
        Q = Q1 @ Q2
    else:
        Q, R, perm = qr(A, mode="economic", pivoting=True, check_finite=False)
    size = np.abs(np.diag(R))
    r = int((size > (EPS * least * top if rcond is None else rcond * size[0])).sum())
    K, rows = np.zeros((p, r)), np.zeros((p, r))
    if r:
        K[perm[:r]] = triangular_inverse(R[:r, :r])
        rows[perm[:r]] = np.eye(r)
        rows[perm[r:]] = (K[perm[:r]] @ R[:r, r:]).T
    K, rows = sure[:, None] * K, rows * sure[perm[:r]] / sure[:, None]
    return Factor(np.ascontiguousarray(Q[:, :r]), K, rows, perm[:r].astype(np.int64))


@dataclass(frozen=True)
class Refined:
    """x = hi + lo (p, q) and r = b - A x (q, n); how many steps, relative sizes of the corrections."""

    hi: Matrix
    lo: Matrix
    r: Matrix
    n_iter: int
    converged: bool
    trace: list[float]


def refine(D: Design, F: Factor, target: tuple[Matrix, Matrix], g: Matrix) -> Refined:
    """Solve r + A x = b, AᵀS r = g from zero; the first step is the plain solution. O(n p q) a step.

    Stops when a correction is below 2⁻⁷⁵ of the largest entry (so small entries are right too), or no longer halves.
    """
    root = np.sqrt(D.s)
    hi, lo = np.zeros(g.shape), np.zeros(g.shape)
    r = np.zeros(target[0].shape)
    trace: list[float] = []
    for step in range(1, MAX_STEPS + 1):
        f = residual(D.hi, D.lo, hi, lo, *target, r)
        h = normal_residual(D.hi, D.lo, D.s, r, g)
        fw = f * root
        z = (fw @ F.Q).T - F.K.T @ h
        dx = F.K @ z
        dr = (fw - (F.Q @ z).T) / root
        top = np.abs(hi + dx).max(axis=0, initial=0.0)
        size = float(np.max(np.abs(dx).max(axis=0, initial=0.0) / np.where(top > 0, top, 1.0), initial=0.0))
        if step > 2 and size > 0.5 * trace[-1]:
            break
        trace.append(size)
        s = hi + dx
        t = s - hi
        lo = lo + ((hi - (s - t)) + (dx - t))
        hi = s + lo
        lo = lo - (hi - s)
        r = r + dr
        progress.tick(step, MAX_STEPS, "refinements", correction=size)
        if size <= ENOUGH:
            break
    return Refined(hi, lo, r, step, bool(trace[-1] <= 1e-6), trace)
