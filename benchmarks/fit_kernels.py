"""Fits of kernel ridge regression and Gaussian processes against scikit-learn; `fit.py` runs the cases."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge

from ml_core.gp.gaussian_process_regression import GaussianProcessRegression
from ml_core.gp.kernel_ridge_regression import KernelRidgeRegression
from ml_core.kernels import RBFKernel

LENGTH = 2.0


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A smooth function of three columns, others idle, noise 0.3."""
    r = np.random.default_rng(0)
    X = r.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * r.normal(size=n)


def rss(X: np.ndarray, y: np.ndarray, model: Any) -> float:
    """Mean squared residual; smaller is better."""
    return float(np.mean((y - model.predict(X)) ** 2))


def unlikely(model: Any) -> float:
    """Minus the log marginal likelihood at the optimum."""
    if isinstance(model, GaussianProcessRegressor):
        return -float(model.log_marginal_likelihood_value_)
    return -float(model.log_marginal_likelihood_)


def ridge(n: int, d: int) -> dict[str, Any]:
    """Gaussian kernel, the same penalty."""
    X, y = data(n, d)
    ours = partial(KernelRidgeRegression, kernel=RBFKernel(LENGTH), alpha=0.1, intercept="none")
    peer = partial(KernelRidge, alpha=0.1, kernel="rbf", gamma=0.5 / LENGTH**2)
    return {"name": f"kernel ridge {n}x{d}", "make_ours": ours, "make_peer": peer, "X": X, "y": y,
            "quality": partial(rss, X, y)}  # fmt: skip


def process(n: int, d: int) -> dict[str, Any]:
    """A length per column, amplitude and noise, one start, the same bounds."""
    X, y = data(n, d)
    ours = partial(GaussianProcessRegression, kernel=RBFKernel((1.0,) * d), signal_variance=1.0, noise_variance=1.0,
                   n_restarts=0)  # fmt: skip

    def peer() -> Any:
        return GaussianProcessRegressor(ConstantKernel(1.0) * RBF([1.0] * d) + WhiteKernel(1.0))

    return {"name": f"gaussian process {n}x{d}", "make_ours": ours, "make_peer": peer, "X": X, "y": y,
            "quality": unlikely}  # fmt: skip


def cases() -> list[dict[str, Any]]:
    """Small and medium; 8000 rows of kernel ridge are asked for by name."""
    return [ridge(625, 8), ridge(3750, 8), ridge(8000, 8), process(125, 4), process(500, 6), process(2000, 6)]
