"""Optimisers that use curvature, coordinates or a grid, as functions on a chosen problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from scipy.linalg import LinAlgError, cho_factor

from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost
from ml_core.certificates import Certificate, Notice
from ml_core.errors import Incompatible, InvalidParameter, Issue, OverBudget
from ml_core.losses.arguments import Numbers
from ml_core.params import RealVector, Seed
from ml_core.registry import Answer, function
from ml_core.rng import generator
from ml_core.solvers.base import Solution
from ml_core.solvers.coordinate_search import coordinate_search
from ml_core.solvers.first_order_run import QUADRATIC, ROWS
from ml_core.solvers.grid_search import grid_search
from ml_core.solvers.irls import irls
from ml_core.solvers.newton import newton
from ml_core.solvers.problems import LARGEST, LossProblem, Problem, start_of
from ml_core.solvers.run_report import Chosen, Recorder, RunReport, Seconds, Small, Start, Steps, cost, run

MOST_POINTS = 1_000_000
Few = Annotated[int, Field(ge=1, le=10_000, description="Most iterations.")]


@dataclass
class Convexified:
    """An objective whose Hessian is raised by a ridge until it is positive definite, so that steps go downhill."""

    inner: Recorder
    least: float = np.inf

    @property
    def hessian_cost(self) -> float:
        """0: a new Hessian at every step."""
        return 0.0

    def value_gradient(self, v: Vector) -> tuple[float, Vector]:
        """f, ∇f."""
        return self.inner.value_gradient(v)

    def second(self, v: Vector) -> tuple[float, Vector, Matrix]:
        """f, ∇f and the raised ∇²f."""
        f, g, H = self.inner.second(v)
        size = float(np.abs(np.diag(H)).max()) or 1.0
        ridge, scale = 0.0, 1e-3 * size
        while not _positive(H + ridge * np.eye(len(H))):
            ridge = max(2.0 * ridge, scale)
        return f, g, H + ridge * np.eye(len(H))


def _positive(H: Matrix) -> bool:
    """Whether H is positive definite, or as good as: flat directions are the solver's to skip."""
    try:
        cho_factor(H + 1e-13 * max(float(np.trace(np.abs(H))), 1e-300) * np.eye(len(H)), check_finite=False)
    except LinAlgError:
        return False
    return True


def _curved(problem: Problem, name: str) -> None:
    objective = problem.objective()
    try:
        objective.second(np.zeros(objective.size))
    except TypeError as e:
        loss = getattr(objective, "loss", None)
        raise Incompatible(getattr(loss, "name", problem.problem), name, "curvature") from e  # type: ignore[attr-defined]


@function("newton_method", example=QUADRATIC, cost=cost)
def newton_method(
    *, problem: Chosen, start: Start = None, max_iter: Few = 100, tol: Small = 1e-8, seconds: Seconds = None
) -> Answer[RunReport]:
    """w ← w - t H⁻¹ ∇f(w) by Cholesky, t = 1, ½, … until f falls enough.

    One step on a quadratic, quadratic convergence near a minimum (`order` about 2). Where H is not positive definite a
    ridge is added until it is, so that saddles do not attract. O(n d² + d³) per iteration.

    References
    ----------
    Nocedal, Wright (2006), Numerical Optimization, chapter 3.
    """
    _curved(problem, "newton_method")

    def solve(recorder: Recorder) -> Solution:
        w, total, trace, k = start_of(start, recorder.inner), 0, [], 0
        found = Solution(w, 0, False, "max_iter")
        size = max(1.0, abs(recorder.value_gradient(w)[0]))
        for k in range(3):
            found = newton(Convexified(recorder), w, tol=tol * 10.0**-k * size**0.5, max_iter=max_iter - total)
            total, w = total + found.n_iter, found.w
            trace += found.trace[1 if k else 0 :]
            if np.abs(recorder.inner.value_gradient(w)[1]).max() <= tol or total >= max_iter or found.reason == "time":
                break
        done = bool(np.abs(recorder.inner.value_gradient(w)[1]).max() <= tol)
        return Solution(w, total, done, "gradient" if done else found.reason, trace)

    answer = run(problem, solve, tol=tol, seconds=seconds)
    return Answer(answer.value, answer.certificates, answer.warnings + _saddle(problem, answer.value))


def _saddle(problem: Problem, report: RunReport) -> tuple[Notice, ...]:
    values = np.linalg.eigvalsh(problem.objective().second(report.w)[2])
    if values[0] >= -1e-8 * np.abs(values).max():
        return ()
    return (Notice("saddle", f"the Hessian at the answer has the eigenvalue {values[0]:.3g}: it is no minimum",
                   "start elsewhere"),)  # fmt: skip


@function("iteratively_reweighted_least_squares", example=ROWS, cost=cost)
def iteratively_reweighted_least_squares(
    *, problem: Annotated[LossProblem, Field(description="A mean loss with a curvature.")], start: Start = None,
    max_iter: Few = 100, tol: Small = 1e-8, seconds: Seconds = None,
) -> Answer[RunReport]:  # fmt: skip
    """Weighted least squares on the working response η - C⁻¹(∂ℓ/∂η), with weights C = ∂²ℓ/∂η², again and again.

    Newton's method for a loss of linear predictors, written as regressions; a step that raises f is halved.

    References
    ----------
    McCullagh, Nelder (1989), Generalized Linear Models, section 2.5.
    """
    _curved(problem, "iteratively_reweighted_least_squares")

    def solve(recorder: Recorder) -> Solution:
        found = irls(recorder, start_of(start, recorder.inner), tol=tol, max_iter=max_iter)
        f, g = recorder.value_gradient(found.w)
        done = bool(np.abs(g).max() <= tol)
        return Solution(found.w, found.n_iter, done, "gradient" if done else found.reason, [*found.trace, f])

    return run(problem, solve, tol=tol, seconds=seconds)


