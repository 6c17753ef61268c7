"""The lasso of a table in the solver's terms: unit columns, targets of length 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.column_moments import column_moments
from ml_core.solvers import coordinate_descent, lasso_path
from ml_core.solvers.base import Solution
from ml_core.solvers.coordinate_descent import Gap
from ml_core.solvers.unit_columns import Columns

if TYPE_CHECKING:
    from ml_core.linear.lasso import Lasso

LARGEST = 1e300


@dataclass(frozen=True)
class Problem:
    """Columns, targets t (n,) less `offset` and their length, units (d,) of the penalties, and the squared penalty."""

    Z: Columns
    t: Vector
    offset: float
    size: float
    units: Vector
    alpha_l2: float

    @classmethod
    def of(cls, m: Lasso, X: Matrix, y: Vector, s: Vector) -> Problem:
        """Of the rows, for the units and the squared penalty that the model has; O(n d)."""
        return cls.make(X, y, s, m.fit_intercept, m.units_, m.alpha_l2_)

    @classmethod
    def make(cls, X: Matrix, y: Vector, s: Vector, intercept: bool, units: Vector, alpha_l2: float) -> Problem:
        """Of the rows; O(n d)."""
        Z = Columns.of(X, s, intercept)
        offset = float(column_moments(y[:, None], s)[0][0]) if intercept else 0.0
        t = y - offset
        return cls(Z, t, offset, float(np.sqrt(s @ t**2)), units, alpha_l2)

    @cached_property
    def pull(self) -> Vector:
        """(d,) correlations of the targets; O(n d)."""
        return self.Z.correlations(self.t)

    def alpha_max(self) -> float:
        """The least alpha at which no column gets weight."""
        return float((2 * np.abs(self.pull * self.Z.length / self.units)).max(initial=0.0))

    def penalties(self, alpha: float) -> tuple[Vector, Vector]:
        """Bounds and squared penalties (d,) of the unit columns."""
        length = self.lengths()
        with np.errstate(over="ignore"):
            bound = np.minimum(0.5 * alpha / (self.size or 1.0) * (self.units / length), LARGEST)
            mu = np.minimum(self.alpha_l2 * (self.units / length) ** 2, LARGEST)
        return bound, mu

    def lengths(self) -> Vector:
        """(d,) of the columns, 1 for those without variation."""
        return np.where(self.Z.length > 0, self.Z.length, 1.0)

    def solve(self, alpha: float, start: Vector | None, tol: float, max_iter: int) -> tuple[Solution, Vector]:
        """The solver's answer and slopes (d,), from slopes `start` (d,) where given."""
        if self.size == 0.0:
            return Solution(np.zeros(len(self.units)), 0, True, "direct"), np.zeros(len(self.units))
        scale = self.lengths() / self.size
        bound, mu = self.penalties(alpha)
        begin = None if start is None else start * scale
        found = coordinate_descent.lasso(self.Z, self.t / self.size, bound, mu, start=begin, tol=tol, max_iter=max_iter,
                                         c=self.pull / self.size)  # fmt: skip
        return found, found.w / scale

    def path(self, alphas: Vector, tol: float, max_iter: int) -> Iterator[tuple[Solution, Vector]]:
        """The solver's answer and slopes (d,) for each of the descending penalties, each from the last."""
        if self.size == 0.0:
            yield from (self.solve(float(alpha), None, tol, max_iter) for alpha in alphas)
            return
        each = [self.penalties(float(alpha)) for alpha in alphas]
        bounds, mu, scale = np.array([bound for bound, _ in each]), each[0][1], self.lengths() / self.size
        t, c = self.t / self.size, self.pull / self.size
        for found in lasso_path.path(self.Z, t, c, bounds, mu, tol=tol, max_iter=max_iter):
            yield found, found.w / scale

    def state(self, coef: Vector, alpha: float) -> tuple[Gap, Vector]:
        """The duality gap of slopes (d,), and by how much each column (d,) misses its condition, as a cosine."""
        size = self.size or 1.0
        w, t = coef * self.lengths() / size, self.t / size
        bound, mu = self.penalties(alpha)
        r = self.Z.residual(t, w)
        g = self.Z.correlations(r)
        off = np.where(w != 0, np.abs(g - mu * w - bound * np.sign(w)), np.maximum(np.abs(g) - bound, 0.0))
        gap = coordinate_descent.duality_gap(self.Z, r, g, bound, mu, w, t)
        return gap, np.where(self.Z.length > 0, off, 0.0)
