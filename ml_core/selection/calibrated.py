"""Probabilities for any classifier."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ml_core import params, progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Classifier, Cost, Estimator, clone
from ml_core.capabilities import Follows, HasProba, Scores, Weighted
from ml_core.certificates import Certificate, Diagnostics
from ml_core.errors import InvalidData, InvalidParameter, Issue, placed
from ml_core.numerics.stable import expit, softmax
from ml_core.params import Seed
from ml_core.registry import algorithm, build
from ml_core.selection.splits import folds
from ml_core.solvers.calibration_maps import isotonic, platt, temperature
from ml_core.tags import composed

LEAST = 1e-12


def _classifier(value: Any) -> Estimator:
    found = build(value) if isinstance(value, dict) else value
    if not isinstance(found, Estimator) or getattr(found, "_estimator_type", None) != "classifier":
        text = f"expected a classifier, got {type(found).__name__}"
        raise InvalidParameter(text, [Issue("/algorithm", "not_a_classifier", text)])
    return found


ClassifierSpec = Annotated[Any, *params.nested(_classifier, "estimator")]


@algorithm("calibrated")
class Calibrated(Weighted, HasProba, Scores, Classifier):
    """Probabilities made from a classifier's scores by a map that never turns their order.

    The classifier is fitted on k - 1 of k stratified folds and scores the last; from these held-out scores f a
    non-decreasing map is learned, and the classifier is fitted once more on all rows. Two classes: Platt's
    P = 1/(1 + exp(-(a f + b))) with a ≥ 0, isotonic regression, or a temperature P = 1/(1 + exp(-f/T)). More classes:
    softmax(F/T), or one common map of every class's score, normalised. Scores are `decision_function`, else
    log-probabilities. The largest probability decides; where that differs from the classifier's own label on training
    rows, a notice says how often. Scores that carry nothing give the shares of the classes, never an inverted order.
    Cost: k + 1 fits.

    References
    ----------
    Platt (1999), Probabilistic outputs for support vector machines, Advances in Large Margin Classifiers.
    Lin, Lin, Weng (2007), A note on Platt's probabilistic outputs for support vector machines, Machine Learning 68.
    Zadrozny, Elkan (2002), Transforming classifier scores into accurate multiclass probability estimates, KDD.
    Guo, Pleiss, Sun, Weinberger (2017), On calibration of modern neural networks, ICML.
    """

    complexity = "k + 1 fits of the classifier"
    queue = "long"
    example_params: ClassVar[dict[str, Any]] = {"estimator": {"algorithm": "soft_margin_svm", "params": {}}}
    weighted = Follows(True, lambda c: getattr(c.estimator, "weighted", True))  # type: ignore[misc]
    accepts = Follows("real", lambda c: getattr(c.estimator, "accepts", "real"))
    tags = composed(
        ("composition", "discriminative", "probabilistic"), ("parametric", "low_capacity"), lambda c: [c.estimator]
    )

    estimator_: Classifier
    slope_: Annotated[float, "a of platt, 1/T of temperature; 1 of isotonic"]
    offset_: Annotated[float, "b of platt, else 0"]
    knots_: Annotated[Vector, "(m,) scores where the isotonic map bends; empty for other maps"]
    values_: Annotated[Vector, "(m,) probabilities there"]
    held_out_scores_: Annotated[Matrix, "(n, K) scores by which the map was learned; two classes: (n, 1)"]
    folds_: int

    def __init__(
        self,
        *,
        estimator: Annotated[ClassifierSpec, Field(description="Any classifier.")],
        method: Annotated[
            Literal["platt", "isotonic", "temperature"], Field(description="The map; isotonic wants many rows.")
        ] = "platt",
        n_folds: Annotated[int, Field(ge=2, description="Folds; fewer where a class has fewer rows.")] = 5,
        random_state: Seed = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.n_folds = n_folds
        self.random_state = random_state

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Every fold's fit and the last one."""
        each = _classifier(self.estimator).cost(n, d, k)
        return Cost(flops=each.flops * (self.n_folds + 1), memory_bytes=each.memory_bytes + 16.0 * n * (d + k))

    def _fit(self, X: Matrix, y: Codes, s: Vector | None = None) -> None:
        with placed("/params/estimator"):
            base = _classifier(self.estimator)
            params.validate(type(base), base.get_params(deep=False))
        least = int(np.bincount(y).min())
        if least < 2:
            name = self.classes_[int(np.bincount(y).argmin())]
            raise InvalidData(f"class {str(name)!r} has a single row; calibration scores rows that were held out and "
                              "needs two of each class")  # fmt: skip
        self.folds_, weight = min(self.n_folds, least), np.ones(len(y)) if s is None else s
        if self.folds_ < self.n_folds:
            self._note("fewer_folds", f"{self.folds_} folds: the rarest class has {least} rows")
        held: Matrix = np.empty((len(y), 1 if len(self.classes_) == 2 else len(self.classes_)))
        for k, (train, test) in enumerate(folds(len(y), self.folds_, seed=int(self.random_state), y=y)):
            progress.tick(k, self.folds_ + 1, "fits")
            with progress.share(self.folds_ + 1 - k):
                fitted = self._fitted(base, X[train], y[train], None if s is None else s[train])
            held[test] = self._raw(fitted, X[test])
        self.held_out_scores_ = held
        self._learn(held, y, weight)
        self.estimator_ = self._fitted(base, X, y, s)
        own, told = self.estimator_.predict(X), self.classes_[self._decide(X)]
        if (own != told).any():
            self._note("labels_changed", f"on {int(np.sum(own != told))} of {len(y)} training rows the largest "
                       "probability names another class than the classifier",
                       "predictions follow the probability")  # fmt: skip

    def _fitted(self, base: Estimator, X: Matrix, y: Codes, s: Vector | None) -> Classifier:
        model: Any = clone(base)
        labels = self.classes_[y]
        fitted: Classifier = model.fit(X, labels) if s is None else model.fit(X, labels, sample_weight=s)
        return fitted

    def _raw(self, model: Any, X: Matrix) -> Matrix:
        """(n, 1) or (n, K) scores."""
        if hasattr(model, "decision_function"):
            F = model.decision_function(X)
            return np.asarray(F[:, None] if F.ndim == 1 else F)
        if not hasattr(model, "predict_proba"):
            hit = model.predict(X)[:, None] == self.classes_
            return np.asarray(hit[:, 1:] if hit.shape[1] == 2 else hit, dtype=np.float64)
        L = np.log(np.maximum(model.predict_proba(X), 1e-300))
        return np.asarray(L[:, 1:] - L[:, :1] if L.shape[1] == 2 else L)

    def _learn(self, F: Matrix, y: Codes, s: Vector) -> None:
        """The map; one-against-rest pairs of all classes are pooled where there are more than two."""
        self.slope_, self.offset_, self.knots_, self.values_ = 1.0, 0.0, np.empty(0), np.empty(0)
        flat = F.ravel()
        hit = (np.arange(F.shape[1]) == y[:, None]).ravel() if F.shape[1] > 1 else y == 1
        weight = np.repeat(s, F.shape[1])
        if self.method == "temperature":
            self.slope_ = temperature(F if F.shape[1] > 1 else np.hstack([0 * F, F]), y, s)
        elif self.method == "platt":
            self.slope_, self.offset_ = platt(flat, hit.astype(np.float64), weight)
        else:
            self.knots_, self.values_ = isotonic(flat, hit.astype(np.float64), weight)
        if self.slope_ == 0 or (self.method == "isotonic" and len(np.unique(self.values_)) < 2):
            self._note("uninformative_scores", "held-out scores do not rise with the class, so every row gets the same "
                       "probabilities", "the classifier has learned nothing that holds on other rows")  # fmt: skip

    def _mapped(self, F: Matrix) -> Matrix:
        """(n, K) probabilities from scores."""
        if self.method == "temperature" and F.shape[1] > 1:
            return softmax(self.slope_ * F)
        if self.method == "isotonic":
            P = np.interp(F, self.knots_, self.values_)
        else:
            P = expit(self.slope_ * F + self.offset_)
        if F.shape[1] == 1:
            return np.hstack([1.0 - P, P])
        P = np.maximum(P, LEAST)
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    def _proba(self, X: Matrix) -> Matrix:
        return self._mapped(self._raw(self.estimator_, X))

    def _scores(self, X: Matrix) -> Matrix | Vector:
        F = self._raw(self.estimator_, X)
        if F.shape[1] > 1:
            return F
        P = self._mapped(F)[:, 1]  # ≥ 0 exactly where the second class is the more probable
        return np.asarray(P - 0.5)

    def _decide(self, X: Matrix) -> Codes:
        P = self._proba(X)
        return np.asarray((P[:, 1] >= 0.5).astype(np.int64) if P.shape[1] == 2 else P.argmax(axis=1))

    def _diagnose(self, X: Matrix, y: Codes, s: Vector | None = None) -> Diagnostics:
        weight = np.ones(len(y)) if s is None else s
        F = self._raw(self.estimator_, X)
        P = self._mapped(F)
        out = Diagnostics(summary={"slope": self.slope_, "offset": self.offset_, "folds": self.folds_})
        drop = 0.0
        pairs = zip(F.T, P[:, 1:].T, strict=True) if F.shape[1] == 1 else zip(F, P, strict=True)
        for row_scores, row_p in pairs:
            order = np.argsort(row_scores, kind="stable")
            drop = max(drop, float(-np.diff(row_p[order]).min(initial=0.0)))
        out.certificates = [
            Certificate("order", drop, 1e-12, "a larger score never has a smaller probability"),
            Certificate("sums", float(np.abs(P.sum(axis=1) - 1).max()), 1e-12, "probabilities of a row sum to 1"),
        ]
        if len(self.held_out_scores_) == len(y):
            held = self._mapped(self.held_out_scores_)
            told = held[np.arange(len(y)), y]
            hit = np.eye(len(self.classes_))[y]
            out.summary["held_out_log_loss"] = float(-np.average(np.log(np.maximum(told, 1e-300)), weights=weight))
            out.summary["held_out_brier_score"] = float(np.average(((held - hit) ** 2).sum(axis=1), weights=weight))
            out.summary["held_out_accuracy"] = float(np.average(held.argmax(axis=1) == y, weights=weight))
            out.curves["reliability"] = _reliability(held[:, -1], y == len(self.classes_) - 1, weight)
        return out


def _reliability(p: Vector, hit: np.ndarray, s: Vector) -> dict[str, Any]:
    """Mean probability and observed share of the last class in ten bins of held-out rows; empty bins are left out."""
    bins = np.minimum((10 * p).astype(np.int64), 9)
    weight = np.bincount(bins, s, 10)
    on = weight > 0
    return {"x": np.bincount(bins, s * p, 10)[on] / weight[on], "y": np.bincount(bins, s * hit, 10)[on] / weight[on],
            "weight": weight[on]}  # fmt: skip
