"""First-order methods on a loss of linear predictors, in its standardised columns, by name."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ml_core.solvers.base import Solution
from ml_core.solvers.conjugate_gradient import conjugate_gradient
from ml_core.solvers.first_order import Draws, descend
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.unit_curvature import lipschitz
from ml_core.solvers.updates import Adam, Momentum, RMSprop, Steepest, Update

FirstOrder = Literal["gradient_descent", "momentum", "conjugate_gradient", "sgd", "rmsprop", "adam", "amsgrad"]
WHOLE: dict[str, Update] = {"gradient_descent": Steepest(), "momentum": Momentum()}
BATCHED: dict[str, Update] = {
    "sgd": Steepest(), "rmsprop": RMSprop(), "adam": Adam(), "amsgrad": Adam(amsgrad=True),
}  # fmt: skip
BATCH = 16
PACE = 0.3


def first_order(problem: LinearObjective, method: str, *, tol: float, max_iter: int, seed: int) -> Solution:
    """Until the largest gradient per unit of weight is ≤ tol: with all rows, or batches of 16 and averaged epochs.

    Steps against the gradient are 1/L, L the largest curvature (of a batch, for sgd); rmsprop, adam and amsgrad begin
    with 0.3 per entry, for columns of standard deviation 1. Steps by batches shrink as 1/√epochs.
    """
    goal, start = tol * float(problem.s.sum()), problem.zero()
    if method == "conjugate_gradient":
        return conjugate_gradient(problem.value_gradient, start, tol=goal, max_iter=max_iter)
    if method in WHOLE:
        return descend(problem.value_gradient, start, WHOLE[method], rate=1.0 / lipschitz(problem), tol=goal,
                       max_iter=max_iter)  # fmt: skip
    n, step = len(problem.X), PACE
    if method == "sgd":
        row = n * problem.s.max() * problem.loss.curvature_bound * problem.size / BATCH
        step = 1.0 / float(lipschitz(problem) + row)
    return descend(
        problem.value_gradient, start, BATCHED[method], rate=lambda k: step / float(np.sqrt(1.0 + k)), tol=goal,
        max_iter=max_iter, draws=Draws(problem.partial_gradient, n, BATCH, seed),
    )  # fmt: skip
