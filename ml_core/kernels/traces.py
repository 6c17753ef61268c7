"""Sums over pairs of rows that the derivatives of kernels need, compiled."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.jit import compiled, regrouped

FAR = 1e3
"""Lengths from the origin at which the rounding of rows in units of the length begins to count."""


def weighted_gaps(W: Matrix, G: Matrix, S: Matrix, T: Matrix, gram: bool) -> Vector:
    """(d,) Σᵢⱼ Wᵢⱼ Gᵢⱼ (sᵢ - tⱼ)², column by column, by subtraction; W, G (n, m), S (n, d), T (m, d). O(n m d).

    With `gram`, S is T, W and G are symmetric, and one triangle is read.
    """
    columns = np.ascontiguousarray(T.T)
    return np.asarray(_gaps(W, G, np.ascontiguousarray(S), columns, gram))


@compiled(lambda: (np.ones((1, 2)), np.ones((2, 2))))
def row_gaps(s, T):  # type: ignore[no-untyped-def]
    """(1, m) ‖s - tⱼ‖² of one row s (1, d) with those of T (m, d), by subtraction."""
    out = np.empty((1, len(T)))
    for j in range(len(T)):
        total = 0.0
        for c in range(T.shape[1]):
            gap = s[0, c] - T[j, c]
            total += gap * gap
        out[0, j] = total
    return out


@regrouped
def _row_gap(row, t, s, m):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(m):
        gap = s - t[j]
        total += row[j] * gap * gap
    return total


@compiled(lambda: (np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 1)), np.ones((1, 2)), True))
def _gaps(W, G, S, columns, gram):  # type: ignore[no-untyped-def]
    n, d = S.shape
    out = np.zeros(d)
    row = np.empty(W.shape[1])
    for i in range(n):
        m = i if gram else W.shape[1]
        for j in range(m):
            row[j] = W[i, j] * G[i, j]
        for c in range(d):
            out[c] += _row_gap(row, columns[c], S[i, c], m)
    return 2.0 * out if gram else out


@compiled(lambda: (np.ones((2, 2)), np.ones((2, 1))))
def outer_less(P, A):  # type: ignore[no-untyped-def]
    """A Aᵀ - P written over P (n, n), of which the lower triangle is read; A (n, q). Both triangles are written."""
    n, q = A.shape
    block = 64
    for i0 in range(0, n, block):
        for j0 in range(0, i0 + 1, block):
            for i in range(i0, min(i0 + block, n)):
                for j in range(j0, min(j0 + block, i + 1)):
                    total = 0.0
                    for c in range(q):
                        total += A[i, c] * A[j, c]
                    total -= P[i, j]
                    P[i, j] = total
                    P[j, i] = total


def nearer(A: Matrix, B: Matrix, scale: np.ndarray) -> tuple[Matrix, Matrix]:
    """Rows less B's first one, if times `scale` that is far from 0, in the columns where every difference is exact.

    These are the columns whose values all lie between half and twice its value.

    Source: Sterbenz (1974), Floating-point computation.
    """
    if not np.abs(B[:1] * scale).max(initial=0.0) > FAR:
        return A, B
    first = B[0]
    low, high = np.minimum(0.5 * first, 2.0 * first), np.maximum(0.5 * first, 2.0 * first)
    exact = np.all([((low <= M) & (high >= M)).all(axis=0) for M in (A, B)], axis=0)
    centre = np.where(exact, first, 0.0)
    near = A - centre
    return near, near if A is B else B - centre
