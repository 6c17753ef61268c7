"""What an optimiser did on a problem: trace, rate of convergence, and how good the answer is, recomputed from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Vector
from ml_core.base import Cost
from ml_core.certificates import Certificate, Notice, finite
from ml_core.losses.arguments import Numbers
from ml_core.params import RealVector
from ml_core.progress import deadline
from ml_core.registry import Answer
from ml_core.solvers.base import Solution
from ml_core.solvers.objectives import Objective
from ml_core.solvers.problems import NamedProblem, Problem

MOST_POINTS = 500
MOST_CELLS = 2_000_000
UNKNOWN = np.full(1, np.nan)
Chosen = Annotated[NamedProblem, Field(description="What to minimise.")]
Start = Annotated[RealVector | None, Field(description="(d,) starting point; default 0.")]
Steps = Annotated[int, Field(ge=1, le=100_000, description="Most iterations (epochs of stochastic methods).")]
Seconds = Annotated[float | None, Field(gt=0, description="Time budget; the best point so far is returned.")]
Small = Annotated[float, Field(gt=0, description="Stop when no entry of the gradient is larger.")]


@dataclass(frozen=True)
class RunReport:
    """The answer `w`, its objective and largest gradient entry, and the run.

    `trace`, `gradient_trace` and `step_trace` go by iteration: objective, largest entry of the gradient, length of the
    step that led there. `points` are the iterates where d ≤ 10. `rate` is the mean factor by which the gap of f to
    its minimum shrank per iteration over the second half, `order` the exponent p of gapₖ₊₁ ∝ gapₖᵖ over the last
    steps above rounding. Fixed steps against the gradient converge below `step_bound` = 2/L, L = `largest_curvature`.
    """

    w: Numbers
    objective: float
    gradient_norm: float
    iterations: int
    evaluations: int
    converged: bool
    reason: str
    trace: Numbers
    gradient_trace: Numbers
    step_trace: Numbers
    points: list[list[float]] | None
    convex: bool
    least_curvature: float
    largest_curvature: float | None
    step_bound: float | None
    condition: float | None
    minimum: float | None
    minimiser: Numbers | None
    gap: float | None
    rate: float | None
    order: float | None


@dataclass
class Recorder:
    """Passes an objective on and remembers every point where it was evaluated."""

    inner: Objective
    seen: list[tuple[float, float, Vector]] = field(default_factory=list)

    @property
    def hessian_cost(self) -> float:
        """Of the objective."""
        return self.inner.hessian_cost

    def value_gradient(self, w: Vector) -> tuple[float, Vector]:
        """f, ∇f."""
        f, g = self.inner.value_gradient(w)
        self._note(f, g, w)
        return f, g

    def second(self, w: Vector) -> tuple[float, Vector, Any]:
        """f, ∇f, ∇²f."""
        f, g, H = self.inner.second(w)
        self._note(f, g, w)
        return f, g, H

    def along(self, trace: list[float]) -> list[tuple[float, float, Vector]]:
        """The evaluations that the trace took, in order."""
        out, at = [], 0
        for f in trace:
            while at < len(self.seen) and self.seen[at][0] != f:
                at += 1
            if at < len(self.seen):
                out.append(self.seen[at])
                at += 1
        return out

    def _note(self, f: float, g: Vector, w: Vector) -> None:
        kept = len(self.seen) * len(w) < MOST_CELLS
        self.seen.append((f, float(np.abs(g).max(initial=0.0)), w.copy() if kept else UNKNOWN))


def cost(problem: Problem, max_iter: int = 1000, **others: Any) -> Cost:
    """About 10 operations per cell and iteration."""
    cells = {"quadratic": lambda p: p.A.size, "rosenbrock": lambda p: 4 * p.size, "mean_loss": lambda p: p.X.size}
    size = float(cells[problem.problem](problem))  # type: ignore[attr-defined]
    return Cost(flops=(10.0 * size + 3e4) * max_iter, memory_bytes=100.0 * size)


def run(
    problem: Problem, solve: Callable[[Recorder], Solution], *, tol: float, step: float | None = None,
    seconds: float | None = None,
) -> Answer[RunReport]:  # fmt: skip
    """Solve and report; `step` is the fixed step used, where there is one; after `seconds` the best point so far."""
    with np.errstate(all="ignore"):
        objective = problem.objective()
        recorder = Recorder(objective)
        with deadline(seconds):
            found = solve(recorder)
        return _report(objective, recorder, found, tol, step)


def _report(
    objective: Objective, recorder: Recorder, found: Solution, tol: float, step: float | None
) -> Answer[RunReport]:
    f, g = objective.value_gradient(found.w)
    largest = float(np.abs(g).max(initial=0.0))
    taken = recorder.along(found.trace)
    steps = [0.0, *(float(np.linalg.norm(b[2] - a[2])) for a, b in pairwise(taken))]
    mu, L = objective.range()
    best = objective.optimum()
    gaps = np.array([]) if best is None else np.array(found.trace) - best[1]
    noise = 0.0 if best is None else 1e-13 * max(1.0, abs(best[1]), abs(found.trace[0]))
    report = RunReport(
        found.w, f, largest, found.n_iter, len(recorder.seen), found.converged, found.reason, np.array(found.trace),
        np.array([t[1] for t in taken]), np.array(steps[: len(taken)]), _points(taken, objective.size),
        objective.convex, mu, finite(L), 2.0 / L if 0 < L < np.inf else None,
        L / mu if 0 < mu <= L < np.inf else None,
        None if best is None else best[1], None if best is None else best[0], None if best is None else f - best[1],
        _rate(gaps, noise), _order(gaps, noise),
    )  # fmt: skip
    return Answer(report, _certificates(report, g, tol, best), _notices(report, step))


def _points(taken: list[tuple[float, float, Vector]], d: int) -> list[list[float]] | None:
    return [t[2].tolist() for t in taken[:MOST_POINTS]] if d <= 10 else None


def _rate(gaps: Vector, noise: float) -> float | None:
    """Geometric mean of the contraction of the gap over the second half of what lies above rounding."""
    clear = gaps[: int(np.argmax(gaps <= noise))] if (gaps <= noise).any() else gaps
    if len(clear) < 3:
        return None
    tail = clear[len(clear) // 2 - 1 :]
    return finite(float((tail[-1] / tail[0]) ** (1.0 / (len(tail) - 1)))) if len(tail) > 1 else None


def _order(gaps: Vector, noise: float) -> float | None:
    clear = gaps[: int(np.argmax(gaps <= noise))] if (gaps <= noise).any() else gaps
    if len(clear) < 3:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b, c = np.log(clear[-3:])
        return finite(float((c - b) / (b - a))) if c < b < a else None


def _certificates(report: RunReport, g: Vector, tol: float, best: Any) -> tuple[Certificate, ...]:
    out = [Certificate("gradient", report.gradient_norm, tol, "largest entry of the gradient at the answer")]
    if report.convex and report.least_curvature > 0:
        bound = float(g @ g) / (2.0 * report.least_curvature)
        out.append(Certificate("gap_bound", bound, max(len(g) * tol * tol / (2.0 * report.least_curvature), 1e-300),
                               "f lies above its minimum by at most ‖∇f‖²/(2μ), μ the least curvature"))  # fmt: skip
    if best is not None:
        size = max(1.0, abs(best[1]))
        scale = tol * float(np.abs(report.w - best[0]).sum()) / size
        out.append(Certificate("gap", report.objective - best[1], size * (scale + 1e-10),
                               "f above the minimum known in closed form or found by Newton's method"))  # fmt: skip
    return tuple(out)


def _notices(report: RunReport, step: float | None) -> tuple[Notice, ...]:
    out = []
    if not report.convex:
        out.append(Notice("not_convex", "the objective is not convex: a point without slope may be a local minimum or "
                          "a saddle", "start from several points"))  # fmt: skip
    if step is not None and report.step_bound is not None and step >= report.step_bound:
        out.append(Notice("step_too_large", f"steps of {step:g} are not below 2/L = {report.step_bound:g}, where they "
                          "converge", "take a smaller step, or leave it out"))  # fmt: skip
    if not report.converged:
        why = {
            "max_iter": "raise max_iter, or scale the columns", "time": "allow more time",
            "diverged": "take a smaller step", "line_search": "no step lowers the objective any further: rounding",
        }  # fmt: skip
        out.append(Notice("not_converged", f"stopped after {report.iterations} iterations ({report.reason}) with a "
                          f"gradient of {report.gradient_norm:.3g}", why.get(report.reason, "")))  # fmt: skip
    return tuple(out)
