"""Generalised linear models."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Regressor
from ml_core.capabilities import HasParameterPosterior, HasPosterior, Weighted
from ml_core.certificates import Diagnostics
from ml_core.distributions.base import Distribution
from ml_core.distributions.normal import MultivariateNormal
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.linear.glm_families import Chosen, Family, Link, Spread, family_of
from ml_core.linear.glm_parts import REACH, Begin, BeginPart, Exposed, escape, least_squares, start
from ml_core.linear.glm_report import figures, put_model_rows, report, standard
from ml_core.linear.likelihood_report import NOT_IN_MEMORY, put_run
from ml_core.naming import listed
from ml_core.params import Alpha, Column, Intercept, MaxIter, ObjectiveScale, PenalizeBias, Tol, WeightKind
from ml_core.registry import algorithm
from ml_core.solvers.base import Solution, Steps, answered, in_ranges
from ml_core.solvers.linear_minimum import NEWTON_UNKNOWNS, minimum
from ml_core.solvers.linear_objective import Columns, LinearObjective, unit_of
from ml_core.solvers.linear_parts import Asked, Frame, columns_of
from ml_core.solvers.newton import inverse
from ml_core.sums import Census, Passes


@algorithm("generalized_linear_model")
class GeneralizedLinearModel(Weighted, HasPosterior, HasParameterPosterior, Regressor):
    """Means of an exponential family from a linear predictor: gaussian, bernoulli, binomial, poisson or gamma.

    min over w, b of  Σᵢ sᵢ (A(ηᵢ) - yᵢ ηᵢ) + ½ alpha ‖w‖², ηᵢ = xᵢᵀw + b, the intercept free unless `penalize_bias`
    (the sum over Σ s with `objective_scale` mean); the density of y is
    h(y) exp((y η - A(η))/φ), its mean A'(η), its variance φ A''(η), and the loss is a negative log-likelihood times φ.
    gaussian: identity; bernoulli: logit, targets 0 and 1; binomial: logit, targets are shares or, with `exposure`,
    successes among trials; poisson: log; gamma: log, or the canonical inverse, of which rows with η ≤ 0 have no mean
    and are refused. The multinomial family is `softmax_regression`. Convex. Newton's method O(n d²) per Hessian;
    columns are standardised inside, answers are in the units given.

    `exposure` is the column that holds exposure times of counts or numbers of trials; it is no feature, its entry in
    coef_ is 0, and predictions are counts for the exposures of the rows asked for. The fit copies X without it.

    The posterior of w and b is normal around the most probable ones, its precision Fisher's information and that of the
    prior, alpha/φ on w: Laplace's method, with the expected curvature where the link is not canonical. A predictive
    posterior has the mean and variance that it gives the target: Student t, negative binomial, Bernoulli or
    beta-binomial, gamma.

    Precisions (`weight_kind`) divide an estimated φ, else count as one row on average; the fit is as of frequencies.

    References
    ----------
    McCullagh, Nelder (1989), Generalized Linear Models, second edition.
    Fahrmeir, Tutz (2001), Multivariate Statistical Modelling Based on Generalized Linear Models, section 2.3.
    """

    largest = SQUARES
    complexity = "O(n d²) per Hessian, O(n d) per gradient"
    tags = ("parametric", "discriminative", "low_capacity", "linear", "probabilistic")
    example_params = {"family": "gaussian", "alpha": 0.0}  # noqa: RUF012 - annotated ClassVar in the base

    coef_: Annotated[Vector, "(d,) slopes, predictor units per feature unit"]
    intercept_: Annotated[float, "predictor at x = 0"]
    center_: Annotated[Vector, "(d,) the point around which predictors are computed"]
    offset_: Annotated[float, "predictor at center_"]
    scale_: Annotated[Vector, "(d,) units in which spread_ is given"]
    spread_: Annotated[Matrix, "(d+1, d+1) covariance of slopes times scale_ and of offset_, over the dispersion"]
    alpha_: Annotated[float, "penalty in use, on the scale of the sum of losses"]
    dispersion_: Annotated[float, "φ: Pearson's χ² over degrees of freedom for gaussian and gamma, else 1"]
    degrees_of_freedom_: Annotated[float, "weight less parameters"]
    unbounded_direction_: Annotated[Vector, "(d,) slopes along which the likelihood rises for ever, or 0"]
    n_iter_: Annotated[int, "steps of the solver"]
    solution_: Annotated[Solution, "the solver's answer, unknowns in standardised columns"]

    def __init__(
        self,
        *,
        family: Annotated[Chosen, Field(description="Distribution of the target.")] = "gaussian",
        link: Annotated[
            Link | None, Field(description="What of the mean is linear; the family's usual one when null.")
        ] = None,
        exposure: Annotated[
            Column | None, Field(description="Column of exposures (poisson) or trials (binomial); not a feature.")
        ] = None,
        alpha: Alpha = 0.0,
        objective_scale: ObjectiveScale = "sum",
        fit_intercept: Intercept = True,
        penalize_bias: PenalizeBias = False,
        weight_kind: WeightKind = "frequency",
        solver: Annotated[
            Literal["newton", "irls", "lbfgs"], Field(description="All reach the same minimum.")
        ] = "newton",
        tol: Annotated[Tol, Field(description="Distance to the optimum in standard errors at dispersion 1.")] = 1e-10,
        max_iter: Annotated[MaxIter, Field(description="Most iterations.")] = 200,
    ) -> None:
        self.family = family
        self.link = link
        self.exposure = exposure
        self.alpha = alpha
        self.objective_scale = objective_scale
        self.fit_intercept = fit_intercept
        self.penalize_bias = penalize_bias
        self.weight_kind = weight_kind
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Some four passes with Hessian and ten without; without its exposures X is copied."""
        copied = 0.0 if self.exposure is None else 8.0 * n * d
        return Cost(flops=(8.0 * n + 2.0 * d) * d * d + 40.0 * n * d, memory_bytes=24.0 * (d * d + n) + copied)

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        family, rows = self._family(), self._exposed(X.shape[1])
        ask = BeginPart(family, rows)
        ask.check(X, y)
        begin: Begin = in_ranges(ask.sums, X, y, s)
        Z, t, w = rows(X, y, s)
        frame = self._begun(family, rows, begin)
        problem = LinearObjective(Z, t, w, family.loss, alpha=self.alpha_, fit_intercept=self.fit_intercept,
                                  columns=frame.columns, penalize_bias=self.penalize_bias)  # fmt: skip
        unit = unit_of(w)
        first = start(problem, family, begin)
        self._solved(self._solve(problem if unit == 1.0 else problem.in_units_of(unit), first), unit)
        answered(self._learn(frame, family, begin), lambda part: in_ranges(part, X, y, s))
        self._look_for_escape(problem, family)
        self._note_findings(begin)

    def _passes(self, census: Census) -> Passes:
        family, rows = self._family(), self._exposed(census.width)
        begin: Begin = yield BeginPart(family, rows)
        frame = self._begun(family, rows, begin)
        problem = frame.penalty()
        unit = unit_of(np.array([begin.columns.total / begin.columns.rows]))
        asked, first = Asked(frame.in_units_of(unit)), start(problem, family, begin)
        tol, steps, newton = float(self.tol), int(self.max_iter), problem.size <= NEWTON_UNKNOWNS
        found = yield from (asked.newton(tol, steps, None, first) if newton else asked.lbfgs(tol, steps, first))
        self._solved(found, unit)
        yield from self._learn(frame, family, begin)
        self.unbounded_direction_ = np.zeros(census.width)
        if asked.reach > REACH and self.alpha == 0 and family.ends:
            self._note("unbounded_suspected", f"a predictor reached {asked.reach:.3g}: some columns may let the "
                       "likelihood rise for ever, which is not looked for in chunks",
                       "set alpha > 0 (a penalty)")  # fmt: skip
        self._note_findings(begin)

    def _family(self) -> Family:
        found = family_of(self.family, self.link)
        if self.exposure is not None and not found.exposed:
            text = f"{self.family} has no exposure: poisson counts and binomial trials have one"
            raise InvalidParameter(text, [Issue("/params/exposure", "no_exposure", text)])
        return found

    def _exposed(self, width: int) -> Exposed:
        exposed = Exposed(self._column_of("exposure"))
        if exposed.column is not None and width < 2 and not self.fit_intercept:
            text = "the exposure stands beside no feature and no intercept: there is nothing to learn"
            raise InvalidParameter(text, [Issue("/params/exposure", "no_column", text)])
        return exposed

    def _begun(self, family: Family, rows: Exposed, begin: Begin) -> Frame:
        self.alpha_ = float(self.alpha) * (begin.weight if self.objective_scale == "mean" else 1.0)
        return self._frame(family, columns_of(begin.columns, self.fit_intercept), rows)

    def _frame(self, family: Family, columns: Columns, rows: Exposed) -> Frame:
        return Frame(family.loss, self.alpha_, self.fit_intercept, columns, rows, self.penalize_bias)

    def _solve(self, problem: LinearObjective, start: Vector) -> Solution:
        if not np.isfinite(problem.value_gradient(start)[0]):
            raise InvalidData("no start of the inverse link gives every row a positive mean; use the log link, or an "
                              "intercept")  # fmt: skip
        solver = self.solver if problem.size <= NEWTON_UNKNOWNS else "lbfgs"
        if (solver, self.family, self.alpha) == ("newton", "gaussian", 0):
            return least_squares(problem)
        return minimum(problem, solver, start, tol=float(self.tol), max_iter=int(self.max_iter))

    def _solved(self, found: Solution, unit: float) -> None:
        self.solution_ = replace(found, trace=[unit * f for f in found.trace])
        self.n_iter_ = max(1, found.n_iter)

    def _learn(self, frame: Frame, family: Family, begin: Begin) -> Steps[None]:
        """Coefficients, covariance and dispersion from the unknowns and one pass over the rows."""
        v, problem = self.solution_.w, frame.penalty()
        W, b = problem.unpack(v)
        keep = self._kept(len(W[0]))
        d = len(keep) + (self.exposure is not None)
        self.coef_, self.center_, self.scale_ = np.zeros(d), np.zeros(d), np.ones(d)
        self.coef_[keep], self.center_[keep], self.scale_[keep] = W[0], frame.columns.mean, frame.columns.scale
        self.intercept_ = float(b[0])
        self.offset_ = float(v[-1]) if self.fit_intercept else 0.0
        counted, rows, begin = self._counted(frame, family, begin)
        found = yield from figures(counted, family, rows, v, begin, self.weight_kind == "precision")
        with np.errstate(over="ignore", invalid="ignore"):
            C = inverse(found.information)(np.eye(len(v)))
        self.spread_ = np.zeros((d + 1, d + 1))
        at = np.append(keep, d) if self.fit_intercept else keep
        self.spread_[np.ix_(at, at)] = C
        self.dispersion_, self.degrees_of_freedom_ = float(found.dispersion), float(found.freedom)

    def _copy(self, family: Family, total: float, rows: int) -> float:
        return 1.0 if family.free_dispersion else total / rows

    def _counted(self, frame: Frame, family: Family, begin: Begin) -> tuple[Frame, Exposed, Begin]:
        """Objective, rows and beginning with weights as they count in errors and criteria."""
        rows = Exposed(self._column_of("exposure"))
        if self.weight_kind == "frequency":
            return frame, rows, begin
        unit = self._copy(family, begin.weight, begin.columns.rows)
        return frame.in_units_of(unit), rows.in_units_of(unit), begin.in_units_of(unit)

    def _kept(self, features: int) -> np.ndarray:
        """Columns that are features."""
        at, exposure = np.arange(features), self._column_of("exposure")
        return at if exposure is None else at + (at >= exposure)

    def _look_for_escape(self, problem: LinearObjective, family: Family) -> None:
        """Whether the likelihood rises for ever along some direction; looked for where a predictor grew large."""
        self.unbounded_direction_ = np.zeros(len(self.coef_))
        slopes = None if self.alpha > 0 else escape(problem, family, self.solution_.w)
        if slopes is None:
            return
        self.unbounded_direction_[self._kept(len(slopes))] = slopes
        used = np.flatnonzero(np.abs(self.unbounded_direction_ * self.scale_) > 1e-6).tolist()
        where = f"columns {listed(used)}" if used else "the intercept"
        self._note("unbounded", f"along {where} the likelihood rises for ever: some rows' means go to the end of their "
                   "range (a group without events, or separated classes), and so does a coefficient; the fit stopped "
                   "at a finite point, whose means are right to rounding",
                   "set alpha > 0 (a penalty), or drop these columns; see unbounded_direction_")  # fmt: skip

    def _note_findings(self, begin: Begin) -> None:
        found = self.solution_
        if not found.converged:
            self._note_short(f"{self.solver} stopped after {found.n_iter} steps ({found.reason})",
                             "raise max_iter, or use solver newton")  # fmt: skip
        if begin.broken:
            self._note("fractional_counts", f"{begin.broken} targets are not whole: as counts they have a "
                       "quasi-likelihood, whose standard errors hold up to the dispersion",
                       "give counts and exposure; of trials successes, not their shares")  # fmt: skip
        if self.degrees_of_freedom_ <= 0:
            self._note("no_degrees_of_freedom", "there are no more rows than parameters: nothing tells the dispersion",
                       "fit fewer columns, or more rows")  # fmt: skip

    def _eta(self, X: Matrix) -> Vector:
        return np.asarray(self.offset_ + (X - self.center_) @ self.coef_)

    def _mean(self, X: Matrix) -> tuple[Family, Vector]:
        """Family and linear predictor, once every row has a mean."""
        family, eta = self._family(), self._eta(X)
        bad = np.flatnonzero((eta <= 0) & (family.link == "inverse"))
        if len(bad):
            text = f"the inverse link has no mean for row {bad[0]} ({len(bad)} in all), of predictor {eta[bad[0]]:g}"
            raise InvalidData(f"{text}; use the log link", [Issue(f"/rows/{bad[0]}", "outside_link", text)])
        return family, eta

    def _predict(self, X: Matrix) -> Vector:
        family, eta = self._mean(X)
        exposure = Exposed(self._column_of("exposure")).of(X)
        mean = family.mean(eta)
        return mean if exposure is None else mean * exposure

    def _posterior(self, X: Matrix) -> Distribution:
        family, eta = self._mean(X)
        Z = standard(self, X)
        variance = self.dispersion_ * np.einsum("ij,jk,ik->i", Z, self.spread_, Z)
        spread = Spread(self.dispersion_, self.degrees_of_freedom_, Exposed(self._column_of("exposure")).of(X))
        return family.predictive(eta, np.maximum(variance, 0.0), spread)

    def _parameter_posterior(self) -> dict[str, Distribution]:
        T = np.diag(np.append(1.0 / self.scale_, 1.0))
        T[-1, :-1] = -self.center_ / self.scale_
        mean = np.append(self.coef_, self.intercept_)
        return {"coefficients": MultivariateNormal(mean[None], (self.dispersion_ * T @ self.spread_ @ T.T)[None])}

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        out = answered(self._report(X.shape[1]), lambda part: part(X, y, s))
        put_model_rows(out, self, X, y, s)
        return out

    def _audit(self, census: Census) -> Passes:
        out = yield from self._report(census.width)
        out.warnings.append(NOT_IN_MEMORY)
        return out

    def _report(self, width: int) -> Steps[Diagnostics]:
        family, rows = self._family(), self._exposed(width)
        begin: Begin = yield BeginPart(family, rows)
        keep = self._kept(width - (self.exposure is not None))
        columns = Columns(self.center_[keep], self.scale_[keep], np.zeros(len(keep)), False)
        frame = self._frame(family, columns, rows)
        v = frame.penalty().pack(self.coef_[keep][None], np.array([self.intercept_]))
        frame, rows, begin = self._counted(frame, family, begin)
        found = yield from figures(frame, family, rows, v, begin, self.weight_kind == "precision")
        reason = "unbounded" if self.unbounded_direction_.any() else "penalised" if self.alpha > 0 else None
        out = report(frame, family, v, begin, found, keep.tolist(), reason)
        put_run(out, self.solution_)
        return out
