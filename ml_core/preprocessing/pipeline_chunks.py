"""Pipelines over chunks: each step asks its questions of the rows as the fitted steps before it leave them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_core import naming, params
from ml_core.base import Classifier, Estimator, clone
from ml_core.errors import InvalidData, placed
from ml_core.sums import Census, Part, Passes

if TYPE_CHECKING:
    from ml_core.preprocessing.pipeline import Pipeline


@dataclass(frozen=True)
class Inner:
    """A part of one step as a part of the whole: rows go through the steps before it first."""

    part: Part
    before: tuple[Any, ...]
    step: Estimator
    supervised: bool
    weighted: bool

    def __call__(self, X: Any, *rest: Any) -> Any:
        """Of the rows of X; `rest` are the target and the weights, where the pipeline has them."""
        given = dict(zip([k for k, has in (("y", self.supervised), ("s", self.weighted)) if has], rest, strict=True))
        for step in self.before:
            X = step.transform(X)
        return self.part(*self.step._checked(X, given.get("y"), given.get("s"), fresh=False))


def names_before(steps: list[Estimator]) -> Any:
    """Names of the columns as these fitted steps leave them; None where the columns have none."""
    names: Any = naming.in_force() if not steps else naming.current()
    for step in steps if names is not None else ():
        names = step.get_feature_names_out(names)  # type: ignore[attr-defined]
    return names


def passes(pipe: Pipeline, census: Census) -> Passes:
    """Fit the steps one after another."""
    steps, width = [clone(step) for step in pipe.steps], census.width
    for i, step in enumerate(steps):
        with naming.use(names_before(steps[:i])), placed(f"/params/steps/{i}"):
            step._locate(params.validate(type(step), step.get_params(deep=False)), width)
        if census.rows < step.min_rows:
            raise InvalidData(f"{type(step).__name__} needs {step.min_rows} rows of positive weight, got {census.rows}")
        step.notices_ = []
        if isinstance(step, Classifier) and census.classes is not None:
            step.classes_ = census.classes
        seen = Census(census.rows, width, census.classes)
        yield from _inside(step._passes(seen), pipe, steps[:i], step)  # type: ignore[attr-defined]
        step.n_features_in_, width = width, getattr(step, "n_features_out_", width)
    pipe.steps_ = steps


def audit(pipe: Pipeline, census: Census) -> Passes:
    """The diagnostics of the last step on the rows as it sees them."""
    *before, last = pipe.steps_
    seen = Census(census.rows, last.n_features_in_, census.classes)
    return (yield from _inside(last._audit(seen), pipe, before, last))  # type: ignore[attr-defined]


def _inside(asked: Passes, pipe: Pipeline, before: list[Estimator], step: Estimator) -> Passes:
    """The step's questions as questions of the pipeline, and what the step returns at the end.

    The step speaks of the columns that it sees, so names are in force while it runs, not while it waits for sums.
    """
    answer: Any = None
    try:
        while True:
            with naming.use(names_before(before)):
                part = asked.send(answer)
            answer = yield Inner(part, tuple(before), step, pipe.supervised, pipe.weighted)
    except StopIteration as end:
        return end.value
