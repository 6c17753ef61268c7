"""The state of a decomposition, its end by a linear system, and the small problem that is one block."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.solvers.box_dual import BoxDual, dual_value, gap, levels, multipliers
from ml_core.solvers.free_set import Free, Held, newton_on_free
from ml_core.solvers.kernel_rows import KernelRows
from ml_core.solvers.smo_pairs import solve_pairs

SLICE = 20_000
MOST_FREE = 4000
STEPS = 200
Index = np.ndarray


class Run(ABC):
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
        """m - M of all variables."""
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
        self.follow(row, f.beta - old)
        self.value = dual_value(self.dual, self.beta, self.v)
        self.told(self.dual, self.beta, self.v)
        return True

    @abstractmethod
    def kernel(self, row: Index) -> Matrix:
        """Kernel matrix of these rows."""

    @abstractmethod
    def follow(self, row: Index, delta: Vector) -> None:
        """v ← v - K δ, for δ at these rows."""

    def told(self, dual: BoxDual, beta: Matrix, v: Matrix) -> None:
        """Record and report the dual value and the gap (over the rows that are active)."""
        b, _ = multipliers(dual, beta, v)
        self.trace.append(self.value)
        self.gaps.append(gap(dual, beta, v, b))
        progress.tick(self.done, None, "pairs", dual_objective=self.value, duality_gap=self.gaps[-1])


class Dense(Run):
    """One block: the whole kernel matrix is held."""

    def __init__(self, dual: BoxDual, rows: KernelRows, left: int, gram: Matrix | None) -> None:
        super().__init__(dual, rows, left)
        self.gram = rows.square(np.arange(rows.n)) if gram is None else gram
        self.diag = np.ascontiguousarray(np.diag(self.gram))
        self.evaluations = 0 if gram is not None else rows.n * rows.n
        self.told(dual, self.beta, self.v)

    def improve(self, tol: float, most: int) -> None:
        """In slices, between which progress is told."""
        beta, v, d, end = self.beta.ravel(), self.v.ravel(), self.dual, self.done + most
        while self.left > 0 and self.done < end and not self.late():
            slice_ = min(SLICE, self.left)
            steps, worst = solve_pairs(self.gram, self.diag, beta, v, d.lo.ravel(), d.hi.ravel(), d.group.ravel(),
                                       d.groups, tol, slice_)  # fmt: skip
            self.left, self.done = self.left - max(steps, 1), self.done + steps
            self.value = dual_value(d, self.beta, self.v)
            self.told(d, self.beta, self.v)
            if worst <= tol or steps < slice_:
                return

    def kernel(self, row: Index) -> Matrix:
        """Of the matrix."""
        return np.asarray(self.gram[np.ix_(row, row)])

    def follow(self, row: Index, delta: Vector) -> None:
        """By rows of the matrix."""
        self.v -= delta @ self.gram[row]
