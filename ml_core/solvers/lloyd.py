"""Lloyd's alternation for k-means with exact distances, Hamerly's bounds and fixed row blocks; k-means++ starts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ml_core import parallel
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled, inner, read_only
from ml_core.progress import tick

BLOCK = 4096
LANES = 8
EPS = float(np.finfo(float).eps)
PARALLEL_WORK = 4e6
"""Multiply-adds of one pass below which a second thread costs more than it saves."""


@dataclass(frozen=True)
class Lloyd:
    """Where one start ended: `labels` are nearest to `centres`, `inertia` is J at them, `trace` its fall from the start.

    `relocated` counts farthest rows moved into empty clusters; `converged` says that the last pass moved no row (then
    each centre is the mean of its rows) or that the centres moved less than `tol` allows.
    """

    centres: Matrix
    labels: Codes
    inertia: float
    n_iter: int
    trace: list[float] = field(default_factory=list)
    relocated: int = 0
    converged: bool = True


@inner
def _squares(X, i, Ct, acc):  # type: ignore[no-untyped-def]
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


def _warm_squared():  # type: ignore[no-untyped-def]
    return (*read_only(np.ones((2, 5))), np.ones((5, LANES)), np.empty((2, 3)))


@compiled(_warm_squared)
def _squared(X, Ct, out):  # type: ignore[no-untyped-def]
    """out (n, k) squared distances; `Ct` (d, ≥ k) holds the centres as padded columns."""
    acc = np.empty(Ct.shape[1])
    for i in range(X.shape[0]):
        _squares(X, i, Ct, acc)
        for c in range(out.shape[1]):
            out[i, c] = acc[c]


def _warm_sweep():  # type: ignore[no-untyped-def]
    X, s = read_only(np.ones((2, 5)), np.ones(2))
    return (X, s, np.ones((5, LANES)), np.ones((3, 5)), np.ones(3), np.zeros(3), np.full(2, -1), np.zeros(2),
            np.zeros(2), np.zeros(3), np.zeros((3, 5)))  # fmt: skip


@compiled(_warm_sweep)
def _sweep(X, s, Ct, C, half, drop, labels, lower, near, weight, sums):  # type: ignore[no-untyped-def]
    """Assign a block; a tied row stays. Returns (J, rows that changed); fills near (d²), weight and sums per cluster.

    A row is skipped when its own distance is below `lower` (bound on the distance to every other centre) or below
    `half` (half the gap from its centre to the next).
    """
    (n, d), k = X.shape, C.shape[0]
    acc = np.empty(Ct.shape[1])
    J, changed = 0.0, 0
    slack = 1 - (1e-12 + 4 * d * 2.3e-16)
    for i in range(n):
        own = labels[i]
        best, least = own, np.inf
        full = True
        if own >= 0:
            a0 = a1 = 0.0
            for j in range(0, d - 1, 2):
                u, v = X[i, j] - C[own, j], X[i, j + 1] - C[own, j + 1]
                a0 += u * u
                a1 += v * v
            if d % 2:
                a0 += (X[i, d - 1] - C[own, d - 1]) ** 2
            least = a0 + a1
            lower[i] -= drop[own]
            full = np.sqrt(least) >= slack * max(lower[i], half[own])
        if full:
            _squares(X, i, Ct, acc)
            least = acc[own] if own >= 0 else np.inf
            second = np.inf
            for c in range(k):
                if acc[c] < least:
                    second, least, best = least, acc[c], c
                elif acc[c] < second and c != best:
                    second = acc[c]
            best = max(best, 0)
            lower[i] = slack * np.sqrt(second)
            changed += best != own
            labels[i] = best
        near[i] = least
        J += s[i] * least
        weight[best] += s[i]
        for j in range(d):
            sums[best, j] += s[i] * X[i, j]
    return J, changed


def _columns(C: Matrix) -> Matrix:
    """(d, k′) centres as columns, padded with infinite ones to whole vector registers."""
    k, d = C.shape
    Ct = np.full((d, -(-k // LANES) * LANES), np.inf)
    Ct[:, :k] = C.T
    return Ct


def squared_distances(X: Matrix, centres: Matrix) -> Matrix:
    """(n, k) ‖xᵢ - c‖², by differences; O(n k d)."""
    (X,), Ct = _frozen(X), _columns(centres)
    out = np.empty((len(X), len(centres)))

    def block(at: int) -> None:
        _squared(X[at : at + BLOCK], Ct, out[at : at + BLOCK])

    list(_blocks(block, len(X), centres.size))
    return out


def nearest(X: Matrix, centres: Matrix) -> tuple[Codes, Vector]:
    """(n,) number of the nearest centre (the lower one of a tie) and its squared distance; O(n k d), blocks of rows."""
    (X,), Ct = _frozen(X), _columns(centres)

    def block(at: int) -> tuple[Codes, Vector]:
        out = np.empty((len(X[at : at + BLOCK]), len(centres)))
        _squared(X[at : at + BLOCK], Ct, out)
        return out.argmin(axis=1), out.min(axis=1)

    parts = list(_blocks(block, len(X), centres.size))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _frozen(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Read-only views, so that one compiled version serves arrays of both kinds."""
    views = tuple(a.view() for a in arrays)
    for v in views:
        v.flags.writeable = False
    return views


def _blocks(function, n: int, size: int):  # type: ignore[no-untyped-def]
    """`function` of each block's first row, in order, on the thread budget when the pass is long enough."""
    starts = range(0, n, BLOCK)
    return parallel.ordered_map(function, starts) if n * size > PARALLEL_WORK else map(function, starts)


