"""Exact squared distances from rows to a few centres, in fixed row blocks; k-means++ starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from ml_core import parallel
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled, read_only, regrouped

BLOCK = 4096
LANES = 8
PARALLEL_WORK = 2e8
"""Multiply-adds of one pass below which waking a second thread costs more than it saves."""
R = TypeVar("R")


@regrouped
def squares(X, i, Ct, acc):  # type: ignore[no-untyped-def]
    """acc[c] = Σ_j (x_ij - c_j)², differences first so that nothing cancels; lanes run over centres."""
    d, k = Ct.shape
    for c in range(k):
        acc[c] = 0.0
    whole = d - d % 4
    for j in range(0, whole, 4):
        x0, x1, x2, x3 = X[i, j], X[i, j + 1], X[i, j + 2], X[i, j + 3]
        for c in range(k):
            a, b, e, f = x0 - Ct[j, c], x1 - Ct[j + 1, c], x2 - Ct[j + 2, c], x3 - Ct[j + 3, c]
            acc[c] += (a * a + b * b) + (e * e + f * f)
    for j in range(whole, d):
        x0 = X[i, j]
        for c in range(k):
            a = x0 - Ct[j, c]
            acc[c] += a * a


@regrouped
def own(X, i, C, c):  # type: ignore[no-untyped-def]
    """‖xᵢ - c‖² with one centre."""
    total = 0.0
    for j in range(X.shape[1]):
        a = X[i, j] - C[c, j]
        total += a * a
    return total


def _warm_squared():  # type: ignore[no-untyped-def]
    return (*read_only(np.ones((2, 5))), np.ones((5, LANES)), np.empty((2, 3)))


@compiled(_warm_squared)
def _squared(X, Ct, out):  # type: ignore[no-untyped-def]
    """out (n, k) squared distances; `Ct` (d, ≥ k) holds the centres as padded columns."""
    acc = np.empty(Ct.shape[1])
    for i in range(X.shape[0]):
        squares(X, i, Ct, acc)
        for c in range(out.shape[1]):
            out[i, c] = acc[c]


def _warm_nearer():  # type: ignore[no-untyped-def]
    return (*read_only(np.ones((2, 5)), np.ones(2)), np.ones((3, 5)), np.ones(2), np.empty((3, 4))[:, :2], np.zeros(3))


@compiled(_warm_nearer)
def _nearer(X, s, C, closest, out, potential):  # type: ignore[no-untyped-def]
    """out[c, i] = min(closest[i], ‖xᵢ - c‖²) and potential[c] = Σᵢ sᵢ out[c, i]: what each candidate would leave."""
    potential[:] = 0.0
    for i in range(X.shape[0]):
        for c in range(C.shape[0]):
            v = min(own(X, i, C, c), closest[i])
            out[c, i] = v
            potential[c] += s[i] * v


def columns(C: Matrix) -> Matrix:
    """(d, k′) centres as columns, padded with infinite ones to whole vector registers."""
    k, d = C.shape
    Ct = np.full((d, -(-k // LANES) * LANES), np.inf)
    Ct[:, :k] = C.T
    return Ct


def squared_distances(X: Matrix, centres: Matrix) -> Matrix:
    """(n, k) ‖xᵢ - c‖², by differences; O(n k d)."""
    (X,), Ct = frozen(X), columns(centres)
    out = np.empty((len(X), len(centres)))

    def block(at: int) -> None:
        _squared(X[at : at + BLOCK], Ct, out[at : at + BLOCK])

    list(blocks(block, len(X), centres.size))
    return out


def nearest(X: Matrix, centres: Matrix) -> tuple[Codes, Vector]:
    """(n,) number of the nearest centre (the lower one of a tie) and its squared distance; O(n k d), blocks of rows."""
    (X,), Ct = frozen(X), columns(centres)

    def block(at: int) -> tuple[Codes, Vector]:
        out = np.empty((len(X[at : at + BLOCK]), len(centres)))
        _squared(X[at : at + BLOCK], Ct, out)
        return out.argmin(axis=1), out.min(axis=1)

    parts = list(blocks(block, len(X), centres.size))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def frozen(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Read-only views, so that one compiled version serves arrays of both kinds."""
    views = tuple(a.view() for a in arrays)
    for v in views:
        v.flags.writeable = False
    return views


def blocks(function: Callable[[int], R], n: int, size: int) -> Iterator[R]:
    """`function` of each block's first row, in order, on the thread budget when the pass is long enough."""
    starts = range(0, n, BLOCK)
    return parallel.ordered_map(function, starts) if n * size > PARALLEL_WORK else map(function, starts)


def plus_plus(X: Matrix, s: Vector, k: int, rng: np.random.Generator) -> Matrix:
    """(k, d) starting centres: rows drawn with probability ∝ s·D², the best of 2 + ⌊ln k⌋ draws each time.

    When fewer than k rows are distinct the rest repeat rows. O(n k d log k). Arthur and Vassilvitskii (2007).
    """
    X, s = frozen(X, s)
    chosen = [_draw(np.cumsum(s), rng, 1)[0]]
    closest = squared_distances(X, X[chosen])[:, 0]
    for _ in range(1, k):
        mass = np.cumsum(s * closest)
        trial = _draw(mass if mass[-1] > 0 else np.cumsum(s), rng, 2 + int(np.log(k)))
        left, potential = _potentials(X, s, X[trial], closest)
        best = int(np.argmin(potential))
        chosen.append(trial[best])
        closest = left[best].copy()
    return np.ascontiguousarray(X[chosen])


def _potentials(X: Matrix, s: Vector, candidates: Matrix, closest: Vector) -> tuple[Matrix, Vector]:
    """(m, n) squared distances to the nearest centre if a candidate joined, and their weighted sums (m,)."""
    # One spare column: a block is then never contiguous, so that one compiled version serves all sizes.
    out, starts = np.empty((len(candidates), len(X) + 1)), range(0, len(X), BLOCK)
    potential = np.empty((len(starts), len(candidates)))

    def block(at: int) -> None:
        r = slice(at, at + BLOCK)
        _nearer(X[r], s[r], candidates, closest[r], out[:, :-1][:, r], potential[at // BLOCK])

    list(blocks(block, len(X), candidates.size))
    return out[:, :-1], potential.sum(axis=0)


def _draw(mass: Vector, rng: np.random.Generator, m: int) -> list[int]:
    """M row numbers with probability ∝ the steps of the cumulative `mass`; never a row of no mass."""
    u = rng.random(m) * mass[-1]
    return np.minimum(np.searchsorted(mass, u, side="right"), np.searchsorted(mass, mass[-1])).tolist()
