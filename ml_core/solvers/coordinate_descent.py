"""Least squares with an l1 penalty: coordinate descent on a working set, ended by the linear system of its signs.

min over w of  ½ Σᵢ sᵢ (tᵢ - zᵢᵀw)² + Σⱼ lⱼ|wⱼ| + ½ Σⱼ μⱼ wⱼ²  for the unit columns of `Columns`.

A working set holds the columns that ever had weight and those that violate their bound |zⱼᵀr| ≤ lⱼ most; the first one
as many as their products cost no more than a pass over the table. On it, sweeps of coordinate descent over the Gram
matrix find the signs, and one Cholesky solve for those signs gives the weights to rounding where the sweeps alone would
creep.
The set grows until no column violates; the duality gap is measured over all columns.

Source: Friedman, Hastie, Tibshirani (2010), Regularization paths for generalized linear models via coordinate descent,
Journal of Statistical Software 33(1); Massias, Gramfort, Salmon (2018), Celer, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.numerics.jit import compiled
from ml_core.solvers.base import Solution, spent
from ml_core.solvers.gram_descent import SWEEPS, descend
from ml_core.solvers.signed_system import settle_signs
from ml_core.solvers.unit_columns import EPS, Columns

FIRST = 10
ROUNDS = 1000
PATIENCE = 5
NEAR = 1e-9
"""Gap from which it is found without the linear system of the signs: above the rounding of sums of squares."""


@compiled(lambda: (np.eye(2), np.ones(2), np.ones(2), np.zeros(2), np.zeros(2), np.zeros(2), 2))
def _sweep(G: Matrix, c: Vector, bound: Vector, mu: Vector, w: Vector, q: Vector, times: int) -> float:
    """Up to `times` rounds over the coordinates, in place; q = G w. Returns the largest step of the last round."""
    largest = 0.0
    for _ in range(times):
        largest = 0.0
        for j in range(len(w)):
            pull = c[j] - q[j] + G[j, j] * w[j]
            size = abs(pull) - bound[j]
            new = np.sign(pull) * size / (G[j, j] + mu[j]) if size > 0.0 else 0.0
            step = new - w[j]
            if step != 0.0:
                w[j] = new
                for i in range(len(w)):
                    q[i] += G[j, i] * step
                largest = max(largest, abs(step))
        if largest == 0.0:
            break
    return largest


def _settle(
    G: Matrix, c: Vector, bound: Vector, mu: Vector, w: Vector, slack: Vector, budget: int, *, last: bool
) -> tuple[Vector, int]:
    """A minimum over a working set from weights w (k,), and the rounds it took; a budget that is spent ends it.

    Sweeps go on until the signs rest, then the system of the signs is solved. Only the `last` set, outside of which
    nothing violates, is worth more than one such solve.
    """
    rounds, room, G = 0, G, G[: len(w), : len(w)]
    while rounds < budget:
        before = np.sign(w)
        step = _sweep(room, c, bound, mu, w, G @ w, min(SWEEPS, budget - rounds))
        rounds += SWEEPS
        still = bool((np.sign(w) == before).all())
        if not still and rounds < PATIENCE * SWEEPS:
            continue
        w, reached = settle_signs(G, c, bound, mu, w)
        off = np.abs(c - G @ w - mu * w) - bound
        if not last or (reached and not (off[w == 0] > slack[w == 0]).any()):
            break
        if not reached and step <= EPS * np.abs(w).max(initial=0.0):
            break
        progress.pulse()
        if progress.late():
            break
    return w, rounds


@dataclass(frozen=True)
class Gap:
    """Primal and dual value and their difference, in the units of ½ Σ s t² where that is 1."""

    primal: float
    dual: float
    gap: float


def duality_gap(Z: Columns, r: Vector, g: Vector, bound: Vector, mu: Vector, w: Vector, t: Vector) -> Gap:
    """Of weights w with residuals r (n,) and correlations g = Zᵀ√s r (d,). The dual point is r, scaled until feasible.

    Feasible means within the rounding `Z.sure` of a correlation.

    The penalty ½ Σ μⱼwⱼ² is that of rows √μⱼ eⱼ with target 0, whose residuals are -√μⱼ wⱼ.
    """
    s, slope, ridge = Z.s, np.maximum(np.abs(g - mu * w) - Z.sure, 0.0), float(mu @ w**2)
    primal = 0.5 * float(s @ r**2) + float(bound @ np.abs(w)) + 0.5 * ridge
    share = float(np.divide(bound, slope, out=np.ones_like(slope), where=slope > bound).min(initial=1.0))
    dual = 0.5 * float(s @ t**2) - 0.5 * float(s @ (t - share * r) ** 2) - 0.5 * share**2 * ridge
    return Gap(primal, dual, primal - dual)


@dataclass
class State:
    """Weights (d,), their residuals (n,) and correlations (d,), and those of the targets: a path carries them on."""

    w: Vector
    r: Vector
    g: Vector
    c: Vector

    @classmethod
    def of(cls, Z: Columns, t: Vector, start: Vector | None, c: Vector | None = None) -> State:
        """Of weights `start`, or none; O(n d) unless the correlations c of the targets are known."""
        w = np.zeros(Z.X.shape[1]) if start is None else start.copy()
        r = Z.residual(t, w)
        c = Z.correlations(t) if c is None else c
        return cls(w, r, Z.correlations(r) if w.any() else c, c)


def lasso(
    Z: Columns, t: Vector, bound: Vector, mu: Vector, *, start: Vector | None = None, tol: float = 0.0,
    max_iter: int = 10_000, c: Vector | None = None,
) -> Solution:  # fmt: skip
    """Weights (d,) of the columns `Z` for targets t (n,) with Σ s t² = 1 and bounds l, μ (d,) ≥ 0, from `start`.

    c (d,) are the correlations of the targets where they are known.

    It ends when no column violates its bound beyond rounding ("gradient") or the duality gap is at most tol/2 ("gap").
    """
    return advance(Z, t, bound, mu, State.of(Z, t, start, c), tol=tol, max_iter=max_iter)


def advance(
    Z: Columns, t: Vector, bound: Vector, mu: Vector, at: State, *, tol: float, max_iter: int,
    first: np.ndarray | None = None,
) -> Solution:  # fmt: skip
    """`lasso` from a state, which moves to the answer; the columns `first` enter the first working set."""
    size, rounds, trace = max(FIRST, isqrt(Z.X.shape[1])), 0, []
    slack = Z.sure + 8 * EPS * bound
    for outer in range(ROUNDS):
        w = at.w
        found = duality_gap(Z, at.r, at.g, bound, mu, w, t)
        trace.append(found.primal)
        progress.tick(outer, None, "working sets", objective=found.primal, gap=found.gap)
        pull = np.where(Z.length > 0, at.g - mu * w, 0.0)
        out = np.flatnonzero((np.abs(pull) - bound > slack) & (w == 0))
        rest = np.abs(pull - bound * np.sign(w))[w != 0] <= slack[w != 0]
        if not len(out) and rest.all():
            return Solution(w.copy(), rounds, True, "gradient", trace)
        if (outer or first is not None) and found.gap <= 0.5 * tol:
            return Solution(w.copy(), rounds, True, "gap", trace)
        if reason := spent(rounds, max_iter):
            return Solution(w.copy(), rounds, False, reason, trace)
        on = np.flatnonzero(w)
        size = max(size, 2 * len(on))
        worst = out[np.argsort(bound[out] - np.abs(pull[out]), kind="stable")]
        chosen = np.union1d(on, worst[: max(size - len(on), 1)])
        if not outer and first is not None:
            chosen = np.union1d(chosen, first)
        at.w, used = _improved(Z, at.c, bound, mu, w, slack, chosen, max_iter - rounds, tol, last=not len(out))
        rounds += used
        at.r = Z.residual(t, at.w)
        at.g = Z.correlations(at.r)
    return Solution(at.w.copy(), rounds, False, "max_iter", trace)


def _improved(
    Z: Columns, c: Vector, bound: Vector, mu: Vector, w: Vector, slack: Vector, chosen: np.ndarray, budget: int,
    tol: float, *, last: bool,
) -> tuple[Vector, int]:  # fmt: skip
    """Weights (d,) that are a minimum over the columns taken, or within a third of the gap asked for; rounds."""
    Z.take(chosen)
    on, G = Z.order, Z.products
    own, limit, ridge, used, near = w[on], bound[on], mu[on], 0, False
    if tol > NEAR:
        most = min(budget, PATIENCE * SWEEPS)
        used, gap = descend(G, c[on], limit, ridge, Z.sure[on], own, Z.gram @ own, tol / 6, most)
        near = gap <= tol / 6
    if not near and used < budget:
        own, more = _settle(G, c[on], limit, ridge, own, slack[on], budget - used, last=last)
        used += more
    w = w.copy()
    w[on] = own
    return w, used