def plus_plus(X: Matrix, s: Vector, k: int, rng: np.random.Generator) -> Matrix:
    """(k, d) starting centres: rows drawn with probability ∝ s·D², the best of 2 + ⌊ln k⌋ draws each time.

    When fewer than k rows are distinct the rest repeat rows. O(n k d log k). Arthur and Vassilvitskii (2007).
    """
    (X, s), n = _frozen(X, s), len(X)
    chosen = [_draw(np.cumsum(s), rng, 1)[0]]
    closest = squared_distances(X, X[chosen])[:, 0]
    for _ in range(1, k):
        mass = np.cumsum(s * closest)
        if not mass[-1] > 0:
            mass = np.cumsum(s)
        trial = _draw(mass, rng, 2 + int(np.log(k)))
        Ct = _columns(X[trial])

        def block(at: int, Ct: Matrix = Ct, m: int = len(trial), closest: Vector = closest) -> tuple[Matrix, Vector]:
            rows = slice(at, at + BLOCK)
            out = np.empty((len(X[rows]), m))
            _squared(X[rows], Ct, out)
            np.minimum(out, closest[rows, None], out=out)
            return out, s[rows] @ out

        parts = list(_blocks(block, n, Ct.size))
        best = int(np.argmin(np.sum([p[1] for p in parts], axis=0)))
        chosen.append(trial[best])
        closest = np.concatenate([p[0][:, best] for p in parts])
    return np.ascontiguousarray(X[chosen])


def _draw(mass: Vector, rng: np.random.Generator, m: int) -> list[int]:
    """M row numbers with probability ∝ the steps of the cumulative `mass`; never a row of no mass."""
    u = rng.random(m) * mass[-1]
    return np.minimum(np.searchsorted(mass, u, side="right"), np.searchsorted(mass, mass[-1])).tolist()


def lloyd(X: Matrix, s: Vector, centres: Matrix, *, max_iter: int = 300, tol: float = 0.0) -> Lloyd:
    """Alternate means and nearest means from `centres` until no row moves; O(n k d) a pass, less once bounds bite.

    J = Σᵢ sᵢ ‖xᵢ - c_{zᵢ}‖² never rises. `tol` > 0 stops earlier, when Σ‖Δc‖² ≤ tol · (mean variance of a column).
    Equal bits for every number of threads. Hamerly (2010), Making k-means even faster.
    """
    (X, s), C = _frozen(X, s), np.array(centres, dtype=np.float64, order="C")
    labels, lower, near = np.full(len(X), -1), np.zeros(len(X)), np.empty(len(X))
    allowed = tol * float(np.mean(s @ (X - s @ X / s.sum()) ** 2) / s.sum()) if tol > 0 else 0.0
    J, _, weight, sums = _assign(X, s, C, np.zeros(len(C)), labels, lower, near)
    trace, relocated, converged = [J], 0, False
    for step in range(1, max_iter + 1):
        relocated += _fill(X, s, labels, lower, near, weight, sums)
        new = np.where(weight[:, None] > 0, sums / np.where(weight > 0, weight, 1.0)[:, None], C)
        moved = np.sqrt(((new - C) ** 2).sum(axis=1))
        C = new
        J, changed, weight, sums = _assign(X, s, C, moved, labels, lower, near)
        trace.append(J)
        tick(step, max_iter, objective=J)
        if changed == 0 or float(moved @ moved) <= allowed:
            converged = True
            break
    return Lloyd(C, labels, J, len(trace) - 1, trace, relocated, converged)


def _assign(
    X: Matrix, s: Vector, C: Matrix, moved: Vector, labels: Codes, lower: Vector, near: Vector
) -> tuple[float, int, Vector, Matrix]:
    """One pass over all blocks: J, rows that changed, weight (k,) and weighted sums (k, d) of the clusters."""
    k, Ct = len(C), _columns(C)
    gaps = np.sqrt(squared_distances(C, C)) + np.diag(np.full(k, np.inf))
    half = 0.5 * gaps.min(axis=1)
    order = np.sort(moved)
    # A bound falls by the largest move among the *other* centres.
    drop = (1 + 8 * EPS) * np.where(moved == order[-1], order[-2] if k > 1 else 0.0, order[-1])

    def block(at: int) -> tuple[float, int, Vector, Matrix]:
        r, weight, sums = slice(at, at + BLOCK), np.zeros(k), np.zeros(C.shape)
        J, changed = _sweep(X[r], s[r], Ct, C, half, drop, labels[r], lower[r], near[r], weight, sums)
        return J, changed, weight, sums

    parts = list(_blocks(block, len(X), C.size))
    J, changed = sum(p[0] for p in parts), sum(p[1] for p in parts)
    return float(J), int(changed), np.sum([p[2] for p in parts], axis=0), np.sum([p[3] for p in parts], axis=0)


def _fill(X: Matrix, s: Vector, labels: Codes, lower: Vector, near: Vector, weight: Vector, sums: Matrix) -> int:
    """Move the row farthest from its centre into each empty cluster, in place; how many were moved."""
    count = 0
    for c in np.flatnonzero(weight == 0):
        i = int(near.argmax())
        if near[i] <= 0:
            break
        giver = labels[i]
        labels[i], near[i], lower[i] = c, 0.0, 0.0
        mine = labels == giver
        weight[giver], sums[giver] = s[mine].sum(), s[mine] @ X[mine]
        weight[c], sums[c] = s[i], s[i] * X[i]
        count += 1
    return count
