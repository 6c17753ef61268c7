"""Logistic and softmax regression."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Classifier, Cost
from ml_core.capabilities import HasProba, Scores, Weighted
from ml_core.certificates import Diagnostics, Table
from ml_core.class_weights import ClassWeight, class_weights
from ml_core.linear.likelihood_report import NOT_IN_MEMORY, put_run, report
from ml_core.linear.likelihood_rows import put_class_rows
from ml_core.linear.linear_decisions import boundaries
from ml_core.linear.parameters import Distance, Parametrization, SmoothSolver, Threshold
from ml_core.losses.base import TwiceSmooth
from ml_core.losses.logistic import Logistic
from ml_core.losses.softmax import Softmax
from ml_core.naming import listed
from ml_core.numerics.column_moments import REACH as LARGEST
from ml_core.numerics.stable import expit, log_expit, log_softmax, softmax
from ml_core.params import Alpha, Intercept, MaxIter, ObjectiveScale, PenalizeBias, Seed, WeightKind
from ml_core.registry import algorithm
from ml_core.solvers.base import Solution, Steps, answered
from ml_core.solvers.linear_minimum import NEWTON_UNKNOWNS, minimum
from ml_core.solvers.linear_objective import Columns, LinearObjective, unit_of
from ml_core.solvers.linear_parts import Asked, ClassColumns, ClassColumnsPart, ClassFactors, Frame, columns_of
from ml_core.solvers.separation import MOST_UNKNOWNS, Separation, separation
from ml_core.solvers.separation_sums import separation_by_sums
from ml_core.sums import Census, Passes

REACH = 5.0


@algorithm("logistic_regression")
class LogisticRegression(Weighted, HasProba, Scores, Classifier):
    """Class probabilities from linear scores: logistic for two classes, softmax for more.

    min over W, b of  Σᵢ sᵢ ℓ(W xᵢ + b, yᵢ) + ½ alpha ‖W‖², the intercept free unless `penalize_bias`; with
    `objective_scale` mean the losses are divided by Σ s (of class weights too). Two classes: ℓ = log(1 + e^η) - y η and
    one score, the log-odds of the second class; K classes: ℓ = log Σₖ e^ηₖ - η_y, with K score vectors that sum to 0
    (`full`) or class 0 held at 0 (`reference`); only differences are determined, and the two agree in their
    probabilities when alpha = 0. Convex. Without a penalty there is no minimum when the classes are separable: the fit
    then stops, says so, and names a separating direction; that search copies X once. Newton O(n d² K²) per Hessian, few
    of them; columns are standardised inside, answers are in the units given.

    Weights repeat rows, or are precisions, which count as one row on average: the same fit, other errors and criteria.
    `decision_function` is the log-odds minus that of `threshold` for two classes. `separation_` is none, quasi or
    complete; `separating_direction_` holds slopes of classes 1 … K-1 against class 0 along which no row loses.
    `bayesian_logistic_regression` is the same fit with the posterior of its weights.

    References
    ----------
    McCullagh, Nelder (1989), Generalized Linear Models, chapters 4 and 5.
    Albert, Anderson (1984), On the existence of maximum likelihood estimates in logistic regression, Biometrika 71.
    """

    complexity = "O(n d² K²) per Hessian, O(n d K) per gradient"
    tags: ClassVar[tuple[str, ...]] = ("parametric", "discriminative", "low_capacity", "linear", "probabilistic")
    largest = LARGEST
    example_params = {"alpha": 1.0}  # noqa: RUF012 - annotated ClassVar in the base

    coef_: Annotated[Matrix, "(1, d) or (K, d) slopes, log-odds per feature unit"]
    intercept_: Annotated[Vector, "(1,) or (K,) log-odds at x = 0"]
    center_: Annotated[Vector, "(d,) the point around which log-odds are computed"]
    offset_: Annotated[Vector, "(q,) independent scores at center_"]
    class_weight_: Annotated[Vector, "(K,) factor on the weight of each class's rows"]
    alpha_: Annotated[float, "penalty in use, on the scale of the sum of losses"]
    n_iter_: Annotated[int, "steps of the solver"]
    solution_: Annotated[Solution, "the solver's answer, unknowns in standardised columns"]
    separation_: Annotated[str, "none, quasi or complete"]
    separating_direction_: Annotated[Matrix, "(K-1, d) slopes against class 0 along which no row loses; 0 if none"]

    def __init__(
        self,
        *,
        alpha: Alpha = 0.0,
        objective_scale: ObjectiveScale = "sum",
        fit_intercept: Intercept = True,
        penalize_bias: PenalizeBias = False,
        weight_kind: WeightKind = "frequency",
        parametrization: Parametrization = "full",
        solver: Annotated[
            SmoothSolver, Field(description="newton is exact to rounding; gradient_descent … amsgrad are for study.")
        ] = "newton",
        tol: Distance = 1e-10,
        max_iter: Annotated[MaxIter, Field(description="Most iterations; epochs of sgd … amsgrad.")] = 200,
        threshold: Threshold = 0.5,
        class_weight: ClassWeight = None,
        random_state: Seed = 0,
    ) -> None:
        self.alpha = alpha
        self.objective_scale = objective_scale
        self.fit_intercept = fit_intercept
        self.penalize_bias = penalize_bias
        self.weight_kind = weight_kind
        self.parametrization = parametrization
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.threshold = threshold
        self.class_weight = class_weight
        self.random_state = random_state

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """About four passes with Hessian and ten without; a search for separation copies X, beside margins."""
        q = max(1, k - 1)
        p = (d + 1) * q
        copied = 0.0 if self.alpha > 0 or p > MOST_UNKNOWNS else 8.0 * n * (d + 1 + 6 * (q + 1))
        flops = 2.0 * n * d * d * q * (q + 1) + 40.0 * n * d * q + 2.0 * p**3
        return Cost(flops=flops, memory_bytes=80.0 * p * p + 8.0 * n + copied)

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        self._weigh(np.bincount(y, s, len(self.classes_)))
        problem = self._problem(X, y, s)
        unit = unit_of(problem.s)
        self._store(self._solve(problem if unit == 1.0 else problem.in_units_of(unit)), problem, unit)
        self._note_findings(problem, self._separation(problem, self.solution_.w, self._least_reach()))

    def _passes(self, census: Census) -> Passes:
        found: ClassColumns = yield ClassColumnsPart(len(self.classes_))
        self._weigh(found.totals())
        columns = found.scaled(self.class_weight_)
        frame = self._frame(columns_of(columns, self.fit_intercept))
        problem, unit = frame.penalty(), unit_of(np.array([columns.total / columns.rows]))
        solver = "newton" if problem.size <= NEWTON_UNKNOWNS else "lbfgs"
        if self.solver != solver:
            self._note("solver_changed", f"{problem.size} unknowns were fitted from chunks by {solver}, not by "
                       f"{self.solver}", f"set solver={solver!r}, or fit a table that fits in memory")  # fmt: skip
        asked, held = Asked(frame.in_units_of(unit)), self._nothing(problem)

        def apart(v: Vector, reach: float) -> Steps[Separation]:
            if self.alpha_ > 0 or asked.reach < reach:
                return self._nothing(problem)
            return (yield from separation_by_sums(frame, self._differences(problem, v)))

        def slow(v: Vector) -> Steps[bool]:
            nonlocal held
            held = yield from apart(v, REACH)
            return held.kind != "none"

        tol, steps = float(self.tol), int(self.max_iter)
        ways = asked.newton(tol, steps, slow) if solver == "newton" else asked.lbfgs(tol, steps)
        self._store((yield from ways), problem, unit)
        if self.solution_.reason != "separable":
            held = yield from apart(self.solution_.w, self._least_reach())
        self._note_findings(problem, held)
        suspected = self.alpha_ == 0 and not self.solution_.converged and asked.reach >= 3 * REACH
        if suspected and held.kind == "none" and held.direction.size > MOST_UNKNOWNS:
            self._note("separation_suspected", f"scores grew to {asked.reach:.3g} without converging, as they do "
                       "where columns separate the classes", "set alpha > 0 (a penalty)")  # fmt: skip

    def _store(self, found: Solution, problem: LinearObjective, unit: float) -> None:
        self.solution_ = replace(found, trace=[unit * f for f in found.trace])
        self.n_iter_ = max(1, self.solution_.n_iter)
        self._keep(*problem.unpack(self.solution_.w, problem.columns.mean), problem.columns.mean)

    def _weigh(self, shares: np.ndarray) -> None:
        """Class weights and the penalty, of the weight of each class's rows (K,)."""
        self.class_weight_ = class_weights(self.class_weight, self.classes_, shares, float(shares.sum()))
        self.alpha_ = self._strength(float(self.class_weight_ @ shares))

    def _strength(self, total: float) -> float:
        return float(self.alpha) * (total if self.objective_scale == "mean" else 1.0)

    def _loss(self) -> TwiceSmooth:
        K = len(self.classes_)
        return Logistic() if K == 2 else Softmax(K, self.parametrization)

    def _problem(self, X: Matrix, y: Codes, s: Vector) -> LinearObjective:
        return LinearObjective(*ClassFactors(self.class_weight_)(X, y, s), self._loss(), alpha=self.alpha_,
                               fit_intercept=self.fit_intercept, penalize_bias=self.penalize_bias)  # fmt: skip

    def _frame(self, columns: Columns) -> Frame:
        return Frame(self._loss(), self.alpha_, self.fit_intercept, columns, ClassFactors(self.class_weight_),
                     self.penalize_bias)  # fmt: skip

    def _solve(self, problem: LinearObjective) -> Solution:
        solver = self.solver
        if solver in ("newton", "irls") and problem.size > NEWTON_UNKNOWNS:
            self._note("solver_changed", f"{problem.size} unknowns are too many for {solver}; lbfgs was used",
                       "choose solver lbfgs, or fewer columns")  # fmt: skip
            solver = "lbfgs"
        return minimum(problem, solver, problem.zero(), tol=float(self.tol), max_iter=int(self.max_iter),
                       slow=lambda v: self._separation(problem, v, REACH).kind != "none",
                       seed=int(self.random_state))  # fmt: skip

    def _nothing(self, problem: LinearObjective) -> Separation:
        return Separation("none", np.zeros((problem.shape[0], len(self.classes_) - 1)))

    def _least_reach(self) -> float:
        """The score from which separation is looked for at the end."""
        return 3 * REACH if self.solution_.converged else 0.0

    def _separation(self, problem: LinearObjective, v: Vector, reach: float) -> Separation:
        """Looked for only once some score exceeds `reach`, by programs of at most MOST_UNKNOWNS unknowns."""
        nothing = self._nothing(problem)
        if self.alpha_ > 0 or nothing.direction.size > MOST_UNKNOWNS or np.abs(problem.predictor(v)).max() < reach:
            return nothing
        codes, hint = problem.y.astype(np.int64), self._differences(problem, v)
        return separation(problem.standardised(), codes, len(self.classes_), hint)

    def _differences(self, problem: LinearObjective, v: Vector) -> Matrix:
        """(D, K-1) unknowns of classes 1 … K-1 less those of class 0."""
        U = v.reshape(problem.shape) @ self._basis().T
        return U if len(self.classes_) == 2 else U[:, 1:] - U[:, :1]

    def _note_findings(self, problem: LinearObjective, found: Separation) -> None:
        self._keep_separation(problem, found, "the coefficients would grow without bound; the fit stopped at a finite "
                              "point", "set alpha > 0 (a penalty), take penalty firth of penalized_logistic_regression")
        if not self.solution_.converged and self.separation_ == "none":
            stopped = f"{self.solver} stopped after {self.solution_.n_iter} steps ({self.solution_.reason})"
            self._note_short(stopped, "raise max_iter, or use solver newton")
        constant = np.flatnonzero(problem.columns.constant).tolist()
        if constant and self.fit_intercept and not problem.penalize_bias:
            self._note("constant_column", f"columns {listed(constant)} are constant; beside an intercept their slope "
                       "is 0", "drop them")  # fmt: skip
        if len(self.classes_) > 2 and self.threshold != 0.5:
            self._note("threshold_unused", "threshold applies to two classes; the largest probability decides", "")

    def _keep_separation(self, problem: LinearObjective, found: Separation, outcome: str, remedy: str) -> None:
        """The kind and direction of a separation, and the notice that names its columns."""
        d = problem.X.shape[1]
        self.separation_ = found.kind
        self.separating_direction_ = np.ascontiguousarray((found.direction[:d] / problem.columns.scale[:, None]).T)
        if found.kind != "none":
            used = np.flatnonzero(np.abs(found.direction[:d]).max(axis=1) > 1e-6).tolist()
            how = "completely" if found.kind == "complete" else "up to rows on the boundary"
            self._note("separable", f"columns {listed(used)} separate the classes {how}: the likelihood has no maximum "
                       f"and {outcome}", f"{remedy}, or drop these columns; see separating_direction_")  # fmt: skip

    def _basis(self) -> Matrix:
        """B (K, q), or (1, 1): from the q independent score vectors to those of coef_ and intercept_."""
        K = len(self.classes_)
        return np.ones((1, 1)) if K == 2 else Softmax(K, self.parametrization).basis

    def _keep(self, W: Matrix, b: Vector, at: Vector) -> None:  # independent scores; far from 0 `at` keeps digits
        self.coef_, self.offset_, self.center_ = np.ascontiguousarray(self._basis() @ W), b, at
        self.intercept_ = self._basis() @ b - self.coef_ @ at

    def _independent(self) -> tuple[Matrix, Vector, Vector]:
        return self._basis().T @ self.coef_, self.offset_, self.center_

    def _linear(self, X: Matrix) -> Matrix:
        if "offset_" not in vars(self):  # a model of an earlier version
            return X @ self.coef_.T + self.intercept_
        return (X - self.center_) @ self.coef_.T + self._basis() @ self.offset_

    def _scores(self, X: Matrix) -> Matrix | Vector:
        eta = self._linear(X)
        return eta if len(self.classes_) > 2 else eta[:, 0] - np.log(self.threshold / (1.0 - self.threshold))

    def _boundaries(self) -> Table:
        shift = np.log(self.threshold / (1.0 - self.threshold)) if len(self.classes_) == 2 else 0.0
        return boundaries(self.classes_.tolist(), self.coef_, self.intercept_ - shift)

    def _proba(self, X: Matrix) -> Matrix:
        eta = self._linear(X)
        return softmax(eta) if len(self.classes_) > 2 else np.hstack([expit(-eta), expit(eta)])

    def _log_proba(self, X: Matrix) -> Matrix:
        eta = self._linear(X)
        return log_softmax(eta) if len(self.classes_) > 2 else np.hstack([log_expit(-eta), log_expit(eta)])

    _decide = Scores._decide

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        problem = self._problem(X, y, s)
        unit = self._copy(float(problem.s.sum()), len(problem.s))
        out = answered(self._report(problem.columns, unit), lambda part: part(X, y, s))
        if self.separation_ == "none" and len(problem.y) == len(y):
            put_class_rows(out, problem.in_units_of(unit), problem.pack(*self._independent()),
                           precise=self.weight_kind == "precision")  # fmt: skip
        return out

    def _copy(self, total: float, rows: int) -> float:
        """The weight that counts as one row."""
        return total / rows if self.weight_kind == "precision" else 1.0

    def _audit(self, census: Census) -> Passes:
        found: ClassColumns = yield ClassColumnsPart(len(self.classes_))
        sums = found.scaled(self.class_weight_)
        out = yield from self._report(columns_of(sums, self.fit_intercept), self._copy(sums.total, sums.rows))
        out.warnings.append(NOT_IN_MEMORY)
        return out

    def _report(self, columns: Columns, unit: float) -> Steps[Diagnostics]:
        frame, labels = self._frame(columns).in_units_of(unit), [str(c) for c in self.classes_]
        v = frame.penalty().pack(*self._independent())
        out = yield from report(frame, v, labels, self.separation_)
        out.summary |= {"iterations": self.solution_.n_iter, "converged": int(self.solution_.converged)}
        put_run(out, self.solution_)
        out.tables["boundaries"] = self._boundaries()
        if self.separation_ != "none":
            out.matrices["separating_direction"] = self.separating_direction_
        return out
