"""Diagnostics of a classification forest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from ml_core import rng
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Notice, Table
from ml_core.ensemble.forest import OutOfBag
from ml_core.tree.predict import mean_of_trees
from ml_core.tree.structure import walk

if TYPE_CHECKING:
    from ml_core.ensemble.random_forest import RandomForestClassifier

LEVEL = 0.95
CHECKED_ROWS = 64
PERMUTED_ROWS = 1000
PERMUTED_WORK = 20_000


def wilson(p: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval of a binomial share p of n: (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)."""
    z2 = float(ndtri((1 + level) / 2)) ** 2
    half = np.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n)))
    return float((p + z2 / (2 * n) - half) / (1 + z2 / n)), float((p + z2 / (2 * n) + half) / (1 + z2 / n))


def report(model: RandomForestClassifier, X: Matrix, y: Codes, s: Vector, again: OutOfBag | None) -> Diagnostics:
    """Everything about the forest; `again` is the out-of-bag account, redone when these are the training rows."""
    P = mean_of_trees(model.nodes_, model.roots_, model.values_, X)
    hit = P.argmax(axis=1) == y
    with np.errstate(divide="ignore"):
        loss = -np.log(P[np.arange(len(y)), y])
    out = Diagnostics(summary={
        "trees": len(model.roots_), "nodes": len(model.nodes_), "features_per_node": model.max_features_,
        "mean_depth": float(model.depth_.mean()), "max_depth": int(model.depth_.max()),
        "mean_leaves": float(model.leaves_.mean()), "used_features": int((model.used_features_ > 0).sum()),
        "exact_splits": int(model.scheme_ == "exact"),
        "error": float(np.average(~hit, weights=s)), "log_loss": float(np.average(loss, weights=s)),
    })  # fmt: skip
    out.certificates.append(Certificate("largest_row_sum_error", float(np.abs(P.sum(axis=1) - 1).max()), 1e-12,
                                        "the probabilities of each row sum to 1"))  # fmt: skip
    out.certificates.append(Certificate("largest_path_error", _path_error(model, X, P), 1e-12,
        "following every path of sampled rows by the definition gives the compiled probabilities"))  # fmt: skip
    out.tables |= {"importances": _importances(model, X, y, s), "trees": _trees(model)}
    out.matrices["confusion"] = _confusion(P.argmax(axis=1), y, s, len(model.classes_))
    if again is not None:
        _add_out_of_bag(out, model, y, s, again)
    return out


def _path_error(model: RandomForestClassifier, X: Matrix, P: Matrix) -> float:
    """Largest difference between compiled and literal probabilities on rows spread over X."""
    at = np.unique(np.linspace(0, len(X) - 1, CHECKED_ROWS).astype(int))
    total = np.zeros((len(at), P.shape[1]))
    for root in model.roots_:
        total += model.values_[model.nodes_["left"][walk(model.nodes_, root, X[at])]]
    return float(np.abs(total / len(model.roots_) - P[at]).max())


def _confusion(found: Codes, y: Codes, s: Vector, K: int) -> Matrix:
    """(K, K) weight of rows by true class (row) and found class (column)."""
    return np.asarray(np.bincount(y * K + found, weights=s, minlength=K * K).reshape(K, K), dtype=np.float64)


def _importances(model: RandomForestClassifier, X: Matrix, y: Codes, s: Vector) -> Table:
    """Features by importance; the permutation column only where d·T is small enough to be cheap."""
    d = X.shape[1]
    drop = _permutation(model, X, y, s) if d * len(model.roots_) <= PERMUTED_WORK else [None] * d
    order = np.argsort(-model.feature_importances_, kind="stable")
    rows = [[int(j), float(model.feature_importances_[j]), int(model.used_features_[j]), drop[j]] for j in order]
    return Table(("feature", "importance", "nodes", "permutation"), rows)


def _permutation(model: RandomForestClassifier, X: Matrix, y: Codes, s: Vector) -> list[float | None]:
    """(d,) loss of accuracy when one column of (at most 1000 of) these rows is shuffled."""
    g = rng.generator(model.random_state, 1)
    at = g.permutation(len(X))[:PERMUTED_ROWS]
    A, t, w = X[at], y[at], s[at]

    def accuracy(B: Matrix) -> float:
        found = mean_of_trees(model.nodes_, model.roots_, model.values_, B).argmax(axis=1)
        return float(np.average(found == t, weights=w))

    whole = accuracy(A)
    out: list[float | None] = []
    for j in range(X.shape[1]):
        B = A.copy()
        B[:, j] = g.permutation(A[:, j])
        out.append(whole - accuracy(B))
    return out


def _trees(model: RandomForestClassifier) -> Table:
    """Quartiles of the trees' depths and leaves."""
    q = [0, 25, 50, 75, 100]
    depth, leaves = np.percentile(model.depth_, q), np.percentile(model.leaves_, q)
    rows = [[p, float(a), float(b)] for p, a, b in zip(q, depth, leaves, strict=True)]
    return Table(("percentile", "depth", "leaves"), rows)


def _add_out_of_bag(out: Diagnostics, model: RandomForestClassifier, y: Codes, s: Vector, oob: OutOfBag) -> None:
    """Error with its interval, curve against the number of trees, and what they certify."""
    error, coverage, last = oob.error, oob.coverage, float(oob.error[-1])
    T, rows = len(error), int((oob.seen > 0).sum())
    trees = np.arange(1, T + 1)
    out.curves["oob_error"] = {"x": trees, "y": error, "coverage": coverage}
    out.summary |= {"oob_error": last, "oob_coverage": float(coverage[-1]), "oob_rows": rows}
    stored = model.oob_error_ if model.oob_error_ is not None else np.nan
    if not rows:
        out.warnings.append(Notice("no_out_of_bag", "every tree saw every row", "grow more trees or lower max_samples"))
        return
    low, high = wilson(last, rows)
    out.summary |= {"oob_error_low": low, "oob_error_high": high}
    covered = oob.seen > 0
    found = oob.proba[covered].argmax(axis=1)
    out.matrices["oob_confusion"] = _confusion(found, y[covered], s[covered], len(model.classes_))
    late = error[(3 * T) // 4 :]
    n, draws = len(y), model._draws(len(y))
    expected = 1 - (1 - (1 - 1 / n) ** draws) ** T
    slack = 4 * float(np.sqrt(expected * (1 - expected) * (s @ s))) / float(s.sum()) + 1e-12
    out.certificates += [
        Certificate("oob_error_difference", abs(last - stored), 1e-12,
                    "drawing the resamples again and predicting the absent rows gives the stored out-of-bag error"),
        Certificate("late_oob_spread", float(np.ptp(late)), high - low,
                    "over the last quarter of the trees the error moved less than its 95 % interval is wide"),
        Certificate("oob_coverage", float(coverage[-1]), expected - slack,
                    "the share of rows that some tree did not see is what resampling implies", at_least=True),
    ]  # fmt: skip
