"""Poisson regression against scikit-learn: equal deviance, fit time."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import PoissonRegressor

from benchmarks.fit_logistic import labelled
from ml_core.linear.generalized_linear_model import GeneralizedLinearModel

SIZES = {"small": (1250, 10), "medium": (125_000, 40), "large": (700_000, 40)}
ALPHA = 1e-6  # of the peer, per row


def counted(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rare events with a logarithmic rate linear in correlated columns beside 0/1 groups."""
    r = np.random.default_rng(seed)
    X = np.clip(labelled(n, d, 2, seed)[0], -4, 4)
    return X, r.poisson(np.exp(0.12 * X @ r.normal(size=d) - 1.5)).astype(float)


def objective(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Mean log-likelihood without what no rate changes."""
    mean = np.maximum(model.predict(X), 1e-300)
    return float(np.mean(y * np.log(mean) - mean))


def cases() -> list[dict[str, Any]]:
    """The workloads against both solvers of the peer."""
    out: list[dict[str, Any]] = []
    for size, (n, d) in SIZES.items():
        X, y = counted(n, d)
        for solver in ("lbfgs", "newton-cholesky"):
            out.append({
                "name": f"poisson_{size}_{solver}", "X": X, "y": y,
                "make_ours": lambda n=n: GeneralizedLinearModel(family="poisson", alpha=ALPHA * n),
                "make_peer": lambda solver=solver: PoissonRegressor(alpha=ALPHA, solver=solver, max_iter=300),
                "quality": lambda m, X=X, y=y: objective(m, X, y),
            })  # fmt: skip
    return out
