"""What classifiers with linear scores and no probabilities report: boundaries, and decisions on the rows given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Diagnostics, Table
from ml_core.numerics.totals import Total

MOST_CLASSES = 20
MOST_TERMS = 10_000
"""Coefficients listed; of more those of the largest size."""
NO_ERRORS = "no likelihood: no classical errors"


@dataclass(frozen=True)
class Decisions(Total):
    """Rows, weights by (true, decided) class (K, K), and what else the model sums or takes the largest of."""

    rows: int
    confusion: Matrix
    more: Any


def confusion(y: Codes, decided: Codes, s: Vector, K: int) -> Matrix:
    """(K, K) weight of the rows of class i that were decided to be j."""
    return np.asarray(np.bincount(y * K + decided, weights=s, minlength=K * K).reshape(K, K), dtype=np.float64)


def outline(m: Any, t: Decisions) -> Diagnostics:
    """Error rate, confusion table and the geometry of the boundaries."""
    names, total = m.classes_.tolist(), float(t.confusion.sum())
    out = Diagnostics(summary={
        "rows": t.rows, "columns": m.n_features_in_, "classes": len(names),
        "error_rate": float(total - np.trace(t.confusion)) / total,
    })  # fmt: skip
    truth = [[c, *row] for c, row in zip(names, t.confusion.tolist(), strict=True)]
    out.tables["confusion"] = Table(("true_class", *map(str, names)), truth)
    out.tables["boundaries"] = boundaries(names, m.coef_, m.intercept_)
    out.tables["coefficients"] = coefficients(m)
    return out


def coefficients(m: Any) -> Table:
    """Of each score its normal w and intercept b; of two classes the one score, positive for the second."""
    names, (scores, d) = m.classes_.tolist(), m.coef_.shape
    labels = names[1:] if scores == 1 else names
    most = max(MOST_TERMS // scores, 1)
    rows: list[list[Any]] = []
    for label, w, b in zip(labels, m.coef_, m.intercept_, strict=True):
        kept = range(d) if d <= most else np.sort(np.argsort(-np.abs(w), kind="stable")[:most]).tolist()
        rows += [[label, "intercept", float(b), None, NO_ERRORS]]
        rows += [[label, int(j), float(w[j]), None, NO_ERRORS] for j in kept]
    return Table(("score", "term", "estimate", "standard_error", "reason"), rows)


def boundaries(names: list[Any], W: Matrix, b: Vector) -> Table:
    """Of each pair of classes (the first 20) the plane w·x + b = 0 beyond which the second has the higher score.

    `plane_offset` is -b/‖w‖, the signed distance of the plane from the origin along w; (w·x + b)/‖w‖ is that of x from
    the plane.
    """
    if len(names) == 2:
        W, b = np.vstack([0 * W, W]), np.append(0.0, b)
    rows: list[list[Any]] = []
    for k in range(min(len(names), MOST_CLASSES)):
        for j in range(k):
            w, c = W[k] - W[j], float(b[k] - b[j])
            unit = float(np.abs(w).max(initial=0.0)) or 1.0
            size = unit * float(np.linalg.norm(w / unit))
            offset = -c / size if size > 0 else np.inf
            rows.append([names[j], names[k], size, c, offset if np.isfinite(offset) else None])
    return Table(("class", "against", "normal_length", "intercept", "plane_offset"), rows)
