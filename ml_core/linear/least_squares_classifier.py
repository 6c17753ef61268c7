"""Classification by least squares on class indicators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import Scores, Weighted
from ml_core.certificates import Certificate
from ml_core.linear import linear_decisions
from ml_core.linear.linear_decisions import Decisions
from ml_core.linear.linear_sums import LinearSums
from ml_core.naming import listed
from ml_core.params import Intercept
from ml_core.registry import algorithm
from ml_core.solvers.linear_model import solve_design
from ml_core.sums import Additive, Census, Passes
from ml_core.validation import check_query


@algorithm("least_squares_classifier")
class LeastSquaresClassifier(Additive, Weighted, Scores, Classifier):
    """One least-squares score for each class, the largest decides.

    min over W, b of  Σᵢ sᵢ ‖tᵢ - Wxᵢ - b‖², tᵢ the indicator of the class of row i (n, K): W~ = X~⁺T, O(n d² + n d K).
    Class argmax_k f_k(x), of equal scores the first; two classes: the second where f₂ ≥ f₁, which is 0/1 regression cut
    at ½. With an intercept the K scores of a row sum to 1, but they may leave [0, 1]: they are no probabilities. Rows
    far on the right side of the boundary pull it towards them, so far rows cost correct ones, and with more than two
    classes a middle one can be masked. `decision_function` is f₂ - f₁ of two classes, `class_scores` all K. With
    collinear columns the solution of least norm is taken and a notice names the columns.

    The fit sees the rows through a triangular root of their scatter, so chunks, `update` and `forget` give what one fit
    to the rows gives, with 16 - log₁₀(cond) digits.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 2nd ed., section 4.2.
    Bishop (2006), Pattern Recognition and Machine Learning, section 4.1.3.
    """

    complexity = "O(n d² + n d K)"
    tags = ("parametric", "direct", "low_capacity", "linear", "closed_form")
    largest = SQUARES

    sums_: Annotated[LinearSums, "a triangular root of the scatter of columns and indicators"]
    coef_: Annotated[Matrix, "(1, d) of two classes, the difference of their slopes; else (K, d)"]
    intercept_: Annotated[Vector, "(1,) of two classes, else (K,): scores at x = 0"]
    weights_: Annotated[Matrix, "(d, K) slopes of all scores"]
    center_: Annotated[Vector, "(d,) the point around which scores are computed"]
    offset_: Annotated[Vector, "(K,) scores at center_"]
    rank_: Annotated[int, "rank of [1, X]"]
    rss_: Annotated[Vector, "(K,) weighted residual sum of squares of each score"]

    def __init__(
        self, *, fit_intercept: Intercept = True
    ) -> None:
        self.fit_intercept = fit_intercept

    def _sums(self, X: Matrix, y: Codes, s: Vector) -> LinearSums:
        return LinearSums.of(X, np.eye(len(self.classes_))[y], s, self.fit_intercept)

    def _solve(self, sums: LinearSums) -> None:
        fit = solve_design(sums.design())
        self.sums_, self.weights_, self.center_, self.offset_ = sums, fit.coef, fit.center, fit.offset
        self.rank_, self.rss_ = fit.rank, fit.rss
        W, b = fit.coef.T, fit.intercept
        two = len(b) == 2
        self.coef_ = np.ascontiguousarray(W[1:] - W[:1] if two else W)
        self.intercept_ = b[1:] - b[:1] if two else b
        p = sums.columns + self.fit_intercept
        if fit.rank < p:
            self._note("rank_deficient", f"rank {fit.rank} of {p} columns (with the intercept's); columns "
                       f"{listed(fit.aliased)} are combinations of others; the solution of least norm was taken",
                       "drop redundant columns, or use penalised logistic regression")  # fmt: skip

    def class_scores(self, X: object) -> Matrix:
        """(n, K) least-squares scores, no probabilities."""
        return self._linear(check_query(self, X))

    def _linear(self, X: Matrix) -> Matrix:
        return np.asarray((X - self.center_) @ self.weights_ + self.offset_)

    def _scores(self, X: Matrix) -> Vector | Matrix:
        f = self._linear(X)
        return f if f.shape[1] > 2 else np.asarray(f[:, 1] - f[:, 0])

    def _audit(self, census: Census) -> Passes:
        t: Decisions = yield Decided(self)
        out, found = linear_decisions.outline(self, t), t.more
        out.summary |= {
            "rank": self.rank_, "least_score": found.low, "largest_score": found.high,
            "rows_outside_unit_interval": found.outside, "rss": float(self.rss_.sum()),
        }  # fmt: skip
        first = 0 if self.fit_intercept else 1
        slope = np.abs(found.gradient[first:]) / np.where(found.size[first:] > 0, found.size[first:], 1.0)
        out.certificates = [Certificate("normal_equations", float(slope.max(initial=0.0)), 1e-10,
                                        "[1, X]ᵀS(T - F) = 0, relative to the size of the terms")]  # fmt: skip
        if self.fit_intercept:
            text = "the K scores of every row sum to 1, relative to the largest"
            out.certificates.append(Certificate("scores_sum_error", found.sum_error, 1e-9, text))
        return out

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The triangle of columns and indicators."""
        return Cost(flops=2.0 * n * (d + k) ** 2 + 20.0 * min(n, d) * d * d, memory_bytes=24.0 * n * (d + k))


@dataclass(frozen=True)
class Found:
    """[1, X - center]ᵀS(T - F) and the size of its terms (1 + d, K); extremes of the scores, rows outside [0, 1]."""

    gradient: Matrix
    size: Matrix
    low: float
    high: float
    outside: int
    sum_error: float

    def merge(self, other: Found) -> Found:
        """Of both sets of rows."""
        return Found(self.gradient + other.gradient, self.size + other.size, min(self.low, other.low),
                     max(self.high, other.high), self.outside + other.outside,
                     max(self.sum_error, other.sum_error))  # fmt: skip


@dataclass(frozen=True)
class Decided:
    """The part whose total is `Decisions`, with `Found`."""

    model: LeastSquaresClassifier

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> Decisions:
        """Of the rows of X."""
        m, K = self.model, len(self.model.classes_)
        F = m._linear(X)
        R = np.eye(K)[y] - F
        A = np.hstack([np.ones((len(X), 1)), X - m.center_])
        size = np.abs(A).T @ (s[:, None] * (1 + np.abs(F)))
        outside = int(((F < 0) | (F > 1)).any(axis=1).sum())
        off = float((np.abs(F.sum(axis=1) - 1) / (1 + np.abs(F).max(axis=1))).max())
        found = Found(A.T @ (s[:, None] * R), size, float(F.min()), float(F.max()), outside, off)
        return Decisions(len(X), linear_decisions.confusion(y, m._decide(X), s, K), found)
