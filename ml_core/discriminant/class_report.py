"""Diagnostics of quadratic discriminant analysis from sums over rows at the fitted parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.discriminant.class_gaussians import ByClass
from ml_core.numerics.stable import log_softmax
from ml_core.sums import Passes

if TYPE_CHECKING:
    from ml_core.discriminant.quadratic_discriminant_analysis import QuadraticDiscriminantAnalysis


@dataclass(frozen=True)
class Tally:
    """Rows, log-likelihood, Σ s log P(y | x), weights by (true, decided) class (K, K), and the moments by class."""

    rows: int
    likelihood: float
    logs: float
    confusion: Matrix
    groups: ByClass

    def merge(self, other: Tally) -> Tally:
        """Of both sets of rows."""
        return Tally(self.rows + other.rows, self.likelihood + other.likelihood, self.logs + other.logs,
                     self.confusion + other.confusion, self.groups.merge(other.groups))  # fmt: skip


@dataclass(frozen=True)
class Tallied:
    """The part whose total is `Tally`."""

    model: QuadraticDiscriminantAnalysis

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> Tally:
        """Of the rows of X with codes y."""
        K, at = len(self.model.priors_), np.arange(len(X))
        joint = self.model._joint(X)
        confusion = np.zeros((K, K))
        np.add.at(confusion, (y, self.model._decide(X)), s)
        likelihood, logs = float(s @ joint[at, y]), float(s @ log_softmax(joint)[at, y])
        return Tally(len(X), likelihood, logs, confusion, ByClass.of(X, y, s, K))


def audit(m: QuadraticDiscriminantAnalysis) -> Passes:
    """Fit statistics, classes, confusion and certificates, from one pass over the rows; O(n K d²)."""
    t: Tally = yield Tallied(m)
    (K, d), total = m.means_.shape, float(t.confusion.sum())
    free = K - 1 + K * d + K * d * (d + 1) // 2
    summary: dict[str, float | int | None] = {
        "rows": t.rows, "columns": d, "classes": K, "parameters": free,
        "discriminant_parameters": (K - 1) * (d * (d + 3) // 2 + 1), "log_likelihood": t.likelihood,
        "aic": 2 * free - 2 * t.likelihood, "bic": free * float(np.log(total)) - 2 * t.likelihood,
        "error_rate": float(t.confusion.sum() - np.trace(t.confusion)) / total, "log_loss": -t.logs / total,
    }  # fmt: skip
    if m.loss is not None:
        summary["mean_loss"] = float((np.asarray(m.loss).T * t.confusion).sum()) / total
    names = m.classes_.tolist()
    columns = ("class", "weight", "prior", "rank", "condition", "log_determinant", "added_to_diagonal")
    rows = list(map(list, zip(names, m.class_weight_, m.priors_, m.rank_, m.condition_, -2 * m.log_scale_, m.added_,
                              strict=True)))  # fmt: skip
    truth = [[c, *r] for c, r in zip(names, t.confusion.tolist(), strict=True)]
    return Diagnostics(
        summary=summary,
        certificates=_certificates(m, t.groups),
        tables={"classes": Table(columns, rows), "confusion": Table(("true_class", *map(str, names)), truth)},
        matrices={"means": m.means_, "covariances": m.covariances_},
    )


def _certificates(m: QuadraticDiscriminantAnalysis, groups: ByClass) -> list[Certificate]:
    """The factors invert the covariances; whitened, each class of the fitted rows has mean 0 and covariance I."""
    d = m.means_.shape[1]
    held = [W.T @ S @ W for W, S in zip(m.whiten_, m.covariances_, strict=True)]
    support = [np.diag((np.abs(W).max(axis=0) > 0).astype(float)) for W in m.whiten_]
    factor = max(float(np.abs(H - P).max()) for H, P in zip(held, support, strict=True))
    out = [Certificate("factor_residual", factor, 1e-6, "WᵀSW = I: the quadratic forms use the stated covariances")]
    if m.means is not None:
        return out
    shift, spread = 0.0, 0.0
    for c, g in enumerate(groups.parts):
        if not g.rows:
            continue
        W, A = m.whiten_[c], g.scatter / (max(g.total - m.ddof, 0.0) or g.total) + m.added_[c] * np.eye(d)
        shift = max(shift, float(np.abs(W.T @ (g.mean - m.means_[c])).max()))
        spread = max(spread, float(np.abs(W.T @ A @ W - support[c]).max()))
    return [
        *out,
        Certificate("largest_whitened_mean", shift, 1e-6, "the likelihood has no slope in any class mean"),
        Certificate("largest_whitened_covariance_error", spread, 1e-6, "nor in any class covariance"),
    ]
