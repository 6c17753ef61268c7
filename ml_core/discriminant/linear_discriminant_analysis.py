"""Linear discriminant analysis."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import Weighted
from ml_core.discriminant import gaussian_report
from ml_core.discriminant.class_gaussians import (
    ByClass,
    both,
    check_loss,
    class_priors,
    known_covariance,
    known_means,
    pooled,
)
from ml_core.discriminant.generative import Generative, Losses, Priors, SamplesByClass
from ml_core.discriminant.precision import ADVICE, REMEDY, Regularization, Singularity
from ml_core.errors import InvalidData
from ml_core.numerics.gaussian import log_densities, root
from ml_core.params import RealMatrix
from ml_core.registry import algorithm
from ml_core.sums import Additive, Census, Passes

FAR = 2.0**600


@algorithm("linear_discriminant_analysis")
class LinearDiscriminantAnalysis(Additive, Weighted, Generative, SamplesByClass, Classifier):
    """Classes that are Gaussians with one covariance; the scores are linear, the posterior that of a logistic model.

    g_c(x) = m_cᵀS⁻¹x - ½ m_cᵀS⁻¹m_c + log π_c, posterior P(c | x) = softmax(g(x))_c; S = Σ_c Σ sᵢ(xᵢ - m_c)(xᵢ - m_c)ᵀ
    / (n - K ddof), m_c the mean and π_c = n_c / n the share of class c. Of two classes the second has the log-odds
    wᵀx + b with w = S⁻¹(m₂ - m₁) and b = ½(m₁ᵀS⁻¹m₁ - m₂ᵀS⁻¹m₂) + log(π₂/π₁): `coef_` and `intercept_`. Of more
    classes they are those of g with x measured from the centre of the class means, which changes no difference of
    scores and lets no offset cost digits. Fit O(n d² + d³), a row O(K d). Two classes with equal scores: the second.

    With `means` and `covariance` the distributions are known and nothing but the priors is learned. A singular S is an
    error that names its columns, unless `regularization` says what to do: `epsilon` adds eps·I, `pseudo_inverse` uses
    S⁺ and the product of the non-zero eigenvalues. With `loss[z][y]`, the cost of deciding z when y is true, the
    decision is argmin_z Σ_y loss[z][y] P(y | x) and the scores are negative expected losses.

    The model is a function of the sums of its classes: `update`, `forget` and chunks give what one fit to the rows
    gives, up to 16 - log₁₀(condition) digits, less those of the share of the scatter that is left after `forget`.

    References
    ----------
    Fisher (1936), The use of multiple measurements in taxonomic problems, Annals of Eugenics 7(2).
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 2nd ed., section 4.3.
    """

    complexity = "O(n d² + d³)"
    tags = ("parametric", "generative", "low_capacity", "linear")
    largest = SQUARES

    sums_: Annotated[ByClass, "moments of the rows seen of each class"]
    means_: Annotated[Matrix, "(K, d) class means"]
    covariance_: Annotated[Matrix, "(d, d) the shared covariance as used, regularization included"]
    priors_: Annotated[Vector, "(K,) class probabilities"]
    coef_: Annotated[Matrix, "(1, d) of two classes, else (K, d): slopes, log-odds per feature unit"]
    intercept_: Annotated[Vector, "(1,) of two classes, else (K,): scores at x = 0"]
    slopes_: Annotated[Matrix, "(K, d) slopes of the scores, equal up to a shared term"]
    constants_: Annotated[Vector, "(K,) scores at the centre"]
    whiten_: Annotated[Matrix, "(d, d) W with S⁻¹ = W Wᵀ"]
    log_scale_: Annotated[float, "log|W| = -½ log|S|"]
    center_: Annotated[Vector, "(d,) the mean of the class means"]
    class_weight_: Annotated[Vector, "(K,) n_c, the weight of each class"]
    rank_: Annotated[int, "rank of S before regularization"]
    condition_: Annotated[float, "condition number of the pooled correlation matrix before regularization"]
    added_: Annotated[float, "what was added to the diagonal of S"]

    def __init__(
        self,
        *,
        ddof: Annotated[
            Literal[0, 1], Field(description="Divisor n - K·ddof of the covariance; 0 is the MLE, 1 unbiased.")
        ] = 0,
        priors: Priors = None,
        means: Annotated[RealMatrix | None, Field(description="Known class means (K, d); needs covariance.")] = None,
        covariance: Annotated[
            RealMatrix | None, Field(description="Known covariance of every class (d, d); needs means.")
        ] = None,
        loss: Losses = None,
        regularization: Annotated[
            Regularization, Field(description="What to do about a singular covariance.")
        ] = "none",
        eps: Annotated[
            float | None,
            Field(gt=0, description="Added to S by epsilon, units²; null: 1e-6 tr(S)/d where singular."),
        ] = None,
    ) -> None:
        self.ddof = ddof
        self.priors = priors
        self.means = means
        self.covariance = covariance
        self.loss = loss
        self.regularization = regularization
        self.eps = eps

    def _sums(self, X: Matrix, y: Codes, s: Vector) -> ByClass:
        return ByClass.of(X, y, s, len(self.classes_))

    def _solve(self, sums: ByClass) -> None:
        K, d = len(sums.parts), len(sums.parts[0].mean)
        self.sums_, self.class_weight_ = sums, sums.weight
        check_loss(self.loss, K)
        self.priors_ = class_priors(self.priors, self.class_weight_)
        given = both(self.means, self.covariance, "covariance")
        if given:
            self.means_ = known_means(self.means, K, d)
            S = known_covariance(self.covariance, d, "covariance")
        else:
            self.means_, S = np.stack([g.mean for g in sums.parts]), self._divide(sums)
        how = Singularity(self.regularization, self.eps, 0.0)
        p = how.precision(S, "the covariance" if given else "the pooled covariance", "within the classes")
        self.covariance_, self.whiten_, self.log_scale_ = p.covariance, p.whiten, p.log_scale
        self.rank_, self.condition_, self.added_ = p.rank, p.condition, p.added
        if not given and sums.rows.sum() - K < d:
            self._note("few_rows", f"{sums.rows.sum()} rows of {K} classes leave {sums.rows.sum() - K} degrees of "
                       f"freedom for {d} columns: the covariance is singular", REMEDY)  # fmt: skip
        if p.singular:
            self._note("singular_covariance", f"the shared covariance {p.remark}", ADVICE)
        self._linear()

    def _divide(self, sums: ByClass) -> Matrix:
        """The pooled covariance."""
        scatter, total = pooled(sums), float(self.class_weight_.sum())
        free = total - self.ddof * len(sums.parts)
        if free <= 0 and scatter.any():
            raise InvalidData(f"ddof=1 reads weights as counts, but {len(sums.parts)} classes weigh {total:g}")
        return scatter / (free if free > 0 else 1.0)

    def _linear(self) -> None:
        """The scores as linear functions of x - center; two means are equally far from it, so that term is shared."""
        self.center_ = self.means_.mean(axis=0)
        U = (self.means_ - self.center_) @ self.whiten_
        with np.errstate(divide="ignore"):
            log_priors = np.log(self.priors_)
        self.slopes_ = U @ self.whiten_.T
        if len(U) > 2:
            self.constants_ = log_priors - 0.5 * (U * U).sum(axis=1)
            w, b = self.slopes_, self.constants_
        else:
            self.constants_ = log_priors
            w, b = self.slopes_[1:] - self.slopes_[:1], log_priors[1:] - log_priors[:1]
        self.coef_, self.intercept_ = w, b - w @ self.center_

    def _class_log_densities(self, X: Matrix) -> Matrix:
        K, d = self.means_.shape
        with np.errstate(over="ignore", invalid="ignore"):
            Z = (X - self.center_) @ self.whiten_
        U = (self.means_ - self.center_) @ self.whiten_
        return log_densities(Z, U, np.ones((K, d, 1)), np.full(K, self.log_scale_))

    def _discriminants(self, X: Matrix) -> Matrix:
        with np.errstate(over="ignore", invalid="ignore"):
            g = (X - self.center_) @ self.slopes_.T
            if not math.isfinite(g.sum()):
                far = ~np.isfinite(g).all(axis=1)
                t = (X[far] / FAR - self.center_ / FAR) @ self.slopes_.T
                g[far] = (t - t.max(axis=1, keepdims=True)) * FAR
        g += self.constants_
        return np.asarray(g)

    def distances(self) -> Matrix:
        """(K, K) Mahalanobis distances between the class means."""
        D = self.means_[:, None, :] - self.means_
        return np.asarray(np.sqrt(((D @ self.whiten_) ** 2).sum(axis=2)))

    def _draw(self, c: int, n: int, rng: np.random.Generator) -> Matrix:
        z = rng.standard_normal((n, self.means_.shape[1]))
        return np.asarray(self.means_[c] + z @ root(self.covariance_).T)

    def _audit(self, census: Census) -> Passes:
        return (yield from gaussian_report.linear(self))

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """One symmetric rank-k update per class, one factorization."""
        return Cost(flops=4.0 * n * d + 1.0 * n * d * d + 15.0 * d**3, memory_bytes=8.0 * (n * d + 2 * (k + 2) * d * d))
