"""One binary machine with a kernel: its coefficients, how it was found, and what its answer says of itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidParameter, Issue
from ml_core.kernels import LinearKernel
from ml_core.solvers.box_dual import BoxDual
from ml_core.solvers.box_interior_point import solve_low_rank
from ml_core.solvers.box_solution import BoxSolution
from ml_core.solvers.kernel_rows import KernelRows
from ml_core.solvers.smo import solve_box

LOW_RANK = 300
COLLAPSED = 1e-12
DOUBTFUL = 1e-6


@portable
@dataclass(frozen=True)
class Machine:
    """f(x) = Σ βᵢ k(xᵢ, x) + b, the second class of the pair where f ≥ 0; `negative` is -1 for "every other class".

    `rows` (m,) are the support vectors among the training rows, `beta` (m,) = αy; bounds are cap · weight. Without a
    free support vector any b in [low, high] is optimal and the middle is taken (then `interval` is positive). A linear
    machine has `w` (d,) as its solver ended with it; of a linear model, b is the score at the centre of its columns.
    """

    negative: int
    positive: int
    rows: Codes
    beta: Vector
    b: float
    cap: float
    interval: float
    n_iter: int
    converged: bool
    evaluations: int
    dual_trace: Vector
    gap_trace: Vector
    w: Vector | None = None


def sides(y: Codes, negative: int, positive: int) -> tuple[Codes, Vector]:
    """Training rows of a pair of classes, those of the negative class first, and their signs."""
    if negative < 0:
        return np.arange(len(y)), np.where(y == positive, 1.0, -1.0)
    low, high = np.flatnonzero(y == negative), np.flatnonzero(y == positive)
    return np.concatenate([low, high]), np.repeat([-1.0, 1.0], [len(low), len(high)])


@dataclass(frozen=True)
class Solving:
    """How programs are solved: `tol` is the largest violation of yf = 1, `size` the bytes for kernel rows."""

    tol: float
    max_iter: int
    size: int


def trained(pair: tuple[int, int], where: Codes, dual: BoxDual, rows: KernelRows, how: Solving, *, cap: float,
            gram: Matrix | None = None) -> Machine:  # fmt: skip
    """Solve the machine's program; in the ν form (two groups) rescale so that free support vectors have yf = 1."""
    if dual.groups == 1 and type(rows.kernel) is LinearKernel and rows.X.shape[1] <= LOW_RANK:
        found = solve_low_rank(dual, rows.X, tol=how.tol)
    else:
        found = solve_box(dual, rows, tol=how.tol, max_iter=how.max_iter, cache_bytes=how.size, gram=gram)
    if dual.groups == 1:
        machine = machine_of(pair, where, found, cap)
        return machine if found.plane is None else replace(machine, w=found.plane.w)
    refuse_collapse(found, dual, rows)
    machine = machine_of(pair, where, found, cap)
    return replace(machine, converged=machine.converged and machine.cap * found.violation <= how.tol)


def refuse_collapse(found: BoxSolution, dual: BoxDual, rows: KernelRows) -> None:
    """InvalidParameter where weighted means of the classes coincide and nothing is left of w.

    The start weights the rows of a class alike, as every nu allows: where it has no w either, no nu has one.
    """
    largest = COLLAPSED * float(rows.diag.max())

    def vanishes(beta: Vector, square: float) -> bool:
        return square <= largest * float(np.abs(beta).sum()) ** 2

    beta = found.beta.sum(axis=0)
    clear = -2.0 * found.trace[-1] > DOUBTFUL * float(rows.diag.max()) * float(np.abs(beta).sum()) ** 2
    if clear or not vanishes(beta, float(beta @ rows.times(beta))):
        return
    start = dual.start.sum(axis=0)
    if vanishes(start, float(start @ rows.times(start))):
        text = ("the means of the classes coincide under this kernel, so there is no margin for any nu; take another "
                "kernel or other columns, or kernel_svm")  # fmt: skip
    else:
        text = ("nu is too small for classes that overlap so much: the margin shrinks to nothing; raise nu, or take "
                "kernel_svm")  # fmt: skip
    raise InvalidParameter(text, [Issue("/params/nu", "infeasible", text)])


def machine_of(pair: tuple[int, int], where: Codes, found: BoxSolution, cap: float) -> Machine:
    """The machine of a solved program."""
    unit, b = 1.0, float(found.b[0])
    if len(found.b) == 2:
        unit = cap = 1.0 / max(0.5 * float(found.b[0] - found.b[1]), np.finfo(float).tiny)
        b = 0.5 * float(found.b[0] + found.b[1]) * unit
    beta = found.beta.sum(axis=0) * unit
    on = np.flatnonzero(beta)
    return Machine(pair[0], pair[1], where[on], beta[on], b, cap, _interval(found) * unit, found.n_iter,
                   found.converged, found.evaluations, np.array(found.trace), np.array(found.gaps))  # fmt: skip


def _interval(found: BoxSolution) -> float:
    """Width of the interval of optimal b where no support vector is free, else 0."""
    return 0.0 if found.free.min() > 0 else max(0.0, -found.violation)
