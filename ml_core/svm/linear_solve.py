"""One linear machine by whichever solver suits the shape of the table."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.kernels import LinearKernel
from ml_core.losses.hinge import SquaredHinge
from ml_core.solvers.box_interior_point import solve_low_rank
from ml_core.solvers.dual_coordinate import balanced, dual_coordinate
from ml_core.solvers.kernel_rows import KernelRows
from ml_core.solvers.linear_objective import LinearObjective, unit_of
from ml_core.solvers.newton import coarse_start, newton
from ml_core.solvers.smo import DENSE, solve_box
from ml_core.svm.duals import classification
from ml_core.svm.machine import LOW_RANK, Machine, Solving, machine_of

Solver = Literal["auto", "interior_point", "newton", "decomposition", "dual_coordinate_descent"]
NEWTON_COLUMNS = 1000
NEWTON_STEPS = 200


def chosen(solver: Solver, squared: bool, n: int, d: int) -> Solver:
    """`auto` made definite: exact solvers while their linear systems are small, else coordinate descent."""
    if solver != "auto":
        return solver
    if squared:
        return "newton" if d <= NEWTON_COLUMNS else "dual_coordinate_descent"
    if d <= LOW_RANK:
        return "interior_point"
    return "decomposition" if n <= DENSE else "dual_coordinate_descent"


def linear_machine(pair: tuple[int, int], where: Codes, X: Matrix, sign: Vector, cap: Vector, *, C: float,
                   squared: bool, solver: Solver, how: Solving, seed: int) -> Machine:  # fmt: skip
    """Rows X with signs and bounds `cap` = C · weight."""
    kind = chosen(solver, squared, *X.shape)
    if kind == "interior_point":
        return machine_of(pair, where, solve_low_rank(classification(sign, cap), X, tol=how.tol), C)
    if kind == "decomposition":
        rows = KernelRows(LinearKernel(), X - X.mean(axis=0))
        found = solve_box(classification(sign, cap), rows, tol=how.tol, max_iter=how.max_iter, cache_bytes=how.size)
        moved = float((found.beta[0] @ rows.X) @ X.mean(axis=0))
        return machine_of(pair, where, replace(found, b=found.b - moved), C)
    if kind == "newton":
        return _by_newton(pair, where, X, sign, cap, C, how)
    mean = X.mean(axis=0)
    got = dual_coordinate(X - mean, sign, cap, squared=squared, tol=how.tol, max_iter=how.max_iter, seed=seed)
    on = np.flatnonzero(got.alpha)
    return Machine(*pair, where[on], (got.alpha * sign)[on], got.b - float(got.w @ mean), C, 0.0, got.n_iter,
                   got.converged, 0, np.array(got.trace), np.array(got.gaps))  # fmt: skip


def _by_newton(pair: tuple[int, int], where: Codes, X: Matrix, sign: Vector, cap: Vector, C: float,
               how: Solving) -> Machine:  # fmt: skip
    """Squared slack: smooth in w and b; αᵢ = 2 capᵢ ξᵢ."""
    whole = LinearObjective(X, sign, 2.0 * cap, SquaredHinge(), alpha=1.0)
    unit = unit_of(whole.s)
    problem = whole if unit == 1.0 else whole.in_units_of(unit)
    start, solve = coarse_start(problem)
    found = newton(problem, start, tol=min(how.tol, 1e-10), max_iter=NEWTON_STEPS, solve=solve)[0]
    W, b = whole.unpack(found.w)
    alpha = balanced(2.0 * cap * np.maximum(0.0, 1.0 - sign * (X @ W[0] + b[0])), sign)
    on = np.flatnonzero(alpha)
    trace = unit * np.array(found.trace)
    return Machine(*pair, where[on], (alpha * sign)[on], float(b[0]), C, 0.0, found.n_iter, found.converged, 0,
                   np.array([alpha.sum() - 0.5 * W[0] @ W[0] - 0.25 * (alpha**2 / cap).sum()]), trace)  # fmt: skip
