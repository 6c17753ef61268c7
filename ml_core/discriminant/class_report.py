"""What every generative classifier reports, from one pass over the rows at the fitted parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Notice, Table
from ml_core.numerics.stable import log_softmax
from ml_core.numerics.totals import Total


@dataclass(frozen=True)
class Tally(Total):
    """Sums over rows: log-likelihood, Σ s log P(y | x), weights by (true, decided) class (K, K), the model's own sums.

    `excluded` counts the rows that no class can have produced.
    """

    rows: int
    likelihood: float
    logs: float
    confusion: Matrix
    excluded: int
    sums: Any


@dataclass(frozen=True)
class Tallied:
    """The part whose total is `Tally`, of a model that is `Generative` and `Additive`."""

    model: Any

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> Tally:
        """Of the rows of X with codes y."""
        m, K, at = self.model, len(self.model.priors_), np.arange(len(X))
        joint = m._joint(X)
        confusion = np.zeros((K, K))
        np.add.at(confusion, (y, m._decide(X)), s)
        excluded = int(np.isneginf(joint.max(axis=1)).sum())
        logs = float(s @ log_softmax(m.settled(joint))[at, y])
        return Tally(len(X), float(s @ joint[at, y]), logs, confusion, excluded, m._sums(X, y, s))


def outline(m: Any, t: Tally, parameters: int) -> Diagnostics:
    """Fit statistics and the confusion table of a model with so many free parameters."""
    (K, d), total = (len(m.priors_), m.n_features_in_), float(t.confusion.sum())
    summary: dict[str, float | int | None] = {
        "rows": t.rows, "columns": d, "classes": K, "parameters": parameters, "log_likelihood": t.likelihood,
        "aic": 2 * parameters - 2 * t.likelihood, "bic": parameters * float(np.log(total)) - 2 * t.likelihood,
        "error_rate": float(total - np.trace(t.confusion)) / total, "log_loss": -t.logs / total,
    }  # fmt: skip
    if m.loss is not None:
        summary["mean_loss"] = float((np.asarray(m.loss).T * t.confusion).sum()) / total
    names = m.classes_.tolist()
    truth = [[c, *r] for c, r in zip(names, t.confusion.tolist(), strict=True)]
    out = Diagnostics(summary=summary, tables={"confusion": Table(("true_class", *map(str, names)), truth)})
    if t.excluded:
        out.warnings.append(Notice("excluded_rows", f"no class can have produced {t.excluded} of the {t.rows} rows; "
                                   "their posterior is the prior", "smooth the model"))  # fmt: skip
    return out


def classes_table(m: Any, **columns: Any) -> Table:
    """One row per class: label, weight, prior and more columns of K values."""
    values = zip(m.classes_.tolist(), m.class_weight_, m.priors_, *columns.values(), strict=True)
    return Table(("class", "weight", "prior", *columns), list(map(list, values)))


def worst(name: str, values: Any, tolerance: float, meaning: str) -> Certificate:
    """The certificate that no magnitude among the values exceeds the tolerance."""
    return Certificate(name, float(np.abs(values).max(initial=0.0)), tolerance, meaning)
