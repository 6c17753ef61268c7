"""Descent by gradients alone on any smooth objective, with all rows or few at a time: one loop, the rule is a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ml_core import progress
from ml_core.arrays import Vector
from ml_core.rng import generator
from ml_core.solvers.base import NEVER, Reason, Solution, spent
from ml_core.solvers.updates import Update

RISE = 1e6
NONE = np.zeros(0)
Fun = Callable[[Vector], tuple[float, Vector]]


class Epochs(Protocol):
    """How an epoch goes through the n rows; the seed gives their orders."""

    @property
    def seed(self) -> int:
        """Of the orders."""

    def epoch(self, steps: Steps, rate: float) -> Vector:
        """Move `steps` through all rows once; the point that the epoch is judged by."""


@dataclass(frozen=True)
class Draws:
    """Few rows at a time: unbiased gradients of `batch` of n rows, in a new random order each epoch.

    `average`: an epoch's answer is the mean of its iterates (Polyak and Ruppert), which cancels the last one's noise.
    """

    gradient: Callable[[Vector, np.ndarray], Vector]
    n: int
    batch: int
    seed: int
    average: bool = True

    def epoch(self, steps: Steps, rate: float) -> Vector:
        """Batch by batch."""
        mean, order = np.zeros_like(steps.w), steps.rng.permutation(self.n)
        starts = range(0, self.n, self.batch)
        for a in starts:
            rows = order[a : a + self.batch]
            steps.move(self.gradient(steps.w, rows), rows, rate)
            mean += steps.w
        return mean / len(starts) if self.average else steps.w


@dataclass(frozen=True)
class Sweep:
    """Row by row against the gradient in one compiled pass.

    `run(w, mean, order, t, rate)` changes w in place, after t steps of earlier epochs, and puts the average into mean.
    """

    run: Callable[[Vector, Vector, np.ndarray, int, float], object]
    n: int
    seed: int

    def epoch(self, steps: Steps, rate: float) -> Vector:
        """The average of the pass."""
        steps.w, mean = steps.w.copy(), np.zeros_like(steps.w)
        self.run(steps.w, mean, steps.rng.permutation(self.n), steps.t, rate)
        steps.t += self.n
        return mean


@dataclass
class _Watch:
    """What a run has seen: the trace, the best point, and why it should stop."""

    tol: float
    max_iter: int
    trace: list[float] = field(default_factory=list)
    least: float = np.inf
    best: Vector = field(default_factory=lambda: NONE)

    def look(self, k: int, w: Vector, f: float, g: Vector, unit: str) -> Reason | None:
        """Take note of the point after k rounds; the reason to stop, if there is one."""
        high = bool(self.trace) and f > self.trace[0] + RISE * (1.0 + abs(self.trace[0]))
        if not np.isfinite(f) or not np.isfinite(g).all() or high:
            return "diverged"
        self.trace.append(f)
        progress.tick(k, self.max_iter, unit, objective=f)
        if f <= self.least:
            self.best, self.least = w, f
        if np.abs(g).max(initial=0.0) <= self.tol:
            self.best = w
            return "gradient"
        return spent(k, self.max_iter)


def descend(
    value_gradient: Fun, w0: Vector, update: Update, *, rate: Callable[[int], float] | float, tol: float, max_iter: int,
    draws: Epochs | None = None, curvature: Callable[[Vector, np.ndarray | None], Vector] | None = None,
) -> Solution:  # fmt: skip
    """Steps by `update` until max |∇f| ≤ tol; of `draws`, epochs of steps, judged by the whole gradient between them.

    `rate` may depend on the round 0, 1, …; `curvature(w, rows)` (d,) serves rules that ask for it. The best point is
    returned when f is not finite or far above its start (`diverged`), or when a budget is spent.
    """
    steps = Steps(w0, update, rate, draws, curvature)
    watch = _Watch(tol, max_iter, best=w0)
    unit = "iterations" if draws is None else "epochs"
    for k in range(max_iter + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            f, g = value_gradient(steps.point)
            reason = watch.look(k, steps.point, f, g, unit)
            if reason is not None:
                return Solution(watch.best, k, reason == "gradient", reason, watch.trace)
            steps.round(k, g)
    raise AssertionError(NEVER)


class Steps:
    """The iterate w, the number of steps t, the state of the rule, and the point that is judged."""

    def __init__(
        self, w0: Vector, update: Update, rate: Callable[[int], float] | float, draws: Epochs | None,
        curvature: Callable[[Vector, np.ndarray | None], Vector] | None,
    ) -> None:  # fmt: skip
        self.w, self.point, self.t = w0, w0, 0
        self.update, self.state = update, update.begin(len(w0))
        self.rate, self.draws, self.curvature = rate, draws, curvature
        self.rng = generator(0 if draws is None else draws.seed)

    def round(self, k: int, g: Vector) -> None:
        """One step along g, or one epoch."""
        rate = self.rate(k) if callable(self.rate) else self.rate
        if self.draws is not None:
            self.point = self.draws.epoch(self, rate)
            return
        self.move(g, None, rate)
        self.point = self.w

    def move(self, g: Vector, rows: np.ndarray | None, rate: float) -> None:
        """One step of the rule."""
        self.t += 1
        h = self.curvature(self.w, rows) if self.update.curved and self.curvature is not None else NONE
        step, self.state = self.update.move(self.state, g, h, rate, self.t)
        self.w = self.w + step
