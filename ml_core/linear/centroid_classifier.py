"""Classification by the nearest mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import Scores, Weighted
from ml_core.certificates import Certificate, Table
from ml_core.discriminant.class_gaussians import ByClass
from ml_core.linear import linear_decisions
from ml_core.linear.linear_decisions import Decisions
from ml_core.registry import algorithm
from ml_core.sums import Additive, Census, Passes

EPS = float(np.finfo(float).eps)


@algorithm("centroid_classifier")
class CentroidClassifier(Additive, Weighted, Scores, Classifier):
    """The class whose mean is nearest.

    Of two classes with means m₁, m₂: f(x) = (m₂ - m₁)·(x - (m₁ + m₂)/2), the second where f ≥ 0; the boundary is the
    perpendicular bisector, f = w·x + b with w = m₂ - m₁ and b = -½(‖m₂‖² - ‖m₁‖²). Of more: the largest of
    f_k(x) = m_k·x - ½‖m_k‖², measured from the centre of the means so that an offset costs no digits; of equal scores
    the first class. Fit O(n d), a row O(K d). It is the Bayes rule of equally likely Gaussian classes that share a
    spherical covariance; units count, so scale the columns first. There are no probabilities: linear discriminant
    analysis has them.

    The model is a function of the sums of its classes: `update`, `forget` and chunks give what one fit to the rows
    gives.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 2nd ed., section 4.3.
    Tibshirani, Hastie, Narasimhan, Chu (2002), Diagnosis of multiple cancer types by shrunken centroids, PNAS 99.
    """

    complexity = "O(n d)"
    tags = ("parametric", "direct", "low_capacity", "linear", "closed_form")
    largest = SQUARES

    sums_: Annotated[ByClass, "means and variances of the columns over the rows seen of each class"]
    centroids_: Annotated[Matrix, "(K, d) class means"]
    center_: Annotated[Vector, "(d,) the mean of the class means"]
    coef_: Annotated[Matrix, "(1, d) of two classes, else (K, d): slopes of the scores"]
    intercept_: Annotated[Vector, "(1,) of two classes, else (K,): scores at x = 0"]
    constants_: Annotated[Vector, "(1,) or (K,) scores at the centre"]

    def __init__(self) -> None:
        pass

    def _sums(self, X: Matrix, y: Codes, s: Vector) -> ByClass:
        return ByClass.columns(X, y, s, len(self.classes_))

    def _solve(self, sums: ByClass) -> None:
        self.sums_ = sums
        self.centroids_ = np.stack([g.mean for g in sums.parts])
        self.center_ = self.centroids_.mean(axis=0)
        U = self.centroids_ - self.center_
        if len(U) == 2:
            self.coef_, self.constants_ = U[1:] - U[:1], np.zeros(1)
        else:
            self.coef_, self.constants_ = U, -0.5 * (U * U).sum(axis=1)
        self.intercept_ = self.constants_ - self.coef_ @ self.center_
        same = [k for k in range(len(U)) if (U[:k] == U[k]).all(axis=1).any()]
        if same:
            names = ", ".join(repr(self.classes_.tolist()[k]) for k in same)
            self._note("equal_means", f"the means of {names} are those of another class, which ties with it everywhere",
                       "these columns do not tell the classes apart by their means")  # fmt: skip

    def _linear(self, X: Matrix) -> Matrix:
        return np.asarray((X - self.center_) @ self.coef_.T + self.constants_)

    def _scores(self, X: Matrix) -> Vector | Matrix:
        f = self._linear(X)
        return f[:, 0] if len(self.classes_) == 2 else f

    def _audit(self, census: Census) -> Passes:
        t: Decisions = yield Decided(self)
        out = linear_decisions.outline(self, t)
        K, names = len(self.classes_), self.classes_.tolist()
        groups: ByClass = t.more
        spread = np.sqrt(sum(g.total * g.sd**2 for g in groups.parts) / groups.weight.sum())
        unit = np.maximum(spread, EPS * np.abs(self.centroids_).max(axis=0)) + np.ptp(self.centroids_, axis=0)
        off = [np.abs(g.mean - m) / np.where(unit > 0, unit, 1.0)
               for g, m in zip(groups.parts, self.centroids_, strict=True) if g.rows]  # fmt: skip
        U = self.centroids_ - self.center_
        middles = np.stack([0.5 * (self.centroids_[j] + self.centroids_[k]) for k in range(K) for j in range(k)])
        f = self._linear(middles)
        f = np.hstack([np.zeros_like(f), f]) if K == 2 else f
        pairs = [(j, k) for k in range(K) for j in range(k)]
        gap = np.array([abs(f[i, k] - f[i, j]) for i, (j, k) in enumerate(pairs)])
        top = float(np.linalg.norm(U, axis=1).max())
        size = top * (top + float(np.linalg.norm(self.center_))) or 1.0
        out.certificates = [
            Certificate("largest_mean_error", float(np.max(off, initial=0.0)), 1e-9,
                        "the means are those of the rows, relative to the spread within and between the classes"),
            Certificate("bisector_error", float(gap.max() / size), 1e-12,
                        "halfway between two means their scores are equal, relative to ‖m - c‖ (‖m - c‖ + ‖c‖)"),
        ]  # fmt: skip
        counts = zip(names, groups.weight.tolist(), groups.rows.tolist(), strict=True)
        out.tables["classes"] = Table(("class", "weight", "rows"), list(map(list, counts)))
        out.matrices["means"] = self.centroids_
        return out

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Two passes over the rows of each class."""
        return Cost(flops=12.0 * n * d, memory_bytes=8.0 * (n * d + 4 * k * d))


@dataclass(frozen=True)
class Decided:
    """The part whose total is `Decisions`, with the sums of the classes."""

    model: CentroidClassifier

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> Decisions:
        """Of the rows of X."""
        m = self.model
        return Decisions(len(X), linear_decisions.confusion(y, m._decide(X), s, len(m.classes_)), m._sums(X, y, s))
