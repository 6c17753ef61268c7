"""The figures of `metrics.summary` over rows that come in chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ml_core.arrays import Vector
from ml_core.base import Estimator
from ml_core.certificates import finite
from ml_core.metrics.summary import metrics
from ml_core.metrics.verdict import weight_of_labels
from ml_core.sums import Chunks, total

Figures = dict[str, float | int | None]


@dataclass(frozen=True)
class Spread:
    """Of targets (q outputs): weight, range, mean, Σ s(t - mean)² and Σ s(t - prediction)², (q,) each."""

    weight: float
    low: Vector
    high: Vector
    mean: Vector
    around_mean: Vector
    around_fit: Vector

    def merge(self, other: Spread) -> Spread:
        """Of both sets of rows; `around_mean` by the formula of Chan, Golub and LeVeque."""
        weight = self.weight + other.weight
        delta = other.mean - self.mean
        return Spread(
            weight, np.minimum(self.low, other.low), np.maximum(self.high, other.high),
            self.mean + delta * (other.weight / weight),
            self.around_mean + other.around_mean + delta**2 * (self.weight * other.weight / weight),
            self.around_fit + other.around_fit,
        )  # fmt: skip

    def explained(self) -> float | None:
        """R², the mean over outputs of 1 - Σ s(t - f)² / Σ s(t - mean)²; None when an output is constant."""
        if (self.low == self.high).any():
            return None
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return finite(float(np.mean(1.0 - self.around_fit / self.around_mean)))


@dataclass(frozen=True)
class Scores:
    """Rows, weight, weighted means of figures by name (None where one has no meaning), and the spread of targets."""

    rows: int
    weight: float
    means: Figures
    zeros: int
    spread: Spread | None
    labels: dict[Any, float] | None = None
    """Weight of each label, of classes."""

    def outside_largest(self) -> float | None:
        """Share of the weight outside the most frequent label; None where there are none."""
        return None if not self.labels else 1 - max(self.labels.values()) / sum(self.labels.values())

    def merge(self, other: Scores) -> Scores:
        """Of both sets of rows."""
        rows, weight = self.rows + other.rows, self.weight + other.weight
        if not self.weight or not other.weight:
            one = self if self.weight else other
            return replace(one, rows=rows, weight=weight)
        pairs = {k: (v, other.means[k]) for k, v in self.means.items()}
        means: Figures = {k: None if a is None or b is None else a + (b - a) * (other.weight / weight)
                          for k, (a, b) in pairs.items()}  # fmt: skip
        spread = None if self.spread is None or other.spread is None else self.spread.merge(other.spread)
        labels = {k: sum(of.get(k, 0.0) for of in (self.labels or {}, other.labels or {}))
                  for k in {**(self.labels or {}), **(other.labels or {})}}  # fmt: skip
        return Scores(rows, weight, means, self.zeros + other.zeros, spread, labels or None)


@dataclass(frozen=True)
class _Scored:
    """The part that scores a chunk."""

    model: Any

    def __call__(self, X: Any, y: Any, s: Any) -> Scores:
        return scores_of(self.model, X, y, s)


def scores_of(model: Any, X: Any, y: Any, s: Any) -> Scores:
    """The figures of some rows in a form that merges with those of others, be they predicted by another model."""
    weights = np.ones(len(X)) if s is None else np.asarray(s, dtype=np.float64)
    kept = weights > 0
    if not kept.any():
        return Scores(len(X), 0.0, {}, 0, None)
    A, t, w = X[kept], None if y is None else np.asarray(y)[kept], weights[kept]
    found = metrics(model, A, t, w)
    zeros = int(found.pop("zero_probability_rows", 0) or 0)
    means = {k: v for k, v in found.items() if k in MEANS}
    spread = _spread(model, A, t, w) if model.task == "regression" else None
    labels = weight_of_labels(t, w) if model.task == "classification" else None
    return Scores(len(X), float(w.sum()), means, zeros, spread, labels)


MEANS = ("mean_absolute_error", "mean_squared_error", "accuracy", "log_loss", "mean_log_density")


def _spread(model: Any, X: Any, y: Any, w: Vector) -> Spread:
    t = np.asarray(y, dtype=np.float64).reshape(len(X), -1)
    r = t - np.asarray(model.predict(X)).reshape(len(X), -1)
    mean = w @ t / w.sum()
    return Spread(float(w.sum()), t.min(axis=0), t.max(axis=0), mean, w @ (t - mean) ** 2, w @ r**2)


def scores_chunks(model: Estimator, chunks: Chunks) -> Scores:
    """`scores_of` all rows, in one pass over the chunks."""
    found: Scores = total(_Scored(model), chunks)
    return found


def metrics_chunks(model: Estimator, chunks: Chunks) -> Figures:
    """What `metrics` gives for all rows, in one pass over the chunks."""
    return figures(scores_chunks(model, chunks))


def figures(found: Scores) -> Figures:
    """What `metrics` gives, from merged scores."""
    out: Figures = {"rows": found.rows}
    if found.spread is not None:
        square = found.means["mean_squared_error"]
        out |= {"r2": found.spread.explained(), "root_mean_squared_error": None if square is None else square**0.5}
        return out | found.means
    if "accuracy" in found.means:
        accuracy = found.means["accuracy"]
        out |= {"accuracy": accuracy, "error_rate": None if accuracy is None else 1 - accuracy}
    if "log_loss" in found.means:
        return out | {"log_loss": found.means["log_loss"], "zero_probability_rows": found.zeros}
    return out | {k: v for k, v in found.means.items() if k not in out}
