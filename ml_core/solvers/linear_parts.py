"""The objective of a linear predictor by sums over rows that are read in chunks: value, gradient, Hessian, margins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Protocol, Self

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.errors import InvalidData
from ml_core.losses.base import TwiceSmooth
from ml_core.numerics.column_sums import ColumnSums
from ml_core.solvers.base import Solution, Steps
from ml_core.solvers.lbfgs import lbfgs_steps
from ml_core.solvers.linear_objective import Columns, LinearObjective
from ml_core.solvers.newton import Point, newton_steps

PASS = 1.0  # reading the rows costs more than what is summed, so a Hessian costs about one gradient


@dataclass(frozen=True)
class ClassColumns:
    """Moments of the columns of each class, None where it has no row."""

    each: tuple[ColumnSums | None, ...]

    def merge(self, other: ClassColumns) -> ClassColumns:
        """Of both sets of rows."""
        pairs = zip(self.each, other.each, strict=True)
        return ClassColumns(tuple(a.merge(b) if a and b else a or b for a, b in pairs))

    def totals(self) -> Vector:
        """(K,) weight of each class."""
        return np.array([c.total if c else 0.0 for c in self.each])

    def scaled(self, factors: Vector) -> ColumnSums:
        """Of all rows, those of class k weighted by factors[k]; InvalidData when no weight is left."""
        each = [replace(c, total=c.total * f) for c, f in zip(self.each, factors.tolist(), strict=True) if c and f > 0]
        if not each:
            raise InvalidData("there is no row of positive weight: class_weight is 0 for every class that has rows")
        return reduce(ColumnSums.merge, each)


@dataclass(frozen=True)
class ClassColumnsPart:
    """The part whose total is `ClassColumns`."""

    classes: int

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> ClassColumns:
        """Of a chunk."""
        return ClassColumns(tuple(
            ColumnSums.of(np.ascontiguousarray(X[y == c]), s[y == c]) if (y == c).any() else None
            for c in range(self.classes)
        ))  # fmt: skip


def columns_of(sums: ColumnSums, centre: bool) -> Columns:
    """Centres (0 unless `centre`) and root mean square deviations from them, of all rows."""
    with np.errstate(over="ignore"):
        scale = sums.sd if centre else np.hypot(sums.sd, sums.mean)
    return Columns.scaled(sums.mean if centre else np.zeros(len(scale)), scale)


class Prepared(Protocol):
    """What rows, targets and weights become before they enter the objective."""

    def __call__(self, X: Matrix, y: Any, s: Vector) -> tuple[Matrix, Vector, Vector]:
        """Rows (m, d'), targets (m,) and positive weights (m,)."""

    def in_units_of(self, unit: float) -> Self:
        """The same with all weights over `unit`."""


@dataclass(frozen=True)
class ClassFactors:
    """Weights multiplied by the factor of each class, (K,); rows that these leave without weight are dropped."""

    factors: Vector

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> tuple[Matrix, Vector, Vector]:
        """Codes become numbers."""
        weight = s * self.factors[y]
        keep = weight > 0
        if not keep.all():
            X, y, weight = X[keep], y[keep], weight[keep]
        return X, y.astype(np.float64), weight

    def in_units_of(self, unit: float) -> ClassFactors:
        """The factors over `unit`."""
        return ClassFactors(self.factors / unit)


@dataclass(frozen=True)
class Frame:
    """An objective without its rows; `rows` prepares them."""

    loss: TwiceSmooth
    alpha: float
    fit_intercept: bool
    columns: Columns
    rows: Prepared
    penalize_bias: bool = False

    def over(self, X: Matrix, y: Any, s: Vector) -> LinearObjective:
        """The share of these rows in the objective, without the penalty."""
        return LinearObjective(*self.rows(X, y, s), self.loss, fit_intercept=self.fit_intercept, columns=self.columns)

    def penalty(self) -> LinearObjective:
        """The objective of no rows: the penalty alone, with the maps between unknowns and coefficients."""
        none = np.empty(0)
        return LinearObjective(np.empty((0, len(self.columns.mean))), none, none, self.loss, alpha=self.alpha,
                               fit_intercept=self.fit_intercept, columns=self.columns,
                               penalize_bias=self.penalize_bias)  # fmt: skip

    def in_units_of(self, unit: float) -> Frame:
        """This objective over `unit`: the same minimiser, of weights that lie near 1."""
        return replace(self, alpha=self.alpha / unit, rows=self.rows.in_units_of(unit))


@dataclass(frozen=True)
class Slopes:
    """Value, gradient and Hessian (0 unless asked for) over rows, and the largest score in magnitude."""

    f: float
    g: Vector
    H: Matrix
    reach: float

    def merge(self, other: Slopes) -> Slopes:
        """Of both sets of rows."""
        return Slopes(self.f + other.f, self.g + other.g, self.H + other.H, max(self.reach, other.reach))


@dataclass(frozen=True)
class SlopesPart:
    """The part whose total is `Slopes` at the flat unknowns v."""

    frame: Frame
    v: Vector
    second: bool

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> Slopes:
        """Of a chunk."""
        problem, H = self.frame.over(X, y, s), np.zeros((0, 0))
        with np.errstate(over="ignore", invalid="ignore"):
            if self.second:
                f, g, H = problem.second(self.v)
            else:
                f, g = problem.value_gradient(self.v)
            return Slopes(f, g, H, float(np.abs(problem.predictor(self.v)).max(initial=0.0)))


@dataclass
class Asked:
    """Asks for the objective of a frame; remembers the largest score of the last pass and what a search found."""

    frame: Frame
    penalty: LinearObjective = field(init=False)
    reach: float = 0.0

    def __post_init__(self) -> None:
        self.penalty = self.frame.penalty()

    def point(self, v: Vector, second: bool) -> Steps[Point]:
        """f, ∇f and, if asked for, ∇²f."""
        rows: Slopes = yield SlopesPart(self.frame, v, second)
        self.reach = rows.reach
        with np.errstate(over="ignore", invalid="ignore"):
            if second:
                f, g, H = self.penalty.second(v)
                return rows.f + f, rows.g + g, rows.H + H
            f, g = self.penalty.value_gradient(v)
            return rows.f + f, rows.g + g, None

    def slope(self, v: Vector) -> Steps[tuple[float, Vector]]:
        """f, ∇f."""
        f, g, _ = yield from self.point(v, False)
        return f, g

    def newton(
        self, tol: float, max_iter: int, slow: Callable[[Vector], Steps[bool]] | None, start: Vector | None = None
    ) -> Steps[Solution]:
        """Newton's method from 0 or `start`; a pass over the rows per step, and per halving of a step."""
        start = self.penalty.zero() if start is None else start
        steps = newton_steps(self.point, start, tol=tol, max_iter=max_iter, hessian_cost=PASS, slow=slow)
        return replace((yield from steps), solver="newton")

    def lbfgs(self, tol: float, max_iter: int, start: Vector | None = None) -> Steps[Solution]:
        """For unknowns too many for a Hessian."""
        start = self.penalty.zero() if start is None else start
        return replace((yield from lbfgs_steps(self.slope, start, tol=tol, max_iter=max_iter)), solver="lbfgs")
