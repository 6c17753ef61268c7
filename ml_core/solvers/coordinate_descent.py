"""Least squares with an l1 penalty: coordinate descent on a working set, ended by the linear system of its signs.

min over w of  ½ Σᵢ sᵢ (tᵢ - zᵢᵀw)² + Σⱼ lⱼ|wⱼ| + ½ Σⱼ μⱼ wⱼ²  for the unit columns of `Columns`.

A working set holds the columns with weight and those that violate their bound |zⱼᵀr| ≤ lⱼ most. On it, sweeps of
coordinate descent over the Gram matrix find the signs, and one Cholesky solve for those signs gives the weights to
rounding where the sweeps alone would creep (Lee, Battle, Raina, Ng (2006), Efficient sparse coding algorithms, NIPS).
The set grows until no column violates; the duality gap is measured over all columns.

Source: Friedman, Hastie, Tibshirani (2010), Regularization paths for generalized linear models via coordinate descent,
Journal of Statistical Software 33(1); Massias, Gramfort, Salmon (2018), Celer, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.numerics.column_moments import column_moments
from ml_core.numerics.jit import compiled
from ml_core.solvers.base import Solution

EPS = float(np.finfo(float).eps)
SWEEPS = 10
FIRST = 10
ROUNDS = 1000
CROSSINGS = 8
PATIENCE = 5


@dataclass
class Columns:
    """The columns of X as z = √s (x - mean)/length, never all copied: products with them, and Gram matrices of some."""

    X: Matrix
    s: Vector
    mean: Vector
    length: Vector
    sure: Vector
    place: dict[int, int] = field(default_factory=dict)
    taken: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    gram: Matrix = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def of(cls, X: Matrix, s: Vector, center: bool) -> Columns:
        """O(n d). A column without variation has length 0 and never enters."""
        d = X.shape[1]
        mean, sd, constant = column_moments(X, s)
        if not center:
            sd, mean = np.hypot(np.where(constant, 0.0, sd), mean), np.zeros(d)
            constant = sd == 0.0
        length = np.where(constant, 0.0, sd * np.sqrt(s.sum()))
        scale = np.where(constant, 1.0, sd)
        return cls(X, s, mean, length, 4 * EPS * np.sqrt(len(X)) * (1 + np.abs(mean) / scale))

    def correlations(self, r: Vector) -> Vector:
        """(d,) zⱼᵀ√s r, 0 for columns without variation; O(n d)."""
        weighted = self.s * r
        raw = weighted @ self.X - self.mean * weighted.sum()
        return np.divide(raw, self.length, out=np.zeros_like(raw), where=self.length > 0)

    def take(self, chosen: np.ndarray) -> np.ndarray:
        """Places of columns in `taken` (n, k) and `gram` (k, k), which grow by those that are new; O(n k) each."""
        fresh = [int(j) for j in chosen if int(j) not in self.place]
        if fresh:
            root = np.sqrt(self.s)[:, None]
            Z = root * (self.X[:, fresh] - self.mean[fresh]) / self.length[fresh]
            old = len(self.place)
            self.place.update({j: old + i for i, j in enumerate(fresh)})
            both = np.hstack([self.taken, Z]) if old else Z
            gram = np.empty((len(self.place),) * 2)
            gram[:old, :old] = self.gram
            gram[:, old:] = both.T @ Z
            gram[old:, :old] = gram[:old, old:].T
            self.taken, self.gram = np.asfortranarray(both), gram
        return np.array([self.place[int(j)] for j in chosen], dtype=np.int64)

    def residual(self, t: Vector, w: Vector) -> Vector:
        """(n,) t - Σⱼ (xⱼ - mean)/length wⱼ; O(n) for each column taken so far."""
        on = np.flatnonzero(w)
        if not len(on):
            return t.copy()
        at = self.take(on)
        here = np.zeros(len(self.place))
        here[at] = w[on]
        return np.asarray(t - self.taken @ here / np.sqrt(self.s))


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


def _exact(G: Matrix, c: Vector, bound: Vector, mu: Vector, w: Vector) -> tuple[Vector, bool]:
    """From w towards the minimum for its signs; weights that reach 0 on the way stay there and it starts anew.

    The objective never grows. Also whether the minimum was reached; without it the sweeps go on from there.
    """
    for _ in range(CROSSINGS):
        on = np.flatnonzero(w)
        if not len(on):
            return w, True
        x = _solve(G[np.ix_(on, on)] + np.diag(mu[on]), c[on] - bound[on] * np.sign(w[on]))
        if x is None:
            return w, False
        here = w[on]
        crossing = x * here < 0
        step = np.where(crossing, here / np.where(crossing, here - x, 1.0), 1.0)
        least = float(step.min())
        w = w.copy()
        w[on] = np.where(crossing & (step <= least), 0.0, here + least * (x - here))
        if not crossing.any():
            w[on] = x
            return w, True
    return w, False


def _solve(H: Matrix, goal: Vector) -> Vector | None:
    """H⁻¹ goal with one step of refinement; None where H is singular to working precision."""
    try:
        factor = cho_factor(H, check_finite=False)
    except LinAlgError:
        return None
    pivots = np.abs(np.diag(factor[0])) ** 2
    if pivots.min() < len(H) * 64 * EPS * pivots.max():
        return None
    x = cho_solve(factor, goal, check_finite=False)
    return np.asarray(x + cho_solve(factor, goal - H @ x, check_finite=False))


def _settle(
    G: Matrix, c: Vector, bound: Vector, mu: Vector, w: Vector, slack: Vector, budget: int, *, last: bool
) -> tuple[Vector, int]:
    """A minimum over a working set from weights w, and the rounds it took; a budget that is spent ends it.

    Sweeps go on until the signs rest, then the system of the signs is solved. Only the `last` set, outside of which
    nothing violates, is worth more than one such solve.
    """
    rounds = 0
    while rounds < budget:
        before = np.sign(w)
        step = _sweep(G, c, bound, mu, w, G @ w, min(SWEEPS, budget - rounds))
        rounds += SWEEPS
        still = bool((np.sign(w) == before).all())
        if not still and rounds < PATIENCE * SWEEPS:
            continue
        w, reached = _exact(G, c, bound, mu, w)
        off = np.abs(c - G @ w - mu * w) - bound
        if not last or (reached and not (off[w == 0] > slack[w == 0]).any()):
            break
        if not reached and step <= EPS * np.abs(w).max(initial=0.0):
            break
        progress.pulse()
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


def lasso(
    Z: Columns, t: Vector, bound: Vector, mu: Vector, *, start: Vector | None = None, tol: float = 0.0,
    max_iter: int = 10_000,
) -> Solution:  # fmt: skip
    """Weights (d,) of the columns `Z` for targets t (n,) with Σ s t² = 1 and bounds l, μ (d,) ≥ 0.

    It ends when no column violates its bound beyond rounding ("gradient") or the duality gap is at most tol/2 ("gap").
    """
    w = np.zeros(Z.X.shape[1]) if start is None else start.copy()
    c, size, rounds, trace = Z.correlations(t), FIRST, 0, []
    slack = Z.sure + 8 * EPS * bound
    for outer in range(ROUNDS):
        r = Z.residual(t, w)
        g = Z.correlations(r)
        found = duality_gap(Z, r, g, bound, mu, w, t)
        trace.append(found.primal)
        progress.tick(outer, None, "working sets", objective=found.primal, gap=found.gap)
        pull = np.where(Z.length > 0, g - mu * w, 0.0)
        out = np.flatnonzero((np.abs(pull) - bound > slack) & (w == 0))
        rest = np.abs(pull - bound * np.sign(w))[w != 0] <= slack[w != 0]
        if not len(out) and rest.all():
            return Solution(w, rounds, True, "gradient", trace)
        if outer and found.gap <= 0.5 * tol:
            return Solution(w, rounds, True, "gap", trace)
        if rounds >= max_iter:
            break
        on = np.flatnonzero(w)
        size = max(size, 2 * len(on))
        worst = out[np.argsort(bound[out] - np.abs(pull[out]), kind="stable")]
        chosen = np.union1d(on, worst[: max(size - len(on), 1)])
        at = Z.take(chosen)
        w[chosen], used = _settle(
            np.ascontiguousarray(Z.gram[np.ix_(at, at)]), c[chosen], bound[chosen], mu[chosen], w[chosen],
            slack[chosen], max_iter - rounds, last=not len(out),
        )  # fmt: skip
        rounds += used
    return Solution(w, rounds, False, "max_iter", trace)
