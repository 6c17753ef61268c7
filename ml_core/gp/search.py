"""The search for hyperparameters: logarithms within bounds, several starts, a sample of the rows first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from ml_core import progress
from ml_core.arrays import Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidParameter, Issue
from ml_core.kernels import Kernel, ScaleKernel, SumKernel, log_parameters, parameters, with_parameters
from ml_core.kernels.closure import ProductKernel
from ml_core.rng import generator
from ml_core.solvers.base import Solution
from ml_core.solvers.bounded import bounded

SAMPLE_ROWS = 400
SAMPLE_FROM = 600
REACH = 100.0
APART = 0.5
NOISE, SIGNAL = "noise_variance", "signal_variance"


class Rows(Protocol):
    """Rows with targets `y` (n,), of which some can be taken."""

    @property
    def y(self) -> Any:
        """(n,) targets or codes."""

    def take(self, rows: np.ndarray) -> Self:
        """Of some rows."""


T = TypeVar("T", bound=Rows)
Evaluate = Callable[[T, Kernel, float], tuple[float, Vector]]
"""(task, kernel, s2) → the objective, and its derivatives by the kernel's logs and, if learned, log s2 (last)."""


def has_amplitude(kernel: Kernel) -> bool:
    """Whether a variance of its own multiplies the whole kernel."""
    if isinstance(kernel, SumKernel):
        return all(map(has_amplitude, kernel.terms))
    if isinstance(kernel, ProductKernel):
        return any(map(has_amplitude, kernel.terms))
    return isinstance(kernel, ScaleKernel)


@dataclass(frozen=True)
class Space:
    """Hyperparameters of a kernel (inside `scaled`: its factor is the signal variance) and a noise variance.

    `names`, `start`, `low`, `high` (q,) and `free` (q,) belong to the kernel's logs and, last, to log noise; `given`
    (q,) are the values at the start. A model of labels has no noise (`noisy` is False).
    """

    kernel: Kernel
    scaled: bool
    names: tuple[str, ...]
    given: Vector
    start: Vector
    low: Vector
    high: Vector
    free: np.ndarray
    noisy: bool = True

    @classmethod
    def of(cls, kernel: Kernel, scaled: bool, noise: float | None, factor: float, fixed: Sequence[str]) -> Space:
        """Each between its start over `factor` and its start times `factor`; those in `fixed` stay."""
        given = parameters(kernel)
        names = tuple(_name(n, scaled) for n in log_parameters(kernel)[0])
        if noise is not None:
            names, given = (*names, NOISE), np.append(given, noise)
        with np.errstate(divide="ignore"):
            start = np.log(given)
        unknown = [f for f in fixed if f not in names]
        if unknown:
            text = f"fixed names {unknown[0]!r}; the hyperparameters are {', '.join(names)}"
            raise InvalidParameter(text, [Issue("/params/fixed", "unknown_name", text)])
        free = np.array([n not in fixed for n in names], dtype=bool) & np.isfinite(start)
        reach = np.log(factor)
        return cls(kernel, scaled, names, given, start, start - reach, start + reach, free, noise is not None)

    def at(self, logs: Vector) -> tuple[Kernel, float]:
        """The kernel and noise variance (0 where there is none) at (q,) logarithms."""
        values = self.values(logs)
        if not self.noisy:
            return with_parameters(self.kernel, values), 0.0
        return with_parameters(self.kernel, values[:-1]), float(values[-1])

    def values(self, logs: Vector) -> Vector:
        """(q,) exp(logs); a value that stays where it started keeps its bits."""
        return np.where(logs == self.start, self.given, np.exp(logs))

    def bounds_hit(self, logs: Vector) -> list[str]:
        """Names of those on a bound."""
        near = 1e-6
        on = self.free & ((logs <= self.low + near) | (logs >= self.high - near))
        return [f"{n} = {np.exp(v):.4g}" for n, v, hit in zip(self.names, logs, on, strict=True) if hit]


def _name(pointer: str, scaled: bool) -> str:
    if not scaled:
        return f"kernel{pointer}"
    return SIGNAL if pointer == "/factor" else f"kernel{pointer.removeprefix('/term')}"


@portable
@dataclass(frozen=True)
class Run:
    """One climb: where it began and ended (q,), the objective there, on how many rows, and whether it converged."""

    start: Vector
    end: Vector
    value: float
    rows: int
    converged: bool
    evaluations: int


