"""How textbooks classify methods: each algorithm answers three questions by one of its `tags` each.

form      parametric: columns and parameters alone decide how much of a fit a query reads; non_parametric: rows do
approach  generative: it models how the rows arise, P(x) or P(x, y); discriminative: P(y | x), as likelihood, posterior
          or shares of classes; direct: no distribution, a criterion alone chooses the answer
capacity  high_capacity: with suitable parameters it follows any targets of any distinct rows, up to stated bounds
          (degree ≤ 10); low_capacity: what it can follow is bounded by the number of columns

The task and the capabilities are fields of their own; further tags (linear, kernel, robust …) are free.

References
----------
Bishop (2006), Pattern Recognition and Machine Learning, sections 1.5.4, 1.5.5 and 2.5.
Vapnik (1998), Statistical Learning Theory, chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ml_core.capabilities import Follows

AXES = {
    "form": ("parametric", "non_parametric"),
    "approach": ("direct", "discriminative", "generative"),
    "capacity": ("low_capacity", "high_capacity"),
}


def by_question(tags: Iterable[str]) -> dict[str, list[str]]:
    """By question, the tags that answer it; a method that is described has one of each."""
    given = list(tags)
    return {question: [tag for tag in given if tag in known] for question, known in AXES.items()}


def of_parts(own: tuple[str, ...], parts: Iterable[Any]) -> tuple[str, ...]:
    """Tags of a composition: its own and, of questions that they leave open, what its parts answer.

    One non-parametric part makes the whole so, and so does one of high capacity; the last part decides the approach.
    """
    told = [by_question(getattr(part, "tags", ())) for part in parts]
    out = list(own)
    for question, already in by_question(own).items():
        found = [tag for part in told for tag in part[question]]
        if found and not already:
            out.append(found[-1] if question == "approach" else max(found, key=AXES[question].index))
    return tuple(out)


def composed(own: tuple[str, ...], usual: tuple[str, ...], parts: Callable[[Any], Iterable[Any]]) -> Any:
    """`tags` of a composition: on the class `own` and those of the `usual` parts, on an instance those of its parts."""
    return Follows(own + usual, lambda whole: of_parts(own, parts(whole)))
