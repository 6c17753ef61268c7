"""Decomposition for the quadratic program of support vector machines (`BoxDual`), for any kernel, in bounded memory.

Rounds: the variables that violate optimality most form a block; pairs within the block are optimised (`smo_pairs`); v
changes by the kernel rows of what moved, from a cache or computed in tiles on threads. Rows whose variables sit firmly
at their bounds are left out (shrinking) while the cache cannot hold everything, and their v catches up with what moved
since before anything is believed. Where the free variables are few enough their linear system ends what pairs only
approach. Small problems are one block. No bit depends on the number of threads.

Source: Joachims (1999), Making large-scale SVM learning practical; Fan, Chen, Lin (2005), JMLR 6; Wen et al. (2018),
ThunderSVM, JMLR 19.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.parallel import team
from ml_core.solvers.box_dual import BoxDual, dual_value, gap, levels, multipliers
from ml_core.solvers.box_solution import BoxSolution
from ml_core.solvers.free_set import Free, Held, newton_on_free
from ml_core.solvers.kernel_rows import CACHE_BYTES, Each, KernelRows, RowCache
from ml_core.solvers.smo_pairs import solve_pairs

DENSE = 1200
BLOCK = 768
SLICE = 20_000
COARSE = 1e-3
FEWER = 0.1
FIRST = 20_000
POLISHES = 40
FINE = 1e-10
MET = 2
MOST_FREE = 4000
STEPS = 200
KEEP = 0.75
SHRINK_EVERY = 8
Index = np.ndarray


def solve_box(dual: BoxDual, rows: KernelRows, *, tol: float, max_iter: int, unit: float = 1.0,
              cache_bytes: int = CACHE_BYTES, gram: Matrix | None = None) -> BoxSolution:  # fmt: skip
    """Solve to m - M ≤ tol · unit, or stop after max_iter steps on pairs or when time is over.

    `gram` is the kernel matrix, where known.
    """
    small = dual.c.size <= DENSE or gram is not None
    goal = tol * unit
    with team(not small) as each:
        work: _Run = _Dense(dual, rows, max_iter, gram) if small else _Blocks(dual, rows, max_iter, cache_bytes, each)
        _descend(work, goal, unit, max_iter)
    beta, v = work.beta, work.v
    b, free = multipliers(dual, beta, v)
    worst = levels(dual, beta, v).violation
    return BoxSolution(beta, v, b, free, worst, max_iter - work.left, worst <= goal, work.evaluations,
                       work.trace, work.gaps)  # fmt: skip


def _descend(work: _Run, goal: float, unit: float, max_iter: int) -> None:
    """Pairs and the linear system of the free variables in turn, to ever smaller violations.

    The last system is cheap and usually ends at rounding, so that it is tried even where goal is already met.
    """
    fine, stage = min(goal, FINE * unit), max(goal, COARSE * unit)
    allowed, met = max(FIRST, 20 * work.dual.c.size), 0
    for _ in range(POLISHES):
        work.improve(stage, allowed)
        if work.late() or not work.polish():
            break
        met += work.violation() <= goal
        if work.violation() <= fine or met > MET or work.left <= 0:
            break
        stage, allowed = max(fine, min(stage, work.violation()) * FEWER), 2 * allowed
    if work.violation() > goal:
        work.improve(goal, max_iter)


class _Run(ABC):
    """β, v, the steps that are left and the traces."""

    def __init__(self, dual: BoxDual, rows: KernelRows, left: int) -> None:
        self.dual, self.rows, self.left = dual, rows, left
        self.beta = dual.start.copy()
        self.v = -dual.c - (rows.times(self.beta.sum(axis=0)) if dual.start.any() else 0.0)
        self.value = dual_value(dual, self.beta, self.v)
        self.trace: list[float] = []
        self.gaps: list[float] = []
        self.evaluations = 0
        self.done = 0

    def violation(self) -> float:
        return levels(self.dual, self.beta, self.v).violation

    def late(self) -> bool:
        """Whether time is over and a step was made."""
        return self.done > 0 and progress.late()

    @abstractmethod
    def improve(self, tol: float, most: int) -> None:
        """Steps on pairs until m - M ≤ tol, at most so many."""

    def polish(self) -> bool:
        """Solve for the free variables as they are; False when they are none or too many."""
        free = (self.beta > self.dual.lo) & (self.beta < self.dual.hi)
        copy, row = np.nonzero(free)
        if not 2 <= len(row) <= MOST_FREE:
            return False
        f = Free(Held(self.kernel(row)), self.v[copy, row], self.beta[copy, row], self.dual.lo[copy, row],
                 self.dual.hi[copy, row], self.dual.group[copy, row])  # fmt: skip
        old = f.beta.copy()
        newton_on_free(f, STEPS)
        self.beta[copy, row] = f.beta
        self.v -= self.change(row, f.beta - old)
        self.value = dual_value(self.dual, self.beta, self.v)
        self.told(self.dual, self.beta, self.v)
        return True

    @abstractmethod
    def kernel(self, row: Index) -> Matrix:
        """Kernel matrix of these rows."""

    @abstractmethod
    def change(self, row: Index, delta: Vector) -> Vector:
        """K δ over all rows, for δ at these rows."""

    def told(self, dual: BoxDual, beta: Matrix, v: Matrix) -> None:
        """Record and report the dual value and the gap (over the rows that are active)."""
        b, _ = multipliers(dual, beta, v)
        self.trace.append(self.value)
        self.gaps.append(gap(dual, beta, v, b))
        progress.tick(self.done, None, "pairs", dual_objective=self.value, duality_gap=self.gaps[-1])


class _Dense(_Run):
    """One block: the whole kernel matrix is held."""

    def __init__(self, dual: BoxDual, rows: KernelRows, left: int, gram: Matrix | None) -> None:
        super().__init__(dual, rows, left)
        self.gram = rows.block(np.arange(rows.n)) if gram is None else gram
        self.diag = np.ascontiguousarray(np.diag(self.gram))
        self.evaluations = 0 if gram is not None else rows.n * rows.n
        self.told(dual, self.beta, self.v)

    def improve(self, tol: float, most: int) -> None:
        beta, v, d, end = self.beta.ravel(), self.v.ravel(), self.dual, self.done + most
        while self.left > 0 and self.done < end and not self.late():
            most = min(SLICE, self.left)
            steps, worst = solve_pairs(self.gram, self.diag, beta, v, d.lo.ravel(), d.hi.ravel(), d.group.ravel(),
                                       d.groups, tol, most)  # fmt: skip
            self.left, self.done = self.left - max(steps, 1), self.done + steps
            self.value = dual_value(d, self.beta, self.v)
            self.told(d, self.beta, self.v)
            if worst <= tol or steps < most:
                return

    def kernel(self, row: Index) -> Matrix:
        return np.asarray(self.gram[np.ix_(row, row)])

    def change(self, row: Index, delta: Vector) -> Vector:
        return np.asarray(delta @ self.gram[row])


class _Blocks(_Run):
    """Blocks over a row cache."""

    def __init__(self, dual: BoxDual, rows: KernelRows, left: int, size: int, each: Each) -> None:
        super().__init__(dual, rows, left)
        self.cache = RowCache(rows, size, BLOCK, each)
        self.spare = self.cache.capacity < rows.n
        self._whole()
        self.told(dual, self.beta, self.v)

    def _whole(self) -> None:
        """Every row is active."""
        self.active = np.arange(self.rows.n)
        self.part, self.b, self.w = self.dual, self.beta, self.v
        self.last: Index = np.empty(0, dtype=np.int64)
        self.out: list[tuple[Index, Vector]] = []

    def improve(self, tol: float, most: int) -> None:
        rounds, end = 0, self.done + most
        while self.left > 0 and self.done < end:
            found = levels(self.part, self.b, self.w)
            if found.violation <= tol:
                if len(self.active) == self.rows.n:
                    return
                self._restore()
                continue
            if self.late():
                break
            if self.spare and rounds % SHRINK_EVERY == SHRINK_EVERY - 1:
                self._shrink(found.high, found.low)
            self._round(found.violation, tol)
            rounds += 1
        self._restore()

    def _round(self, violation: float, tol: float) -> None:
        chosen = self._choose()
        copy, at = np.divmod(chosen, len(self.active))
        ids = self.active[at]
        K = self.rows.block(ids, ids)
        p, beta, v = self.part, self.b[copy, at], self.w[copy, at]
        before, old = v.copy(), beta.copy()
        steps, _ = solve_pairs(K, self.rows.diag[ids], beta, v, p.lo[copy, at], p.hi[copy, at],
                               p.group[copy, at], p.groups, max(0.1 * violation, 0.5 * tol),
                               min(self.left, 20 * BLOCK))  # fmt: skip
        delta = beta - old
        self.b[copy, at] = beta
        self.w -= self.cache.weighted(ids, delta)
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

    def _shrink(self, high: Vector, low: Vector) -> None:
        p = self.part
        firm = ((self.b >= p.hi) & (self.w > high[p.group])) | ((self.b <= p.lo) & (self.w < low[p.group]))
        keep = np.flatnonzero(~firm.all(axis=0))
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
            self.v[:, rest] -= self.rows.times(change, rest)
            self.evaluations += int(np.count_nonzero(change)) * len(rest)
        self.cache.reset(np.arange(self.rows.n))
        self._whole()

    def kernel(self, row: Index) -> Matrix:
        return self.rows.block(row, row)

    def change(self, row: Index, delta: Vector) -> Vector:
        out = np.zeros(self.rows.n)
        for i in range(0, len(row), BLOCK):
            out += self.cache.weighted(row[i : i + BLOCK], delta[i : i + BLOCK])
        return out
