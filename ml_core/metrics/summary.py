"""How well a fitted estimator does on rows: the usual figures for its task, None where one has no meaning."""

from __future__ import annotations

from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.base import Estimator
from ml_core.certificates import finite
from ml_core.numerics.column_moments import explained_share


def metrics(model: Estimator, X: Matrix, y: Any, s: Vector | None = None) -> dict[str, float | int | None]:
    """Weighted figures by task; `rows` counts what they rest on."""
    weights = np.ones(len(X)) if s is None else s
    by_task = {"regression": _regression, "classification": _classification}
    figures = by_task.get(model.task, _unsupervised)(model, X, y, weights)
    return {"rows": len(X)} | figures


def _regression(model: Any, X: Matrix, y: Any, s: Vector) -> dict[str, float | None]:
    t = np.asarray(y, dtype=np.float64)
    f = np.asarray(model.predict(X))
    r = np.abs(t - f)
    unit = float(r.max()) or 1.0
    rms = unit * float(np.mean(np.average((r / unit) ** 2, axis=0, weights=s))) ** 0.5
    return {
        "r2": finite(float(np.mean(explained_share(t, f, s)))), "root_mean_squared_error": rms,
        "mean_absolute_error": float(np.mean(np.average(r, axis=0, weights=s))),
        "mean_squared_error": finite(rms * rms),
    }  # fmt: skip


def _classification(model: Any, X: Matrix, y: Any, s: Vector) -> dict[str, float | int | None]:
    y = np.asarray(y)
    hit = np.asarray(model.predict(X) == y)
    out: dict[str, float | int | None] = {"accuracy": float(np.average(hit, weights=s))}
    out["error_rate"] = 1 - out["accuracy"]  # type: ignore[operator]
    if hasattr(model, "predict_log_proba"):
        known = np.isin(y, model.classes_)
        column = np.minimum(np.searchsorted(model.classes_, y), len(model.classes_) - 1)
        log_p = np.where(known, model.predict_log_proba(X)[np.arange(len(X)), column], -np.inf)
        zero = int(np.isneginf(log_p).sum())
        out["log_loss"] = None if zero else float(-np.average(log_p, weights=s))
        out["zero_probability_rows"] = zero
    return out


def _unsupervised(model: Any, X: Matrix, y: Any, s: Vector) -> dict[str, float | None]:
    if hasattr(model, "score_samples"):
        value = float(np.average(model.score_samples(X), weights=s))
        return {"mean_log_density": value if np.isfinite(value) else None}
    return {}
