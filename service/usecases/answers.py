"""Rows of a table → the matrix of a model, and what the model says of it: as a JSON document or as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ml_core.certificates import plain
from ml_core.errors import most_issues
from ml_core.preprocessing.table import null_issue
from service.errors import Invalid, Issue, Unsupported
from service.intake.types import Rules
from service.ports import Json
from service.usecases.conform import columns_of
from service.usecases.loaded import Loaded


def encoded(
    model: Loaded, table: pa.Table, rules: Rules | None = None, first: int = 0, extra: Sequence[str] = ()
) -> np.ndarray:
    """(n, k) matrix of the rows of a table; InvalidData and Invalid point at columns and cells, rows from `first`."""
    encoder = model.fitted.encoder
    columns = columns_of(encoder.features, table, rules, first, extra)
    X, keep = encoder.matrix(columns, first)
    if not keep.all():
        dropped = np.flatnonzero(~keep)[: most_issues()].tolist()
        cells = [(i, f) for i in dropped for f in encoder.features if f.fill is None and columns[f.name].missing[i]]
        issues = [null_issue(first + i, f, encoder.missing_of(f)) for i, f in cells]
        raise Invalid(
            f"{int((~keep).sum())} rows have empty cells in the features; remove them or fit with imputation",
            issues=tuple(Issue(i.pointer, i.code, i.detail) for i in issues),
        )
    return X


def targets(model: Loaded) -> list[str]:
    """Names of the target columns."""
    target = model.record["record"].get("target")
    return [target] if isinstance(target, str) else list(target or [])


def unused(model: Loaded, record: Json) -> list[str]:
    """The warning about columns of a dataset that are neither features nor targets."""
    known = {*model.fitted.encoder.inputs, *targets(model)}
    return ignored([c["name"] for c in record["columns"] if c["name"] not in known])


def ignored(extra: Sequence[str]) -> list[str]:
    """The warning about columns that the model does not use."""
    return [f"columns not used by the model: {', '.join(extra[:50])}"] if extra else []


def cut(columns: Sequence[str]) -> list[str]:
    """The warning about columns whose times are finer than microseconds."""
    return [f"times finer than microseconds were cut off in: {', '.join(columns[:50])}"] if columns else []


@dataclass(frozen=True)
class Answer:
    """A table of answers, the model that gave it, and warnings."""

    model: str
    table: pa.Table
    warnings: list[str]


@dataclass(slots=True)
class Outcome:
    """Predictions (n,) or (n, q); of classifiers probabilities (n, K) of `classes`; intervals (n, …, 2).

    `scores` are (n, K), or of two classes (n,), positive for the second.
    """

    predictions: np.ndarray
    classes: list[Any] | None = None
    probabilities: np.ndarray | None = None
    intervals: np.ndarray | None = None
    scores: np.ndarray | None = None

    def document(self, model: str, notes: list[str]) -> Json:
        """The JSON answer."""
        out: Json = {"model": model, "predictions": self.predictions.tolist()}
        if self.probabilities is not None:
            out["probabilities"] = {"classes": self.classes, "values": self.probabilities.tolist()}
        if self.intervals is not None:
            out["intervals"] = plain(self.intervals)
        if self.scores is not None:
            out["scores"] = {"classes": self.classes, "values": plain(self.scores)}
        out["warnings"] = notes
        return out

    def table(self, target: Sequence[str]) -> pa.Table:
        """Columns prediction, probability_<class>, score, lower, upper; of several targets each with its name."""
        columns = _named("prediction", self.predictions, target)
        if self.probabilities is not None:
            columns |= {f"probability_{label(c)}": self.probabilities[:, k] for k, c in enumerate(self.classes or ())}
        if self.scores is not None:
            columns |= _named("score", self.scores, [label(c) for c in self.classes or ()])
        if self.intervals is not None:
            columns |= _named("lower", self.intervals[..., 0], target) | _named("upper", self.intervals[..., 1], target)
        return pa.table({name: _cells(values) for name, values in columns.items()})


def outcome(model: Loaded, estimator: Any, X: np.ndarray, body: Mapping[str, Any]) -> Outcome:
    """What the model says of encoded rows, as the options of the request ask; Unsupported."""
    if body.get("proba", True) and hasattr(estimator, "predict_with_proba"):
        predicted, values = estimator.predict_with_proba(X)
        names = getattr(estimator, "classes_", None)
        out = Outcome(predicted, list(range(values.shape[1])) if names is None else np.asarray(names).tolist(), values)
    else:
        out = Outcome(estimator.predict(X))
    if body.get("scores"):
        out.scores = scores(model, estimator, X)
        out.classes = np.asarray(estimator.classes_).tolist()
    level = body.get("interval")
    if level is not None:
        out.intervals = intervals(model, estimator, X, level)
    return out


def scores(model: Loaded, estimator: Any, X: np.ndarray) -> np.ndarray:
    """(n, K) scores of classes, of two (n,); Unsupported where there are none."""
    if not hasattr(estimator, "decision_function"):
        raise Unsupported(f"{model.record['algorithm']} has no scores; leave scores out")
    return np.asarray(estimator.decision_function(X))


def intervals(model: Loaded, estimator: Any, X: np.ndarray, level: float) -> np.ndarray:
    """(n, …, 2) equal-tailed prediction intervals; Unsupported where there are none."""
    if not hasattr(estimator, "posterior"):
        raise Unsupported(f"{model.record['algorithm']} has no predictive distribution to take intervals from")
    found = estimator.posterior(X).interval(level)
    if found is None:
        raise Unsupported("the predictive distribution is over labels, which have no intervals; see probabilities")
    return np.asarray(found)


def matrix_table(values: Any, names: Sequence[str]) -> pa.Table:
    """A matrix (n, k) as a table; what is not finite is empty."""
    return pa.table([_cells(np.asarray(values)[:, k]) for k in range(len(names))], names=list(names))


def label(value: Any) -> str:
    """A class in the name of a column, as JSON writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(part: str, values: np.ndarray, target: Sequence[str]) -> dict[str, np.ndarray]:
    if values.ndim == 1:
        return {part: values}
    return {f"{part}_{name}": values[:, k] for k, name in enumerate(target)}


def _cells(values: np.ndarray) -> pa.Array:
    """A column; numbers that are not finite are empty, as they are null in JSON."""
    if values.dtype.kind == "f":
        return pa.array(np.ascontiguousarray(values), pa.float64(), mask=~np.isfinite(values))
    return pa.array(values.tolist())
