"""What every solver returns, and how a solver asks for sums over rows that it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Literal, ParamSpec, TypeVar

from ml_core import progress
from ml_core.arrays import Vector
from ml_core.numerics.totals import Total
from ml_core.parallel import ordered_map, row_ranges, use_threads

Reason = Literal[
    "gradient", "objective", "step", "gap", "direct", "max_iter", "time", "line_search", "diverged", "separable"
]
Budget = Literal["max_iter", "time"]
NEVER = "the last step has a reason to stop"
R = TypeVar("R")
P = ParamSpec("P")
Steps = Generator[Any, Any, R]
"""A solver written as a generator: it yields what it must know of the rows, is sent the answer, and returns R."""


@dataclass(frozen=True)
class Solution:
    """The best iterate `w`, iterations, whether the stopping rule was met and which, and the objective trace.

    Not converging is a reason in the answer, never an exception. `solver` names who found it, where there was a choice.
    """

    w: Vector
    n_iter: int
    converged: bool
    reason: Reason
    trace: list[float] = field(default_factory=list)
    solver: str = ""


def spent(step: int, most: int) -> Budget | None:
    """The budget that ends a loop after `step` of `most` steps: "max_iter", or "time" once the first one is made."""
    if step >= most:
        return "max_iter"
    return "time" if step and progress.late() else None


def at_once(function: Callable[P, R]) -> Callable[P, Steps[R]]:
    """The function as a generator that asks nothing."""

    def steps(*args: P.args, **kwargs: P.kwargs) -> Steps[R]:
        yield from ()
        return function(*args, **kwargs)

    return steps


def answered(steps: Steps[R], answer: Callable[[Any], Any] | None = None) -> R:
    """Run the generator to its end, with `answer(question)` for each thing it yields; what it returns."""
    try:
        question = next(steps)
        while answer is not None:
            question = steps.send(answer(question))
    except StopIteration as end:
        found: R = end.value
        return found
    raise TypeError(f"the solver asks for {question!r}, and nobody answers")


def in_ranges(part: Callable[..., Any], *rows: Any) -> Any:
    """A mergeable question's answer over rows in memory: ranges of them on the thread budget, merged in order."""

    def of(at: slice) -> Any:
        with use_threads(1):
            return part(*(a[at] for a in rows))

    return reduce(lambda a, b: a.merge(b), ordered_map(of, row_ranges(*rows[0].shape)))


@dataclass(frozen=True)
class Totals(Total):
    """Sums of one question, or of several in their order."""

    each: tuple[Any, ...]


@dataclass(frozen=True)
class Bundle:
    """Several questions in one pass over the rows."""

    parts: tuple[Callable[..., Any], ...]

    def __call__(self, *rows: Any) -> Totals:
        """Of rows, or of a chunk of them."""
        return Totals(tuple(part(*rows) for part in self.parts))


def together(runs: Sequence[Steps[R]]) -> Steps[list[R]]:
    """Run generators side by side: what they ask in one round is one `Bundle`; what they return, in order."""
    found: dict[int, R] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(runs)))
    while answers:
        asked = {}
        for i, answer in answers.items():
            try:
                asked[i] = runs[i].send(answer)
            except StopIteration as end:
                found[i] = end.value
        totals = (yield Bundle(tuple(asked.values()))).each if asked else ()
        answers = dict(zip(asked, totals, strict=True))
    return [found[i] for i in range(len(runs))]


def translated(steps: Steps[R], wrap: Callable[[Any], Any]) -> Steps[R]:
    """The generator, with `wrap(question)` asked for each thing it asks."""
    try:
        question = next(steps)
        while True:
            question = steps.send((yield wrap(question)))
    except StopIteration as end:
        found: R = end.value
        return found
