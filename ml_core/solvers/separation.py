"""Whether linear scores separate classes, so that an unpenalised likelihood has no maximum; by linear programming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import linprog

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector

MARGIN = 1e-6
SLACK = 1e-8
BATCH = 1000
ROUNDS = 60
MOST_UNKNOWNS = 1000  # a linear program of more takes minutes


@dataclass(frozen=True)
class Separation:
    """`complete`: every row on its side with a margin; `quasi`: some rows on the boundary; `none`.

    `direction` (D, K-1): scores of classes 1 … K-1 against class 0 (score 0) along which no row loses.
    """

    kind: Literal["none", "quasi", "complete"]
    direction: Matrix


def separation(Z: Matrix, codes: Codes, K: int, hint: Matrix) -> Separation:
    """Search V (D, K-1), |V| ≤ 1, with u_y - u_k ≥ 0 for every row and k ≠ y, u = (0, Z V), and > 0 for some.

    Two programs: first the widest common margin (complete separation), then the largest sum of margins (quasi). Rows
    enter as they are violated, the hardest under `hint` (a fit so far) first. Z (n, D) should be well scaled. When time
    is over the answer is `none`.

    References
    ----------
    Albert, Anderson (1984), On the existence of maximum likelihood estimates in logistic regression models, Biometrika.
    """
    problem = Margins(Z, codes, K)
    widest = apart(problem, hint)
    if widest is not None:
        return Separation("complete", widest)
    largest = problem.solve(hint, common=False)
    if largest is not None and problem.of(largest).max() > MARGIN:
        return Separation("quasi", largest)
    return Separation("none", np.zeros((Z.shape[1], K - 1)))


def apart(problem: Margins, hint: Matrix) -> Matrix | None:
    """The V of the widest common margin, where every row has one: complete separation; None else and out of time."""
    widest = problem.solve(hint, common=True)
    return widest if widest is not None and problem.of(widest).min() > MARGIN else None


class Margins:
    """Margins u_y - u_k of every row against every other class, and the programs over them."""

    def __init__(self, Z: Matrix, codes: Codes, K: int) -> None:
        self.Z, self.codes, self.K = Z, codes, K
        T = np.zeros((len(Z), K))
        T[np.arange(len(Z)), codes] = K
        self.total = Z.T @ (T - 1.0)[:, 1:]
        self.other = np.argsort(np.arange(K) == codes[:, None], axis=1, kind="stable")[:, : K - 1]

    def of(self, V: Matrix) -> Vector:
        """(n (K-1),) margins, row after row."""
        u = np.hstack([np.zeros((len(self.Z), 1)), self.Z @ V])
        own = np.take_along_axis(u, self.codes[:, None], axis=1)
        return np.asarray((own - np.take_along_axis(u, self.other, axis=1)).ravel())

    def constraints(self, picked: np.ndarray) -> Matrix:
        """(m, D (K-1)) coefficients of the picked margins."""
        rows, k = picked // (self.K - 1), self.other.ravel()[picked]
        sign = np.zeros((len(picked), self.K))
        sign[np.arange(len(picked)), self.codes[rows]] = 1.0
        sign[np.arange(len(picked)), k] -= 1.0
        return (self.Z[rows][:, :, None] * sign[:, None, 1:]).reshape(len(picked), self.total.size)

    def solve(self, hint: Matrix, *, common: bool) -> Matrix | None:
        """The V of the program with no violated margin, or None when there is none or time is over."""
        picked = np.argsort(self.of(hint), kind="stable")[:BATCH]
        gain = gain_of(self.total, common=common)
        for step in range(ROUNDS):
            progress.tick(step, ROUNDS, "separation checks")
            if progress.late():
                return None
            found = program(self.constraints(picked), gain, common=common)
            if found is None:
                return None
            V = found.reshape(self.total.shape)
            margins = self.of(V)
            broken = np.setdiff1d(np.flatnonzero(margins < (MARGIN if common else -SLACK)), picked)
            if not len(broken):
                return V if margins.min() >= -MARGIN * min(1.0, float(margins.max())) else None
            picked = np.concatenate([picked, broken[np.argsort(margins[broken], kind="stable")[:BATCH]]])
        return None


def gain_of(total: Matrix, *, common: bool) -> Vector:
    """What a program minimises in V besides the common margin: for the sum of margins, its scaled negative."""
    size = max(float(np.abs(total).max()), np.finfo(float).tiny)
    return np.zeros(total.size) if common else -total.ravel() / size


def program(A: Matrix, gain: Vector, *, common: bool) -> Vector | None:
    """The flat V, |V| ≤ 1, of least gain and largest common margin with A V ≥ that margin (0 unless `common`).

    None where there is none, or the time that is left does not suffice; one of 1000 rows and columns takes minutes.
    """
    seconds = progress.left()
    A = np.hstack([-A, np.full((len(A), 1), float(common))])
    bounds = [(-1.0, 1.0)] * len(gain) + [(0.0, 1.0)]
    out = linprog(np.append(gain, -float(common)), A_ub=A, b_ub=np.zeros(len(A)), bounds=bounds, method="highs",
                  options={} if seconds is None else {"time_limit": seconds})  # fmt: skip
    if out.status != 0 or (common and -out.fun <= MARGIN):
        return None
    return np.asarray(out.x[:-1])
