"""Ridge regression, and its penalty chosen by leaving one row out, against scikit-learn; `fit.py` runs the cases."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge, RidgeCV

from benchmarks.fit_linear import data
from ml_core.linear.ridge_regression import RidgeRegression

ALPHAS = np.logspace(-3, 3, 25)


def objective(X: np.ndarray, y: np.ndarray, model: Any) -> float:
    """Minus the mean squared residual plus the penalty in use, per row."""
    alpha = float(getattr(model, "alpha_", 1.0))
    w = np.ravel(model.coef_)
    return -float(np.mean((y - model.predict(X)) ** 2) + alpha * (w @ w) / len(y))


def cases() -> list[dict[str, Any]]:
    """One penalty, and 25 compared."""
    out = []
    for n, d in ((1250, 10), (25_000, 50), (125_000, 200)):
        X, y = data(n, d)
        quality = partial(objective, X, y)
        out.append({"name": f"ridge_cv_{n}x{d}", "X": X, "y": y, "quality": quality,
                    "make_ours": partial(RidgeRegression, choose_alpha="leave_one_out", alphas=ALPHAS),
                    "make_peer": partial(RidgeCV, alphas=ALPHAS)})  # fmt: skip
        out.append({"name": f"ridge_{n}x{d}", "X": X, "y": y, "quality": quality,
                    "make_ours": RidgeRegression, "make_peer": Ridge})  # fmt: skip
    return out
