"""Newton's method with backtracking. A Hessian is formed only when it pays; large problems start on few rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.solvers.base import NEVER, Reason, Solution, Steps, answered, at_once, spent
from ml_core.solvers.lbfgs import MEMORY, Pair, direction, remember

EPS = float(np.finfo(float).eps)
SINGULAR = 1e-13
ARMIJO = 1e-4
HALVINGS = 40
THIN = 8
MIN_ROWS = 2000
ROWS_PER_UNKNOWN = 20
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


class Thinnable(SecondOrder, Protocol):
    """An objective that is a sum over rows."""

    @property
    def size(self) -> int:
        """Number of unknowns."""

    @property
    def X(self) -> Matrix:  # noqa: N802
        """The rows."""

    def zero(self) -> Vector:
        """Where to start from nothing."""

    def thin(self, factor: int) -> Thinnable:
        """An estimate from one in `factor` rows."""


@dataclass(frozen=True)
class Rough:
    """An estimate of the Hessian from some rows: its price in gradients, and the contraction to expect of it."""

    hessian: Callable[[Vector], Matrix]
    cost: float
    pace: float


def inverse(H: Matrix) -> Solve:
    """g → H⁻¹g by Cholesky; where H is singular to working precision, by its pseudo-inverse (the shortest step)."""
    if not np.isfinite(H).all():
        raise FloatingPointError("the Hessian is not finite")
    try:
        factor = cho_factor(H, lower=True, check_finite=False)
        pivots = np.diag(factor[0]) ** 2 / np.maximum(np.diag(H), np.finfo(float).tiny)
        if pivots.min() > SINGULAR:
            return lambda g: np.asarray(cho_solve(factor, g, check_finite=False))
    except LinAlgError:
        pass  # the eigenvalues below say which directions are flat
    values, Q = np.linalg.eigh(H)
    keep = values > len(H) * SINGULAR * max(values[-1], np.finfo(float).tiny)
    half = Q[:, keep] / np.sqrt(values[keep])
    return lambda g: np.asarray(half @ (half.T @ g))


def newton(
    objective: SecondOrder, v0: Vector, *, tol: float, max_iter: int, rough: Rough | None = None,
    slow: Callable[[Vector], bool] | None = None, report: bool = True,
) -> tuple[Solution, Solve]:  # fmt: skip
    """Minimise; returns the solution and the last H⁻¹.

    Stops when the distance left to the minimum, in the norm of the Hessian (for a likelihood: standard errors), is at
    most `tol`. The first steps are along a `rough` Hessian, if there is one. `slow(v)` is asked at steps 6, 12, 24 …
    that contract badly whether to give up as separable. Steps between new Hessians are corrected by the last steps
    (L-BFGS). O(n D q) per step, O(n D² q²) per step with a new Hessian.
    """

    def ask(v: Vector, second: bool) -> Point:
        with np.errstate(over="ignore", invalid="ignore"):
            return objective.second(v) if second else (*objective.value_gradient(v), None)

    steps = newton_steps(at_once(ask), v0, tol=tol, max_iter=max_iter, hessian_cost=objective.hessian_cost, rough=rough,
                         slow=at_once(slow) if slow is not None else None, report=report)  # fmt: skip
    return answered(steps)


def newton_steps(
    ask: Ask, v0: Vector, *, tol: float, max_iter: int, hessian_cost: float, rough: Rough | None = None,
    slow: Callable[[Vector], Steps[bool]] | None = None, report: bool = True,
) -> Steps[tuple[Solution, Solve]]:  # fmt: skip
    """`newton` for an objective whose figures are asked for; `hessian_cost` is a Hessian's price in gradients."""
    at = _Descent(ask, v0, rough)
    yield from at.begin()
    trace: list[float] = []
    look = FIRST_LOOK
    for step in range(max_iter + 1):
        trace.append(at.f)
        left = at.aim()
        if report:
            progress.tick(step, max_iter, objective=at.f, distance=left)
        if left <= tol or (left < 1e-3 and left * at.contraction <= 0.01 * tol):
            return Solution(at.v - at.p, step, True, "gradient", trace), at.solve
        if at.contraction > 0.5 and left < max(1e-8, 1e-10 * abs(at.f) ** 0.5):
            return Solution(at.v, step, True, "step", trace), at.solve
        if slow is not None and at.contraction > SLOW and step >= look:
            look *= 2
            if (yield from slow(at.v)):
                return Solution(at.v, step, False, "separable", trace), at.solve
        if reason := spent(step, max_iter):
            return Solution(at.v, step, False, reason, trace), at.solve
        moved = yield from at.move(_pays(left, tol, at.pace, hessian_cost))
        if not moved:
            return Solution(at.v, step, False, "line_search", trace), at.solve
        at.sharpen(tol)
    raise AssertionError(NEVER)


