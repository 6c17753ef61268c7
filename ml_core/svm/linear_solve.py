"""One linear machine by whichever solver suits the shape of the table."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.kernels import LinearKernel
from ml_core.losses.hinge import SquaredHinge
from ml_core.numerics.sparse_rows import Rows
from ml_core.solvers.box_interior_point import solve_low_rank
from ml_core.solvers.box_solution import Plane
from ml_core.solvers.dual_coordinate import LinearDual, balanced, dual_coordinate
from ml_core.solvers.kernel_rows import KernelRows
from ml_core.solvers.linear_objective import LinearObjective, unit_of
from ml_core.solvers.smo import DENSE, solve_box
from ml_core.solvers.thinned_newton import thinned_newton
from ml_core.svm.duals import classification
from ml_core.svm.machine import LOW_RANK, Machine, Solving, machine_of

Solver = Literal["auto", "interior_point", "newton", "decomposition", "dual_coordinate_descent"]
DIRECT_COLUMNS = 1000
"""Columns up to which linear systems in them are solved: descent may take 100,000 rounds where many rows overlap."""
NEWTON_STEPS = 200


def chosen(solver: Solver, squared: bool, n: int, d: int) -> Solver:
    """`auto` made definite: exact solvers while their linear systems are small, else coordinate descent."""
    if solver != "auto":
        return solver
    if squared:
        return "newton" if d <= DIRECT_COLUMNS else "dual_coordinate_descent"
    if d <= (LOW_RANK if n <= DENSE else DIRECT_COLUMNS):
        return "interior_point"
    return "decomposition" if n <= DENSE else "dual_coordinate_descent"


def flops(kind: Solver, n: int, d: int) -> float:
    """Of one machine, in the slow operations that estimates of time count.

    The product of n d² runs at the speed of matrix products, several times that of the passes over the rows beside it,
    so that these are most of a step up to some fifty columns. Measured on 20,000 rows of 5 to 290 columns.
    """
    steps = {"interior_point": (20.0, 0.6, 20.0, 500.0), "newton": (6.0, 0.25, 16.0, 160.0)}
    if kind in steps:
        times, square, once, row = steps[kind]
        return times * n * (square * d * d + once * d + row)
    return 800.0 * n * d


def linear_machine(pair: tuple[int, int], where: Codes, X: Rows, sign: Vector, cap: Vector, *, C: float, squared: bool,
                   solver: Solver, how: Solving, seed: int, centre: Vector) -> Machine:  # fmt: skip
    """Rows X with signs and bounds `cap` = C · weight; b of the machine is its score at `centre`."""
    kind = chosen(solver, squared, *X.shape)
    if kind == "dual_coordinate_descent" or not isinstance(X, np.ndarray):
        machine, plane = _by_descent(pair, where, X, sign, cap, C, squared, how, seed)
    elif kind == "interior_point":
        found = solve_low_rank(classification(sign, cap), X, tol=how.tol)
        assert found.plane is not None  # noqa: S101 - this solver gives it
        machine, plane = machine_of(pair, where, found, C), found.plane
    elif kind == "decomposition":
        mean = X.mean(axis=0)
        rows = KernelRows(LinearKernel(), X - mean)
        found = solve_box(classification(sign, cap), rows, tol=how.tol, max_iter=how.max_iter, cache_bytes=how.size)
        machine, plane = machine_of(pair, where, found, C), Plane(found.beta[0] @ rows.X, mean, float(found.b[0]))
    else:
        machine, plane = _by_newton(pair, where, X, sign, cap, C, how)
    return replace(machine, w=plane.w, b=plane.b + float(plane.w @ (centre - plane.centre)))


Found = tuple[Machine, Plane]


def _by_descent(pair: tuple[int, int], where: Codes, X: Rows, sign: Vector, cap: Vector, C: float, squared: bool,
                how: Solving, seed: int) -> Found:  # fmt: skip
    """Dual coordinate descent, over rows less their mean where they are dense."""
    mean = X.mean(axis=0) if isinstance(X, np.ndarray) else np.zeros(X.shape[1])
    Z = X - mean if isinstance(X, np.ndarray) else X
    got = dual_coordinate(Z, sign, cap, squared=squared, tol=how.tol, max_iter=how.max_iter, seed=seed)
    return _machine_of(pair, where, C, got.alpha * sign, got), Plane(got.w, mean, got.b)


def _machine_of(pair: tuple[int, int], where: Codes, C: float, beta: Vector, got: LinearDual) -> Machine:
    on = np.flatnonzero(beta)
    return Machine(*pair, where[on], beta[on], got.b, C, 0.0, got.n_iter, got.converged, 0, np.array(got.trace),
                   np.array(got.gaps))  # fmt: skip


def _by_newton(pair: tuple[int, int], where: Codes, X: Matrix, sign: Vector, cap: Vector, C: float,
               how: Solving) -> Found:  # fmt: skip
    """Squared slack: smooth in w and b; αᵢ = 2 capᵢ ξᵢ."""
    whole = LinearObjective(X, sign, 2.0 * cap, SquaredHinge(), alpha=1.0)
    unit = unit_of(whole.s)
    problem = whole if unit == 1.0 else whole.in_units_of(unit)
    found = thinned_newton(problem, tol=min(how.tol, 1e-10), max_iter=NEWTON_STEPS)
    W, b = whole.unpack(found.w)
    centre = whole.columns.mean
    plane = Plane(W[0], centre, float(b[0] + W[0] @ centre) if whole.columns.direct else float(found.w[-1]))
    alpha = balanced(2.0 * cap * np.maximum(0.0, 1.0 - sign * whole.predictor(found.w)[:, 0]), sign)
    trace = [float(alpha.sum() - 0.5 * W[0] @ W[0] - 0.25 * (alpha**2 / cap).sum())]
    gaps = [unit * value for value in found.trace]
    got = LinearDual(W[0], plane.b, alpha, found.n_iter, found.converged, trace, gaps)
    return _machine_of(pair, where, C, alpha * sign, got), plane
