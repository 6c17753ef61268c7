"""Proximal Newton: a smooth loss with an l1 penalty, and an l2 beside it, as a sequence of weighted lassos.

min over w, b of  Σᵢ sᵢ ℓ(xᵢᵀw + b, yᵢ) + alpha ‖w‖₁ + ½ l2 ‖w‖². Around the current predictor the loss is replaced
by its quadratic model, whose minimum is a lasso of the working response with weights sᵢ ℓ''; a line search on the
objective follows.

Source: Lee, Sun, Saunders (2014), Proximal Newton-type methods for minimizing composite functions, SIAM J. Optim.
24(3); Friedman, Hastie, Tibshirani (2010), Regularization paths for generalized linear models via coordinate descent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Conjugable, TwiceSmooth
from ml_core.numerics.column_moments import column_moments
from ml_core.penalties import Penalty
from ml_core.solvers.base import NEVER, Solution, spent
from ml_core.solvers.coordinate_descent import lasso
from ml_core.solvers.unit_columns import Columns

ARMIJO = 1e-4
NOISE = 8 * float(np.finfo(float).eps)
OFFSET = 8.0
"""Deviations of a column that its mean may lie from 0 before products lose digits that count."""
HALVINGS = 40
LEAST_CURVATURE = 1e-9
SETTLED = 1e-13
REFITS = 30


class Likelihood(TwiceSmooth, Conjugable, Protocol):
    """Curvature for the steps, a conjugate for the gap; one predictor per row."""


@dataclass(frozen=True)
class State:
    """A point: slopes (d,), predictor at the means, (n,) predictors, objective, a lower bound of its minimum, pulls.

    `pull` (d,) are the derivatives of the loss in the slopes: at the minimum -alpha sign(w) - l2 w, or at most alpha in
    size.
    """

    w: Vector
    b: float
    eta: Vector
    value: float
    dual: float
    pull: Vector


@dataclass(frozen=True)
class Sparse:
    """The objective; columns are taken from their mean (0 without intercept), so that far offsets keep their digits.

    `X` is the table less `shift` (d,), a copy where columns lie far from 0 and else the table itself; `mean` (d,) is
    what is left of the means. `length` (d,) are the roots of Σ s (x - mean)².
    """

    X: Matrix
    y: Vector
    s: Vector
    loss: Likelihood
    alpha: float
    l2: float
    mean: Vector
    shift: Vector
    length: Vector
    fit_intercept: bool

    @classmethod
    def of(
        cls, X: Matrix, y: Vector, s: Vector, loss: Likelihood, alpha: float, fit_intercept: bool, l2: float = 0.0
    ) -> Sparse:
        """O(n d)."""
        none, (mean, sd, constant) = np.zeros(X.shape[1]), column_moments(X, s)
        sd = np.where(constant, 0.0, sd)
        length = float(s.sum()) ** 0.5 * (sd if fit_intercept else np.hypot(sd, mean))
        if not fit_intercept:
            return cls(X, y, s, loss, alpha, l2, none, none, length, False)
        if (np.abs(mean) > OFFSET * sd).any():
            X = X - mean
            return cls(X, y, s, loss, alpha, l2, s @ X / s.sum(), mean, length, True)
        return cls(X, y, s, loss, alpha, l2, mean, none, length, True)

    @property
    def centre(self) -> Vector:
        """(d,) a point close to the means, in the units of the table."""
        return self.shift if self.shift.any() else self.mean

    @property
    def beyond(self) -> Vector:
        """(d,) the means less `centre`: exact where their sum is not a double."""
        return self.mean if self.shift.any() else np.zeros(len(self.mean))

    @property
    def penalty(self) -> Penalty:
        """On the slopes."""
        return Penalty.of(len(self.mean), l1=self.alpha, l2=self.l2)

    def predictor(self, w: Vector, b: float) -> Vector:
        """(n,) η; O(n) per slope that is not 0."""
        on = np.flatnonzero(w)
        return np.asarray((self.X[:, on] - self.mean[on]) @ w[on] + b)

    def objective(self, w: Vector, eta: Vector) -> float:
        """f."""
        return float(self.s @ self.loss.value(eta[:, None], self.y)) + self.penalty.value(w)

    def at(self, w: Vector, b: float) -> State:
        """The point with the best b for these slopes, and what it says of the distance to the minimum."""
        eta = self.predictor(w, b)
        for _ in range(REFITS if self.fit_intercept else 0):
            _, r, C = self.loss.all(eta[:, None], self.y)
            step = float(self.s @ r[:, 0]) / max(float(self.s @ C[:, 0, 0]), np.finfo(float).tiny)
            eta, b = eta - step, b - step
            if abs(step) <= SETTLED * (1 + abs(b)):
                break
        r = self.loss.value_gradient(eta[:, None], self.y)[1][:, 0]
        a = self.s * r
        pull = a @ self.X - self.mean * a.sum()
        return State(w, b, eta, self.objective(w, eta), self._dual(eta, r, pull), pull)

    def _dual(self, eta: Vector, r: Vector, pull: Vector) -> float:
        """-Σ s ℓ*(c r) - penalty*(-c pull), r the slopes of the loss, Σ s r = 0: without l2 the c ≤ 1 that is legal.

        Legal means within what rounding of r and of η leaves of a pull.
        """
        noise = NOISE * self.length * float(np.sqrt(self.s @ r**2) + np.sqrt(self.s @ eta**2))
        pull = np.sign(pull) * np.maximum(np.abs(pull) - noise, 0.0)
        top = max(float(np.abs(pull).max(initial=0.0)), np.finfo(float).tiny)
        share = min(1.0, self.alpha / top) if self.l2 == 0 else 1.0
        dual = -float(self.s @ self.loss.conjugate((share * r)[:, None], self.y))
        return dual if self.l2 == 0 else dual - self.penalty.conjugate(-pull)

    def alpha_max(self) -> float:
        """The least alpha at which every slope is 0."""
        b = float(self.loss.start(self.y, self.s)[0]) if self.fit_intercept else 0.0
        return float(np.abs(self.at(np.zeros(len(self.mean)), b).pull).max(initial=0.0))


def prox_newton(
    problem: Sparse, *, tol: float, max_iter: int, start: State | None = None
) -> tuple[Solution, State]:
    """From no slope on, or from `start`, until the duality gap is at most tol times the objective.

    O(n d) per step and working set. One more step follows then, since the slopes have only half the digits of the gap
    and the steps converge fast.
    """
    d = problem.X.shape[1]
    best = float(problem.loss.start(problem.y, problem.s)[0]) if problem.fit_intercept else 0.0
    here = problem.at(np.zeros(d), best) if start is None else problem.at(start.w, start.b)
    trace: list[float] = []
    for step in range(max_iter + 1):
        gap = here.value - here.dual
        trace.append(here.value)
        progress.tick(step, max_iter, objective=here.value, gap=gap)
        if gap <= tol * max(abs(here.value), np.finfo(float).tiny):
            here = _step(problem, here) or here
            return Solution(here.w, step, True, "gap", trace), here
        if reason := spent(step, max_iter):
            return Solution(here.w, step, False, reason, trace), here
        moved = _step(problem, here)
        if moved is None:
            return Solution(here.w, step, False, "line_search", trace), here
        here = moved
    raise AssertionError(NEVER)


def _step(problem: Sparse, here: State) -> State | None:
    """The minimum of the quadratic model, or the first point on the way to it that lowers the objective enough.

    Where the model promises less than the objective's rounding, its minimum is taken if it closes the gap.
    """
    w, b = _model(problem, here)
    dw, db = w - here.w, b - here.b
    _, r = problem.loss.value_gradient(here.eta[:, None], problem.y)
    slope = float(here.pull @ dw) + db * float(problem.s @ r[:, 0])
    drop = slope + problem.penalty.value(w) - problem.penalty.value(here.w)
    if -drop <= SETTLED * abs(here.value):
        there = problem.at(w, b)
        return there if there.value - there.dual < here.value - here.dual else None
    move, t = problem.predictor(dw, db), 1.0
    for _ in range(HALVINGS):
        f = problem.objective(here.w + t * dw, here.eta + t * move)
        if f <= here.value + ARMIJO * t * drop and f < here.value:
            return problem.at(w if t == 1.0 else here.w + t * dw, here.b + t * db)
        t /= 2
    return None


def _model(problem: Sparse, here: State) -> tuple[Vector, float]:
    """Slopes and predictor at `mean` of the weighted lasso."""
    _, r, C = problem.loss.all(here.eta[:, None], problem.y)
    bend = np.maximum(C[:, 0, 0], LEAST_CURVATURE)
    c, t = problem.s * bend, here.eta - r[:, 0] / bend
    Z = Columns.of(problem.X, c, problem.fit_intercept)
    centre = float(c @ t / c.sum()) if problem.fit_intercept else 0.0
    t = t - centre
    size = float(np.sqrt(c @ t**2)) or 1.0
    length = np.where(Z.length > 0, Z.length, 1.0)
    found = lasso(Z, t / size, problem.alpha / size / length, problem.l2 / length**2, start=here.w * length / size)
    w = found.w * size / length
    return w, centre + float((problem.mean - Z.mean) @ w)
