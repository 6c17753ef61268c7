"""The minimum of a loss of linear predictors by the solver of a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ml_core.arrays import Vector
from ml_core.solvers.base import Solution
from ml_core.solvers.irls import irls
from ml_core.solvers.lbfgs import lbfgs
from ml_core.solvers.linear_first_order import first_order
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.newton import inverse
from ml_core.solvers.thinned_newton import thinned_newton

NEWTON_UNKNOWNS = 4000
"""Unknowns up to which a Hessian is formed."""


def minimum(
    problem: LinearObjective, solver: str, start: Vector, *, tol: float, max_iter: int,
    slow: Callable[[Vector], bool] | None = None, seed: int = 0,
) -> Solution:  # fmt: skip
    """newton, which `slow` may end, irls and lbfgs from `start`, or a first-order method from 0."""
    return replace(_minimum(problem, solver, start, tol, max_iter, slow, seed), solver=solver)


def _minimum(
    problem: LinearObjective, solver: str, start: Vector, tol: float, max_iter: int,
    slow: Callable[[Vector], bool] | None, seed: int,
) -> Solution:  # fmt: skip
    if solver == "newton":
        return thinned_newton(problem, start, tol=tol, max_iter=max_iter, slow=slow)
    if solver == "irls":
        return irls(problem, start, tol=tol, max_iter=max_iter)
    if solver == "lbfgs":
        metric = inverse(problem.second(start)[2]) if problem.size <= NEWTON_UNKNOWNS else None
        return lbfgs(problem.value_gradient, start, tol=tol, max_iter=max_iter, solve=metric)
    return first_order(problem, solver, tol=tol, max_iter=max_iter, seed=seed)
