"""Quadratic discriminant analysis."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import HasPosterior, HasProba, Samples, Scores, Weighted
from ml_core.discriminant import class_report
from ml_core.discriminant.class_gaussians import ByClass, check_loss, class_priors, known
from ml_core.distributions.categorical import Categorical
from ml_core.errors import InvalidData, Issue
from ml_core.naming import listed, name
from ml_core.numerics.gaussian import LOG_2PI, Spectrum, log_densities, pseudo_whitening, root, whitening
from ml_core.numerics.stable import log_softmax
from ml_core.params import RealMatrix, RealStack, RealVector
from ml_core.registry import algorithm
from ml_core.statistics import Moments
from ml_core.sums import Additive, Census, Passes
from ml_core.validation import check_query

AUTO_EPS = 1e-6
REMEDY = "collect more rows, drop the dependent columns, or set regularization to epsilon or pseudo_inverse"


@algorithm("quadratic_discriminant_analysis")
class QuadraticDiscriminantAnalysis(Additive, Weighted, HasProba, HasPosterior, Samples, Scores, Classifier):
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
    tags = ("parametric", "generative")
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
        priors: Annotated[
            RealVector | None, Field(description="Class probabilities in the order of the sorted labels; null: shares.")
        ] = None,
        means: Annotated[RealMatrix | None, Field(description="Known class means (K, d); needs covariances.")] = None,
        covariances: Annotated[
            RealStack | None, Field(description="Known class covariances (K, d, d); needs means.")
        ] = None,
        loss: Annotated[
            RealMatrix | None, Field(description="loss[z][y] of deciding z when y is true (K, K); null: zero-one.")
        ] = None,
        regularization: Annotated[
            Literal["none", "epsilon", "pseudo_inverse"], Field(description="What to do about singular covariances.")
        ] = "none",
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
        self.sums_, self.class_weight_ = sums, np.array([g.total for g in groups])
        check_loss(self.loss, K)
        self.priors_ = class_priors(self.priors, self.class_weight_)
        if self.means is None and self.covariances is None:
            self.means_ = np.stack([g.mean for g in groups])
            S = [self._divide(g, c) for c, g in enumerate(groups)]
            rows = np.array([g.rows for g in groups])
        else:
            self.means_, S = known(self.means, self.covariances, K, d)
            rows = np.full(K, d + 1)
        spectra = [Spectrum.of(A) for A in S]
        self.rank_ = np.array([p.rank for p in spectra], dtype=np.int64)
        self.condition_ = np.array([p.condition for p in spectra])
        self.added_ = np.array([self._epsilon(A, p, S) for A, p in zip(S, spectra, strict=True)])
        self.covariances_ = np.stack(S) + self.added_[:, None, None] * np.eye(d)
        self._warn(rows, d)
        W = [self._whiten(c, p) for c, p in enumerate(spectra)]
        self.whiten_ = np.stack([w for w, _ in W])
        self.log_scale_ = np.array([v for _, v in W])

    def _divide(self, g: Moments, c: int) -> Matrix:
        if g.total > self.ddof:
            return g.scatter / (g.total - self.ddof)
        if g.scatter.any():
            raise InvalidData(f"ddof=1 reads weights as counts, but class {self._label(c)} weighs {g.total:g}")
        return g.scatter

    def _epsilon(self, S: Matrix, spectrum: Spectrum, all_S: list[Matrix]) -> float:
        """What `epsilon` adds to the diagonal of this class."""
        d = len(S)
        if self.regularization != "epsilon":
            return 0.0
        if self.eps is not None:
            return self.eps
        if spectrum.rank == d:
            return 0.0
        trace = float(np.trace(S)) or float(np.mean([np.trace(A) for A in all_S]))
        return AUTO_EPS * (trace / d or 1.0)

    def _label(self, c: int) -> str:
        """The label of class c as the user wrote it."""
        return repr(self.classes_.tolist()[c])

    def _warn(self, rows: Codes, d: int) -> None:
        for c in np.flatnonzero(rows <= d).tolist():
            few = f"class {self._label(c)} has {rows[c]} rows for {d} columns: its covariance is singular"
            self._note("few_rows", few, REMEDY)
        for c in np.flatnonzero(self.rank_ < d).tolist():
            how = f"{self.added_[c]:.6g} was added to its diagonal" if self.added_[c] else "its pseudo-inverse was used"
            if self.regularization != "none":
                self._note("singular_covariance",
                           f"the covariance of class {self._label(c)} has rank {self.rank_[c]} of {d}; {how}",
                           "its densities depend on that choice; compare regularizations by validation")  # fmt: skip

    def _whiten(self, c: int, spectrum: Spectrum) -> tuple[Matrix, float]:
        """W and log|W| of class c, or an error that names it."""
        S, d = self.covariances_[c], len(self.covariances_[c])
        if self.regularization == "pseudo_inverse" and spectrum.rank < d:
            return pseudo_whitening(S, spectrum.rank)
        now = spectrum if self.added_[c] == 0 else Spectrum.of(S)
        if now.rank == d:
            return whitening(S)
        columns, label = spectrum.dependent(), self._label(c)
        raise InvalidData(
            f"the covariance of class {label} is singular: rank {spectrum.rank} of {d}, columns {listed(columns)} are "
            f"constant or linearly dependent within the class; {REMEDY}",
            [Issue(f"/columns/{name(j)}", "singular_covariance", f"dependent within class {label}") for j in columns],
        )

    def class_log_densities(self, X: object) -> Matrix:
        """(n, K) natural logarithms of the class densities p(x | c)."""
        return log_densities(check_query(self, X), self.means_, self.whiten_, self.log_scale_)

    def _joint(self, X: Matrix) -> Matrix:
        """(n, K) log p(x, c)."""
        with np.errstate(divide="ignore"):
            return log_densities(X, self.means_, self.whiten_, self.log_scale_) + np.log(self.priors_)

    def _log_proba(self, X: Matrix) -> Matrix:
        return log_softmax(self._joint(X))

    def _merits(self, X: Matrix) -> Matrix:
        """(n, K) what the decision maximises: log p(x, c), or minus the expected loss."""
        if self.loss is None:
            return self._joint(X)
        return -(np.exp(self._log_proba(X)) @ np.asarray(self.loss, dtype=np.float64).T)

    def _decide(self, X: Matrix) -> Codes:
        m = self._merits(X)
        return (m[:, 1] >= m[:, 0]).astype(np.int64) if m.shape[1] == 2 else m.argmax(axis=1)

    def _scores(self, X: Matrix) -> Vector | Matrix:
        m = self._merits(X)
        if m.shape[1] > 2:
            return m if self.loss is not None else m + 0.5 * X.shape[1] * LOG_2PI
        with np.errstate(invalid="ignore"):
            return np.where(m[:, 1] == m[:, 0], 0.0, m[:, 1] - m[:, 0])

    def _posterior(self, X: Matrix) -> Categorical:
        return Categorical(self.classes_.tolist(), self._proba(X))

    def _sample(self, n: int, rng: np.random.Generator) -> tuple[Matrix, np.ndarray]:
        """A class from the priors, then a row of that class."""
        codes = rng.choice(len(self.priors_), size=n, p=self.priors_)
        rows = rng.standard_normal((n, self.means_.shape[1]))
        for c in np.unique(codes):
            mine = codes == c
            rows[mine] = self.means_[c] + rows[mine] @ root(self.covariances_[c]).T
        return rows, self.classes_[codes]

    def _audit(self, census: Census) -> Passes:
        return (yield from class_report.audit(self))

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """One symmetric rank-k update per class and K factorizations."""
        return Cost(flops=4.0 * n * d + 1.0 * n * d * d + 15.0 * k * d**3, memory_bytes=8.0 * (n * d + 3 * k * d * d))
