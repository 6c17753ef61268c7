"""Fits of linear regression and Bayesian linear regression against scikit-learn; `fit.py` runs the cases."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import BayesianRidge
from sklearn.linear_model import LinearRegression as Peer

from ml_core.linear.bayesian_linear_regression import BayesianLinearRegression
from ml_core.linear.linear_regression import LinearRegression


def data(n: int, d: int, outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Correlated columns, 30 % informative, signal-to-noise ratio 3."""
    r = np.random.default_rng(0)
    X = r.normal(size=(n, d)) @ (np.eye(d) + 0.3 * r.normal(size=(d, d)) / np.sqrt(d)) + r.normal(size=d)
    F = X @ np.where(r.random((d, outputs)) < 0.3, r.normal(size=(d, outputs)), 0.0)
    Y = F + r.normal(size=F.shape) * (F.std() + 1e-12) / 3 + 7
    return X, Y[:, 0] if outputs == 1 else Y


def rss(X: np.ndarray, y: np.ndarray, model: Any) -> float:
    """Mean squared residual; smaller is better."""
    return float(np.mean((y - model.predict(X)) ** 2))


def case(name: str, ours: Any, peer: Any, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """One entry of the table."""
    return {"name": name, "make_ours": ours, "make_peer": peer, "X": X, "y": y, "quality": partial(rss, X, y)}


def cases() -> list[dict[str, Any]]:
    """Small, medium and wide problems."""
    evidence = partial(BayesianLinearRegression, hyperparameters="evidence", bias_prior_variance="flat")
    return [
        case("ols 1250x10", LinearRegression, Peer, *data(1250, 10)),
        case("ols 125000x50", LinearRegression, Peer, *data(125_000, 50)),
        case("ols 20000x20, 5 outputs", LinearRegression, Peer, *data(20_000, 20, 5)),
        case("ols 200x400", LinearRegression, Peer, *data(200, 400)),
        case("bayesian 1250x10", evidence, BayesianRidge, *data(1250, 10)),
        case("bayesian 125000x50", evidence, BayesianRidge, *data(125_000, 50)),
    ]
