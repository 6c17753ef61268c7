"""K-means by sums over rows: Lloyd's alternation and its certificates for tables that are read in chunks.

No row's label is kept, so a tied row goes to the lower number. All starts share every pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.totals import Total
from ml_core.progress import tick
from ml_core.solvers.base import Steps, spent
from ml_core.solvers.centres import nearest, squared_distances
from ml_core.solvers.lloyd import Lloyd, assigned

BLOCK = 1 << 15
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Tally(Total):
    """Of one set of centres: J, and weight (k,), rows (k,) and Σ s x (k, d) of each cluster."""

    J: float
    weight: Vector
    members: Codes
    sums: Matrix

    def equals(self, other: Tally) -> bool:
        """Whether the clusters have the same sums, bit for bit."""
        pairs = ((self.members, other.members), (self.weight, other.weight), (self.sums, other.sums))
        return all(np.array_equal(a, b) for a, b in pairs)


@dataclass(frozen=True)
class Tallies(Total):
    """One `Tally` per start."""

    each: tuple[Tally, ...]


@dataclass(frozen=True)
class Assign:
    """The part of a pass: every row to its nearest centre, for each set of centres (k, d); rows are less `mean`."""

    starts: tuple[Matrix, ...]
    mean: Vector

    def __call__(self, X: Matrix, s: Vector) -> Tallies:
        """Of a chunk."""
        A = X - self.mean
        return Tallies(tuple(self._tally(A, s, C) for C in self.starts))

    def _tally(self, A: Matrix, s: Vector, C: Matrix) -> Tally:
        J, labels, weight, sums, _ = assigned(A, s, C)
        return Tally(J, weight, np.bincount(labels, minlength=len(C)), sums)


@dataclass(frozen=True)
class Far:
    """The rows (m, d) farthest from their centres, by falling squared distance, with weights and clusters."""

    rows: Matrix
    s: Vector
    labels: Codes
    square: Vector
    most: int

    def merge(self, other: Far) -> Far:
        """Of both sets of rows; the earlier of equals first."""
        square = np.concatenate([self.square, other.square])
        top = np.argsort(-square, kind="stable")[: self.most]
        rows, s = np.concatenate([self.rows, other.rows]), np.concatenate([self.s, other.s])
        return Far(rows[top], s[top], np.concatenate([self.labels, other.labels])[top], square[top], self.most)


@dataclass(frozen=True)
class Farthest:
    """The part that looks for rows to fill empty clusters with: twice k, for a single row cannot leave its cluster."""

    centres: Matrix
    mean: Vector

    def __call__(self, X: Matrix, s: Vector) -> Far:
        """Of a chunk."""
        A = X - self.mean
        labels, square = nearest(A, self.centres)
        most = 2 * len(self.centres)
        top = np.argsort(-square, kind="stable")[:most]
        return Far(A[top], s[top], labels[top], square[top], most)


def _filled(found: Tally, far: Far) -> tuple[Tally, int]:
    """The farthest row of a cluster of several moves into each empty one; how many moved."""
    weight, members, sums, moved = found.weight.copy(), found.members.copy(), found.sums.copy(), 0
    free = list(range(len(far.rows)))
    for c in np.flatnonzero(members == 0):
        i = next((i for i in free if members[far.labels[i]] > 1 and far.square[i] > 0), None)
        if i is None:
            break
        free.remove(i)
        giver, moved = far.labels[i], moved + 1
        for q, share in ((giver, -far.s[i]), (c, far.s[i])):
            weight[q] += share
            sums[q] += share * far.rows[i]
        members[giver], members[c] = members[giver] - 1, 1
    return replace(found, weight=weight, members=members, sums=sums), moved


@dataclass
class _Start:
    """Where one start is: centres, the last sums at them, the fall of J."""

    C: Matrix
    trace: list[float]
    found: Tally | None = None
    moved: float = np.inf
    relocated: int = 0
    done: bool = False

    def take(self, new: Tally, allowed: float) -> None:
        """Look at the sums of a pass: no row has moved when they are the last ones."""
        same = self.found is not None and self.found.equals(new)
        fallen = not self.trace or self.trace[-1] > new.J  # J falls whenever a centre moves, but for rounding
        self.found, self.done = new, same or not fallen or self.moved <= allowed
        self.trace.append(new.J)

    def step(self) -> None:
        """Centres to the means of their rows."""
        assert self.found is not None  # noqa: S101 - `take` came first
        full = self.found.members > 0
        C = np.where(full[:, None], self.found.sums / np.where(full, self.found.weight, 1.0)[:, None], self.C)
        self.moved, self.C = float(((C - self.C) ** 2).sum()), C


def lloyd_by_sums(starts: Sequence[Matrix], mean: Vector, *, max_iter: int, allowed: float) -> Steps[list[Lloyd]]:
    """Lloyd's alternation from every start at once: yields parts, is sent their totals; O(n k d) per start and pass.

    Centres are relative to `mean`. A start has converged when a pass leaves its sums as they were (no row moved), when
    J falls no more, or when Σ‖Δc‖² ≤ `allowed` > 0.
    """
    runs = [_Start(C, []) for C in starts]
    for step in range(max_iter + 1):
        active = [r for r in runs if not r.done]
        if not active:
            break
        totals: Tallies = yield Assign(tuple(r.C for r in active), mean)
        for run, found in zip(active, totals.each, strict=True):
            run.take(found, allowed if allowed > 0 else -1.0)
        tick(step, max_iter, objective=min(r.trace[-1] for r in runs))
        if all(r.done for r in runs) or spent(step, max_iter):
            break
        for run in active:
            if not run.done:
                yield from _advance(run, mean)
    return [
        Lloyd(r.C, np.empty(0, dtype=np.int64), r.trace[-1], len(r.trace) - 1, r.trace, r.relocated, r.done)
        for r in runs
    ]


def _advance(run: _Start, mean: Vector) -> Steps[None]:
    """Fill empty clusters, then move the centres."""
    assert run.found is not None  # noqa: S101 - `take` came first
    if not run.found.members.all():
        far: Far = yield Farthest(run.C, mean)
        run.found, moved = _filled(run.found, far)
        run.relocated += moved
    run.step()


@dataclass(frozen=True)
class Settled:
    """What certifies centres c (k, d): per cluster its rows, weight, Σ s(x - c), Σ s‖x - c‖²; and over all rows.

    `loose` (k,) is Σ s‖x - c‖ of rows as near, up to rounding, to c as to another centre, where labels are not known;
    `late` how much farther a row's own centre is than the nearest; `top` the largest magnitude of a cell.
    """

    members: Codes
    weight: Vector
    offset: Matrix
    square: Vector
    loose: Vector
    late: float
    top: float

    @classmethod
    def of(cls, X: Matrix, s: Vector, C: Matrix, labels: Codes | None = None) -> Settled:
        """Of rows X (n, d); `labels` are those of the fit, else the nearest; blocks of rows."""
        blocks = [slice(at, at + BLOCK) for at in range(0, len(X), BLOCK)]
        parts = [cls._block(X[r], s[r], C, None if labels is None else labels[r]) for r in blocks]
        out = parts[0]
        for p in parts[1:]:
            out = out.merge(p)
        return out

    @classmethod
    def _block(cls, X: Matrix, s: Vector, C: Matrix, labels: Codes | None) -> Settled:
        k, D = len(C), squared_distances(X, C)
        near = D.argmin(axis=1)
        z = near if labels is None else labels
        gap = X - C[z]
        own = np.einsum("ij,ij->i", gap, gap)
        offset = np.stack([np.bincount(z, weights=s * g, minlength=k) for g in gap.T], axis=1)
        late = float((np.sqrt(own) - np.sqrt(D.min(axis=1))).max())
        top = float(max(np.abs(X).max(), np.abs(C).max()))
        loose = np.zeros(k)
        if labels is None:
            D = np.sqrt(D, out=D)
            tied = D - np.sqrt(own)[:, None] <= 8 * EPS * top * np.sqrt(X.shape[1])
            tied &= tied.sum(axis=1, keepdims=True) > 1
            loose = s @ (D * tied)
        weight, square = (np.bincount(z, weights=w, minlength=k).astype(np.float64) for w in (s, s * own))
        return cls(np.bincount(z, minlength=k), weight, offset.astype(np.float64), square, loose, late, top)

    def merge(self, other: Settled) -> Settled:
        """Of both sets of rows."""
        return Settled(
            self.members + other.members, self.weight + other.weight, self.offset + other.offset,
            self.square + other.square, self.loose + other.loose, max(self.late, other.late), max(self.top, other.top),
        )  # fmt: skip

    def total_inertia(self, C: Matrix) -> float:
        """Σ s‖x - mean of all rows‖²: within the clusters and between them."""
        shift = self.offset / np.where(self.weight > 0, self.weight, 1.0)[:, None]
        far = C - C[0] + shift
        middle = self.weight @ far / self.weight.sum()
        within = self.square.sum() - self.weight @ (shift**2).sum(axis=1)
        return float(within + self.weight @ ((far - middle) ** 2).sum(axis=1))


@dataclass(frozen=True)
class Settle:
    """The part whose total is `Settled`."""

    centres: Matrix

    def __call__(self, X: Matrix, s: Vector) -> Settled:
        """Of a chunk."""
        return Settled.of(X, s, self.centres)
