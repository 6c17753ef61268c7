"""What the functions of first-order methods share: their arguments, default steps and the run."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.errors import InvalidParameter, Issue
from ml_core.registry import Answer
from ml_core.solvers.base import Solution
from ml_core.solvers.first_order import Draws, descend
from ml_core.solvers.objectives import Objective
from ml_core.solvers.problems import Problem, start_of
from ml_core.solvers.run_report import Recorder, RunReport, run
from ml_core.solvers.updates import Update

QUADRATIC = {"problem": {"problem": "quadratic", "A": [[4.0, 1.0], [1.0, 3.0]], "b": [1.0, 2.0]}}
ROWS = {
    "problem": {"problem": "mean_loss", "loss": "logistic", "X": [[0.5], [-1.0], [2.0], [-0.3], [1.0], [-0.5]],
                "y": [1, 0, 1, 1, 0, 0], "alpha": 0.1},
}  # fmt: skip
Rate = Annotated[float | None, Field(gt=0, description="Step size; default by the largest curvature L.")]
Fixed = Annotated[float, Field(gt=0, description="Step size.")]
Batch = Annotated[int | None, Field(ge=1, description="Rows per step, in a new order each epoch; null: all rows.")]
Decay = Annotated[float, Field(ge=0, le=1, description="Steps shrink as (1 + epoch)^-decay.")]
Average = Annotated[bool, Field(description="With batches: answer with the mean of an epoch's points.")]
Beta = Annotated[float, Field(ge=0, lt=1, description="Share of the past that is kept.")]
Eps = Annotated[float, Field(gt=0, description="Added to the root in the denominator.")]


def first_order(
    problem: Problem, update: Update, rate: float, start: Any, tol: float, max_iter: int, seconds: float | None,
    batch: int | None, decay: float = 0.0, average: bool = False, seed: int = 0, fixed: bool = False,
) -> Answer[RunReport]:  # fmt: skip
    """The report of `descend` with this rule; batches unless `batch` is None. `fixed`: warn of steps beyond 2/L."""
    def solve(recorder: Recorder) -> Solution:
        inner = recorder.inner
        draws = None if batch is None else _draws(inner, batch, seed, average)
        return descend(
            recorder.value_gradient, start_of(start, inner), update, tol=tol, max_iter=max_iter,
            rate=lambda k: rate * (1.0 + k) ** -decay, draws=draws, curvature=inner.diagonal,
        )  # fmt: skip

    return run(problem, solve, tol=tol, step=rate if fixed else None, seconds=seconds)


def _draws(objective: Objective, batch: int, seed: int, average: bool) -> Draws:
    if not objective.rows:
        message = "this problem is no mean over rows, so there is nothing to draw"
        raise InvalidParameter(message, [Issue("/problem", "rows", "use a mean_loss problem, or leave batch out")])
    return Draws(objective.partial, objective.rows, min(batch, objective.rows), seed, average)


def safe_rate(problem: Problem, rate: float | None, share: float) -> float:
    """The rate given, else `share`/L."""
    if rate is not None:
        return rate
    return share / _bounded(problem.objective().range()[1])


def _bounded(L: float) -> float:
    """L, refused where no step size follows from it."""
    if not 0 < L < np.inf:
        message = "the curvature of this problem has no bound, so no step size is safe everywhere"
        raise InvalidParameter(message, [Issue("/step", "missing", "give a step")])
    return L


def row_rate(objective: Any) -> float:
    """1 over the largest curvature of a single row's term."""
    with np.errstate(over="ignore"):
        size = float(((objective.X**2).sum(axis=1) * objective.s / objective.s.mean()).max())
    return 1.0 / _bounded(float(objective.loss.curvature_bound * size + objective.l2.max(initial=0.0)))
