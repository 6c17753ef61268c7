"""Ordinary and weighted least squares."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost, Regressor
from ml_core.capabilities import HasPosterior, MultiOutput, Weighted
from ml_core.certificates import Diagnostics
from ml_core.distributions.student import StudentT
from ml_core.linear import linear_audit, linear_inference
from ml_core.linear.decimals import decimal_tails
from ml_core.linear.exact_powers import find_powers
from ml_core.linear.linear_sums import LinearSums, SlopePart, corrected, sums_of_normal
from ml_core.linear.parameters import MinNorm, Rcond
from ml_core.naming import listed
from ml_core.params import Intercept, MaxIter, Seed, Tol, WeightKind
from ml_core.registry import algorithm
from ml_core.selection.left_out import left_out
from ml_core.solvers.base import Solution
from ml_core.solvers.gradient_descent import Quadratic, minimise
from ml_core.solvers.linear_model import LinearFit, solve_design, solve_orthogonal
from ml_core.solvers.normal_equations import solve_normal
from ml_core.sums import Additive, Census, Passes

PRECISE_ENTRIES = 4096
CORRECTIONS = 3
ENOUGH = 1e-10
"""Relative correction after which the next one is below rounding."""
ILL_CONDITIONED = 1e8
ITERATIVE = ("gradient_descent", "sgd", "newton")


@algorithm("linear_regression")
class LinearRegression(Additive, Weighted, MultiOutput, HasPosterior, Regressor):
    """Least squares: the coefficients with the smallest sum of squared residuals.

    min over w, b of  Σᵢ sᵢ (yᵢ - xᵢᵀw - b)²; O(n d²). With X~ = [1, X]: w~ = X~⁺y, unique when X~ has full column rank,
    else the solution of least norm, and the notice `rank_deficient` names the columns that are combinations of others.
    σ² = RSS/(n - rank), Cov(w~) = σ²(X~ᵀX~)⁺, hat matrix H = X~X~⁺. The predictive distribution of a row is Student's
    t with n - rank degrees of freedom (the classical prediction interval); its scale is infinite where the row lies
    outside the span of the training rows.

    The `auto` solver takes a centred Gram matrix and Cholesky for large, well-conditioned problems, and otherwise a
    pivoted QR refined with double-double residuals, which gives every digit the data determine. `exact_powers`: a
    client that sends x, x², …, x¹⁰ as doubles has rounded each power, and on ill-conditioned polynomials that rounding
    alone destroys half the digits. Columns that are whole powers of another column to within rounding are therefore
    formed again in double-double (a change below the rounding of what was sent); the diagnostics list them. Powers that
    are exact doubles are unaffected. `decimals`: a file that says 0.1 means one tenth, not the double next to it; short
    decimals are carried exactly, which gives certified problems all their digits.

    Weights are of two kinds: `frequency`, where weight 3 means the row was seen three times and n = Σ s, and
    `precision`, where Var(yᵢ) = σ²/sᵢ and n counts rows. The coefficients agree, the standard errors differ.

    Chunks, `update` and `forget` work on a triangular root of the centred scatter, whatever the solver, and keep
    16 - log₁₀(cond) digits; from chunks one more pass with double-double residuals gives the last ones (decimals and
    powers are taken as sent). `forget` loses the digits of the share that is left, and refuses when that determines
    nothing.

    References
    ----------
    Björck (1996), Numerical Methods for Least Squares Problems, SIAM.
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 3.2.
    Belsley, Kuh, Welsch (1980), Regression Diagnostics, Wiley.
    """

    complexity = "O(n d²)"
    tags = ("parametric", "discriminative", "low_capacity", "linear", "closed_form")

    coef_: Annotated[Vector, "(d,) or (q, d) slopes, target units per feature unit"]
    intercept_: Annotated[Any, "number or (q,), value at X = 0"]
    center_: Annotated[Vector, "(d,) the point around which predictions are computed"]
    offset_: Annotated[Vector, "(q,) prediction at center_"]
    weights_: Annotated[Matrix, "(d, q) slopes, contiguous for prediction"]
    root_: Annotated[Matrix, "(1 + d, r): variance of the mean at x over σ² is |(1, x - center_) root_|²"]
    rows_: Annotated[Matrix, "(1 + d, r) orthonormal basis of estimable directions, scaled; empty at full rank"]
    scale_: Annotated[Vector, "(d,) column scales of rows_"]
    deviations_: Annotated[Vector, "(1 + d,) standard errors of intercept and slopes over σ, NaN where not estimable"]
    sums_: Annotated[LinearSums, "a triangular root of the scatter of [X, Y]"]
    rank_: Annotated[int, "rank of [1, X]"]
    n_: Annotated[float, "observations: rows, or the sum of frequency weights"]
    df_: Annotated[float, "residual degrees of freedom, n - rank"]
    rss_: Annotated[Vector, "(q,) weighted residual sum of squares"]
    sigma2_: Annotated[Vector, "(q,) unbiased noise variance, NaN without degrees of freedom"]
    aliased_: Annotated[list[int], "columns that are combinations of other columns"]
    powers_: Annotated[list[list[int]], "[column, base, exponent] of columns taken as exact powers"]
    solver_: Annotated[str, "solver that gave the answer"]
    n_iter_: Annotated[int, "refinements, or iterations of the slowest output"]
    solutions_: Annotated[list[Solution], "one per output: iterations and trace"]

    def __init__(
        self,
        *,
        fit_intercept: Intercept = True,
        solver: Annotated[
            Literal["auto", "svd", "qr", "normal_equations", "gradient_descent", "sgd", "newton"],
            Field(description="How to minimise; auto chooses between normal_equations and qr by size and condition."),
        ] = "auto",
        rcond: Rcond = None,
        min_norm: MinNorm = "augmented",
        weight_kind: WeightKind = "frequency",
        exact_powers: Annotated[
            bool, Field(description="Undo the rounding of columns that are whole powers of another column (qr, svd).")
        ] = True,
        decimals: Annotated[
            bool, Field(description="Read short decimals as what they say: 0.1 is one tenth, not its double (qr, svd).")
        ] = True,
        step: Annotated[
            float | None, Field(gt=0, description="Step of gradient_descent, first step of sgd; a safe one by default.")
        ] = None,
        max_iter: MaxIter = 1000,
        tol: Annotated[Tol, Field(description="Largest gradient relative to that at 0 where iterations stop.")] = 1e-10,
        random_state: Seed = 0,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.rcond = rcond
        self.min_norm = min_norm
        self.weight_kind = weight_kind
        self.exact_powers = exact_powers
        self.decimals = decimals
        self.step = step
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _fit(self, X: Matrix, y: Vector | Matrix, s: Vector) -> None:
        Y = y if y.ndim == 2 else y[:, None]
        self.powers_ = []
        fit = self._direct(X, Y, s)
        if fit.solver == "normal_equations":
            self.sums_ = sums_of_normal(fit, y, s, self.fit_intercept)
        else:
            self.sums_ = self._sums(X, y, s)
        self._keep(fit)
        if self.solver in ITERATIVE:
            self._iterate(X, Y, s)
        self.n_iter_ = max(a.n_iter for a in self.solutions_)
        self._remark()

    def _sums(self, X: Matrix, y: Vector | Matrix, s: Vector) -> LinearSums:
        return LinearSums.of(X, y, s, self.fit_intercept)

    def _solve(self, sums: LinearSums) -> None:
        self.sums_, self.powers_ = sums, []
        method: Literal["svd", "qr"] = "svd" if self.solver == "svd" else "qr"
        fit = solve_design(sums.design(), method=method, rcond=self.rcond, min_norm=self.min_norm)
        self._keep(replace(fit, solver="sums"))
        self.n_iter_ = fit.n_iter
        self._remark()

    def _passes(self, census: Census) -> Passes:
        self._solve((yield self._sums))
        for _ in range(CORRECTIONS if self.rank_ == census.width + self.fit_intercept else 0):
            size = corrected(self, (yield SlopePart(self)))
            self._present()
            self.n_iter_ += 1
            if size <= ENOUGH:
                break

    def _audit(self, census: Census) -> Passes:
        return (yield from linear_audit.audit(self))

    def _keep(self, fit: LinearFit) -> None:
        self.weights_, self.center_, self.offset_ = fit.coef, fit.center, fit.offset
        self.root_, self.rows_, self.scale_, self.deviations_ = fit.root, fit.rows, fit.scale, fit.deviations
        self.rank_, self.rss_, self.aliased_, self.solver_ = fit.rank, fit.rss, fit.aliased, fit.solver
        self.coef_ = fit.coef[:, 0].copy() if self.sums_.single else np.ascontiguousarray(fit.coef.T)
        self.intercept_ = float(fit.intercept[0]) if self.sums_.single else fit.intercept
        seen = self.sums_.triangle
        self.n_ = seen.total if self.weight_kind == "frequency" else float(seen.rows)
        self.df_ = self.n_ - self.rank_
        self.sigma2_ = self._variance()
        self.solutions_ = [Solution(fit.coef[:, 0], fit.n_iter, fit.converged, "direct", fit.trace)]

    def _present(self) -> None:
        """The user's coefficients after a change of `weights_`, `offset_` and `rss_`."""
        b = self.offset_ - self.center_ @ self.weights_ if self.fit_intercept else np.zeros(len(self.offset_))
        self.coef_ = self.weights_[:, 0].copy() if self.sums_.single else np.ascontiguousarray(self.weights_.T)
        self.intercept_ = float(b[0]) if self.sums_.single else b
        self.sigma2_ = self._variance()

    def _variance(self) -> Vector:
        return self.rss_ / self.df_ if self.df_ > 0 else np.full(len(self.rss_), np.nan)

    def _direct(self, X: Matrix, Y: Matrix, s: Vector) -> LinearFit:
        """The fit by a direct method; for iterative solvers it gives the geometry that inference needs."""
        n, p = X.shape[0], X.shape[1] + self.fit_intercept
        large = self.solver == "auto" and n * p > PRECISE_ENTRIES and n > p and self.rcond is None
        if large or self.solver == "normal_equations":
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                fit = solve_normal(X, Y, s, intercept=self.fit_intercept)
            if fit is not None:
                return fit
            if not large:
                self._note("normal_equations_unsafe", "squaring the condition number would lose the answer; used qr",
                           "choose solver auto, qr or svd")  # fmt: skip
        if self.exact_powers and n > X.shape[1]:
            self.powers_ = [[q.column, q.base, q.exponent] for q in find_powers(X)]
        return solve_orthogonal(
            X, Y, s, intercept=self.fit_intercept, method="svd" if self.solver == "svd" else "qr", rcond=self.rcond,
            min_norm=self.min_norm, powers=tuple((j, i, k) for j, i, k in self.powers_),
            tails=(decimal_tails(X), decimal_tails(Y)) if self.decimals else None,
        )  # fmt: skip

    def _iterate(self, X: Matrix, Y: Matrix, s: Vector) -> None:
        """Replace the answer by that of the iterative solver."""
        M = np.hstack([np.ones((len(X), 1)), X]) if self.fit_intercept else X
        problems = [Quadratic.of(M, np.ascontiguousarray(t), s) for t in Y.T]
        self.solutions_ = [
            minimise(p, self.solver, step=self.step, max_iter=self.max_iter, tol=self.tol, seed=self.random_state)
            for p in problems
        ]
        W = np.stack([a.w for a in self.solutions_], axis=1)
        b = W[0].copy() if self.fit_intercept else np.zeros(Y.shape[1])
        self.weights_ = np.ascontiguousarray(W[int(self.fit_intercept) :])
        self.offset_ = b + self.center_ @ self.weights_
        self.rss_ = s @ (Y - M @ W) ** 2
        self._present()
        self.solver_ = self.solver

    def _remark(self) -> None:
        # fmt: off
        p = len(self.center_) + self.fit_intercept
        if self.rank_ < p:
            names, many = listed(self.aliased_), len(self.aliased_)
            self._note("rank_deficient", f"rank {self.rank_} of {p} columns (with the intercept's); columns {names} "
                       f"are combinations of others ({many} in all); the solution of least norm was taken",
                       "drop redundant columns, or add a penalty; predictions in estimable directions are unaffected")
        elif (bound := linear_inference.condition_bound(self)) > ILL_CONDITIONED:
            self._note("ill_conditioned", f"the condition number of [1, X] is near {bound:.1e}",
                       "centre and scale the columns, or use an orthogonal basis, to interpret the coefficients")
        if self.df_ <= 0:
            self._note("no_degrees_of_freedom", f"{self.n_:g} observations leave none after {self.rank_} parameters",
                       "standard errors and intervals need more rows")
        for a in self.solutions_:
            if not a.converged:
                self._note_short(f"{self.solver_} stopped after {a.n_iter} iterations: {a.reason}",
                                 "standardise the columns, use a smaller step or more iterations, or a direct solver")
        # fmt: on

    def _predict(self, X: Matrix) -> Vector | Matrix:
        out = (X - self.center_) @ self.weights_ + self.offset_
        return out[:, 0] if np.ndim(self.intercept_) == 0 else out

    def left_out(self, X: Matrix, y: Vector | Matrix, s: Vector | None = None) -> Vector | Matrix:
        """(n,) or (n, q) prediction of each training row by a fit of all others; NaN where only such a fit can tell."""
        if self.solver in ITERATIVE or self.rcond is not None:
            return np.full(y.shape, np.nan)
        h = linear_inference.mean_variance(self, X)
        return left_out(y, self._predict(X), h if s is None else s * h)

    def _posterior(self, X: Matrix) -> StudentT:
        h = linear_inference.mean_variance(self, X)
        mean = self._predict(X)
        sigma = np.sqrt(self.sigma2_[0] if mean.ndim == 1 else self.sigma2_)
        at = h if mean.ndim == 1 else h[:, None]
        return StudentT(mean, sigma * np.sqrt(1 + at), np.full(mean.shape, max(self.df_, 0.0)), sigma * np.sqrt(at))

    def _diagnose(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Diagnostics:
        return linear_inference.diagnose(self, X, y if y.ndim == 2 else y[:, None], s)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """2 n d² for the Gram matrix, 40 n d more for double-double residuals of the small problems."""
        flops = 2.0 * n * d * (d + k) + 120.0 * min(n * d, PRECISE_ENTRIES)
        return Cost(flops=flops, memory_bytes=8.0 * (d * d + 4 * min(n * d, 1 << 20)))
