"""Random forests beside scikit-learn's: 100 deep trees, both on two threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier as Peer
from sklearn.metrics import log_loss

from ml_core.ensemble.random_forest import RandomForestClassifier

SIZES = [(2_000, 64, 10), (20_000, 54, 7), (100_000, 20, 2), (100_000, 20, 7)]
TREES = 100
JOBS = 2


def table(n: int, d: int, K: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Correlated numbers and, beyond a fifth of the columns, one-hot groups; labels from noisy cells."""
    r = np.random.default_rng([seed, n, d])
    numeric = max(4, d // 5)
    N = r.normal(size=(n, 3)) @ r.normal(size=(3, numeric)) + 0.5 * r.normal(size=(n, numeric))
    C = np.zeros((n, d - numeric))
    C[np.arange(n), r.choice(d - numeric, size=n, p=r.dirichlet(np.full(d - numeric, 0.5)))] = 1
    X = np.hstack([N, C])
    S = 0.6 * X @ r.normal(size=(d, K))
    for k in range(K):
        for _ in range(6):
            a, b = r.integers(0, numeric, 2)
            S[:, k] += 1.8 * ((N[:, a] > r.normal()) & (N[:, b] < r.normal()))
    y = S.argmax(axis=1)
    return X, np.where(r.random(n) < 0.08, r.integers(0, K, n), y)


def held_out(A: np.ndarray, t: np.ndarray) -> Any:
    """Log loss on rows kept aside, probabilities floored at 1e-3 as a deep tree's may be zero."""

    def quality(model: Any) -> float:
        P = np.maximum(model.predict_proba(A), 1e-3)
        return float(log_loss(t, P / P.sum(axis=1, keepdims=True)))

    return quality


def cases() -> list[dict[str, Any]]:
    """One case per size; `make_ours` keeps the out-of-bag account off, as the peer's default does."""
    out = []
    for n, d, K in SIZES:
        X, y = table(n + n // 4, d, K)
        out.append({
            "name": f"forest_cls_{n}x{d}_k{K}",
            "make_ours": lambda: RandomForestClassifier(n_estimators=TREES, oob_score=False),
            "make_peer": lambda: Peer(TREES, n_jobs=JOBS, random_state=0),
            "X": X[:n], "y": y[:n], "quality": held_out(X[n:], y[n:]),
        })  # fmt: skip
    return out
