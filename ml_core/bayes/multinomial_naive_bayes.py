"""Multinomial naive Bayes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Classifier, Cost
from ml_core.bundle import portable
from ml_core.capabilities import Weighted
from ml_core.certificates import Diagnostics
from ml_core.discriminant.class_gaussians import check_loss, class_priors
from ml_core.discriminant.class_report import Tallied, classes_table, outline, worst
from ml_core.discriminant.generative import Generative, Losses, Priors
from ml_core.errors import InvalidData
from ml_core.numerics.stable import summed_logs
from ml_core.registry import algorithm
from ml_core.statistics import SLACK, swept
from ml_core.sums import Additive, Census, Passes

HUGE = 1e290
"""Counts from here on may overflow when multiplied by a log probability."""


@portable
@dataclass(frozen=True)
class Totals:
    """The weight of each class (K,) and the weighted sums of its columns (K, d); exact for whole numbers."""

    weight: Vector
    counts: Matrix

    def merge(self, other: Totals) -> Totals:
        """Of both sets of rows."""
        return Totals(self.weight + other.weight, self.counts + other.counts)

    def subtract(self, other: Totals) -> Totals:
        """Without the rows of `other`; InvalidData when they hold more than there was, or all of a class."""
        weight, counts = self.weight - other.weight, self.counts - other.counts
        slack = 10 * SLACK * self.counts
        if (counts < -slack).any() or (weight <= 10 * SLACK * self.weight).any():
            raise InvalidData("these rows hold more counts than the model has seen, or all rows of a class")
        return Totals(weight, swept(counts, slack))


@algorithm("multinomial_naive_bayes")
class MultinomialNaiveBayes(Additive, Weighted, Generative, Classifier):
    """Each row a bag of counts, drawn one by one from the column probabilities of its class.

    g_c(x) = log π_c + Σ_j x_j log θ_cj, posterior P(c | x) = softmax(g(x))_c;
    θ_cj = (N_cj + alpha) / (N_c + alpha d) with N_cj = Σ sᵢx_ij over the rows of class c and N_c = Σ_j N_cj,
    π_c = n_c / n. `alpha` is the count of each column assumed before the first row, a Dirichlet(alpha) prior; numbers
    that are not whole (tf-idf) count as they are. How long a row is says nothing of its class, and log-likelihoods are
    those of the sequence of counts, without the multinomial coefficient. Fit O(n d), a row O(K d). Two classes with
    equal scores: the second; more: the first of the equals. With `loss[z][y]` the decision is
    argmin_z Σ_y loss[z][y] P(y | x).

    With alpha = 0 (maximum likelihood) a column that a class has never shown excludes the class; a row that every class
    excludes gets the class probabilities, and both are told.

    The model is a function of counts: `update`, `forget` and chunks give what one fit to the rows gives, exactly for
    whole counts and weights.

    References
    ----------
    McCallum, Nigam (1998), A comparison of event models for naive Bayes text classification, AAAI workshop.
    Manning, Raghavan, Schütze (2008), Introduction to Information Retrieval, section 13.2.
    """

    complexity = "O(n d)"
    tags = ("parametric", "generative", "low_capacity", "extension")
    accepts = "nonnegative"
    largest = 1e160

    sums_: Annotated[Totals, "weights of the classes and sums of their columns"]
    log_probabilities_: Annotated[Matrix, "(K, d) log θ"]
    priors_: Annotated[Vector, "(K,) class probabilities"]
    class_weight_: Annotated[Vector, "(K,) n_c, the weight of each class"]

    def __init__(
        self,
        *,
        alpha: Annotated[
            float, Field(ge=0, le=1e15, description="Count assumed per class and column; 0 is the MLE.")
        ] = 1.0,
        priors: Priors = None,
        loss: Losses = None,
    ) -> None:
        self.alpha = alpha
        self.priors = priors
        self.loss = loss

    def _sums(self, X: Matrix, y: Codes, s: Vector) -> Totals:
        groups = [np.flatnonzero(y == c) for c in range(len(self.classes_))]
        return Totals(np.array([float(s[g].sum()) for g in groups]), np.stack([s[g] @ X[g] for g in groups]))

    def _solve(self, sums: Totals) -> None:
        K, d = sums.counts.shape
        check_loss(self.loss, K)
        self.sums_, self.class_weight_ = sums, sums.weight
        self.priors_ = class_priors(self.priors, sums.weight)
        total = sums.counts.sum(axis=1) + self.alpha * d
        empty = np.flatnonzero(total == 0).tolist()
        if empty:
            raise InvalidData(f"the rows of class {self._label(empty[0])} hold no counts, so with alpha=0 no column "
                              "has a probability there: set alpha above 0")  # fmt: skip
        with np.errstate(divide="ignore"):
            self.log_probabilities_ = np.log(sums.counts + self.alpha) - np.log(total)[:, None]
        never = int(np.isneginf(self.log_probabilities_).sum())
        if never:
            self._note("zero_probability", f"{never} of the {K * d} probabilities of a column in a class are 0: a "
                       "count there alone excludes the class", "set alpha above 0")  # fmt: skip

    def _class_log_densities(self, X: Matrix) -> Matrix:
        return summed_logs(X, self.log_probabilities_)

    def _discriminants(self, X: Matrix) -> Matrix:
        g = self._joint(X)
        far = np.isneginf(g.max(axis=1)) & (X.max(axis=1) > HUGE)
        if far.any():
            t = summed_logs(X[far] / HUGE, self.log_probabilities_)
            top = t.max(axis=1, keepdims=True)
            with np.errstate(over="ignore", divide="ignore"):
                g[far] = (t - np.where(np.isfinite(top), top, 0.0)) * HUGE + np.log(self.priors_)
        return g

    def _audit(self, census: Census) -> Passes:
        t = yield Tallied(self)
        K, d = self.log_probabilities_.shape
        out: Diagnostics = outline(self, t, K - 1 + K * (d - 1))
        out.tables["classes"] = classes_table(self, counts=self.sums_.counts.sum(axis=1))
        theta = np.exp(self.log_probabilities_)
        out.matrices["probabilities"] = theta
        held: Matrix = self.sums_.counts
        total = np.maximum(held.sum(axis=1, keepdims=True), 1e-300)
        smoothed = t.sums.counts + self.alpha
        slope = smoothed / np.maximum(smoothed.sum(axis=1, keepdims=True), 1e-300) - theta
        out.certificates = [
            worst("count_error", (held - t.sums.counts) / total, 1e-9,
                  "the counts are those of the rows (after an update: of all rows), relative to their class"),
            worst("slope_of_likelihood", slope, 1e-9,
                  "the smoothed likelihood has no slope along the simplex: the probabilities are the shares of counts"),
            worst("probability_sum_error", theta.sum(axis=1) - 1.0, 1e-12, "the probabilities of a class sum to 1"),
        ]  # fmt: skip
        return out

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """One weighted sum over the rows of each class."""
        return Cost(flops=4.0 * n * d + 10.0 * k * d, memory_bytes=8.0 * (n * d + 4 * k * d))