class Searched(Protocol):
    """A model whose hyperparameters were searched."""

    runs_: list[Run]
    solution_: Solution
    n_iter_: int

    def _note(self, code: str, message: str, advice: str = "") -> None: ...

    def _note_short(self, message: str, advice: str = ...) -> None: ...


def climb(
    task: T, space: Space, start: Vector, evaluate: Evaluate[T], tol: float, max_iter: int
) -> tuple[Run, Solution]:  # fmt: skip
    """Maximise over the free logarithms from `start` (q,)."""
    free = space.free

    def descent(v: Vector) -> tuple[float, Vector]:
        logs = start.copy()
        logs[free] = v
        try:
            value, gradient = evaluate(task, *space.at(logs))
        except np.linalg.LinAlgError:  # too near singular to be told apart from noise: a point too far
            return np.inf, np.zeros_like(v)
        return -value, -gradient[free]

    found = bounded(descent, start[free], space.low[free], space.high[free], tol=tol, max_iter=max_iter,
                    least_decrease=1e-11)  # fmt: skip
    end = start.copy()
    end[free] = found.w
    return Run(start, end, -min(found.trace), len(task.y), found.converged, len(found.trace)), found


def search(
    task: T, space: Space, evaluate: Evaluate[T], *, on_sample: Evaluate[T], restarts: int, seed: int, tol: float,
    max_iter: int,
) -> tuple[list[Run], Solution]:  # fmt: skip
    """Climbs from the start and from `restarts` random places; the last run is over all rows, and the best.

    Of several starts and more than 600 rows, a seeded sample of 400 is climbed from every start (by `on_sample`), all
    rows from where the best of these ended.
    """
    starts = [space.start, *_random(space, restarts, seed)]
    if restarts and len(task.y) > SAMPLE_FROM:
        some = task.take(np.sort(generator(seed, 1).permutation(len(task.y))[:SAMPLE_ROWS]))
        runs = [run for run, _ in _climbs(starts, lambda s: climb(some, space, s, on_sample, 10 * tol, max_iter), 1)]
        best = max(runs, key=lambda r: r.value)
        last, solution = climb(task, space, best.end, evaluate, tol, max_iter)
        return [*runs, last], solution
    found = _climbs(starts, lambda s: climb(task, space, s, evaluate, tol, max_iter))
    found.sort(key=lambda pair: pair[0].value)
    return [run for run, _ in found], found[-1][1]


def _climbs(
    starts: list[Vector], one: Callable[[Vector], tuple[Run, Solution]], more: int = 0
) -> list[tuple[Run, Solution]]:
    """`one` from every start with its share of the time, `more` shares being kept; once it is over, from no more."""
    found: list[tuple[Run, Solution]] = []
    for k, start in enumerate(starts):
        if k and progress.late():
            break
        with progress.share(len(starts) + more - k):
            found.append(one(start))
    return found


def _random(space: Space, count: int, seed: int) -> list[Vector]:
    """Starts within a factor of 100 of the first, and within the bounds."""
    reach = np.log(REACH)
    moves = generator(seed, 2).uniform(-reach, reach, size=(count, len(space.start)))
    out = []
    for move in moves:
        logs = space.start.copy()
        logs[space.free] += move[space.free]
        out.append(np.clip(logs, space.low, space.high))
    return out


def compared(runs: list[Run], space: Space) -> tuple[list[Run], list[str]]:
    """Converged runs that ended below the best of them, and the hyperparameters in which equally good ones differ.

    Runs over as many rows as the first are compared; equal: within 1e-3 (1 + |value|) nats.
    """
    same = [r for r in runs if r.rows == runs[0].rows and r.converged]
    if not same:
        return [], []
    best = max(same, key=lambda r: r.value)
    gap = 1e-3 * (1.0 + abs(best.value))
    lower = [r for r in same if best.value - r.value > gap]
    free = np.flatnonzero(space.free)
    ends = np.array([r.end[free] for r in same if best.value - r.value <= gap])
    low, high = ends.min(axis=0), ends.max(axis=0)
    wide = np.flatnonzero(high - low > APART)
    return lower, [f"{space.names[free[i]]} from {np.exp(low[i]):.3g} to {np.exp(high[i]):.3g}" for i in wide]
