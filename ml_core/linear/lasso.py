"""The lasso, and with a squared penalty beside it the elastic net."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Regressor, clone
from ml_core.capabilities import MultiOutput, Weighted
from ml_core.certificates import Diagnostics
from ml_core.errors import InvalidParameter, Issue
from ml_core.linear import lasso_choice, lasso_report
from ml_core.linear.lasso_problem import Problem
from ml_core.params import FreeIntercept, MaxIter, ObjectiveScale, RealVector, Seed, WeightKind
from ml_core.registry import algorithm

LEAST = 1e-3
LARGEST = 1e90


@algorithm("lasso")
class Lasso(Weighted, MultiOutput, Regressor):
    """Least squares with an absolute penalty, which sets the coefficients of useless columns to exactly zero.

    min over w, b of  Σᵢ sᵢ (yᵢ - xᵢᵀw - b)² + alpha Σⱼ |wⱼ| + alpha_l2 ‖w‖²; with `objective_scale` mean the squares
    are divided by Σ s. O(k n d) for k working sets. At the minimum |2 Σᵢ sᵢ(xᵢⱼ - x̄ⱼ)rᵢ - 2 alpha_l2 wⱼ| ≤ alpha, with
    equality and the sign of wⱼ where wⱼ ≠ 0, so all weights are 0 exactly when
    alpha ≥ alpha_max = 2 maxⱼ |Σᵢ sᵢ(xᵢⱼ - x̄ⱼ)yᵢ|. For Gaussian noise of variance σ² and coefficients drawn from a
    Laplace distribution of scale c the most probable w has alpha = 2 σ²/c. The penalty depends on units: `standardize`
    counts wⱼ in standard deviations of column j. Weights count rows, or are precisions, which changes criteria alone.

    `choose_alpha` compares `alphas` (by default `path_length` of them from alpha_max to alpha_max/1000) by
    cross-validation over `folds`, taking the best or the largest within one standard error of it, or by AIC or BIC with
    the columns that have weight as parameters. Several targets share alpha and are fitted one by one.

    The answer is the solution of the linear system of its signs, so its digits are those of least squares on the
    columns that are left; the duality gap tells how far it is from the minimum over all. Memory: columns that ever
    entered, no second copy of the table.

    References
    ----------
    Tibshirani (1996), Regression shrinkage and selection via the lasso, JRSS B 58(1).
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 7.10.
    Zou, Hastie (2005), Regularization and variable selection via the elastic net, JRSS B 67(2).
    """

    largest = SQUARES
    complexity = "O(k n d), k working sets"
    tags = ("parametric", "discriminative", "low_capacity", "linear", "sparse")

    coef_: Annotated[Any, "(d,) or (q, d) slopes, target units per feature unit"]
    intercept_: Annotated[Any, "number or (q,), value at X = 0"]
    alpha_: Annotated[float, "penalty in use, on the scale of the sum of squares"]
    alpha_l2_: Annotated[float, "squared penalty in use, on the same scale"]
    alpha_max_: Annotated[float, "least penalty at which every slope is 0"]
    center_: Annotated[Vector, "(d,) the point around which predictions are computed"]
    offset_: Annotated[Any, "number or (q,), prediction at center_"]
    compared_: Annotated[list[list[float]], "penalty, error by which it was chosen, and its standard error"]
    units_: Annotated[Vector, "(d,) what the penalty multiplies |wⱼ| with: 1, or standard deviations"]
    n_iter_: Annotated[int, "rounds of coordinate descent"]
    converged_: Annotated[bool, "whether no column violates its condition"]
    reason_: Annotated[str, "which rule ended the search"]

    def __init__(
        self,
        *,
        alpha: Annotated[float, Field(ge=0, le=1e90, description="Penalty, target units² per weight.")] = 1.0,
        alpha_l2: Annotated[
            float, Field(ge=0, le=1e90, description="Squared penalty beside it; more than 0 is the elastic net.")
        ] = 0.0,
        objective_scale: ObjectiveScale = "sum",
        weight_kind: WeightKind = "frequency",
        fit_intercept: FreeIntercept = True,
        standardize: Annotated[bool, Field(description="Penalise wⱼ times the deviation of column j.")] = False,
        noise_variance: Annotated[
            float | None, Field(gt=0, description="σ²; with prior_scale it replaces alpha by 2 σ²/c.")
        ] = None,
        prior_scale: Annotated[float | None, Field(gt=0, description="c, the Laplace scale of each slope.")] = None,
        path_length: Annotated[
            int, Field(ge=0, le=1000, description="Penalties from alpha_max to alpha_max/1000 that diagnostics report.")
        ] = 100,
        tol: Annotated[float, Field(ge=0, lt=1, description="Duality gap that ends it, share of Σ s(y - ȳ)².")] = 0.0,
        max_iter: Annotated[MaxIter, Field(description="Most rounds of coordinate descent.")] = 10_000,
        choose_alpha: Annotated[
            Literal["given", "cross_validation", "aic", "bic"],
            Field(description="Use alpha, or the best of alphas by an error or a criterion."),
        ] = "given",
        alphas: Annotated[RealVector | None, Field(description="Penalties compared, on the objective's scale.")] = None,
        folds: Annotated[int, Field(ge=2, le=10_000, description="Parts of the rows for cross-validation.")] = 5,
        rule: Annotated[
            Literal["best", "one_standard_error"],
            Field(description="The least error, or the largest penalty within a standard error of it."),
        ] = "best",
        random_state: Seed = 0,
    ) -> None:
        self.alpha = alpha
        self.alpha_l2 = alpha_l2
        self.objective_scale = objective_scale
        self.weight_kind = weight_kind
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.noise_variance = noise_variance
        self.prior_scale = prior_scale
        self.path_length = path_length
        self.tol = tol
        self.max_iter = max_iter
        self.choose_alpha = choose_alpha
        self.alphas = alphas
        self.folds = folds
        self.rule = rule
        self.random_state = random_state

    def _fit(self, X: Matrix, y: Vector | Matrix, s: Vector) -> None:
        Y = y.reshape(len(X), -1)
        self.alpha_, self.alpha_l2_ = self._penalties(float(s.sum()))
        self.units_ = lasso_choice.units_of(self, X, s)
        problems = [Problem.of(self, X, np.ascontiguousarray(t), s) for t in Y.T]
        self.center_, self.alpha_max_ = problems[0].Z.mean, max(p.alpha_max() for p in problems)
        self.compared_ = []
        if self.choose_alpha != "given":
            self.alpha_ = self._chosen(X, Y, s)
        if self.alpha_ == 0 and self.alpha_l2_ == 0 and len(X) < X.shape[1] + self.fit_intercept:
            self._note("no_penalty", "without a penalty and with more columns than rows many slopes fit alike; this is "
                       "one of them", "give alpha, or take linear_regression, which gives the shortest")  # fmt: skip
        answers = [p.solve(self.alpha_, None, self.tol, self.max_iter) for p in problems]
        self.n_iter_ = max(found.n_iter for found, _ in answers)
        worst = next((found for found, _ in answers if not found.converged), answers[0][0])
        self.converged_, self.reason_ = worst.converged, worst.reason
        W, offsets = np.array([w for _, w in answers]), np.array([p.offset for p in problems])
        single = y.ndim == 1
        self.coef_, self.offset_ = (W[0], float(offsets[0])) if single else (W, offsets)
        b = offsets - W @ self.center_
        self.intercept_ = float(b[0]) if single else b
        if not self.converged_:
            self._note_short(f"stopped after {self.n_iter_} rounds; the duality gap tells how far it is",
                             "raise max_iter, or scale the columns alike")  # fmt: skip

    def _chosen(self, X: Matrix, Y: Matrix, s: Vector) -> float:
        alphas = self._compared(float(s.sum()))
        if self.alpha_max_ == 0:
            self._note("nothing_to_choose", "no column goes with the target, so any penalty gives slopes of 0", "")
            return float(alphas[0])
        spread = None
        if self.choose_alpha == "cross_validation":
            table = lasso_choice.held_out(self, X, Y, s, alphas)
            errors, deviation = table.mean(axis=0), table.std(axis=0, ddof=1) / np.sqrt(len(table))
            spread = deviation if self.rule == "one_standard_error" else None
        else:
            errors, deviation = lasso_choice.criterion(self, X, Y, s, alphas), np.zeros(len(alphas))
        at = lasso_choice.chosen(errors, spread)
        self.compared_ = np.stack([alphas, errors, deviation], axis=1).tolist()
        if at == len(alphas) - 1 and len(alphas) > 1:
            self._note("alpha_at_end_of_grid", f"the best alpha, {alphas[at]:.6g}, is the least of those compared",
                       "give alphas that reach further down")  # fmt: skip
        return float(alphas[at])

    def _observations(self, s: Vector) -> float:
        """What rows of these weights count as in criteria."""
        return float(s.sum()) if self.weight_kind == "frequency" else float(len(s))

    def _compared(self, total: float) -> Vector:
        """The penalties beside the sum of squares, descending."""
        if self.alphas is None:
            return self.alpha_max_ * np.geomspace(1.0, LEAST, max(self.path_length, 2))
        given = np.asarray(self.alphas, dtype=float)
        if not len(given) or (given < 0).any() or given.max() > LARGEST:
            text = f"alphas must be at least one number from 0 to {LARGEST:g}"
            raise InvalidParameter(text, [Issue("/params/alphas", "out_of_range", text)])
        return np.asarray(np.sort(given)[::-1] * (total if self.objective_scale == "mean" else 1.0))

    def _penalties(self, total: float) -> tuple[float, float]:
        both = (self.noise_variance, self.prior_scale)
        if (both[0] is None) != (both[1] is None):
            missing = "noise_variance" if both[0] is None else "prior_scale"
            issue = Issue(f"/params/{missing}", "missing", "give both or neither")
            raise InvalidParameter(f"{missing} is missing: give noise_variance and prior_scale, or alpha", [issue])
        times = total if self.objective_scale == "mean" else 1.0
        alpha = self.alpha * times if both[0] is None or both[1] is None else 2.0 * both[0] / both[1]
        return alpha, self.alpha_l2 * times

    def _predict(self, X: Matrix) -> Vector | Matrix:
        return np.asarray((X - self.center_) @ self.coef_.T + self.offset_)

    def _output(self, k: int) -> Lasso:
        """The model of target k alone."""
        one = clone(self)
        vars(one).update(vars(self) | {"coef_": self.coef_[k], "offset_": float(self.offset_[k])})
        one.intercept_ = float(self.intercept_[k])  # type: ignore[attr-defined]
        return one  # type: ignore[return-value]

    def _diagnose(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Diagnostics:
        return lasso_report.report(self, X, y, s) if y.ndim == 1 else lasso_report.reports(self, X, y, s)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Some ten products with the table, Gram matrices of the columns that enter, and the path."""
        on = min(n, d)
        return Cost(flops=(40.0 + self.path_length) * n * d + 4.0 * n * on * on, memory_bytes=8.0 * (n + on) * on)
