"""Newton's method with backtracking. A Hessian is formed, or brought up to date, only when it pays."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.solvers.base import NEVER, Solution, Steps, answered, at_once, spent
from ml_core.solvers.lbfgs import MEMORY, Pair, direction, remember

EPS, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)
SINGULAR = 1e-13
ARMIJO = 1e-4
HALVINGS = 40
SLOW = 0.3
PACES = 3
FRESH = 0.3
"""Contraction expected of the first step along a new Hessian."""
STALE_HALVINGS = 2
FIRST_LOOK = 6

Solve = Callable[[Vector], Vector]
Point = tuple[float, Vector, Matrix | None]
Ask = Callable[[Vector, bool], Steps[Point]]
"""(v, second) → f, ∇f and, if asked for, ∇²f at v; may first yield what it must know of the rows."""


class SecondOrder(Protocol):
    """What Newton asks of an objective."""

    @property
    def hessian_cost(self) -> float:
        """Time of `second` in units of `value_gradient`."""

    def value_gradient(self, v: Vector) -> tuple[float, Vector]:
        """f, ∇f."""

    def second(self, v: Vector) -> tuple[float, Vector, Matrix]:
        """f, ∇f, ∇²f."""


class Followed(Protocol):
    """A Hessian that is brought up to date for part of the price of a new one."""

    H: Matrix | None
    pace: float
    """Contraction to expect of it where it is up to date."""

    def take(self, v: Vector, H: Matrix) -> None:
        """Start anew from H, the Hessian at v."""

    def price(self, v: Vector) -> float:
        """What `follow` would cost, in gradients; 0 where there is nothing to bring up to date at v."""

    def follow(self) -> Matrix:
        """The Hessian, up to date at the v of the last `price`."""


def inverse(H: Matrix) -> Solve:
    """g → H⁻¹g by Cholesky; where H is singular to working precision, by its pseudo-inverse (the shortest step)."""
    return _cholesky(H) or _shortest(H)


def _cholesky(H: Matrix) -> Solve | None:
    """g → H⁻¹g, None where H is singular to working precision."""
    if not np.isfinite(H).all():
        raise FloatingPointError("the Hessian is not finite")
    L, failed = dpotrf(H, lower=1)
    if failed or (L.diagonal() ** 2 / np.maximum(H.diagonal(), TINY)).min() <= SINGULAR:
        return None
    return lambda g: np.asarray(dpotrs(L, g, lower=1)[0])


def _shortest(H: Matrix) -> Solve:
    """g → H⁺g by eigenvalues, which say what directions are flat."""
    values, Q = np.linalg.eigh(H)
    keep = values > len(H) * SINGULAR * max(values[-1], TINY)
    half = Q[:, keep] / np.sqrt(values[keep])
    return lambda g: np.asarray(half @ (half.T @ g))


def newton(
    objective: SecondOrder, v0: Vector, *, tol: float, max_iter: int, curve: Followed | None = None,
    slow: Callable[[Vector], bool] | None = None, report: bool = True,
) -> Solution:  # fmt: skip
    """Minimise.

    Stops when the distance left to the minimum, in the norm of the Hessian (for a likelihood: standard errors), is at
    most `tol`. The first steps are along the Hessian of `curve`, if there is one. `slow(v)` is asked at steps 6, 12,
    24 … that contract badly whether to give up as separable. Without `report` it tells nothing new, and can be
    cancelled. Steps between new Hessians are corrected by the last steps (L-BFGS). O(n D q) per step, O(n D² q²) per
    step with a new Hessian.
    """

    def ask(v: Vector, second: bool) -> Point:
        with np.errstate(over="ignore", invalid="ignore"):
            return objective.second(v) if second else (*objective.value_gradient(v), None)

    steps = newton_steps(at_once(ask), v0, tol=tol, max_iter=max_iter, hessian_cost=objective.hessian_cost, curve=curve,
                         slow=at_once(slow) if slow is not None else None, report=report)  # fmt: skip
    return answered(steps)


def newton_steps(
    ask: Ask, v0: Vector, *, tol: float, max_iter: int, hessian_cost: float, curve: Followed | None = None,
    slow: Callable[[Vector], Steps[bool]] | None = None, report: bool = True,
) -> Steps[Solution]:  # fmt: skip
    """`newton` for an objective whose figures are asked for; `hessian_cost` is a Hessian's price in gradients."""
    at = _Descent(ask, v0, curve)
    if not (yield from at.begin()):
        return Solution(v0, 0, False, "diverged", [at.f])
    trace: list[float] = []
    look = FIRST_LOOK
    for step in range(max_iter + 1):
        trace.append(at.f)
        end = yield from at.aim(tol)
        if report:
            progress.tick(step, max_iter, objective=at.f, distance=at.left)
        else:
            progress.pulse()
        if end is not None:
            return Solution(at.v - at.p if end == "gradient" else at.v, step, True, end, trace)
        if slow is not None and at.contraction > SLOW and step >= look:
            look *= 2
            if (yield from slow(at.v)):
                return Solution(at.v, step, False, "separable", trace)
        if reason := spent(step, max_iter):
            return Solution(at.v, step, False, reason, trace)
        at.freshen(tol)
        if not (yield from at.move(_pays(at.left, tol, at.pace, hessian_cost))):
            return Solution(at.v, step, False, "line_search", trace)
    raise AssertionError(NEVER)


