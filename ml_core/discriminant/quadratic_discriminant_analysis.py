"""Quadratic discriminant analysis."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import Weighted
from ml_core.discriminant import gaussian_report
from ml_core.discriminant.class_gaussians import ByClass, both, check_loss, class_priors, known
from ml_core.discriminant.generative import Generative, Losses, Priors, SamplesByClass
from ml_core.discriminant.precision import ADVICE, REMEDY, Precision, Regularization, Singularity
from ml_core.errors import InvalidData
from ml_core.numerics.gaussian import LOG_2PI, log_densities, root
from ml_core.params import RealMatrix, RealStack
from ml_core.registry import algorithm
from ml_core.statistics import Moments
from ml_core.sums import Additive, Census, Passes


@algorithm("quadratic_discriminant_analysis")
class QuadraticDiscriminantAnalysis(Additive, Weighted, Generative, SamplesByClass, Classifier):
    """Each class a Gaussian with its own covariance; the most probable class, or the one of least expected loss.

    g_c(x) = -½(x - m_c)ᵀ S_c⁻¹ (x - m_c) - ½ log|S_c| + log π_c, posterior P(c | x) = softmax(g(x))_c;
    m_c = Σ sᵢxᵢ / n_c, S_c = Σ sᵢ(xᵢ - m_c)(xᵢ - m_c)ᵀ / (n_c - ddof), π_c = n_c / n over the rows of class c.
    Fit O(n d² + K d³), a row O(K d²). Two classes with equal scores: the second; more: the first of the equals.

    With `means` and `covariances` the distributions are known and nothing but the priors is learned. A singular S_c is
    an error that names its class and columns, unless `regularization` says what to do: `epsilon` adds eps·I,
    `pseudo_inverse` uses S_c⁺ and the product of the non-zero eigenvalues. With `loss[z][y]`, the cost of deciding z
    when y is true, the decision is argmin_z Σ_y loss[z][y] P(y | x) and the scores are negative expected losses.

    The model is a function of the sums of its classes: `update`, `forget` and chunks give what one fit to the rows
    gives, up to 16 - log₁₀(condition) digits, less those of the share of the scatter that is left after `forget`.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 2nd ed., section 4.3.
    McLachlan (1992), Discriminant Analysis and Statistical Pattern Recognition, Wiley.
    """

    complexity = "O(n d² + K d³)"
    tags = ("parametric", "generative", "low_capacity")
    largest = SQUARES

    sums_: Annotated[ByClass, "moments of the rows seen of each class"]
    means_: Annotated[Matrix, "(K, d) class means"]
    covariances_: Annotated[np.ndarray, "(K, d, d) class covariances as used, regularization included"]
    priors_: Annotated[Vector, "(K,) class probabilities"]
    whiten_: Annotated[np.ndarray, "(K, d, d) W with S⁻¹ = W Wᵀ"]
    log_scale_: Annotated[Vector, "(K,) log|W| = -½ log|S|"]
    class_weight_: Annotated[Vector, "(K,) n_c, the weight of each class"]
    rank_: Annotated[Codes, "(K,) ranks before regularization"]
    condition_: Annotated[Vector, "(K,) condition numbers of the class correlation matrices before regularization"]
    added_: Annotated[Vector, "(K,) what was added to the diagonal of S"]

    def __init__(
        self,
        *,
        ddof: Annotated[Literal[0, 1], Field(description="Divisor n_c - ddof of the covariances; 0 is the MLE.")] = 0,
        priors: Priors = None,
        means: Annotated[RealMatrix | None, Field(description="Known class means (K, d); needs covariances.")] = None,
        covariances: Annotated[
            RealStack | None, Field(description="Known class covariances (K, d, d); needs means.")
        ] = None,
        loss: Losses = None,
        regularization: Annotated[Regularization, Field(description="What to do about singular covariances.")] = "none",
        eps: Annotated[
            float | None,
            Field(gt=0, description="Added to every S_c by epsilon, units²; null: 1e-6 tr(S_c)/d where singular."),
        ] = None,
    ) -> None:
        self.ddof = ddof
        self.priors = priors
        self.means = means
        self.covariances = covariances
        self.loss = loss
        self.regularization = regularization
        self.eps = eps

    def _sums(self, X: Matrix, y: Codes, s: Vector) -> ByClass:
        return ByClass.of(X, y, s, len(self.classes_))

    def _solve(self, sums: ByClass) -> None:
        groups, K, d = sums.parts, len(sums.parts), len(sums.parts[0].mean)
        self.sums_, self.class_weight_ = sums, sums.weight
        check_loss(self.loss, K)
        self.priors_ = class_priors(self.priors, self.class_weight_)
        if both(self.means, self.covariances, "covariances"):
            self.means_, S = known(self.means, self.covariances, K, d)
            rows = np.full(K, d + 1)
        else:
            self.means_, rows = np.stack([g.mean for g in groups]), sums.rows
            S = [self._divide(g, c) for c, g in enumerate(groups)]
        spare = float(np.mean([np.trace(A) for A in S]))
        how = Singularity(self.regularization, self.eps, spare)
        parts = [how.precision(A, f"the covariance of class {self._label(c)}", "within the class")
                 for c, A in enumerate(S)]  # fmt: skip
        self.rank_ = np.array([p.rank for p in parts], dtype=np.int64)
        self.condition_ = np.array([p.condition for p in parts])
        self.added_ = np.array([p.added for p in parts])
        self.covariances_ = np.stack([p.covariance for p in parts])
        self.whiten_ = np.stack([p.whiten for p in parts])
        self.log_scale_ = np.array([p.log_scale for p in parts])
        self._warn(rows, parts, d)

    def _divide(self, g: Moments, c: int) -> Matrix:
        if g.total > self.ddof:
            return g.scatter / (g.total - self.ddof)
        if g.scatter.any():
            raise InvalidData(f"ddof=1 reads weights as counts, but class {self._label(c)} weighs {g.total:g}")
        return g.scatter

    def _warn(self, rows: Codes, parts: list[Precision], d: int) -> None:
        for c in np.flatnonzero(rows <= d).tolist():
            few = f"class {self._label(c)} has {rows[c]} rows for {d} columns: its covariance is singular"
            self._note("few_rows", few, REMEDY)
        for c, p in enumerate(parts):
            if p.singular:
                self._note("singular_covariance", f"the covariance of class {self._label(c)} {p.remark}", ADVICE)

    def _class_log_densities(self, X: Matrix) -> Matrix:
        return log_densities(X, self.means_, self.whiten_, self.log_scale_)

    def _discriminants(self, X: Matrix) -> Matrix:
        return self._joint(X) + 0.5 * X.shape[1] * LOG_2PI

    def _draw(self, c: int, n: int, rng: np.random.Generator) -> Matrix:
        z = rng.standard_normal((n, self.means_.shape[1]))
        return np.asarray(self.means_[c] + z @ root(self.covariances_[c]).T)

    def _audit(self, census: Census) -> Passes:
        return (yield from gaussian_report.quadratic(self))

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """One symmetric rank-k update per class and K factorizations."""
        return Cost(flops=4.0 * n * d + 1.0 * n * d * d + 15.0 * k * d**3, memory_bytes=8.0 * (n * d + 3 * k * d * d))
