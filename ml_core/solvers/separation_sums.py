"""The search for separation over rows that are read in chunks: the programs of `separation`, the hardest rows sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.solvers.base import Steps
from ml_core.solvers.linear_parts import Frame
from ml_core.solvers.separation import (
    BATCH,
    MARGIN,
    MOST_UNKNOWNS,
    ROUNDS,
    SLACK,
    Margins,
    Separation,
    gain_of,
    program,
)


@dataclass(frozen=True)
class Hard:
    """The constraints (m, D (K-1)) of the smallest margins (m,), rising; the range of all; their sum's coefficients."""

    rows: Matrix
    margins: Vector
    low: float
    high: float
    total: Matrix
    most: int

    def merge(self, other: Hard) -> Hard:
        """Of both sets of rows; the earlier of equals first."""
        margins, rows = np.concatenate([self.margins, other.margins]), np.concatenate([self.rows, other.rows])
        top = np.argsort(margins, kind="stable")[: self.most]
        return Hard(rows[top], margins[top], min(self.low, other.low), max(self.high, other.high),
                    self.total + other.total, self.most)  # fmt: skip


@dataclass(frozen=True)
class HardPart:
    """The part whose total is `Hard`, under the direction V (D, K-1)."""

    frame: Frame
    V: Matrix
    most: int = BATCH

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> Hard:
        """Of a chunk."""
        problem = self.frame.over(X, y, s)
        found = Margins(problem.standardised(), problem.y.astype(np.int64), self.V.shape[1] + 1)
        margins = found.of(self.V)
        top = np.argsort(margins, kind="stable")[: self.most]
        low, high = margins.min(initial=np.inf), margins.max(initial=-np.inf)
        return Hard(found.constraints(top), margins[top], float(low), float(high), found.total, self.most)


def separation_by_sums(frame: Frame, hint: Matrix) -> Steps[Separation]:
    """`separation`, from the hardest rows of every pass; a pass per round.

    Of too many unknowns for a program only the hint is tried, in one pass: it separates if every margin is positive.
    """
    if hint.size > MOST_UNKNOWNS:
        V = hint / max(float(np.abs(hint).max()), np.finfo(float).tiny)
        tried: Hard = yield HardPart(frame, V, 0)
        return Separation("complete", V) if tried.low > MARGIN else Separation("none", np.zeros(V.shape))
    first: Hard = yield HardPart(frame, hint)
    widest = yield from _search(frame, first, common=True)
    if widest is not None and widest[1].low > MARGIN:
        return Separation("complete", widest[0])
    largest = yield from _search(frame, first, common=False)
    if largest is not None and largest[1].high > MARGIN:
        return Separation("quasi", largest[0])
    return Separation("none", np.zeros(hint.shape))


def _search(frame: Frame, first: Hard, *, common: bool) -> Steps[tuple[Matrix, Hard] | None]:
    """The V of the program with no violated margin, and its margins; None when there is none or time is over."""
    A, gain = np.unique(first.rows, axis=0), gain_of(first.total, common=common)
    for step in range(ROUNDS):
        progress.tick(step, ROUNDS, "separation checks")
        if progress.late():
            return None
        V = program(A, gain, common=common)
        if V is None:
            return None
        found: Hard = yield HardPart(frame, V.reshape(first.total.shape))
        broken = found.rows[found.margins < (MARGIN if common else -SLACK)]
        known = {row.tobytes() for row in A}
        new = [row for row in np.unique(broken, axis=0) if row.tobytes() not in known]
        if not new:
            kept = found.low >= -MARGIN * min(1.0, found.high)
            return (V.reshape(first.total.shape), found) if kept else None
        A = np.vstack([A, *new])
    return None
