"""First-order methods with a rate of its own for every unknown, as functions on a chosen problem."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ml_core.params import Seed
from ml_core.registry import Answer, function
from ml_core.solvers.first_order_run import QUADRATIC, ROWS, Batch, Beta, Decay, Eps, Fixed, first_order
from ml_core.solvers.run_report import Chosen, RunReport, Seconds, Small, Start, Steps, cost
from ml_core.solvers.updates import Adam, DiagonalLevenbergMarquardt, RMSprop


@function("rmsprop", example=QUADRATIC | {"decay": 0.5, "tol": 0.05}, cost=cost)
def rmsprop(
    *,
    problem: Chosen,
    start: Start = None,
    step: Fixed = 0.01,
    rho: Beta = 0.9,
    eps: Eps = 1e-8,
    batch: Batch = None,
    decay: Decay = 0.0,
    max_iter: Steps = 1000,
    tol: Small = 1e-3,
    seconds: Seconds = None,
    random_state: Seed = 0,
) -> Answer[RunReport]:
    """v ← rho v + (1 - rho) g², w ← w - step g / (√v + eps): every entry by its own recent size.

    Steps are about `step` long whatever the scale of an entry, so without decay it ends in a cycle around the minimum.

    References
    ----------
    Tieleman, Hinton (2012), Lecture 6.5, RMSProp.
    """
    return first_order(problem, RMSprop(rho, eps), step, start, tol, max_iter, seconds, batch, decay,
                        seed=random_state)  # fmt: skip


@function("adam", example=QUADRATIC | {"step": 0.1, "tol": 1e-3}, cost=cost)
def adam(
    *,
    problem: Chosen,
    start: Start = None,
    step: Fixed = 0.001,
    beta1: Beta = 0.9,
    beta2: Beta = 0.999,
    eps: Eps = 1e-8,
    amsgrad: Annotated[bool, Field(description="Divide by the largest mean square so far.")] = False,
    batch: Batch = None,
    decay: Decay = 0.0,
    max_iter: Steps = 1000,
    tol: Small = 1e-3,
    seconds: Seconds = None,
    random_state: Seed = 0,
) -> Answer[RunReport]:
    """m̂ and v̂, running means of g and g² freed of their start at 0: w ← w - step m̂ / (√v̂ + eps).

    The first step is `step` long in every entry. There are convex problems where it does not converge, AMSGrad does.

    References
    ----------
    Kingma, Ba (2015), Adam: a method for stochastic optimization, ICLR.
    """
    return first_order(problem, Adam(beta1, beta2, eps, amsgrad), step, start, tol, max_iter, seconds, batch, decay,
                        seed=random_state)  # fmt: skip


@function("amsgrad", example=QUADRATIC | {"step": 0.1, "tol": 1e-3}, cost=cost)
def amsgrad(
    *,
    problem: Chosen,
    start: Start = None,
    step: Fixed = 0.001,
    beta1: Beta = 0.9,
    beta2: Beta = 0.999,
    eps: Eps = 1e-8,
    batch: Batch = None,
    decay: Decay = 0.0,
    max_iter: Steps = 1000,
    tol: Small = 1e-3,
    seconds: Seconds = None,
    random_state: Seed = 0,
) -> Answer[RunReport]:
    """Adam, divided by the largest v̂ so far: w ← w - step m̂ / (√max v̂ + eps).

    Denominators never shrink, so rates never grow again, and it converges on convex problems where Adam cycles.

    References
    ----------
    Reddi, Kale, Kumar (2018), On the convergence of Adam and beyond, ICLR.
    """
    return first_order(problem, Adam(beta1, beta2, eps, True), step, start, tol, max_iter, seconds, batch, decay,
                        seed=random_state)  # fmt: skip


@function("stochastic_levenberg_marquardt", example=ROWS | {"batch": 3, "tol": 0.02}, cost=cost)
def stochastic_levenberg_marquardt(
    *,
    problem: Chosen,
    start: Start = None,
    step: Fixed = 0.1,
    mu: Annotated[float, Field(gt=0, description="Added to each curvature; bounds the rate by step/mu.")] = 1e-2,
    c: Annotated[float, Field(gt=0, le=1, description="Weight of a new batch in the running curvatures.")] = 0.1,
    batch: Batch = None,
    decay: Decay = 0.0,
    max_iter: Steps = 1000,
    tol: Small = 1e-3,
    seconds: Seconds = None,
    random_state: Seed = 0,
) -> Answer[RunReport]:
    """h ← (1 - c) h + c h_batch, w ← w - step g / (h + mu), h the diagonal of the Gauss-Newton matrix.

    A rate of its own for every unknown, from curvature not from the size of gradients; the scale of columns cancels.

    References
    ----------
    LeCun, Bottou, Orr, Müller (1998), Efficient BackProp, section 9.
    """
    rule = DiagonalLevenbergMarquardt(c, mu)
    return first_order(problem, rule, step, start, tol, max_iter, seconds, batch, decay, seed=random_state)
