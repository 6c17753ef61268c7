"""Logistic regression that is always penalised."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Diagnostics
from ml_core.class_weights import ClassWeight
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.linear.firth_report import FirthDesign, firth_report
from ml_core.linear.likelihood_report import put_run
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.linear.parameters import Parametrization, SmoothSolver, Threshold
from ml_core.linear.sparse_report import GAP, sparse_report
from ml_core.losses.logistic import Logistic
from ml_core.naming import listed
from ml_core.params import Intercept, MaxIter, ObjectiveScale, Seed, Tol, WeightKind
from ml_core.registry import algorithm
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.linear_parts import ClassFactors
from ml_core.solvers.prox_newton import Sparse, prox_newton
from ml_core.solvers.separation import MOST_UNKNOWNS, Separation, separation
from ml_core.sums import Census, Passes

SEPARATED = {  # what follows from separation, and the remedy
    "l1": ("alpha, not the rows, says how large the coefficients are", "take penalty firth, which needs no alpha"),
    "firth": ("the penalty alone keeps the coefficients finite: read their intervals by the profile",
              "keep this penalty, or take l1 or l2"),
}  # fmt: skip


@algorithm("penalized_logistic_regression")
class PenalizedLogisticRegression(LogisticRegression):
    """Class probabilities from linear scores that a penalty holds back; finite also where classes are separable.

    min over W, b of  Σᵢ sᵢ ℓ(W xᵢ + b, yᵢ) + penalty, the intercept free: l2 is ½ alpha ‖W‖² and the same fit as
    `logistic_regression`; l1 is alpha ‖w‖₁ + ½ alpha_l2 ‖w‖² (with both the elastic net), for two classes, which leaves
    columns out. With l1 a proximal Newton method solves a weighted lasso per step and ends by the duality gap, relative
    to the objective; columns count in the units given. For w drawn from a normal (l2) or Laplace (l1) distribution of
    inverse scale alpha it is the most probable w. `objective_scale`, `penalize_bias` and `weight_kind` as there.

    firth, for two classes, is -½ log det of Fisher's information, Jeffreys' prior: no strength to choose, no unit that
    matters, the bias of maximum likelihood removed to first order, finite where a column separates the classes. On a
    table of two groups it adds ½ to each cell. Weights are numbers of rows, precisions shares of them. Its z, p and
    interval are those of the profile of the penalised likelihood where n p³ ≤ 2·10⁶, by the information beyond.

    `decision_function` is the log-odds minus that of `threshold` for two classes.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 4.4.4.
    Lee, Sun, Saunders (2014), Proximal Newton-type methods for minimizing composite functions, SIAM J. Optim. 24(3).
    Heinze, Schemper (2002), A solution to the problem of separation in logistic regression, Statistics in Medicine 21.
    """

    def __init__(
        self,
        *,
        alpha: Annotated[float, Field(gt=0, description="Strength of l2 or l1.")] = 1.0,
        penalty: Annotated[
            Literal["l2", "l1", "firth"], Field(description="½ alpha ‖W‖²; for two classes alpha ‖w‖₁, or Firth's.")
        ] = "l2",
        alpha_l2: Annotated[
            float, Field(ge=0, description="Squared penalty beside l1; more than 0 is the elastic net.")
        ] = 0.0,
        objective_scale: ObjectiveScale = "sum",
        fit_intercept: Intercept = True,
        penalize_bias: Annotated[bool, Field(description="Penalise b as a coefficient (l2).")] = False,
        weight_kind: WeightKind = "frequency",
        parametrization: Parametrization = "full",
        solver: Annotated[SmoothSolver, Field(description="Of l2; l1 and firth have their own.")] = "newton",
        tol: Annotated[
            Tol, Field(description="l2: as logistic_regression. l1: duality gap relative to the objective. firth: "
                       "distance to the optimum in standard errors.")
        ] = 1e-10,
        max_iter: Annotated[MaxIter, Field(description="Most iterations; epochs of sgd.")] = 200,
        threshold: Threshold = 0.5,
        class_weight: ClassWeight = None,
        path_length: Annotated[
            int, Field(ge=0, le=1000, description="l1: penalties from alpha_max down that diagnostics report.")
        ] = 0,
        random_state: Seed = 0,
    ) -> None:  # fmt: skip
        super().__init__(
            alpha=alpha, objective_scale=objective_scale, fit_intercept=fit_intercept, penalize_bias=penalize_bias,
            weight_kind=weight_kind, parametrization=parametrization, solver=solver, tol=tol, max_iter=max_iter,
            threshold=threshold, class_weight=class_weight, random_state=random_state,
        )  # fmt: skip
        self.penalty = penalty
        self.alpha_l2 = alpha_l2
        self.path_length = path_length

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        self._refuse_misfits()
        if self.penalty == "l2":
            super()._fit(X, y, s)
            return
        self._weigh(np.bincount(y, s, 2))
        if self.penalty == "l1":
            self._fit_sparse(self._sparse(X, y, s))
        else:
            self._fit_firth(self._firth(X, y, s))
        self._look_for_separation(self._problem(X, y, s))

    def _fit_sparse(self, problem: Sparse) -> None:
        found, end = prox_newton(problem, tol=float(self.tol), max_iter=int(self.max_iter))
        self.solution_, self.n_iter_ = replace(found, solver="prox_newton"), max(1, found.n_iter)
        self._keep(end.w[None], np.array([end.b - problem.beyond @ end.w]), problem.centre)
        if not found.converged and end.value - end.dual > GAP * abs(end.value):
            self._note_short(f"prox_newton stopped after {found.n_iter} steps ({found.reason})",
                             "raise max_iter or tol")  # fmt: skip

    def _fit_firth(self, design: FirthDesign) -> None:
        found = replace(design.fit(float(self.tol), int(self.max_iter)), solver="lbfgs")
        self.solution_, self.n_iter_ = found, max(1, found.n_iter)
        w, b = design.unpack(found.w)
        self._keep(w[None], np.array([b]), design.columns.mean)
        if not found.converged:
            self._note_short(f"lbfgs stopped after {found.n_iter} steps ({found.reason})")
        lost = np.flatnonzero(design.lost()).tolist()
        if lost:
            self._note("collinear", f"these rows do not tell columns {listed(lost)} apart: of the slopes that fit "
                       "equally well these are the shortest in standard units", "drop columns")  # fmt: skip

    def _look_for_separation(self, problem: LinearObjective) -> None:
        """Whether the likelihood alone would have no maximum, by programs of at most MOST_UNKNOWNS unknowns."""
        hint = self._differences(problem, problem.pack(*self._independent()))
        found = Separation("none", np.zeros_like(hint))
        if hint.size <= MOST_UNKNOWNS:
            found = separation(problem.standardised(), problem.y.astype(np.int64), 2, hint)
        self._keep_separation(problem, found, *SEPARATED[self.penalty])

    def _passes(self, census: Census) -> Passes:
        if self.penalty != "l2":
            raise InvalidData(f"the penalty {self.penalty} needs a table that fits in memory; raise the limit, or use "
                              "penalty l2")  # fmt: skip
        self._refuse_misfits()
        yield from super()._passes(census)

    def _refuse_misfits(self) -> None:
        """InvalidParameter where the parameters contradict each other or the number of classes."""
        if self.penalty != "l2" and len(self.classes_) > 2:
            count = len(self.classes_)
            text = f"penalty {self.penalty} is for two classes, not for {count}: use one_vs_rest around it, or l2"
            raise InvalidParameter(text, [Issue("/params/penalty", "two_classes", text)])
        if self.alpha_l2 > 0 and self.penalty != "l1":
            text = f"alpha_l2 stands beside the penalty l1, not {self.penalty}, whose strength is alpha"
            raise InvalidParameter(text, [Issue("/params/alpha_l2", "l1_only", text)])
        if self.penalize_bias and self.penalty != "l2":
            text = f"penalize_bias stands beside the penalty l2; {self.penalty} leaves the bias free"
            raise InvalidParameter(text, [Issue("/params/penalize_bias", "l2_only", text)])

    def _sparse(self, X: Matrix, y: Codes, s: Vector) -> Sparse:
        rows = ClassFactors(self.class_weight_)(X, y, s)
        squared = float(self.alpha_l2) * (self.alpha_ / float(self.alpha))
        return Sparse.of(*rows, Logistic(), self.alpha_, self.fit_intercept, squared)

    def _firth(self, X: Matrix, y: Codes, s: Vector) -> FirthDesign:
        A, t, weight = ClassFactors(self.class_weight_)(X, y, s)
        return FirthDesign.of(A, t, weight / self._copy(float(weight.sum()), len(t)), self.fit_intercept)

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        label, w, b = str(self.classes_[1]), self.coef_[0], float(self.offset_[0])
        if self.penalty == "l2":
            return super()._diagnose(X, y, s)
        if self.penalty == "l1":
            problem = self._sparse(X, y, s)
            unit = self._copy(float(problem.s.sum()), len(problem.s))
            out = sparse_report(problem, w, b, label, int(self.path_length), unit)
        else:
            out = firth_report(self._firth(X, y, s), w, b, label, precise=self.weight_kind == "precision")
        put_run(out, self.solution_)
        out.tables["boundaries"] = self._boundaries()
        if self.separation_ != "none":
            out.matrices["separating_direction"] = self.separating_direction_
        return out
