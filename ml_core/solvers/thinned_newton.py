"""Newton's method for sums over rows: it begins on few rows, and its Hessian follows the rows that move."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.solvers.base import Solution
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.newton import newton

THIN = 8
MIN_ROWS = 2000
ROWS_PER_UNKNOWN = 15
MOVED = 0.1
"""Change of a predictor (for a logit: nearly the relative change of a curvature) below which a row's part may stay."""


class MovedRows:
    """∇²f of all rows, or of a sample that stands for them, each row's part as where its predictor last moved.

    Newton's steps contract badly where few rows alone say something of a direction (a rare level of a category) and
    their curvature changes: these are the rows that moved most. Their parts are exchanged, O(m D² q²/2) for m rows,
    which costs little where a new Hessian is dear. Holds the predictors (n, q) once it was asked for a price.
    """

    def __init__(self, whole: LinearObjective) -> None:
        self.whole = self.rows = whole
        self.pace, self.share = MOVED, 1.0
        self.H: Matrix | None = None
        self.eta: Matrix | None = None

    def take(self, v: Vector, H: Matrix) -> None:
        """Start anew from the Hessian H of all rows at v."""
        self.rows, self.pace, self.share = self.whole, MOVED, 1.0
        self.H, self.at, self.eta = H, v, None

    def stand_for(self, whole: LinearObjective) -> None:
        """The rows so far become a sample of those of `whole`, with the contraction to expect of so many."""
        self.whole, n = whole, len(self.rows.X)
        self.share, self.pace = n / len(whole.X), max(MOVED, (whole.size / n) ** 0.5)

    def price(self, v: Vector) -> float:
        """What `follow` would cost, in gradients over all rows; 0 where no row has moved since."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.eta is None:
                self.eta = self.rows.predictor(self.at)
            self.to, self.ahead = v, self.rows.predictor(v)
            self.moved = np.flatnonzero(np.abs(self.ahead - self.eta).max(axis=1) > MOVED)
        return self.share * self.rows.hessian_cost * len(self.moved) / len(self.rows.X)

    def follow(self) -> Matrix:
        """The Hessian with the moved rows' parts at the v of the last `price`; that of v if those are most rows."""
        moved = self.moved
        assert self.H is not None  # noqa: S101 - priced
        assert self.eta is not None  # noqa: S101 - priced
        if 2 * len(moved) > len(self.rows.X):
            self.H, self.eta = self.rows.second(self.to)[2], self.ahead
        else:
            self.H = self.H + self.rows.curvature_change(moved, self.eta[moved], self.ahead[moved])
            self.eta[moved] = self.ahead[moved]
        return self.H


def thinned_newton(
    objective: LinearObjective, start: Vector | None = None, *, tol: float, max_iter: int,
    slow: Callable[[Vector], bool] | None = None,
) -> Solution:  # fmt: skip
    """`newton` from the minimum over one in 8 rows, with their Hessian, when those are many times the unknowns.

    From `start` itself where a row outside the sample has no finite loss at the sample's minimum.

    References
    ----------
    Roosta-Khorasani, Mahoney (2019), Sub-sampled Newton methods, Mathematical Programming 174.
    """
    start = objective.zero() if start is None else start
    v, curve = _coarse(objective, start)
    found = newton(objective, v, tol=tol, max_iter=max_iter, curve=curve, slow=slow)
    if found.reason != "diverged" or v is start:
        return found
    return newton(objective, start, tol=tol, max_iter=max_iter, curve=MovedRows(objective), slow=slow)


def _coarse(objective: LinearObjective, start: Vector) -> tuple[Vector, MovedRows]:
    """Where to start, by the same on fewer rows, and their Hessian."""
    if len(objective.X) < THIN * max(MIN_ROWS, ROWS_PER_UNKNOWN * objective.size):
        return start, MovedRows(objective)
    few = objective.thin(THIN)
    v, curve = _coarse(few, start)
    solution = newton(few, v, tol=0.3 * objective.size**0.5, max_iter=20, curve=curve, report=False)
    if solution.reason not in ("gradient", "step", "time"):
        return start, MovedRows(objective)
    curve.stand_for(objective)
    if solution.converged and curve.price(solution.w) > 0.0:
        curve.follow()
    return solution.w, curve
