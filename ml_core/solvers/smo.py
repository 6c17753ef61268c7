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

from ml_core.arrays import Matrix
from ml_core.parallel import team
from ml_core.solvers.box_dual import BoxDual, levels, multipliers
from ml_core.solvers.box_solution import BoxSolution
from ml_core.solvers.kernel_rows import CACHE_BYTES, KernelRows
from ml_core.solvers.smo_blocks import Blocks
from ml_core.solvers.smo_run import Dense, Run

DENSE = 1200
COARSE = 1e-3
FEWER = 0.1
FIRST = 20_000
POLISHES = 40
FINE = 1e-10
MET = 2


def solve_box(dual: BoxDual, rows: KernelRows, *, tol: float, max_iter: int, unit: float = 1.0,
              cache_bytes: int = CACHE_BYTES, gram: Matrix | None = None) -> BoxSolution:  # fmt: skip
    """Solve to m - M ≤ tol · unit, or stop after max_iter steps on pairs or when time is over.

    `gram` is the kernel matrix, where known.
    """
    small = dual.c.size <= DENSE or gram is not None
    goal = tol * unit
    with team(not small) as each:
        work: Run = Dense(dual, rows, max_iter, gram) if small else Blocks(dual, rows, max_iter, cache_bytes, each)
        _descend(work, goal, unit, max_iter)
    beta, v = work.beta, work.v
    b, free = multipliers(dual, beta, v)
    worst = levels(dual, beta, v).violation
    return BoxSolution(beta, v, b, free, worst, max_iter - work.left, worst <= goal, work.evaluations,
                       work.trace, work.gaps)  # fmt: skip


def _descend(work: Run, goal: float, unit: float, max_iter: int) -> None:
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