@function("coordinate_ascent", example=QUADRATIC, cost=cost)
def coordinate_ascent(
    *,
    problem: Chosen,
    start: Start = None,
    block: Annotated[int, Field(ge=1, description="Coordinates that move together: 1 single, 2 pairs …")] = 1,
    shuffle: Annotated[bool, Field(description="A new random order each sweep.")] = False,
    max_iter: Steps = 1000,
    tol: Small = 1e-8,
    seconds: Seconds = None,
    random_state: Seed = 0,
) -> Answer[RunReport]:
    """Maximise -f over one coordinate (or block) at a time, the others held: exact maxima on quadratics.

    -f never falls. On a quadratic single coordinates are the Gauss-Seidel method, and one block of all is Newton's.
    Where f is not differentiable it may stop early; here every f is. `max_iter` counts sweeps.

    References
    ----------
    Wright (2015), Coordinate descent algorithms, Mathematical Programming 151.
    """
    _curved(problem, "coordinate_ascent")

    def solve(recorder: Recorder) -> Solution:
        def order(sweep: int, d: int) -> np.ndarray:
            return generator(random_state, sweep).permutation(d)

        return coordinate_search(recorder, start_of(start, recorder.inner), block=block, tol=tol, max_iter=max_iter,
                                 order=order if shuffle else None)  # fmt: skip

    answer = run(problem, solve, tol=tol, seconds=seconds)
    rises = float(np.diff(answer.value.trace).max(initial=0.0)) / max(1.0, float(np.abs(answer.value.trace).max()))
    check = Certificate("largest_rise", rises, 1e-12, "f never rises between sweeps (relative)")
    return Answer(answer.value, (*answer.certificates, check), answer.warnings)


@dataclass(frozen=True)
class GridReport:
    """The best grid point, its objective, the cost, the axes, and coordinates that stand at an end of their axis.

    `values` are all values with an axis per coordinate, null when there are more than 10,000.
    """

    w: Numbers
    objective: float
    evaluations: int
    spacing: Numbers
    at_edge: list[int]
    values: Any


def _grid_cost(problem: Problem, points: int = 11, **others: Any) -> Cost:
    per = cost(problem, 1)
    d = min(float(np.log10(MOST_POINTS) + 1), float(problem.objective().size))
    return Cost(flops=per.flops * float(points) ** d, memory_bytes=per.memory_bytes + 8.0 * float(points) ** d)


@function("grid_search_optimizer", example=QUADRATIC | {"low": [-1.0, -1.0], "high": [1.0, 1.0]}, cost=_grid_cost)
def grid_search_optimizer(
    *,
    problem: Chosen,
    low: Annotated[RealVector, Field(description="(d,) lower ends.")],
    high: Annotated[RealVector, Field(description="(d,) upper ends.")],
    points: Annotated[int, Field(ge=2, le=MOST_POINTS, description="M, points per coordinate.")] = 11,
) -> Answer[GridReport]:
    """The best of M^d points, evenly spaced from low to high in each of d coordinates.

    Needs no slope and no convexity, finds the minimum to within a cell, and costs M^d evaluations: for few coordinates.

    References
    ----------
    Nocedal, Wright (2006), Numerical Optimization, chapter 9.
    """
    objective = problem.objective()
    d = objective.size
    far = max(float(np.abs(low).max(initial=0.0)), float(np.abs(high).max(initial=0.0))) > LARGEST
    if len(low) != d or len(high) != d or not (low < high).all() or far:
        message = f"low and high need {d} entries each within ±{LARGEST:g}, every low below its high"
        raise InvalidParameter(message, [Issue("/low", "range", message)])
    if points**d > MOST_POINTS:
        raise OverBudget(f"the grid has {points}^{d} points, more than {MOST_POINTS:,}; take fewer points or unknowns",
                         [Issue("/points", "too_many", f"at most {int(MOST_POINTS ** (1 / d))}")])  # fmt: skip
    axes = [np.linspace(a, b, points) for a, b in zip(low, high, strict=True)]
    with np.errstate(all="ignore"):
        w, f, values = grid_search(lambda v: objective.value_gradient(v)[0], axes)
    edge = np.flatnonzero((w == low) | (w == high)).tolist()
    spacing = (high - low) / (points - 1)
    report = GridReport(w, f, values.size, spacing, edge, values if values.size <= 10_000 else None)
    notes = []
    if edge:
        notes.append(Notice("at_edge", f"coordinates {edge} are best at an end of their range", "widen the range"))
    out = [Certificate("best_of_grid", f - float(np.nanmin(values)), 0.0, "no grid point has a smaller objective")]
    best = objective.optimum()
    if best is not None and objective.convex and ((best[0] >= low) & (best[0] <= high)).all():
        L = objective.range()[1]
        bound = 0.5 * L * d * float(spacing.max() / 2.0) ** 2
        out.append(Certificate("gap", f - best[1], bound + 1e-9 * max(1.0, abs(best[1])),
                               "f above the minimum, against ½ L ‖half a cell‖²"))  # fmt: skip
    return Answer(report, tuple(out), tuple(notes))