class _Descent:
    """The point, its gradient, the H⁻¹ in use and how well it contracts.

    Blind is an H⁻¹ of a singular Hessian of fewer rows or of another point: the shortest steps leave out directions of
    which all rows here may say something.
    """

    solve: Solve
    left: float

    def __init__(self, ask: Ask, v: Vector, curve: Followed | None) -> None:
        self.ask, self.v, self.curve = ask, v, curve
        self.pairs: deque[Pair] = deque(maxlen=MEMORY)
        self.last, self.contraction, self.stale = np.inf, 0.1, False
        self.paces: deque[float] = deque([0.1], maxlen=PACES)
        if curve is not None and curve.H is not None:
            self.use(curve.H, stale=True)

    def begin(self) -> Steps[bool]:
        """Look at the start; whether f is finite there."""
        self.f, self.g, H = yield from self.ask(self.v, not self.stale)
        if not np.isfinite(self.f):
            return False
        if not self.stale:
            self.renew(H)
        return True

    def renew(self, H: Matrix | None) -> None:
        """Take the inverse of a Hessian at v."""
        assert H is not None  # noqa: S101 - asked for
        self.use(H, stale=False)
        self.contraction, self.last = 1.0, np.inf
        self.paces = deque([FRESH], maxlen=PACES)
        if self.curve is not None:
            self.curve.take(self.v, H)

    def use(self, H: Matrix, *, stale: bool) -> None:
        """Take the inverse of H."""
        regular = _cholesky(H)
        self.solve, self.stale, self.singular = regular or _shortest(H), stale, regular is None
        self.pairs.clear()

    def freshen(self, tol: float) -> None:
        """Bring an old Hessian that contracts worse than a new one would up to date, where that pays, and aim anew."""
        curve = self.curve
        if curve is None or not self.stale or self.contraction <= curve.pace:
            return
        price = curve.price(self.v)
        if price == 0.0 or not _pays(self.left, tol, self.pace, price):
            return
        self.use(curve.follow(), stale=True)
        self.paces.append(curve.pace)
        self.point()

    def point(self) -> None:
        """Set the step p and the distance left."""
        self.p = direction(self.g, self.pairs, self.solve)
        self.left = max(float(self.g @ self.p), 0.0) ** 0.5

    def aim(self, tol: float) -> Steps[Literal["gradient", "step"] | None]:
        """Point to the minimum and learn the contraction of the last step; whether it is reached, and by which rule."""
        self.point()
        if np.isfinite(self.last):
            self.contraction = min(self.left / self.last, 1.0)
            self.paces.append(self.contraction)
        end = self.end(tol)
        if end is None or not (self.stale and self.singular):
            return end
        self.renew((yield from self.ask(self.v, True))[2])
        self.point()
        return self.end(tol)

    def end(self, tol: float) -> Literal["gradient", "step"] | None:
        """Which rule says that the minimum is reached, seen along the H⁻¹ in use."""
        if self.left <= tol or (self.left < 1e-3 and self.left * self.contraction <= 0.01 * tol):
            return "gradient"
        return "step" if self.contraction > 0.5 and self.left < max(1e-8, 1e-10 * abs(self.f) ** 0.5) else None

    @property
    def pace(self) -> float:
        """Geometric mean of the last contractions under the H⁻¹ in use."""
        return math.prod(self.paces) ** (1.0 / len(self.paces))

    def move(self, fresh: bool) -> Steps[bool]:
        """Step, with a new Hessian at the end if `fresh`; a poor step along an old Hessian renews it instead."""
        found = yield from _search(self.ask, self.v, self.f, self.p, self.left, second=fresh,
                                   tries=STALE_HALVINGS if self.stale else HALVINGS)  # fmt: skip
        if found is None:
            if self.stale:
                self.renew((yield from self.ask(self.v, True))[2])
                return True
            return False
        v, self.f, g, H = found
        if H is None:
            remember(self.pairs, v - self.v, g - self.g)
            self.stale = True
        self.v, self.g = v, g
        last = self.left
        if H is not None:
            self.renew(H)
        self.last = last
        return True


def _pays(left: float, tol: float, pace: float, cost: float) -> bool:
    """Whether two passes with Hessian are cheaper than carrying on with the old one at its rate of contraction."""
    if pace >= 1.0:
        return True
    return math.log(max(left / tol, 1.0)) / -math.log(max(pace, EPS)) > 2.0 * cost


def _search(
    ask: Ask, v: Vector, f: float, p: Vector, left: float, *, second: bool, tries: int
) -> Steps[tuple[Vector, float, Vector, Matrix | None] | None]:
    """The first of v - p, v - p/2, … that lowers f enough, up to the rounding of f; only v - p gets a Hessian."""
    t = 1.0
    for _ in range(tries):
        trial = v - t * p
        ft, gt, H = yield from ask(trial, second and t == 1.0)
        if np.isfinite(ft) and ft <= f - ARMIJO * t * left**2 + 32 * EPS * abs(f):
            return trial, ft, gt, H
        t /= 2
    return None
