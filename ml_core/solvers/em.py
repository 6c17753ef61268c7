"""Expectation–maximisation for any latent-variable model: two steps, a stopping rule, restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ml_core.arrays import Vector
from ml_core.progress import tick
from ml_core.solvers.base import Reason, Solution, Steps, spent

P = TypeVar("P")
E = TypeVar("E")


class Unbounded(ArithmeticError):
    """An M-step met a component whose likelihood has no upper bound; the message names it."""


@dataclass(frozen=True)
class Run(Generic[P]):
    """Where one start ended: the parameters, how it went (`solution.w` is theta, flat), and why it broke off if so."""

    theta: P
    solution: Solution
    failure: str = ""

    @property
    def log_likelihood(self) -> float:
        """Total log-likelihood of `theta`, the last entry of the trace."""
        return self.solution.trace[-1]


@dataclass(frozen=True)
class Stop:
    """Stop when a step gains at most `tol` nats per unit of `weight` (so per sample), or after `max_iter` steps.

    `done` steps of `planned` have been taken by earlier starts; progress reports count on from there.
    """

    tol: float
    max_iter: int
    weight: float
    done: int = 0
    planned: int | None = None


def em(
    start: P,
    e_step: Callable[[P], Steps[tuple[E, float]]],
    m_step: Callable[[P, E], Steps[P]],
    flat: Callable[[P], Vector],
    stop: Stop,
) -> Steps[Run[P]]:
    """Alternate θ ← M(θ, E(θ)) from `start`; what the two steps ask of the rows is passed on.

    `e_step(θ)` gives the expected sufficient statistics under the posterior of the latent variables and the total
    log-likelihood of θ; `m_step(θ, statistics)` maximises the expected complete log-likelihood. Exact steps never
    lower it: ℓ(θ') ≥ Q(θ', θ) + H(q) ≥ Q(θ, θ) + H(q) = ℓ(θ). The trace holds ℓ of every iterate, the start first,
    and its last entry belongs to the parameters returned. Dempster, Laird, Rubin (1977).
    """
    theta = start
    statistics, value = yield from e_step(start)
    trace, failure = [value], ""
    reason: Reason = "max_iter"
    for step in range(1, stop.max_iter + 1):
        try:
            theta = yield from m_step(theta, statistics)
        except Unbounded as e:
            reason, failure = "diverged", str(e)
            break
        statistics, value = yield from e_step(theta)
        trace.append(value)
        tick(stop.done + step, stop.planned or stop.max_iter, objective=value / stop.weight)
        if abs(trace[-1] - trace[-2]) <= stop.tol * stop.weight:
            reason = "objective"
            break
        if ended := spent(step, stop.max_iter):
            reason = ended
            break
    return Run(theta, _solution(flat(theta), trace, reason), failure)


def _solution(w: Vector, trace: list[float], reason: Reason) -> Solution:
    return Solution(w, len(trace) - 1, reason == "objective", reason, trace)


def restarts(runs: Iterable[Run[P]]) -> tuple[Run[P] | None, list[Run[P]]]:
    """The run of highest likelihood among those that did not break off (the first of equals), and all runs in order."""
    tried = list(runs)
    whole = [r for r in tried if not r.failure]
    return (max(whole, key=lambda r: r.log_likelihood) if whole else None), tried