class _Descent:
    """The point, its gradient, the H⁻¹ in use and how well it contracts."""

    solve: Solve

    def __init__(self, ask: Ask, v: Vector, rough: Rough | None) -> None:
        self.ask, self.v, self.rough = ask, v, rough
        self.pairs: deque[Pair] = deque(maxlen=MEMORY)
        self.last, self.contraction, self.stale = np.inf, 0.1, rough is not None
        self.paces: deque[float] = deque([0.1], maxlen=PACES)
        if rough is not None:
            self.solve = inverse(rough.hessian(v))

    def begin(self) -> Steps[None]:
        """Look at the start."""
        self.f, self.g, H = yield from self.ask(self.v, not self.stale)
        if not self.stale:
            self.renew(H)

    def renew(self, H: Matrix | None) -> None:
        """Take the inverse of a Hessian at v."""
        assert H is not None  # noqa: S101 - asked for
        self.solve, self.stale, self.contraction, self.last = inverse(H), False, 1.0, np.inf
        self.pairs.clear()
        self.paces = deque([FRESH], maxlen=PACES)

    def sharpen(self, tol: float) -> None:
        """After the first step along a rough Hessian, the longest, take it anew where that pays."""
        rough, self.rough = self.rough, None
        if rough is not None and self.stale and _pays(self.left, tol, self.pace, rough.cost):
            self.solve = inverse(rough.hessian(self.v))
            self.pairs.clear()
            self.paces = deque([rough.pace], maxlen=PACES)

    def aim(self) -> float:
        """Set the step p; returns the distance left, and learns the contraction of the last step."""
        self.p = direction(self.g, self.pairs, self.solve)
        self.left = max(float(self.g @ self.p), 0.0) ** 0.5
        if np.isfinite(self.last):
            self.contraction = min(self.left / self.last, 1.0)
            self.paces.append(self.contraction)
        return self.left

    @property
    def pace(self) -> float:
        """Geometric mean of the last contractions under the H⁻¹ in use."""
        return float(np.prod(self.paces) ** (1.0 / len(self.paces)))

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
    return float(np.log(max(left / tol, 1.0)) / -np.log(max(pace, EPS))) > 2.0 * cost


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


def thinned_newton(
    objective: Thinnable, start: Vector | None = None, *, tol: float, max_iter: int,
    slow: Callable[[Vector], bool] | None = None,
) -> Solution:  # fmt: skip
    """`newton` from the minimum over one in 8 rows, with their Hessian, when those are many times the unknowns."""
    v, rough = _coarse(objective, objective.zero() if start is None else start)
    return newton(objective, v, tol=tol, max_iter=max_iter, rough=rough, slow=slow)[0]


def _coarse(objective: Thinnable, start: Vector) -> tuple[Vector, Rough | None]:
    """Where to start, by the same on fewer rows, and their Hessian."""
    if len(objective.X) < THIN * max(MIN_ROWS, ROWS_PER_UNKNOWN * objective.size):
        return start, None
    few = objective.thin(THIN)
    v, rough = _coarse(few, start)
    solution, _ = newton(few, v, tol=0.3 * objective.size**0.5, max_iter=20, rough=rough, report=False)
    kept: Reason = "gradient"
    if solution.reason == "time":
        return solution.w, None
    if solution.reason != kept:
        return start, None
    pace = (objective.size / len(few.X)) ** 0.5
    return solution.w, Rough(lambda v: few.second(v)[2], few.hessian_cost / THIN, pace)
