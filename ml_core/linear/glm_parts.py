"""What a generalised linear model asks of its rows: their beginning, and the sums of its report."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData, Issue
from ml_core.linear.glm_families import Family
from ml_core.linear.linear_regression import LinearRegression
from ml_core.losses.squared import Squared
from ml_core.naming import listed
from ml_core.numerics.column_sums import ColumnSums
from ml_core.numerics.totals import Total
from ml_core.solvers.base import Solution, Totals
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.linear_parts import Frame
from ml_core.solvers.recession import recession

REACH = 15.0
SHOWN = 5


@dataclass(frozen=True)
class Exposed:
    """Targets per unit of exposure, weighted by it: count y of exposure E and weight s → y/E, s E (over `unit`).

    For a Poisson count and for successes among E trials that is the same objective. The exposure's column leaves X.
    """

    column: int | None
    unit: float = 1.0

    def __call__(self, X: Matrix, y: Vector, s: Vector) -> tuple[Matrix, Vector, Vector]:
        """X itself where no column is an exposure."""
        s = s / self.unit
        if self.column is None:
            return X, y, s
        E = exposure_of(X, self.column)
        return self.design(X), y / E, s * E

    def design(self, X: Matrix) -> Matrix:
        """X without the exposure's column."""
        return X if self.column is None else np.ascontiguousarray(np.delete(X, self.column, axis=1))

    def of(self, X: Matrix) -> Vector | None:
        """(n,) the exposures, None where there is no such column."""
        return None if self.column is None else exposure_of(X, self.column)

    def in_units_of(self, unit: float) -> Exposed:
        """All weights over `unit`."""
        return replace(self, unit=self.unit * unit)


def exposure_of(X: Matrix, column: int) -> Vector:
    """The column, if all of it is positive; InvalidData."""
    E = X[:, column]
    bad = np.flatnonzero(E <= 0)
    if len(bad):
        more = "" if len(bad) == 1 else f", and {len(bad) - 1} more rows are not"
        text = f"column {listed([column])} holds exposures, which are above 0; row {bad[0]} has {E[bad[0]]:g}{more}"
        raise InvalidData(text, [Issue("/params/exposure", "not_positive", text)])
    return E


@dataclass(frozen=True)
class BeginPart:
    """Σ s, rows, Σ sE y/E, fractional targets, Σ log s; moments of the columns: after a look at every target."""

    family: Family
    rows: Exposed

    def check(self, X: Matrix, y: Vector) -> None:
        """InvalidData where a target is none of the family, or an exposure is not positive."""
        E = self.rows.of(X)
        share = y if E is None or self.family.whole else y / E
        legal = self.family.domain.contains(share)
        if not legal.all():
            bad = np.flatnonzero(~legal)
            rows = ", ".join(map(str, bad[:SHOWN]))
            text = (f"targets of this family are {self.family.targets}; not so are those of rows {rows} "
                    f"(first: {y[bad[0]]:g}), {len(bad)} in all")  # fmt: skip
            raise InvalidData(text, [Issue("/target", "outside_family", text)])

    def __call__(self, X: Matrix, y: Vector, s: Vector) -> Begin:
        """Of rows, checked."""
        self.check(X, y)
        return self.sums(X, y, s)

    def sums(self, X: Matrix, y: Vector, s: Vector) -> Begin:
        """Of rows that were checked."""
        Z, t, w = self.rows(X, y, s)
        counts = self.family.whole or self.rows.of(X) is not None
        broken = int((y != np.round(y)).sum()) if counts else 0
        return Begin(ColumnSums.of(Z, w), float(s.sum()), float(w @ t), broken, float(np.log(s).sum()))


@dataclass(frozen=True)
class Begin(Total):
    """The sums of `BeginPart`."""

    columns: ColumnSums
    weight: float
    target: float
    broken: int
    logs: float

    def in_units_of(self, unit: float) -> Begin:
        """Precisions over `unit`; the weight becomes the number of rows."""
        columns = replace(self.columns, total=self.columns.total / unit)
        return replace(self, columns=columns, weight=float(columns.rows), target=self.target / unit)

    @property
    def mean(self) -> float:
        """Weighted mean of the targets per unit of exposure."""
        return self.target / self.columns.total


@dataclass(frozen=True)
class FitPart:
    """What a report sums over the rows at unknowns v.

    Gradient, Hessian, Fisher's information, deviance, Pearson's χ², pieces of the likelihood, s ∂ℓ/∂η, the size of the
    targets, the deviance from `constant`, the predictor of the null model, and the pieces without weights.
    """

    frame: Frame
    family: Family
    exposed: Exposed
    v: Vector
    constant: float

    def __call__(self, X: Matrix, y: Vector, s: Vector) -> Totals:
        """Of rows."""
        problem = self.frame.over(X, y, s)
        _, g, H = problem.second(self.v)
        t, w = problem.y, problem.s
        information = replace(self.frame, loss=Squared()).over(X, y, s).second(self.v)[2] if self.family.relative else H
        eta = problem.predictor(self.v)
        at = eta[:, 0]
        r = w * problem.loss.gradient(eta, t)[:, 0]
        E = self.exposed.of(X)
        with np.errstate(over="ignore"):
            square = np.square(self.family.off(t, at))
        pieces = self.family.pieces(t, at, np.ones(len(t)) if E is None else E)
        summed, plain = (s / self.exposed.unit) @ pieces, pieces.sum(axis=0)
        null = float(w @ self.family.deviance(t, np.full(len(t), self.constant)))
        size = float(w.sum() if self.family.relative else w @ np.abs(t))
        deviance = float(w @ self.family.deviance(t, at))
        return Totals((g, H, information, deviance, float(w @ square), summed, float(r.sum()), size, null, plain))


def start(problem: LinearObjective, family: Family, begin: Begin) -> Vector:
    """The best constant; without an intercept 0, or for the inverse link the slopes that fit 1/mean best."""
    with np.errstate(divide="ignore"):
        best = float(family.loss.start(np.array([begin.mean]), np.ones(1))[0])
    if problem.fit_intercept:
        return problem.pack(np.zeros((1, problem.X.shape[1])), np.array([best if np.isfinite(best) else 0.0]))
    if family.link != "inverse":
        return problem.zero()
    middle = begin.columns.mean
    slopes = middle * best / max(float(middle @ middle), np.finfo(float).tiny)
    return problem.pack(slopes[None], np.zeros(1))


def escape(problem: LinearObjective, family: Family, v: Vector) -> Vector | None:
    """(d,) slopes along which the likelihood rises for ever, or None; looked for where a predictor at v is large."""
    if not family.ends or np.abs(problem.predictor(v)).max() < REACH:
        return None
    top = problem.y >= 1 if family.link == "logit" else np.zeros(len(problem.y), dtype=bool)
    side = np.where(problem.y == 0, -1.0, np.where(top, 1.0, 0.0))
    found = recession(problem.standardised(), side, v)
    return None if found is None else np.asarray(found[: problem.X.shape[1]] / problem.columns.scale)


def least_squares(problem: LinearObjective) -> Solution:
    """The minimum of ½ Σ s (y - η)² without a penalty, to the last digits of `linear_regression`."""
    m = LinearRegression(fit_intercept=problem.fit_intercept).fit(problem.X, problem.y, problem.s)
    c, w = problem.columns, m.weights_[:, 0]
    v = w * c.scale
    if problem.fit_intercept:
        v = np.append(v, m.offset_[0] + (c.mean - m.center_) @ w)
    return replace(m.solutions_[0], w=v, trace=[problem.value_gradient(v)[0]], solver="least_squares")
