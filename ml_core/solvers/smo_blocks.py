"""Blocks of variables over rows of the kernel that a cache holds or computes, in single precision while that serves."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.solvers.box_dual import BoxDual, Levels, firm, levels
from ml_core.solvers.kernel_rows import Each, KernelRows, RowCache
from ml_core.solvers.smo_pairs import solve_pairs
from ml_core.solvers.smo_run import Index, Run

BLOCK = 768
KEEP = 0.75
SHRINK_EVERY = 8
SINGLE = 1200
DRIFT, NEAR, SAMPLE = 0.1, 10, 256


class Blocks(Run):
    """Blocks over a row cache, in single precision while that serves.

    Then v errs, but by less than it is away from m and M: near these it is computed anew in double before anything is
    believed. Where it had erred too much for the violation that was asked for, rows are double from there on.
    """

    def __init__(self, dual: BoxDual, rows: KernelRows, left: int, size: int, each: Each) -> None:
        super().__init__(dual, rows, left)
        self.size, self.each, self.margin = size, each, 0.0
        self.exact = np.zeros(rows.n, dtype=bool)
        self._hold(rows.single() if rows.n > SINGLE else rows)
        self._whole()
        self.told(dual, self.beta, self.v)

    def _hold(self, quick: KernelRows) -> None:
        self.quick, self.cache = quick, RowCache(quick, self.size, BLOCK, self.each)
        self.spare = self.cache.capacity < quick.n

    def _whole(self) -> None:
        """Every row is active."""
        self.active = np.arange(self.rows.n)
        self.part, self.b, self.w = self.dual, self.beta, self.v
        self.last: Index = np.empty(0, dtype=np.int64)
        self.out: list[tuple[Index, Vector]] = []

    def improve(self, tol: float, most: int) -> None:
        """Rounds, to a violation that holds with every row active and v exact near m and M."""
        rounds, end = 0, self.done + most
        while self.left > 0 and self.done < end:
            found = levels(self.part, self.b, self.w)
            if found.violation <= (tol if self.quick is self.rows else (1 - 2 * DRIFT) * tol):
                if len(self.active) == self.rows.n and self._sure(tol):
                    return
                self._restore()
                continue
            if self.late():
                break
            if self.spare and rounds % SHRINK_EVERY == SHRINK_EVERY - 1:
                self._shrink(found)
            self._round(found.violation, tol)
            rounds += 1
        self._restore()
        self._sure(tol)

    def _sure(self, tol: float) -> bool:
        """Whether the violation is at most tol by values of v that are exact where it matters."""
        self.margin = NEAR * tol
        if self._settle() > DRIFT * tol:
            del self.cache  # two would be more memory than was asked for
            self._hold(self.rows)
            self.v[:] = -self.dual.c - self.rows.times(self.beta.sum(axis=0))
            self.evaluations += self.rows.n * int(np.count_nonzero(self.beta.any(axis=0)))
        return self.violation() <= tol

    def _settle(self) -> float:
        """v anew, in double, at rows near m and M and at some others; returns by how much it had erred there."""
        drift, margin = 0.0, self.margin
        if self.quick is self.rows:
            return drift
        beta, some = self.beta.sum(axis=0), np.arange(0, self.rows.n, max(1, self.rows.n // SAMPLE))
        while True:
            near = ~firm(self.dual, self.beta, self.v, levels(self.dual, self.beta, self.v), margin)
            near[some] = True
            new = np.flatnonzero(near & ~self.exact)
            if not len(new):
                return drift
            v = -self.dual.c[:, new] - self.rows.times(beta, new)
            drift = max(drift, float(np.abs(v - self.v[:, new]).max()))
            self.v[:, new], self.exact[new], margin = v, True, max(margin, NEAR * drift)
            self.evaluations += len(new) * int(np.count_nonzero(beta))

    def _round(self, violation: float, tol: float) -> None:
        chosen = self._choose()
        copy, at = np.divmod(chosen, len(self.active))
        ids = self.active[at]
        K = self.rows.square(ids, self.each)
        p, beta, v = self.part, self.b[copy, at], self.w[copy, at]
        before, old = v.copy(), beta.copy()
        steps, _ = solve_pairs(K, self.rows.diag[ids], beta, v, p.lo[copy, at], p.hi[copy, at],
                               p.group[copy, at], p.groups, max(0.1 * violation, 0.5 * tol),
                               min(self.left, 20 * BLOCK))  # fmt: skip
        delta = beta - old
        self.b[copy, at] = beta
        self.w -= self.cache.weighted(ids, delta)
        self.exact[:] = False
        self.value += 0.5 * float(delta @ (before + v))
        self.left, self.done = self.left - max(steps, 1), self.done + steps
        self.evaluations += K.size + len(self.active) * self.cache.computed
        self.last = chosen
        self.told(p, self.b, self.w)

    def _choose(self) -> Index:
        """Half of a block: those that violate most, as many that may rise as may fall; half: of the last block."""
        p, flat = self.part, self.w.ravel()
        up = np.where(self.b < p.hi, self.w, -np.inf).ravel()
        down = np.where(self.b > p.lo, self.w, np.inf).ravel()
        fresh = BLOCK if not len(self.last) else BLOCK // 2
        each = min(max(1, fresh // (2 * p.groups)), len(flat))
        picked = []
        for g in range(p.groups):
            own = np.flatnonzero(p.group.ravel() == g) if p.groups > 1 else np.arange(len(flat))
            a, b = up[own], down[own]
            rise = own[np.argpartition(-a, min(each, len(own)) - 1)[:each]]
            fall = own[np.argpartition(b, min(each, len(own)) - 1)[:each]]
            picked += [rise[up[rise] > b.min()], fall[down[fall] < a.max()]]
        new = np.unique(np.concatenate(picked))
        kept = self.last[~np.isin(self.last, new)]
        free = (self.b.ravel()[kept] > p.lo.ravel()[kept]) & (self.b.ravel()[kept] < p.hi.ravel()[kept])
        kept = np.concatenate([kept[free], kept[~free]])[: BLOCK - len(new)]
        return np.sort(np.concatenate([new, kept]))

    def _shrink(self, found: Levels) -> None:
        p = self.part
        keep = np.flatnonzero(~firm(p, self.b, self.w, found))
        if len(keep) > KEEP * len(self.active) or not len(keep):
            return
        self._write()
        self.out.append((np.delete(self.active, keep), self.beta.sum(axis=0)))
        self.cache.shrink(keep)
        self.active = self.active[keep]
        self.part = p.rows(keep)
        self.b, self.w = np.ascontiguousarray(self.b[:, keep]), np.ascontiguousarray(self.w[:, keep])
        self.last = np.empty(0, dtype=np.int64)

    def _write(self) -> None:
        if len(self.active) < self.rows.n:
            self.beta[:, self.active], self.v[:, self.active] = self.b, self.w

    def _restore(self) -> None:
        """Bring back what was shrunk: its v follows what moved since it was left out."""
        if len(self.active) == self.rows.n:
            return
        self._write()
        now = self.beta.sum(axis=0)
        for rest, then in self.out:
            change = now - then
            self.v[:, rest] -= self.quick.times(change, rest)
            self.evaluations += int(np.count_nonzero(change)) * len(rest)
        self.cache.reset(np.arange(self.rows.n))
        self._whole()

    def kernel(self, row: Index) -> Matrix:
        """In double precision."""
        return self.rows.square(row, self.each)

    def follow(self, row: Index, delta: Vector) -> None:
        """What was exact stays so."""
        near = np.flatnonzero(self.exact)
        moved = np.bincount(row, delta, self.rows.n).astype(np.float64)
        exact = self.v[:, near] - self.rows.times(moved, near)
        for i in range(0, len(row), BLOCK):
            self.v -= self.cache.weighted(row[i : i + BLOCK], delta[i : i + BLOCK])
        self.v[:, near] = exact
        self._settle()
