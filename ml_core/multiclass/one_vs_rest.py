"""Many classes by one classifier for each against all others."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Classifier, Cost
from ml_core.capabilities import Scores
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.class_weights import ClassWeight
from ml_core.multiclass import members_report
from ml_core.multiclass.members import Member, Members, Problem
from ml_core.registry import algorithm


@algorithm("one_vs_rest")
class OneVsRest(Members, Scores, Classifier):
    """One two-class classifier per class, against all other classes together.

    Member k learns class k against the rest, on all rows: K fits. Class argmax_k f_k(x), f_k the member's score, else
    its probability less ½, else ±1; of equal ones the first class. `k_minus_1` leaves out the last class, which is then
    the one where no member says yes (f_k ≥ 0): its score is 0. Two classes need one member, for the second. The scores
    of members are comparable only as far as their scales are: of logistic models they are, of boundaries with free
    lengths not.

    Probabilities exist when the members have them: P(k | x) = p_k / Σ p, equal ones where all are 0; with `k_minus_1`
    the last class has ∏(1 - p_k) before that. They are those of K separate questions made to sum to 1, no joint model.
    The diagnostics count the rows where no member or several say yes, which plain votes could not decide. Weights of
    rows and classes are the members'; so are `update` and `forget`, which exist where the members have them and keep
    classes and class weights as fitted.

    References
    ----------
    Rifkin, Klautau (2004), In defense of one-vs-all classification, Journal of Machine Learning Research 5.
    Bishop (2006), Pattern Recognition and Machine Learning, section 4.1.2.
    """

    complexity = "K times the member's"
    example_params: ClassVar[dict[str, Any]] = {
        "estimator": {"algorithm": "logistic_regression", "params": {"alpha": 1.0}}
    }

    estimators_: Annotated[list[Any], "the fitted members; their labels are 1, the class, and 0"]
    class_weight_: Annotated[Vector, "(K,) factor on the weight of each class's rows"]

    def __init__(
        self,
        *,
        estimator: Member = None,
        k_minus_1: Annotated[
            bool, Field(description="No member for the last class, which is none of the others.")
        ] = False,
        class_weight: ClassWeight = None,
    ) -> None:
        self.estimator = estimator
        self.k_minus_1 = k_minus_1
        self.class_weight = class_weight

    def _problems(self) -> list[Problem]:
        K = len(self.classes_)
        return [Problem(1)] if K == 2 else [Problem(k) for k in range(K - self.k_minus_1)]

    def _all(self, X: Matrix) -> Matrix:
        """(n, K) scores of more than two classes."""
        f = self._margins(X)
        return np.hstack([f, np.zeros((len(f), 1))]) if self.k_minus_1 else f

    def _scores(self, X: Matrix) -> Vector | Matrix:
        return self._margins(X)[:, 0] if len(self.classes_) == 2 else self._all(X)

    def _proba(self, X: Matrix) -> Matrix:
        P = self._chances(X)
        if len(self.classes_) == 2:
            return np.hstack([1.0 - P, P])
        if self.k_minus_1:
            P = np.column_stack([P, np.prod(1.0 - P, axis=1)])
        total = P.sum(axis=1, keepdims=True)
        return np.where(total > 0, P / np.where(total > 0, total, 1.0), 1.0 / P.shape[1])

    def _diagnose(self, X: Matrix, y: Codes, s: Vector | None = None) -> Diagnostics:
        out = members_report.outline(self, X, y, s, self._problems())
        if len(self.classes_) > 2:
            yes = (self._margins(X) >= 0).sum(axis=1)
            out.summary |= {"rows_without_a_yes": int((yes == 0).sum()), "rows_with_several": int((yes > 1).sum())}
            out.tables["members_saying_yes"] = Table(
                ("members", "rows"), [[int(k), int(c)] for k, c in enumerate(np.bincount(yes)) if c]
            )
        if hasattr(self, "predict_proba"):
            P = self._proba(X)
            bad = float(np.abs(P.sum(axis=1) - 1).max())
            out.certificates.append(Certificate("probability_sum_error", bad, 1e-12, "the probabilities sum to 1"))
            out.summary["decisions_unlike_largest_probability"] = int((P.argmax(axis=1) != self._decide(X)).sum())
        return out

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The member's, K times; at once it is a few of them."""
        count = 1 if k <= 2 else k - self.k_minus_1
        one = self._member.cost(n, d, 2)
        return Cost(one.flops * count, one.memory_bytes * min(count, 4) + 16.0 * n * max(k, 2))
