"""The lasso, and with a squared penalty beside it the elastic net."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Regressor
from ml_core.capabilities import Weighted
from ml_core.certificates import Diagnostics
from ml_core.errors import InvalidParameter, Issue
from ml_core.linear import lasso_report
from ml_core.linear.lasso_problem import Problem
from ml_core.numerics.column_moments import column_moments
from ml_core.registry import algorithm


@algorithm("lasso")
class Lasso(Weighted, Regressor):
    """Least squares with an absolute penalty, which sets the coefficients of useless columns to exactly zero.

    min over w, b of  Σᵢ sᵢ (yᵢ - xᵢᵀw - b)² + alpha Σⱼ |wⱼ| + alpha_l2 ‖w‖²; with `objective_scale` mean the squares
    are divided by Σ s. O(k n d) for k working sets. At the minimum |2 Σᵢ sᵢ(xᵢⱼ - x̄ⱼ)rᵢ - 2 alpha_l2 wⱼ| ≤ alpha, with
    equality and the sign of wⱼ where wⱼ ≠ 0, so all weights are 0 exactly when
    alpha ≥ alpha_max = 2 maxⱼ |Σᵢ sᵢ(xᵢⱼ - x̄ⱼ)yᵢ|. For Gaussian noise of variance σ² and coefficients drawn from a
    Laplace distribution of scale c the most probable w has alpha = 2 σ²/c. The penalty depends on units: `standardize`
    counts wⱼ in standard deviations of column j. The weights s count rows.

    The answer is the solution of the linear system of its signs, so its digits are those of least squares on the
    columns that are left; the duality gap tells how far it is from the minimum over all. Memory: columns that ever
    entered, no second copy of the table.

    References
    ----------
    Tibshirani (1996), Regression shrinkage and selection via the lasso, JRSS B 58(1).
    Zou, Hastie (2005), Regularization and variable selection via the elastic net, JRSS B 67(2).
    """

    largest = SQUARES
    complexity = "O(k n d), k working sets"
    tags = ("parametric", "discriminative", "linear", "sparse")

    coef_: Annotated[Vector, "(d,) slopes, target units per feature unit"]
    intercept_: Annotated[float, "value at X = 0"]
    alpha_: Annotated[float, "penalty in use, on the scale of the sum of squares"]
    alpha_l2_: Annotated[float, "squared penalty in use, on the same scale"]
    alpha_max_: Annotated[float, "least penalty at which every slope is 0"]
    center_: Annotated[Vector, "(d,) the point around which predictions are computed"]
    offset_: Annotated[float, "prediction at center_"]
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
        objective_scale: Annotated[
            Literal["sum", "mean"], Field(description="Whether the penalties stand beside the sum or the mean.")
        ] = "sum",
        fit_intercept: Annotated[bool, Field(description="Learn b, which is not penalised; otherwise b = 0.")] = True,
        standardize: Annotated[bool, Field(description="Penalise wⱼ times the deviation of column j.")] = False,
        noise_variance: Annotated[
            float | None, Field(gt=0, description="σ²; with prior_scale it replaces alpha by 2 σ²/c.")
        ] = None,
        prior_scale: Annotated[float | None, Field(gt=0, description="c, the Laplace scale of each slope.")] = None,
        path_length: Annotated[
            int, Field(ge=0, le=1000, description="Penalties from alpha_max to alpha_max/1000 that diagnostics report.")
        ] = 100,
        tol: Annotated[float, Field(ge=0, lt=1, description="Duality gap that ends it, share of Σ s(y - ȳ)².")] = 0.0,
        max_iter: Annotated[int, Field(ge=1, description="Most rounds of coordinate descent.")] = 10_000,
    ) -> None:
        self.alpha = alpha
        self.alpha_l2 = alpha_l2
        self.objective_scale = objective_scale
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.noise_variance = noise_variance
        self.prior_scale = prior_scale
        self.path_length = path_length
        self.tol = tol
        self.max_iter = max_iter

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        self.alpha_, self.alpha_l2_ = self._penalties(float(s.sum()))
        _, sd, _ = column_moments(X, s)
        self.units_ = sd if self.standardize else np.ones(X.shape[1])
        problem = Problem.of(self, X, y, s)
        self.center_, self.offset_, self.alpha_max_ = problem.Z.mean, problem.offset, problem.alpha_max()
        if self.alpha_ == 0 and self.alpha_l2_ == 0 and len(X) < X.shape[1] + self.fit_intercept:
            self._note("no_penalty", "without a penalty and with more columns than rows many slopes fit alike; this is "
                       "one of them", "give alpha, or take linear_regression, which gives the shortest")  # fmt: skip
        found, self.coef_ = problem.solve(self.alpha_, None, self.tol, self.max_iter)
        self.n_iter_, self.converged_, self.reason_ = found.n_iter, found.converged, found.reason
        self.intercept_ = self.offset_ - float(self.center_ @ self.coef_)
        if not found.converged:
            self._note("not_converged", f"stopped after {found.n_iter} rounds; the duality gap tells how far it is",
                       "raise max_iter, or scale the columns alike")  # fmt: skip

    def _penalties(self, total: float) -> tuple[float, float]:
        both = (self.noise_variance, self.prior_scale)
        if (both[0] is None) != (both[1] is None):
            missing = "noise_variance" if both[0] is None else "prior_scale"
            issue = Issue(f"/params/{missing}", "missing", "give both or neither")
            raise InvalidParameter(f"{missing} is missing: give noise_variance and prior_scale, or alpha", [issue])
        times = total if self.objective_scale == "mean" else 1.0
        alpha = self.alpha * times if both[0] is None or both[1] is None else 2.0 * both[0] / both[1]
        return alpha, self.alpha_l2 * times

    def _predict(self, X: Matrix) -> Vector:
        return (X - self.center_) @ self.coef_ + self.offset_

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        return lasso_report.report(self, X, y, s)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Some ten products with the table, Gram matrices of the columns that enter, and the path."""
        on = min(n, d)
        return Cost(flops=(40.0 + self.path_length) * n * d + 4.0 * n * on * on, memory_bytes=8.0 * (n + on) * on)
