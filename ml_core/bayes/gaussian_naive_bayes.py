"""Gaussian naive Bayes."""

from __future__ import annotations

from functools import reduce
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import Weighted
from ml_core.certificates import Diagnostics, Table
from ml_core.discriminant.class_gaussians import ByClass, check_loss, class_priors
from ml_core.discriminant.class_report import Tallied, classes_table, outline, worst
from ml_core.discriminant.generative import Generative, Losses, Priors, SamplesByClass
from ml_core.errors import InvalidData, Issue
from ml_core.naming import listed, name
from ml_core.numerics.column_sums import ColumnSums
from ml_core.numerics.gaussian import LOG_2PI, log_densities
from ml_core.registry import algorithm
from ml_core.sums import Additive, Census, Passes
from ml_core.validation import check_squares

LEAST = float(np.finfo(float).tiny)
REMEDY = "drop the columns, collect more rows of the class, or set smoothing (1e-9 is enough to compute)"


@algorithm("gaussian_naive_bayes")
class GaussianNaiveBayes(Additive, Weighted, Generative, SamplesByClass, Classifier):
    """Each column of each class a Gaussian of its own, independent of the other columns given the class.

    g_c(x) = log π_c - ½ Σ_j [log 2π v_cj + (x_j - m_cj)² / v_cj], posterior P(c | x) = softmax(g(x))_c;
    m_cj = Σ sᵢx_ij / n_c, v_cj = Σ sᵢ(x_ij - m_cj)² / (n_c - ddof) + smoothing · V_j, π_c = n_c / n over the rows of
    class c, V_j the variance of column j over all rows. Fit O(n d), a row O(K d). Two classes with equal scores: the
    second; more: the first of the equals. With `loss[z][y]` the decision is argmin_z Σ_y loss[z][y] P(y | x).

    Nothing is smoothed unless `smoothing` says so. A column that is constant over all rows says nothing of the class
    and is left out with a warning; one that is constant within a class alone has no density there: an error that names
    both, unless it is smoothed. Changing the unit or origin of a column changes no posterior.

    The model is a function of the sums of its classes: `update`, `forget` and chunks give what one fit to the rows
    gives, to 12 digits, less those of the share of the variance that is left after `forget`.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 2nd ed., section 6.6.3.
    Chan, Golub, LeVeque (1983), Algorithms for computing the sample variance, The American Statistician 37(3).
    """

    complexity = "O(n d)"
    tags = ("parametric", "generative", "low_capacity", "extension")
    largest = SQUARES

    sums_: Annotated[ByClass, "moments of the columns over the rows seen of each class"]
    means_: Annotated[Matrix, "(K, d) class means"]
    variances_: Annotated[
        Matrix, "(K, d) class variances as used, smoothing included; NaN where the column is left out"
    ]
    priors_: Annotated[Vector, "(K,) class probabilities"]
    class_weight_: Annotated[Vector, "(K,) n_c, the weight of each class"]
    added_: Annotated[Vector, "(d,) what smoothing added to the variances of each column"]
    whiten_: Annotated[np.ndarray, "(K, d, 1) reciprocal standard deviations; 0 where the column is left out"]
    log_scale_: Annotated[Vector, "(K,) -½ Σ log v, and ½ log 2π for each column that is left out"]

    def __init__(
        self,
        *,
        smoothing: Annotated[
            float, Field(ge=0, le=1e6, description="Share of a column's variance added to its class variances.")
        ] = 0.0,
        ddof: Annotated[Literal[0, 1], Field(description="Divisor n_c - ddof of the variances; 0 is the MLE.")] = 0,
        priors: Priors = None,
        loss: Losses = None,
    ) -> None:
        self.smoothing = smoothing
        self.ddof = ddof
        self.priors = priors
        self.loss = loss

    def _sums(self, X: Matrix, y: Codes, s: Vector) -> ByClass:
        return ByClass.columns(X, y, s, len(self.classes_))

    def _solve(self, sums: ByClass) -> None:
        check_loss(self.loss, len(sums.parts))
        self.sums_, self.class_weight_ = sums, sums.weight
        self.priors_ = class_priors(self.priors, self.class_weight_)
        self.means_ = np.stack([g.mean for g in sums.parts])
        overall = reduce(ColumnSums.merge, sums.parts)
        check_squares(np.where(overall.sd**2 < LEAST, overall.sd, 0.0), type(self).__name__, self.largest)
        self.added_ = self.smoothing * overall.sd**2
        V = np.stack([self._spread(g, c) for c, g in enumerate(sums.parts)])
        self._settle(V, overall.constant)
        kept = ~overall.constant
        self.variances_ = np.where(kept, V + self.added_, np.nan)
        W = np.where(kept, 1.0 / np.sqrt(np.where(kept, self.variances_, 1.0)), 0.0)
        self.whiten_ = W[:, :, None]
        self.log_scale_ = np.log(W[:, kept]).sum(axis=1) + 0.5 * LOG_2PI * int((~kept).sum())

    def _spread(self, g: ColumnSums, c: int) -> Vector:
        """(d,) the variances within class c, 0 where they are too small to have all digits."""
        square = np.where(g.sd**2 < LEAST, 0.0, g.sd**2)
        if self.ddof == 0 or not g.sd.any():
            return square
        if g.total <= 1:
            raise InvalidData(f"ddof=1 reads weights as counts, but class {self._label(c)} weighs {g.total:g}")
        return square * (g.total / (g.total - 1))

    def _settle(self, V: Matrix, constant: np.ndarray) -> None:
        """Tell of columns that do not vary (d,); refuse a variance of 0 within a class that is not smoothed away."""
        if constant.any():
            self._note("constant_column", f"columns {listed(np.flatnonzero(constant))} are the same in every row and "
                       "were left out", "drop them, they say nothing of the class")  # fmt: skip
        for c, none in enumerate((V == 0) & ~constant):
            columns = np.flatnonzero(none).tolist()
            if not columns:
                continue
            said = f"columns {listed(columns)} do not vary within class {self._label(c)} ({self.sums_.rows[c]} rows)"
            if (self.added_[columns] == 0).any():
                raise InvalidData(f"{said}, so their density is infinite: {REMEDY}",
                                  [Issue(f"/columns/{name(j)}", "zero_variance",
                                         f"constant within class {self._label(c)}") for j in columns])  # fmt: skip
            self._note("zero_variance", f"{said}; there smoothing alone is their variance",
                       "the posterior depends on it; compare values of smoothing by validation")  # fmt: skip

    def _class_log_densities(self, X: Matrix) -> Matrix:
        return log_densities(X, self.means_, self.whiten_, self.log_scale_)

    def _draw(self, c: int, n: int, rng: np.random.Generator) -> Matrix:
        sd = np.sqrt(np.nan_to_num(self.variances_[c]))
        return np.asarray(self.means_[c] + rng.standard_normal((n, len(sd))) * sd)

    def _audit(self, census: Census) -> Passes:
        t = yield Tallied(self)
        (K, d), kept = self.means_.shape, self.whiten_[0, :, 0] > 0
        out: Diagnostics = outline(self, t, K - 1 + 2 * K * int(kept.sum()))
        out.summary["columns_left_out"] = int((~kept).sum())
        out.tables["classes"] = classes_table(self)
        cells = [[c, j, self.means_[k, j], self.variances_[k, j] if kept[j] else None]
                 for k, c in enumerate(self.classes_.tolist()) for j in range(d)]  # fmt: skip
        out.tables["densities"] = Table(("class", "column", "mean", "variance"), cells)
        shift, spread = [np.zeros(1)], [np.zeros(1)]
        for k, g in enumerate(t.sums.parts):
            if g.rows:
                W = self.whiten_[k, :, 0]
                free = g.total / (g.total - self.ddof) if g.total > self.ddof else 1.0
                shift.append((g.mean - self.means_[k]) * W)
                spread.append((W**2 * (g.sd**2 * free + self.added_) - 1)[kept])
        out.certificates = [
            worst("largest_standardised_mean", np.concatenate(shift), 1e-6,
                  "the likelihood has no slope in any class mean"),
            worst("largest_variance_error", np.concatenate(spread), 1e-6,
                  "nor in any class variance; they are those of the rows, smoothing included"),
        ]  # fmt: skip
        return out

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Two passes over the rows of each class."""
        return Cost(flops=12.0 * n * d + 10.0 * k * d, memory_bytes=8.0 * (n * d + 6 * k * d))
