"""Logistic regression that is always penalised."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.class_weights import ClassWeight
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.linear.likelihood_report import COLUMNS, wald
from ml_core.linear.logistic_regression import SOLVERS, Intercept, LogisticRegression, Parametrization, Threshold
from ml_core.losses.logistic import Logistic
from ml_core.params import MaxIter, Seed, Tol
from ml_core.registry import algorithm
from ml_core.solvers.linear_parts import ClassFactors
from ml_core.solvers.prox_newton import Sparse, State, prox_newton
from ml_core.sums import Census, Passes

GAP = 1e-8


@algorithm("penalized_logistic_regression")
class PenalizedLogisticRegression(LogisticRegression):
    """Class probabilities from linear scores that a penalty holds back; finite also where classes are separable.

    min over W, b of  Σᵢ sᵢ ℓ(W xᵢ + b, yᵢ) + penalty, the intercept free: l2 is ½ alpha ‖W‖² and the same fit as
    `logistic_regression`; l1 is alpha ‖w‖₁, for two classes, which leaves columns out. With l1 a proximal Newton method
    solves a weighted lasso per step and ends by the duality gap, relative to the objective; columns count in the units
    given. For w drawn from a normal (l2) or Laplace (l1) distribution of inverse scale alpha it is the most probable w.

    `decision_function` is the log-odds minus that of `threshold` for two classes.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 4.4.4.
    Lee, Sun, Saunders (2014), Proximal Newton-type methods for minimizing composite functions, SIAM J. Optim. 24(3).
    """

    def __init__(
        self,
        *,
        alpha: Annotated[float, Field(gt=0, description="Strength of the penalty.")] = 1.0,
        penalty: Annotated[
            Literal["l2", "l1"], Field(description="½ alpha ‖W‖², or alpha ‖w‖₁ for two classes.")
        ] = "l2",
        fit_intercept: Intercept = True,
        parametrization: Parametrization = "full",
        solver: Annotated[SOLVERS, Field(description="Of l2; l1 has its own.")] = "newton",
        tol: Annotated[
            Tol, Field(description="l2: as logistic_regression. l1: duality gap relative to the objective.")
        ] = 1e-10,
        max_iter: Annotated[MaxIter, Field(description="Most iterations; epochs of sgd.")] = 200,
        threshold: Threshold = 0.5,
        class_weight: ClassWeight = None,
        random_state: Seed = 0,
    ) -> None:  # fmt: skip
        super().__init__(
            alpha=alpha, fit_intercept=fit_intercept, parametrization=parametrization, solver=solver, tol=tol,
            max_iter=max_iter, threshold=threshold, class_weight=class_weight, random_state=random_state,
        )  # fmt: skip
        self.penalty = penalty

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        if self.penalty == "l2":
            super()._fit(X, y, s)
            return
        self._refuse_more_classes()
        self.class_weight_ = self._class_weights(float(s.sum()), np.bincount(y, s, 2))
        found, end = prox_newton(self._sparse(X, y, s), tol=float(self.tol), max_iter=int(self.max_iter))
        self.solution_, self.n_iter_ = found, max(1, found.n_iter)
        self.coef_ = end.w[None]
        self.intercept_ = np.array([end.b - float(self._sparse(X, y, s).mean @ end.w)])
        self.separation_, self.separating_direction_ = "none", np.zeros((1, X.shape[1]))
        if not found.converged and end.value - end.dual > GAP * abs(end.value):
            self._note("not_converged", f"prox_newton stopped after {found.n_iter} steps ({found.reason})",
                       "raise max_iter or tol")  # fmt: skip

    def _passes(self, census: Census) -> Passes:
        if self.penalty == "l1":
            raise InvalidData("the l1 penalty needs a table that fits in memory; raise the limit, or use penalty l2")
        yield from super()._passes(census)

    def _refuse_more_classes(self) -> None:
        if len(self.classes_) > 2:
            text = f"penalty l1 is for two classes, not for {len(self.classes_)}: use one_vs_rest around it, or l2"
            raise InvalidParameter(text, [Issue("/params/penalty", "two_classes", text)])

    def _sparse(self, X: Matrix, y: Codes, s: Vector) -> Sparse:
        rows = ClassFactors(self.class_weight_)(X, y, s)
        return Sparse.of(*rows, Logistic(), float(self.alpha), self.fit_intercept)

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        if self.penalty == "l2":
            return super()._diagnose(X, y, s)
        problem = self._sparse(X, y, s)
        offset = float(self.intercept_[0] + problem.mean @ self.coef_[0])
        return self._sparse_report(problem, problem.at(self.coef_[0], offset))

    def _sparse_report(self, problem: Sparse, at: State) -> Diagnostics:
        w, total = self.coef_[0], float(problem.s.sum())
        loss = at.value - problem.alpha * float(np.abs(w).sum())
        constant = problem.loss.start(problem.y, problem.s) if self.fit_intercept else np.zeros(1)
        null = float(problem.s @ problem.loss.value(np.tile(constant, (len(problem.y), 1)), problem.y))
        beyond = np.maximum(np.abs(at.pull) - problem.alpha, 0.0)
        off = np.where(w != 0, np.abs(at.pull + problem.alpha * np.sign(w)), beyond)
        spread = np.sqrt(np.maximum(problem.s @ np.square(problem.X - problem.mean) / total, np.finfo(float).tiny))
        out = Diagnostics(summary={
            "rows": len(problem.y), "weight": total, "nonzero": int((w != 0).sum()), "objective": at.value,
            "log_likelihood": -loss, "null_log_likelihood": -null, "deviance": 2 * loss, "null_deviance": 2 * null,
            "log_loss": loss / total, "alpha_max": problem.alpha_max(),
        })  # fmt: skip
        out.certificates = [
            Certificate("duality_gap", (at.value - at.dual) / max(abs(at.value), np.finfo(float).tiny), GAP,
                        "objective minus a lower bound of its minimum, relative to the objective"),
            Certificate("optimality", float((off / spread).max(initial=0.0)) / total, 1e-6,
                        "largest violation of a column's condition |pull| ≤ alpha, per unit of weight and deviation"),
        ]  # fmt: skip
        label = str(self.classes_[1])
        terms: list[tuple[str | int, float]] = [("intercept", float(self.intercept_[0]))] if self.fit_intercept else []
        terms += [(j, float(w[j])) for j in range(len(w))]
        out.tables["coefficients"] = Table(COLUMNS, [[label, t, *wald(v, np.nan, "penalised")] for t, v in terms])
        out.traces["objective"] = self.solution_.trace
        return out
