"""The multi-class support vector machine of one common margin."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import Scores, Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.class_weights import ClassWeight
from ml_core.numerics.column_moments import column_moments
from ml_core.params import MaxIter, Seed, Tol
from ml_core.registry import algorithm
from ml_core.solvers.crammer_singer import ahead, crammer_singer, objectives, violation
from ml_core.svm.class_weights import class_factors
from ml_core.svm.kernel_svm import Penalty, Scaled
from ml_core.svm.report import MOST_ROWS

EPS = float(np.finfo(float).eps)


@algorithm("crammer_singer_svm")
class CrammerSingerSVM(Weighted, Scores, Classifier):
    """Linear scores of all classes at once, with a margin between the own class and every other.

    min ½ Σᵣ‖Mᵣ‖² + C Σᵢ cᵢsᵢ ξᵢ,  M_{yᵢ}·xᵢ - Mᵣ·xᵢ ≥ 1 - [r = yᵢ] - ξᵢ for all i, r; the label of largest score is
    predicted. The intercept is the slope of a column of ones and penalised with the rest. At the optimum Σᵣ Mᵣ = 0;
    for two classes M₁ - M₀ is `soft_margin_svm` without intercept for the price 2C. Dual: rows α (n, K), Σᵣ αᵢᵣ = 0,
    αᵢᵣ ≤ C cᵢsᵢ [r = yᵢ], Mᵣ = Σ αᵢᵣ xᵢ; it is raised row by row, all classes at once, exactly, O(n d K) a round with
    shrinking of rows and classes, and ended by the linear system of the free α, at most about K d. With
    `scale` x are standardised columns; columns of very different units may need it to converge.
    Primal, dual, gap, slacks and each row's margin M_y·x - max over other classes are in the diagnostics.

    References
    ----------
    Crammer, Singer (2001), On the algorithmic implementation of multiclass kernel-based vector machines, JMLR 2.
    Keerthi, Sundararajan, Chang, Hsieh, Lin (2008), A sequential dual method for large scale multi-class linear SVMs,
    KDD.
    """

    queue = "long"
    complexity = "O(n d K) per round"
    tags = ("parametric", "direct", "low_capacity", "linear", "maximum_margin")
    largest = SQUARES
    example_params = {"C": 1.0, "scale": True}  # noqa: RUF012 - annotated ClassVar in the base

    coef_: Annotated[Matrix, "(K, d) slopes of each class's score"]
    intercept_: Annotated[Vector, "(K,) scores at x = 0"]
    offset_: Annotated[Vector, "(K,) scores at center_"]
    dual_: Annotated[Matrix, "(n, K) α of the rows of positive weight"]
    center_: Annotated[Vector, "(d,) subtracted from the columns; 0 unless scaled"]
    scale_: Annotated[Vector, "(d,) the columns are divided by; 1 unless scaled"]
    class_weight_: Annotated[Vector, "(K,) factor on C of each class's rows"]
    n_iter_: Annotated[int, "rounds over the rows"]
    dual_trace_: Vector
    gap_trace_: Vector

    def __init__(
        self,
        *,
        C: Penalty = 1.0,
        fit_intercept: Annotated[bool, Field(description="A penalised intercept per class; otherwise 0.")] = True,
        scale: Scaled = False,
        class_weight: ClassWeight = None,
        tol: Annotated[Tol, Field(description="Largest violation of a row's conditions, in score units.")] = 1e-5,
        max_iter: Annotated[MaxIter, Field(description="Most rounds over the rows.")] = 20_000,
        random_state: Seed = 0,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Some hundred rounds."""
        return Cost(flops=600.0 * n * d * k, memory_bytes=8.0 * n * (d + k + 4))

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        self.class_weight_ = class_factors(self.class_weight, self.classes_, y, s)
        d = X.shape[1]
        mean, sd, constant = column_moments(X, s) if self.scale else (np.zeros(d), np.ones(d), np.zeros(d, dtype=bool))
        self.center_, self.scale_ = mean, np.where(constant, 1.0, sd)
        cap, Z = self.C * s * self.class_weight_[y], self._design(X)
        K = len(self.classes_)
        found = crammer_singer(Z, y, cap, K, tol=float(self.tol), max_iter=int(self.max_iter),
                               seed=int(self.random_state))  # fmt: skip
        W = found.alpha.T @ Z
        self.coef_ = np.ascontiguousarray(W[:, :d] / self.scale_)
        self.offset_ = W[:, -1] if self.fit_intercept else np.zeros(K)
        self.intercept_ = self.offset_ - self.coef_ @ self.center_
        self.dual_, self.n_iter_ = found.alpha, found.n_iter
        self.dual_trace_, self.gap_trace_ = np.array(found.trace), np.array(found.gaps)
        if found.violation > self.tol:
            self._note_short(f"stopped after {found.n_iter} rounds with a duality gap of "
                             f"{found.gaps[-1]:.3g}", "set scale, raise max_iter or lower C")  # fmt: skip

    def _design(self, X: Matrix) -> Matrix:
        """Columns as the objective sees them, with one of ones for the intercept."""
        Z = (X - self.center_) / self.scale_ if self.scale else X
        return np.column_stack([Z, np.ones(len(X))]) if self.fit_intercept else Z

    def _scores(self, X: Matrix) -> Matrix | Vector:
        near = "offset_" in vars(self)  # models of earlier versions have the scores at 0 alone
        F = (X - self.center_) @ self.coef_.T + self.offset_ if near else X @ self.coef_.T + self.intercept_
        return F if F.shape[1] > 2 else F[:, 1] - F[:, 0]

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        W = self.coef_ * self.scale_
        if self.fit_intercept:
            W = np.column_stack([W, self.offset_])
        F, cap = self._design(X) @ W.T, self.C * s * self.class_weight_[y]
        own = F[np.arange(len(F)), y]
        other = np.where(np.arange(F.shape[1]) == y[:, None], -np.inf, F).max(axis=1)
        slack = np.maximum(0.0, 1.0 - (own - other))
        out = Diagnostics(summary={"training_accuracy": float(np.average(self._decide(X) == y, weights=s)),
                                   "rounds": self.n_iter_, "total_slack": float(slack.sum())})  # fmt: skip
        out.matrices["coef"] = self.coef_
        size = float(np.abs(W).sum(axis=0).max()) + 1e-300
        out.certificates.append(Certificate("sum_of_scores", float(np.abs(W.sum(axis=0)).max()) / size, 1e-9,
                                            "Σ over the classes of their slopes is 0, relative"))  # fmt: skip
        if len(X) == len(self.dual_):
            G, each = ahead(F, y), self.dual_[np.arange(len(F)), y]
            primal, dual = objectives(G, y, cap, self.dual_, W)
            worst, score = violation(G, y, cap, self.dual_), 256 * EPS * (float(np.abs(F).max()) + 1)
            rounding = score * (cap.sum() + np.abs(self.dual_).sum())
            out.summary |= {"primal": primal, "dual": dual, "duality_gap": primal - dual,
                            "largest_violation": worst, "support_vectors": int(np.sum(self.dual_.any(axis=1))),
                            "zero": int(np.sum(each <= 0)), "free": int(np.sum((each > 0) & (each < cap))),
                            "bound": int(np.sum(each >= cap))}  # fmt: skip
            out.certificates.append(Certificate(
                "kkt_violation", worst, self.tol + 2 * score,
                "a row's highest score with the margin less the lowest whose α may rise, at most"))  # fmt: skip
            out.certificates.append(Certificate("duality_gap", primal - dual, float(self.tol * cap.sum() + rounding),
                                                "primal less dual objective; at most tol times C Σ s"))  # fmt: skip
            out.traces["dual_objective"], out.traces["duality_gap"] = self.dual_trace_, self.gap_trace_
        least = np.argsort(own - other, kind="stable")[:MOST_ROWS]
        out.tables["smallest_margins"] = Table(
            ("row", "label", "margin", "slack"),
            [[int(i), str(self.classes_[y[i]]), float(own[i] - other[i]), float(slack[i])] for i in least])  # fmt: skip
        return out
