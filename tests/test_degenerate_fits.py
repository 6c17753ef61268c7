"""Fits to next to nothing are answered and certified: constant targets, single rows, more columns than rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ml_core import registry

MODELS: list[tuple[str, dict[str, Any]]] = [
    ("bayesian_linear_regression", {"bias_prior_variance": "flat"}),
    ("bayesian_linear_regression", {"bias_prior_variance": "flat", "hyperparameters": "evidence"}),
    ("huber_regression", {}), ("huber_regression", {"scale": "none"}), ("huber_regression", {"scale": "joint"}),
    ("ridge_regression", {"alpha": 0.0}), ("ridge_regression", {}), ("linear_regression", {}),
    ("generalized_linear_model", {}), ("least_absolute_deviations", {}), ("minimax_regression", {}),
]  # fmt: skip
R = np.random.default_rng(5)
TABLES = {
    "constant target": (R.normal(size=(20, 2)), np.full(20, 3.0)),
    "constant columns": (np.ones((20, 2)), R.normal(size=20)),
    "one row": (np.array([[1.0, 2.0]]), np.array([3.0])),
    "wide": (R.normal(size=(6, 9)), R.normal(size=6)),
}


@pytest.mark.parametrize("table", list(TABLES))
@pytest.mark.parametrize(("name", "params"), MODELS)
def test_answers_are_finite_and_certificates_hold(name: str, params: dict[str, Any], table: str) -> None:
    X, y = TABLES[table]
    model: Any = registry.build({"algorithm": name, "params": params}).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert not [c for c in model.diagnostics(X, y).certificates if not c.holds]


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_evidence_survives_columns_of_any_unit(size: float) -> None:
    X, _ = TABLES["constant target"]
    y = X @ [1.0, -2.0] + R.normal(size=20)
    params = {"bias_prior_variance": "flat", "hyperparameters": "evidence"}
    model: Any = registry.build({"algorithm": "bayesian_linear_regression", "params": params})
    assert np.isfinite(model.fit(X * size, y).predict(X * size)).all()
    assert np.isfinite(model.log_evidence_)
