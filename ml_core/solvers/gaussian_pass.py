"""The one pass over the rows that EM for Gaussian mixtures repeats, compiled."""

from __future__ import annotations

import math

import numpy as np

from ml_core import parallel
from ml_core.arrays import Matrix, Vector
from ml_core.numerics.dot import dot
from ml_core.numerics.jit import compiled, inner, read_only

BLOCK = 4096
LANES = 128
PARALLEL_WORK = 4e6
"""Multiply-adds of one pass below which a second thread costs more than it saves."""
NEGLIGIBLE = -50.0
"""A responsibility below e⁻⁵⁰ of the largest is lost in rounding beside it."""


@inner
def _away(T, centre, D):  # type: ignore[no-untyped-def]
    for j in range(T.shape[0]):
        c = centre[j]
        for b in range(LANES):
            D[j, b] = T[j, b] - c


@inner
def _squares(D, W, z, out):  # type: ignore[no-untyped-def]
    """out[b] = ‖Wᵀ D[:, b]‖² for upper triangular W, or its diagonal as one column."""
    out[:] = 0.0
    diagonal = W.shape[1] == 1
    for j in range(D.shape[0]):
        z[:] = 0.0
        for i in range(j if diagonal else 0, j + 1):
            w = W[i, 0 if diagonal else j]
            for b in range(LANES):
                z[b] += D[i, b] * w
        for b in range(LANES):
            out[b] += z[b] * z[b]


@inner
def _collect(T, r, about, D, t, first, second):  # type: ignore[no-untyped-def]
    """Add Σ_b r_b (x_b - about) and, lower triangle, Σ_b r_b (x_b - about)(x_b - about)ᵀ."""
    _away(T, about, D)
    diagonal = second.shape[1] == 1
    for j in range(D.shape[0]):
        for b in range(LANES):
            t[b] = r[b] * D[j, b]
        for i in range(j if diagonal else 0, j + 1):
            second[j, 0 if diagonal else i] += dot(t, D[i])
        t[:] = r
        first[j] += dot(t, D[j])


@inner
def _share(q, w, top, total):  # type: ignore[no-untyped-def]
    """log N(x_b|k)π_k → weighted responsibilities, in place; returns Σ_b w_b log p(x_b)."""
    value = 0.0
    total[:] = 0.0
    for k in range(q.shape[0]):
        for b in range(LANES):
            gap = q[k, b] - top[b]
            q[k, b] = math.exp(gap) if gap > NEGLIGIBLE else 0.0
            total[b] += q[k, b]
    for b in range(LANES):
        value += w[b] * (top[b] + math.log(total[b]))
        total[b] = w[b] / total[b]
    for k in range(q.shape[0]):
        for b in range(LANES):
            q[k, b] *= total[b]
    return value


def _warm():  # type: ignore[no-untyped-def]
    inputs = read_only(np.ones((3, 2)), np.ones(3), np.zeros(1), np.zeros((1, 2)), np.ones((1, 2, 2)), np.zeros((1, 2)))
    return (*inputs, np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2, 2)))


@compiled(_warm)
def _accumulate(X, s, base, means, W, about, mass, first, second):  # type: ignore[no-untyped-def]
    """Σ s log p over a block of rows; adds the statistics of each component about `about`. Lanes run over rows."""
    (n, d), K = X.shape, base.shape[0]
    T, D, q = np.zeros((d, LANES)), np.empty((d, LANES)), np.empty((K, LANES))
    w, z, sq, top, total = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    value = 0.0
    for lo in range(0, n, LANES):
        m = min(LANES, n - lo)
        w[m:] = 0.0
        for b in range(m):
            w[b] = s[lo + b]
            for j in range(d):
                T[j, b] = X[lo + b, j]
        top[:] = -np.inf
        for k in range(K):
            _away(T, means[k], D)
            _squares(D, W[k], z, sq)
            for b in range(LANES):
                q[k, b] = base[k] - 0.5 * sq[b]
                top[b] = max(top[b], q[k, b])
        value += _share(q, w, top, total)
        for k in range(K):
            z[:] = 1.0
            added = dot(q[k], z)
            if added > 0.0:
                mass[k] += added
                _collect(T, q[k], about[k], D, z, first[k], second[k])
    return value


def expected(
    X: Matrix, s: Vector, base: Vector, means: Matrix, whiten: np.ndarray, about: Matrix
) -> tuple[Vector, Matrix, np.ndarray, float]:
    """Σ s r (K,), Σ s r (x - a) (K, d), Σ s r (x - a)(x - a)ᵀ (K, d, d) or its diagonals (K, d, 1), and Σ s log p.

    `base` (K,) are the logarithms of weight over normalising constant, `whiten` the W of S⁻¹ = W Wᵀ, whole or as
    diagonals (K, d, 1). O(n K d²); blocks of rows are added in order, so threads change no bit.
    """
    (K, d), width = means.shape, whiten.shape[2]
    X, s, *fixed = _frozen(X, s, base, means, whiten, about)

    def block(at: int) -> tuple[Vector, Matrix, np.ndarray, float]:
        mass, first, second = np.zeros(K), np.zeros((K, d)), np.zeros((K, d, width))
        value: float = _accumulate(X[at : at + BLOCK], s[at : at + BLOCK], *fixed, mass, first, second)  # type: ignore[call-arg]
        return mass, first, second, value

    starts = range(0, len(X), BLOCK)
    heavy = len(X) * K * d * (width + 4) > PARALLEL_WORK
    parts = list(parallel.ordered_map(block, starts) if heavy else map(block, starts))
    mass, first = np.sum([p[0] for p in parts], axis=0), np.sum([p[1] for p in parts], axis=0)
    second = np.sum([p[2] for p in parts], axis=0)
    if width == d:
        second = second + np.tril(second, -1).transpose(0, 2, 1)
    return mass, first, second, float(sum(p[3] for p in parts))


def _frozen(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Read-only views, so that one compiled version serves arrays of both kinds."""
    views = tuple(np.ascontiguousarray(a).view() for a in arrays)
    for v in views:
        v.flags.writeable = False
    return views
