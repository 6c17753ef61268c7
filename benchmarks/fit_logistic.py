"""Logistic and softmax regression against scikit-learn: equal objective, fit time."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression as Peer

from ml_core.linear.logistic_regression import LogisticRegression

ALPHA = 1.0
SIZES = {"small": (710, 30, 2), "medium": (125_000, 50, 2), "large": (1_000_000, 30, 2), "classes": (62_500, 54, 7)}


def labelled(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Correlated numeric columns beside 0/1 groups, standardised; labels drawn from a linear score."""
    r = np.random.default_rng(seed)
    half = d // 2
    N = r.normal(size=(n, half // 4 + 2)) @ r.normal(size=(half // 4 + 2, half)) + 0.5 * r.normal(size=(n, half))
    C = (r.random((n, d - half)) < r.uniform(0.03, 0.5, d - half)).astype(float)
    X = np.hstack([N, C])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    scores = 0.6 * X @ r.normal(size=(d, k)) / np.sqrt(k) + r.gumbel(size=(n, k)) + np.linspace(0, 1, k)
    return np.ascontiguousarray(X), scores.argmax(axis=1)


def objective(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Minus the penalised log-likelihood per row: larger is better, as for every quality here."""
    log_p = np.log(np.maximum(model.predict_proba(X)[np.arange(len(y)), y], 1e-300))
    return float(log_p.sum() - 0.5 * ALPHA * (np.asarray(model.coef_) ** 2).sum()) / len(y)


def cases() -> list[dict[str, Any]]:
    """The workloads against both peers: lbfgs, the default, and newton-cholesky, whose accuracy is nearer ours."""
    out: list[dict[str, Any]] = []
    for size, (n, d, k) in SIZES.items():
        X, y = labelled(n, d, k)
        for solver in ("lbfgs", "newton-cholesky"):
            out.append({
                "name": f"logistic_{size}_{solver}", "X": X, "y": y,
                "make_ours": lambda: LogisticRegression(alpha=ALPHA),
                "make_peer": lambda solver=solver: Peer(C=1 / ALPHA, solver=solver, max_iter=500, tol=1e-4),
                "quality": lambda m, X=X, y=y: objective(m, X, y),
            })  # fmt: skip
    return out
