"""Predictions of rows as if they had not been seen, against fits without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.ridge_regression import RidgeRegression

MODELS = [
    LinearRegression(), LinearRegression(solver="qr"), LinearRegression(solver="svd", min_norm="centered"),
    LinearRegression(solver="normal_equations"), LinearRegression(fit_intercept=False),
    LinearRegression(weight_kind="precision"), RidgeRegression(alpha=2.0), RidgeRegression(alpha=0.0),
    RidgeRegression(alpha=5.0, fit_intercept=False), RidgeRegression(alpha=0.5, penalize_bias=True),
    RidgeRegression(noise_variance=0.5, prior_variance=2.0),
]  # fmt: skip


def brute(model: Any, X: np.ndarray, y: np.ndarray, s: np.ndarray | None) -> np.ndarray:
    """Each row by a fresh fit of the others."""
    out = []
    for i in range(len(X)):
        keep = np.arange(len(X)) != i
        fresh = type(model)(**model.get_params())
        fresh.fit(X[keep], y[keep], *(() if s is None else (s[keep],)))
        out.append(fresh.predict(X[[i]])[0])
    return np.array(out)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_one_fit_tells_what_fits_without_each_row_do(model: Any, outputs: int, weighted: bool) -> None:
    r = np.random.default_rng(8)
    X = r.normal(2.0, 3.0, size=(25, 4))
    y = X @ r.normal(size=(4, outputs)) + r.normal(size=(25, outputs)) + 5
    y = y[:, 0] if outputs == 1 else y
    s = r.integers(0, 4, 25).astype(float) if weighted else None
    fitted = model.fit(X, y, *(() if s is None else (s,)))
    np.testing.assert_allclose(fitted.left_out(X, y, s), brute(model, X, y, s), rtol=1e-9)


def test_columns_that_depend_on_each_other_change_nothing_and_lone_rows_are_unknown() -> None:
    r = np.random.default_rng(3)
    kind = np.repeat([0, 1, 2], [9, 10, 1])
    X = np.column_stack([r.normal(size=20), (kind[:, None] == np.arange(3)).astype(float)])
    y = r.normal(size=20) + kind
    told = LinearRegression().fit(X, y).left_out(X, y)
    assert np.isnan(told).tolist() == [False] * 19 + [True]
    np.testing.assert_allclose(told[:-1], brute(LinearRegression(), X, y, None)[:-1], rtol=1e-9)
    ridge = RidgeRegression(alpha=1.0)
    np.testing.assert_allclose(ridge.fit(X, y).left_out(X, y), brute(ridge, X, y, None), rtol=1e-9)


def test_fits_that_are_not_the_exact_minimum_tell_nothing() -> None:
    X, y = np.random.default_rng(0).normal(size=(10, 2)), np.arange(10.0)
    for model in (LinearRegression(solver="gradient_descent"), LinearRegression(rcond=1e-3)):
        assert np.isnan(model.fit(X, y).left_out(X, y)).all()
