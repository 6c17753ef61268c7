"""Many classes by one classifier for each pair."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Classifier, Cost
from ml_core.capabilities import Scores
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.class_weights import ClassWeight
from ml_core.multiclass import members_report
from ml_core.multiclass.coupling import coupled, pairwise, slope_error
from ml_core.multiclass.members import Member, Members, Problem
from ml_core.registry import algorithm
from ml_core.validation import check_query

SAMPLE = 256


@algorithm("one_vs_one")
class OneVsOne(Members, Scores, Classifier):
    """One two-class classifier per pair of classes; they vote.

    Member (i, j) learns class j against class i on the rows of these two: K(K-1)/2 fits of about 2n/K rows. Each gives
    its vote to j where its score, else its probability less ½, else ±1 is ≥ 0, else to i. Most votes decide; of equal
    votes the larger sum of scores (for a class minus against it), then the first class. `decision_function` is the
    votes plus the sum z of scores as z / (3(1 + |z|)), which never outweighs a vote. `votes` has the table.

    Probabilities exist when the members have them. With r_ij = P(i | i or j) they minimise
    Σ_{i≠j} (r_ji p_i - r_ij p_j)² over p ≥ 0 with Σ p = 1 (pairwise coupling), which is exact where the pairs agree;
    the largest need not be the class with most votes, and the diagnostics count the rows where it is not. A member
    answers for rows of classes it never saw. Weights of rows and classes are the members'; so are `update` and
    `forget`, which exist where the members have them and keep classes and class weights as fitted.

    References
    ----------
    Hastie, Tibshirani (1998), Classification by pairwise coupling, Annals of Statistics 26.
    Wu, Lin, Weng (2004), Probability estimates for multi-class classification by pairwise coupling, JMLR 5.
    """

    complexity = "K(K-1)/2 times the member's on 2n/K rows"
    example_params: ClassVar[dict[str, Any]] = {
        "estimator": {"algorithm": "logistic_regression", "params": {"alpha": 1.0}}
    }

    estimators_: Annotated[list[Any], "the fitted members, pairs (0, 1), (0, 2) … (1, 2) …; label 1 is the later class"]
    class_weight_: Annotated[Vector, "(K,) factor on the weight of each class's rows"]

    def __init__(self, *, estimator: Member = None, class_weight: ClassWeight = None) -> None:
        self.estimator = estimator
        self.class_weight = class_weight

    def _pairs(self) -> list[tuple[int, int]]:
        K = len(self.classes_)
        return [(i, j) for i in range(K) for j in range(i + 1, K)]

    def _problems(self) -> list[Problem]:
        return [Problem(j, i) for i, j in self._pairs()]

    def votes(self, X: Any) -> Matrix:
        """(n, K) votes for each class."""
        return self._counted(self._margins(check_query(self, X)))[0]

    def _counted(self, F: Matrix) -> tuple[Matrix, Matrix]:
        """(n, K) votes and sums of scores, from the members' scores (n, pairs)."""
        votes, sums = (np.zeros((len(F), len(self.classes_))) for _ in range(2))
        for f, (i, j) in zip(F.T, self._pairs(), strict=True):
            votes[:, j] += f >= 0
            votes[:, i] += f < 0
            sums[:, j] += f
            sums[:, i] -= f
        return votes, sums

    def _scores(self, X: Matrix) -> Vector | Matrix:
        F = self._margins(X)
        if F.shape[1] == 1:
            return F[:, 0]
        votes, sums = self._counted(F)
        return votes + sums / (3 * (np.abs(sums) + 1))

    def _proba(self, X: Matrix) -> Matrix:
        P = self._chances(X)
        return np.hstack([1.0 - P, P]) if P.shape[1] == 1 else coupled(pairwise(P, self._pairs(), len(self.classes_)))

    def _diagnose(self, X: Matrix, y: Codes, s: Vector | None = None) -> Diagnostics:
        out = members_report.outline(self, X, y, s, self._problems())
        votes, _ = self._counted(self._margins(X))
        K, names = len(self.classes_), self.classes_.tolist()
        if K == 2:
            return out
        tied = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1
        out.summary["rows_with_tied_votes"] = int(tied.sum())
        means = [[names[k], *votes[y == k].mean(axis=0).tolist()] for k in range(K) if (y == k).any()]
        out.tables["mean_votes"] = Table(("true_class", *map(str, names)), means)
        if hasattr(self, "predict_proba"):
            P = self._proba(X)
            out.summary["decisions_unlike_largest_probability"] = int((P.argmax(axis=1) != self._decide(X)).sum())
            few = X[np.linspace(0, len(X) - 1, min(len(X), SAMPLE)).round().astype(np.int64)]
            R = pairwise(self._chances(few), self._pairs(), K)
            out.certificates.append(Certificate("coupling_error", slope_error(R, self._proba(few)), 1e-8,
                "the probabilities are stationary for the pairwise coupling of up to 256 rows, relative"))  # fmt: skip
        return out

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The member's on the rows of two classes, for every pair; at once it is a few of them."""
        k = max(k, 2)
        count = k * (k - 1) // 2
        rows = max(1, 2 * n // k)
        one = self._member.cost(rows, d, 2)
        held = (one.memory_bytes + 8.0 * rows * (d + 2)) * min(count, 4)
        return Cost(one.flops * count, held + 16.0 * n * count)
