"""Lasso fits and paths against scikit-learn's coordinate descent; `fit.py` runs the cases."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import Lasso as Peer
from sklearn.linear_model import lasso_path

from ml_core.linear.lasso import Lasso
from ml_core.linear.lasso_problem import Problem

SHARE = 0.02


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardised, mildly correlated columns, 50 of which matter; centred targets with as much noise as signal."""
    r = np.random.default_rng(0)
    X = r.normal(size=(n, d)) + 0.5 * r.normal(size=(n, 1))
    y = X[:, :50] @ r.normal(size=min(50, d))
    y = y + y.std() * r.normal(size=n)
    return (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()


def objective(X: np.ndarray, y: np.ndarray, alpha: float, model: Any) -> float:
    """Minus the objective, relative to that of no weights."""
    return -float(np.sum((y - model.predict(X)) ** 2) + alpha * np.abs(model.coef_).sum()) / float(y @ y)


class OurPath:
    """100 penalties from the largest to a hundredth of it, with the solver that fits and reports use."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        m = Lasso(tol=1e-4)
        m.units_, m.alpha_l2_ = np.ones(X.shape[1]), 0.0
        problem = Problem.of(m, X, y, np.ones(len(y)))
        self.alphas = problem.alpha_max() * np.logspace(0, -2, 100)
        self.coefs = np.array([w for _, w in problem.path(self.alphas, m.tol, m.max_iter)])


class PeerPath:
    """The same penalties by scikit-learn."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        top = np.abs(X.T @ y).max() / len(y)
        alphas, coefs, _ = lasso_path(X, y, alphas=top * np.logspace(0, -2, 100), tol=1e-4, max_iter=5000)
        self.alphas, self.coefs = 2 * len(y) * alphas, coefs.T


def path_quality(X: np.ndarray, y: np.ndarray, model: Any) -> float:
    """Minus the sum of the objectives, each relative to that of no weights."""
    rss = ((y[:, None] - X @ model.coefs.T) ** 2).sum(axis=0)
    return -float((rss + model.alphas * np.abs(model.coefs).sum(axis=1)).sum() / (y @ y))


def cases() -> list[dict[str, Any]]:
    """Sizes of one fit and of a path."""
    out = []
    for n, d in ((1250, 50), (1250, 5000), (25_000, 1000)):
        X, y = data(n, d)
        alpha = SHARE * 2 * float(np.abs(X.T @ y).max())
        peer = partial(Peer, alpha=alpha / 2 / n, tol=1e-4, max_iter=5000, fit_intercept=False)
        out.append({"name": f"lasso_{n}x{d}", "make_ours": partial(Lasso, alpha=alpha, path_length=0), "X": X, "y": y,
                    "make_peer": peer, "quality": partial(objective, X, y, alpha)})  # fmt: skip
    for n, d in ((1250, 50), (1250, 2000), (12_500, 1000)):
        X, y = data(n, d)
        out.append({"name": f"lasso_path_{n}x{d}", "make_ours": OurPath, "make_peer": PeerPath, "X": X, "y": y,
                    "quality": partial(path_quality, np.asfortranarray(X), y)})  # fmt: skip
    return out
