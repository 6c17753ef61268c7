"""Empirical risks that no special solver serves: sums by quasi-Newton, largest losses by sequential programs.

The risk of w is Σᵢ sᵢ ℓ(g(aᵢᵀw), yᵢ) or maxᵢ ℓ(g(aᵢᵀw), yᵢ), plus Σⱼ l2ⱼwⱼ² + l1ⱼ|wⱼ|, with g the identity or logistic.
Absolute values become differentiable by halves of w (l1), by √(e² + h²) with h → 0 (sums), or by two bounds (largest).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.losses.logistic import Logistic

ROUNDS = 60
REACH = 200.0
NOTHING = 1e-6
SLACK = 1e-9
SMOOTHING = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)

Loss = Literal["squared", "absolute", "logistic"]


@dataclass(frozen=True)
class Risk:
    """A (n, p), y, s (n,), penalties l1, l2 (p,); `largest` takes the largest loss and no weights."""

    A: Matrix
    y: Vector
    s: Vector
    l1: Vector
    l2: Vector
    loss: Loss
    logistic: bool
    largest: bool

    def losses(self, w: Vector, h: float = 0.0) -> tuple[Vector, Vector]:
        """(n,) losses and their slopes in aᵀw, with |e| smoothed by h."""
        eta = self.A @ w
        if self.loss == "logistic":
            value, slope = Logistic().value_gradient(eta[:, None], self.y)
            return value, slope[:, 0]
        f = expit(eta) if self.logistic else eta
        e, inner = f - self.y, f * (1 - f) if self.logistic else 1.0
        if self.loss == "squared":
            return e**2, 2 * e * inner
        size = np.sqrt(e**2 + h**2)
        return size - h, np.divide(e, size, out=np.zeros_like(e), where=size > 0) * inner

    def value(self, w: Vector) -> float:
        """The risk."""
        each = self.losses(w)[0]
        cost = float(each.max()) if self.largest else float(self.s @ each)
        return cost + float(self.l2 @ w**2 + self.l1 @ np.abs(w))

    def smooth(self, w: Vector, h: float) -> tuple[float, Vector]:
        """Sum and slope without the l1 part."""
        each, slope = self.losses(w, h)
        return float(self.s @ each + self.l2 @ w**2), (self.s * slope) @ self.A + 2 * self.l2 * w


@dataclass(frozen=True)
class Found:
    """The best w (p,), its risk, steps in all, the risks of all starts, and whether w had no end."""

    w: Vector
    value: float
    n_iter: int
    values: list[float]
    unbounded: bool


def minimise_risk(R: Risk, starts: list[Vector], max_iter: int) -> Found:
    """The lowest local minimum from the starts; of a convex risk, the minimum."""
    best, values, steps = (starts[0], np.inf), [], 0
    for i, start in enumerate(starts):
        progress.tick(i, len(starts), "starts")
        with progress.share(len(starts) - i):
            w, n = _sum(replace(R, largest=False), start, max_iter)
            if R.largest:
                w, n = _largest(R, w if R.value(w) < R.value(start) else start, max_iter)
        value = R.value(w)
        values.append(value)
        steps += n
        if value < best[1]:
            best = (w, value)
    far = float(np.abs(best[0]).max(initial=0.0)) > 0.99 * REACH or best[1] < NOTHING * R.value(np.zeros(len(best[0])))
    return Found(best[0], best[1], max(1, steps), values, R.logistic and far)


def _ticked(_: Any) -> None:
    progress.pulse()
    if progress.late():
        raise StopIteration


def _sum(R: Risk, w: Vector, max_iter: int) -> tuple[Vector, int]:
    """Limited-memory BFGS on w, or on its positive and negative parts where l1 > 0."""
    p, steps, options = len(w), 0, {"maxiter": max_iter, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 30}
    split, top = bool((R.l1 > 0).any()), REACH if R.logistic else np.inf

    def whole(v: Vector) -> Vector:
        return v[:p] - v[p:] if split else v

    for h in SMOOTHING if R.loss == "absolute" else (0.0,):
        def f(v: Vector, h: float = h) -> tuple[float, Vector]:
            value, g = R.smooth(whole(v), h)
            if not split:
                return value, g
            return value + float(R.l1 @ (v[:p] + v[p:])), np.concatenate([g + R.l1, R.l1 - g])

        start = np.concatenate([np.maximum(w, 0), np.maximum(-w, 0)]) if split else w
        bounds = [(0.0, top)] * (2 * p) if split else [(-top, top)] * p
        found = minimize(f, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options, callback=_ticked)
        w, steps = whole(found.x), steps + int(found.nit)
    return w, steps


def _largest(R: Risk, w: Vector, max_iter: int) -> tuple[Vector, int]:
    """Sequential quadratic programs for min t with every loss of a growing set of rows at most t."""
    p, batch, steps = len(w), 4 * (len(w) + 1), 0
    chosen = np.sort(np.argsort(-R.losses(w)[0], kind="stable")[:batch])
    for _ in range(ROUNDS):
        part = replace(R, A=R.A[chosen], y=R.y[chosen], s=R.s[chosen])
        new, n = _program(part, w, max_iter)
        steps += n
        w = new if part.value(new) <= part.value(w) else w
        each, limit = R.losses(w)[0], float(part.losses(w)[0].max())
        each[chosen] = -np.inf
        if each.max() <= limit + SLACK * (1 + limit) or len(chosen) == len(each):
            break
        chosen = np.union1d(chosen, np.argsort(-each, kind="stable")[:batch])
        progress.pulse()
        if progress.late():
            break
    return w[:p], steps


def _program(R: Risk, w: Vector, max_iter: int) -> tuple[Vector, int]:
    """min t + penalties over (positive part, negative part, t)."""
    p, top = len(w), REACH if R.logistic else 1e6

    def rows(x: Vector) -> tuple[Vector, Vector]:
        v = x[:p] - x[p:-1]
        if R.loss != "absolute":
            return R.losses(v)
        f = R.A @ v
        f, inner = (expit(f), expit(f) * expit(-f)) if R.logistic else (f, np.ones_like(f))
        return np.concatenate([f - R.y, R.y - f]), np.concatenate([inner, -inner])

    def room(x: Vector) -> Vector:
        return np.asarray(x[-1] - rows(x)[0])

    def slopes(x: Vector) -> Matrix:
        J = rows(x)[1][:, None] * (np.vstack([R.A, R.A]) if R.loss == "absolute" else R.A)
        return np.hstack([-J, J, np.ones((len(J), 1))])

    def cost(x: Vector) -> tuple[float, Vector]:
        v = x[:p] - x[p:-1]
        g = 2 * R.l2 * v
        both = R.l1 + TINY
        return float(x[-1] + R.l2 @ v**2 + both @ (x[:p] + x[p:-1])), np.concatenate([both + g, both - g, [1.0]])

    start = np.concatenate([np.maximum(w, 0), np.maximum(-w, 0), [float(R.losses(w)[0].max())]])
    bounds = [(0.0, top)] * (2 * p) + [(None, None)]
    found = minimize(cost, start, jac=True, method="SLSQP", bounds=bounds, callback=_ticked,
                     constraints={"type": "ineq", "fun": room, "jac": slopes},
                     options={"maxiter": max_iter, "ftol": 1e-14})  # fmt: skip
    return found.x[:p] - found.x[p:-1], int(found.nit)


TINY = 1e-14
"""A pull on both parts of w, so that they do not grow together."""
