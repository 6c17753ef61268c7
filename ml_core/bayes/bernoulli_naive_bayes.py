"""Bernoulli naive Bayes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Classifier, Cost
from ml_core.capabilities import Follows, Weighted
from ml_core.certificates import Diagnostics
from ml_core.discriminant.class_gaussians import check_loss, class_priors
from ml_core.discriminant.class_report import Tallied, classes_table, outline, worst
from ml_core.discriminant.generative import Generative, Losses, Priors, SamplesByClass
from ml_core.numerics.stable import summed_logs
from ml_core.registry import algorithm
from ml_core.statistics import Counts
from ml_core.sums import Additive, Census, Passes


@algorithm("bernoulli_naive_bayes")
class BernoulliNaiveBayes(Additive, Weighted, Generative, SamplesByClass, Classifier):
    """Each 0/1 column of each class a coin of its own, independent of the other columns given the class.

    g_c(x) = log π_c + Σ_j [x_j log φ_cj + (1 - x_j) log(1 - φ_cj)], posterior P(c | x) = softmax(g(x))_c;
    φ_cj = (Σ sᵢx_ij + alpha) / (n_c + 2 alpha), π_c = n_c / n over the rows of class c. `alpha` is the number of ones
    and of zeros seen in each column before the first row, a Beta(alpha, alpha) prior. Fit O(n d), a row O(K d). Two
    classes with equal scores: the second; more: the first of the equals. With `loss[z][y]` the decision is
    argmin_z Σ_y loss[z][y] P(y | x).

    With alpha = 0 (maximum likelihood) a value that a class has never shown excludes the class; a row that every class
    excludes gets the class probabilities, and both are told. Absence counts as evidence, unlike in the multinomial
    model. With one column the posterior is that of the contingency table.

    The model is a function of counts: `update`, `forget` and chunks give what one fit to the rows gives, exactly for
    whole weights.

    References
    ----------
    McCallum, Nigam (1998), A comparison of event models for naive Bayes text classification, AAAI workshop.
    Manning, Raghavan, Schütze (2008), Introduction to Information Retrieval, section 13.3.
    """

    complexity = "O(n d)"
    tags = ("parametric", "generative", "low_capacity")
    example_params: ClassVar[dict[str, Any]] = {"binarize": 40.0}
    accepts = Follows("binary", lambda model: "binary" if model.binarize is None else "real")

    sums_: Annotated[Counts, "weight of ones and zeros, (K, d) each"]
    probabilities_: Annotated[Matrix, "(K, d) φ, the probability of a one"]
    log_ones_: Annotated[Matrix, "(K, d) log φ"]
    log_zeros_: Annotated[Matrix, "(K, d) log(1 - φ)"]
    priors_: Annotated[Vector, "(K,) class probabilities"]
    class_weight_: Annotated[Vector, "(K,) n_c, the weight of each class"]

    def __init__(
        self,
        *,
        alpha: Annotated[
            float, Field(ge=0, le=1e15, description="Ones and zeros assumed per class and column; 0 is the MLE.")
        ] = 1.0,
        binarize: Annotated[
            float | None,
            Field(allow_inf_nan=False, description="Values above this are ones; null takes 0/1 data only."),
        ] = None,
        priors: Priors = None,
        loss: Losses = None,
    ) -> None:
        self.alpha = alpha
        self.binarize = binarize
        self.priors = priors
        self.loss = loss

    def _bits(self, X: Matrix) -> Matrix:
        return X if self.binarize is None else np.greater(X, self.binarize).astype(np.float64)

    def _sums(self, X: Matrix, y: Codes, s: Vector) -> Counts:
        K, d = len(self.classes_), X.shape[1]
        ones, zeros = np.zeros((K, d)), np.zeros((K, d))
        for c in range(K):
            rows = np.flatnonzero(y == c)
            F = self._bits(X[rows])
            ones[c], zeros[c] = s[rows] @ F, s[rows] @ (1.0 - F)
        return Counts(ones, zeros)

    def _solve(self, sums: Counts) -> None:
        check_loss(self.loss, len(sums.ones))
        self.sums_, self.class_weight_ = sums, sums.ones[:, 0] + sums.zeros[:, 0]
        self.priors_ = class_priors(self.priors, self.class_weight_)
        total = sums.ones + sums.zeros + 2 * self.alpha
        self.probabilities_ = (sums.ones + self.alpha) / total
        with np.errstate(divide="ignore"):
            self.log_ones_ = np.log((sums.ones + self.alpha) / total)
            self.log_zeros_ = np.log((sums.zeros + self.alpha) / total)
        certain = int(np.isneginf(self.log_ones_).sum() + np.isneginf(self.log_zeros_).sum())
        if certain:
            self._note("zero_probability", f"{certain} of the {2 * total.size} probabilities of a value in a class are "
                       "0: that value alone excludes the class", "set alpha above 0")  # fmt: skip

    def _class_log_densities(self, X: Matrix) -> Matrix:
        F = self._bits(X)
        return summed_logs(F, self.log_ones_) + summed_logs(1.0 - F, self.log_zeros_)

    def _draw(self, c: int, n: int, rng: np.random.Generator) -> Matrix:
        p = self.probabilities_[c]
        return np.asarray((rng.random((n, len(p))) < p).astype(np.float64))

    def _audit(self, census: Census) -> Passes:
        t = yield Tallied(self)
        K, d = self.probabilities_.shape
        out: Diagnostics = outline(self, t, K - 1 + K * d)
        out.tables["classes"] = classes_table(self)
        out.matrices["probabilities"] = self.probabilities_
        ones, zeros, a = t.sums.ones, t.sums.zeros, self.alpha
        n = np.maximum(self.sums_.ones + self.sums_.zeros, 1e-300)
        counted = np.abs([self.sums_.ones - ones, self.sums_.zeros - zeros])
        slope = self.probabilities_ * (zeros + a) - (1.0 - self.probabilities_) * (ones + a)
        out.certificates = [
            worst("count_error", counted / n, 1e-9, "the counts are those of the rows (after an update: of all rows)"),
            worst("slope_of_likelihood", slope / (n + 2 * a), 1e-9,
                  "the smoothed likelihood has no slope in any probability, relative to the rows of the class"),
            worst("probability_sum_error", np.exp(self.log_ones_) + np.exp(self.log_zeros_) - 1.0, 1e-12,
                  "the probabilities of one and zero sum to 1"),
        ]  # fmt: skip
        return out

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Two weighted sums over the rows of each class."""
        return Cost(flops=6.0 * n * d + 10.0 * k * d, memory_bytes=8.0 * (2 * n * d + 5 * k * d))
