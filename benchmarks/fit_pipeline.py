"""Pipelines beside scikit-learn's: fit of scaler and least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression as PeerLinear
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler as PeerScaler

from ml_core.linear.linear_regression import LinearRegression
from ml_core.preprocessing.pipeline import Pipeline
from ml_core.preprocessing.standard_scaler import StandardScaler


def cases() -> list[dict[str, Any]]:
    """One case: 200 000 × 20, scaled, then least squares; quality is R² on the training rows."""
    r = np.random.default_rng(0)
    X = r.normal(size=(200_000, 20)) * r.uniform(0.1, 10, 20) + 5
    y = X @ r.normal(size=20) + r.normal(size=200_000)
    return [
        {
            "name": "pipeline 200000×20 scaler + linear regression",
            "make_ours": lambda: Pipeline(steps=[StandardScaler(), LinearRegression()]),
            "make_peer": lambda: make_pipeline(PeerScaler(), PeerLinear()),
            "X": X,
            "y": y,
            "quality": lambda model: float(model.score(X, y)),
        }
    ]
