"""Optimisers that step along gradients, as functions on a chosen problem."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ml_core.params import Seed
from ml_core.registry import Answer, function
from ml_core.solvers.conjugate_gradient import conjugate_gradient
from ml_core.solvers.first_order_run import (
    QUADRATIC,
    ROWS,
    Average,
    Batch,
    Beta,
    Decay,
    Rate,
    first_order,
    row_rate,
    safe_rate,
)
from ml_core.solvers.problems import start_of
from ml_core.solvers.run_report import Chosen, RunReport, Seconds, Small, Start, Steps, cost, run
from ml_core.solvers.updates import Momentum, Steepest


@function("gradient_descent", example=QUADRATIC, cost=cost)
def gradient_descent(
    *,
    problem: Chosen,
    start: Start = None,
    step: Annotated[float, Field(gt=0)] | Literal["lipschitz", "backtracking"] = "lipschitz",
    max_iter: Steps = 1000,
    tol: Small = 1e-8,
    seconds: Seconds = None,
) -> Answer[RunReport]:
    """w ← w - step ∇f(w) with a fixed step, 1/L by default, or steps found by backtracking.

    For step < 2/L every step lowers f, and on a convex f it converges; with the condition number κ = L/μ the gap
    shrinks by (1 - 1/κ)² or better on quadratics. Columns of like scale make κ small. O(gradient) per iteration.

    References
    ----------
    Nocedal, Wright (2006), Numerical Optimization, chapters 2-3.
    """
    if step == "backtracking":
        return run(problem, lambda r: conjugate_gradient(
            r.value_gradient, start_of(start, r.inner), tol=tol, max_iter=max_iter, way="steepest"
        ), tol=tol, seconds=seconds)  # fmt: skip
    rate = safe_rate(problem, None if step == "lipschitz" else float(step), 1.0)
    return first_order(problem, Steepest(), rate, start, tol, max_iter, seconds, None, fixed=True)


@function("stochastic_gradient_descent", example=ROWS | {"max_iter": 200, "tol": 1e-2}, cost=cost)
def stochastic_gradient_descent(
    *,
    problem: Chosen,
    start: Start = None,
    step: Rate = None,
    decay: Decay = 0.5,
    average: Average = True,
    max_iter: Steps = 200,
    tol: Small = 1e-3,
    seconds: Seconds = None,
    random_state: Seed = 0,
) -> Answer[RunReport]:
    """One row at a time, in a new random order each epoch: w ← w - stepₖ ∇fᵢ(w).

    Steps shrink with the epochs so that noise dies out; the answer of an epoch is the average of its points. The
    default first step is the largest that no single row overshoots. `max_iter` counts epochs.

    References
    ----------
    Bottou, Curtis, Nocedal (2018), Optimization methods for large-scale machine learning, SIAM Review 60.
    """
    return mini_batch_gradient_descent(
        problem=problem, start=start, batch=1, step=step, decay=decay, average=average, max_iter=max_iter, tol=tol,
        seconds=seconds, random_state=random_state,
    )  # fmt: skip


@function("mini_batch_gradient_descent", example=ROWS | {"batch": 3, "max_iter": 200, "tol": 1e-2}, cost=cost)
def mini_batch_gradient_descent(
    *,
    problem: Chosen,
    start: Start = None,
    batch: Annotated[int, Field(ge=1, description="Rows per step.")] = 32,
    step: Rate = None,
    decay: Decay = 0.5,
    average: Average = True,
    max_iter: Steps = 200,
    tol: Small = 1e-3,
    seconds: Seconds = None,
    random_state: Seed = 0,
) -> Answer[RunReport]:
    """Batches of rows in a new random order each epoch: w ← w - stepₖ ∇f_batch(w).

    The noise of a step falls as 1/batch; the whole table as one batch is gradient descent. `max_iter` counts epochs.

    References
    ----------
    Bottou, Curtis, Nocedal (2018), Optimization methods for large-scale machine learning, SIAM Review 60.
    """
    objective = problem.objective()
    if objective.rows and step is None:
        step = row_rate(objective)
    return first_order(problem, Steepest(), step or 1.0, start, tol, max_iter, seconds, batch, decay, average,
                        random_state)  # fmt: skip


@function("momentum", example=QUADRATIC, cost=cost)
def momentum(
    *,
    problem: Chosen,
    start: Start = None,
    step: Rate = None,
    beta: Beta = 0.9,
    nesterov: Annotated[bool, Field(description="Nesterov's gradient, taken as if one step ahead.")] = False,
    batch: Batch = None,
    decay: Decay = 0.0,
    max_iter: Steps = 1000,
    tol: Small = 1e-8,
    seconds: Seconds = None,
    random_state: Seed = 0,
) -> Answer[RunReport]:
    """Δₖ = -step ∇f(w) + beta Δₖ₋₁, w ← w + Δₖ: a heavy ball that keeps its direction.

    Along directions of low curvature steps add up to 1/(1 - beta) times their size; on quadratics it is stable for
    step < 2(1 + beta)/L, and the best beta turns the rate from κ into √κ. f may rise between iterations.

    References
    ----------
    Polyak (1964), Some methods of speeding up the convergence of iteration methods. Nesterov (1983), A method of
    solving a convex programming problem with convergence rate O(1/k²).
    """
    rate = safe_rate(problem, step, 1.0)
    return first_order(problem, Momentum(beta, nesterov), rate, start, tol, max_iter, seconds, batch, decay,
                        seed=random_state)  # fmt: skip


@function("nonlinear_conjugate_gradient", example=QUADRATIC, cost=cost)
def nonlinear_conjugate_gradient(
    *, problem: Chosen, start: Start = None, max_iter: Steps = 1000, tol: Small = 1e-8, seconds: Seconds = None
) -> Answer[RunReport]:
    """p ← -g + β p, β = max(0, g·(g - g₋)/g₋·g₋) (Polak and Ribière), with strong Wolfe steps along p.

    β = 0 restarts. Steps are exact on quadratics, where it ends after at most d of them, up to rounding.

    References
    ----------
    Nocedal, Wright (2006), Numerical Optimization, chapter 5.
    """
    return run(problem, lambda r: conjugate_gradient(
        r.value_gradient, start_of(start, r.inner), tol=tol, max_iter=max_iter
    ), tol=tol, seconds=seconds)  # fmt: skip
