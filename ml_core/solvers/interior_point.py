"""Sums of absolute, tilted or ε-insensitive residuals, with or without penalties, by a primal-dual interior point.

min over w of  Σᵢ [upᵢ max(0, rᵢ - εᵢ) + downᵢ max(0, -rᵢ - εᵢ)] + ½ Σⱼ μⱼwⱼ²,   r = y - A w.

Each kink has a slack u ≥ r - ε and a multiplier a ∈ [0, up] (v and b below); their products shrink along the central
path to 0, by Mehrotra's predictor and corrector. A step solves one p × p system, O(n p²); some 20 steps suffice at any
n. The end is a strictly complementary pair: the rows with 0 < multiplier < bound are those that every minimiser passes
through (at distance ε), so the minimiser is unique exactly when their rank is full.

References
----------
Portnoy, Koenker (1997), The Gaussian hare and the Laplacian tortoise, Statistical Science 12(4).
Mehrotra (1992), On the implementation of a primal-dual interior point method, SIAM J. Optim. 2(4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.solvers.central_path import aim, room

STEPS = 200
BACK = 0.9995
GAP = 1e-14
PATIENCE = 6
SMALLEST = 1e-200
NEGLIGIBLE = 1e-20
"""Curvature μ below which ½ μw² is less than what rounding leaves of Aᵀd, squared, would cost when divided by it."""


@dataclass(frozen=True)
class Kinked:
    """The problem: A (n, p) of full column rank (or μ > 0), y, up, down > 0 and ε ≥ 0 (n,), μ ≥ 0 (p,)."""

    A: Matrix
    y: Vector
    up: Vector
    down: Vector
    eps: Vector
    mu: Vector

    def value(self, w: Vector) -> float:
        """The objective."""
        r = self.y - self.A @ w
        above, below = np.maximum(r - self.eps, 0.0), np.maximum(-r - self.eps, 0.0)
        return float(self.up @ above + self.down @ below + 0.5 * self.mu @ w**2)

    def bound(self, d: Vector, w: Vector) -> float:
        """A lower bound of the objective from multipliers d (n,), charged for what rounding leaves of Aᵀd = μw."""
        d = np.clip(d, -self.down, self.up)
        g = d @ self.A
        held = self.mu > NEGLIGIBLE
        quadratic = float((g[held] ** 2 / self.mu[held]).sum())
        return float(self.y @ d - self.eps @ np.abs(d) - 0.5 * quadratic - np.abs(g[~held]) @ np.abs(w[~held]))


@dataclass
class State:
    """w and, n each: slacks u, z = u - r + ε, v, t = v + r + ε and multipliers a, b (c, e are their complements)."""

    w: Vector
    u: Vector
    z: Vector
    v: Vector
    t: Vector
    a: Vector
    c: Vector
    b: Vector
    e: Vector

    def mean_product(self) -> float:
        """The place on the central path."""
        return float(self.a @ self.z + self.c @ self.u + self.b @ self.t + self.e @ self.v) / (4 * len(self.u))


@dataclass(frozen=True)
class Answer:
    """w, multipliers d (n,) of the rows, the gap between objective and dual bound, steps, whether it is closed."""

    w: Vector
    d: Vector
    gap: float
    n_iter: int
    converged: bool
    trace: list[float]


def interior_point(P: Kinked) -> Answer:
    """The centre of the optimal face, to a gap near rounding; y and A are expected near unit size."""
    S, trace = _start(P), []
    best, least, stale = (S.w, S.a - S.b), np.inf, 0
    for step in range(STEPS):
        value = P.value(S.w)
        gap = value - P.bound(S.a - S.b, S.w)
        trace.append(value)
        progress.tick(step, None, objective=value, gap=gap)
        stale = 0 if gap < 0.5 * least else stale + 1
        if gap < least:
            best, least = (S.w, S.a - S.b), gap
        if gap <= GAP * (abs(value) + GAP) or (stale >= PATIENCE and step > PATIENCE):
            break
        moved = None if step and progress.late() else _moved(P, S)
        if moved is None:
            break
        S = moved
    return Answer(*best, least, step, bool(least <= 1e-8 * (abs(trace[-1]) + 1e-8)), trace)


def _start(P: Kinked) -> State:
    """Least squares, slacks well inside, multipliers in the middle."""
    root = np.sqrt(P.up + P.down)
    rows = np.vstack([root[:, None] * P.A, np.diag(np.sqrt(P.mu))])
    w = lstsq(rows, np.concatenate([root * P.y, np.zeros(len(P.mu))]), check_finite=False)[0]
    r = P.y - P.A @ w
    room = float(np.abs(r).mean()) + 1e-3 * float(P.eps.mean()) + 1e-8
    u, v = np.maximum(r - P.eps, 0.0) + room, np.maximum(-r - P.eps, 0.0) + room
    a, b = 0.5 * P.up, 0.5 * P.down
    return State(w, u, u - r + P.eps, v, v + r + P.eps, a, P.up - a, b, P.down - b)


@dataclass(frozen=True)
class Move:
    """Changes of w, u, z, v, t, a (-c) and b (-e)."""

    w: Vector
    u: Vector
    z: Vector
    v: Vector
    t: Vector
    a: Vector
    b: Vector


def _moved(P: Kinked, S: State) -> State | None:
    """One predictor-corrector step; None where the system is singular to working precision."""
    qa, qb = S.u / S.c + S.z / S.a, S.v / S.e + S.t / S.b
    H = (P.A.T * (1.0 / qa + 1.0 / qb)) @ P.A + np.diag(P.mu)
    try:
        factor = cho_factor(H, check_finite=False)
    except LinAlgError:
        return None
    mean = S.mean_product()
    guess = _direction(P, S, factor, (qa, qb), 0.0, None)
    ahead = _step(P, S, guess, 1.0).mean_product()
    target = aim(mean, ahead, 1e-6)
    found = _step(P, S, _direction(P, S, factor, (qa, qb), target, guess), BACK)
    return found if np.isfinite(found.w).all() else None


def _direction(P: Kinked, S: State, factor: Any, q: tuple[Vector, Vector], target: float, last: Move | None) -> Move:
    """Towards products equal to `target`, with the products of the changes in `last` taken into account."""
    Ra, Rc, Rb, Re = target - S.a * S.z, target - S.c * S.u, target - S.b * S.t, target - S.e * S.v
    if last is not None:
        Ra, Rc = Ra - last.a * last.z, Rc + last.a * last.u
        Rb, Re = Rb - last.b * last.t, Re + last.b * last.v
    ga, gb = Ra / S.a - Rc / S.c, Rb / S.b - Re / S.e
    dw = cho_solve(factor, (S.a - S.b + ga / q[0] - gb / q[1]) @ P.A - P.mu * S.w, check_finite=False)
    dr = -(P.A @ dw)
    da, db = (dr + ga) / q[0], (gb - dr) / q[1]
    return Move(dw, (Rc + S.u * da) / S.c, (Ra - S.z * da) / S.a, (Re + S.v * db) / S.e, (Rb - S.t * db) / S.b, da, db)


def _step(P: Kinked, S: State, m: Move, back: float) -> State:
    """As far along the move as slacks and multipliers stay positive; one length for both where there is a penalty."""
    primal = back * room((S.u, m.u), (S.z, m.z), (S.v, m.v), (S.t, m.t))
    dual = back * room((S.a, m.a), (S.c, -m.a), (S.b, m.b), (S.e, -m.b))
    primal, dual = min(primal, 1.0), min(dual, 1.0)
    if (P.mu > 0).any():
        primal = dual = min(primal, dual)
    a, b = S.a + dual * m.a, S.b + dual * m.b
    w = S.w + primal * m.w
    u, z, v, t = S.u + primal * m.u, S.z + primal * m.z, S.v + primal * m.v, S.t + primal * m.t
    kept = [np.maximum(x, SMALLEST) for x in (u, z, v, t, a, S.c - dual * m.a, b, S.e - dual * m.b)]
    return State(w, kept[0], kept[1], kept[2], kept[3], kept[4], kept[5], kept[6], kept[7])
