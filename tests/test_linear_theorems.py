"""Theorems of linear models that tie one algorithm to another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from ml_core.linear.glm_families import FAMILIES
from ml_core.registry import build
from tests.rows import data

X, Y = data.regression()


def fit(name: str, A: Any, y: Any, **params: Any) -> Any:
    return build({"algorithm": name, "params": params}).fit(A, y)  # type: ignore[attr-defined]


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 50.0])
def test_ridge_is_least_squares_on_augmented_rows(alpha: float) -> None:
    d = X.shape[1]
    A = np.vstack([np.column_stack([np.ones(len(X)), X]), np.sqrt(alpha) * np.eye(d + 1)])
    stacked = fit("linear_regression", A, np.append(Y, np.zeros(d + 1)), fit_intercept=False)
    both = fit("ridge_regression", X, Y, alpha=alpha, penalize_bias=True)
    np.testing.assert_allclose([both.intercept_, *both.coef_], stacked.coef_, rtol=1e-12)
    free = fit("linear_regression", np.delete(A, len(X), axis=0), np.append(Y, np.zeros(d)), fit_intercept=False)
    plain = fit("ridge_regression", X, Y, alpha=alpha)
    np.testing.assert_allclose([plain.intercept_, *plain.coef_], free.coef_, rtol=1e-12)
    bayes = fit("bayesian_linear_regression", X, Y, alpha=alpha / 0.3, noise_variance=0.3)
    np.testing.assert_allclose([bayes.intercept_, *bayes.coef_], [both.intercept_, *both.coef_], rtol=1e-11)


@pytest.mark.parametrize("alpha", [0.5, 3.0, 40.0])
def test_lasso_of_orthonormal_columns_is_a_soft_threshold(alpha: float) -> None:
    Q = np.linalg.qr(np.column_stack([np.ones(len(X)), X]))[0][:, 1:]
    z = Q.T @ Y
    want = np.sign(z) * np.maximum(np.abs(z) - alpha / 2, 0)
    np.testing.assert_allclose(fit("lasso", Q, Y, alpha=alpha).coef_, want, atol=1e-12)
    np.testing.assert_allclose(fit("ridge_regression", Q, Y, alpha=alpha).coef_, z / (1 + alpha), rtol=1e-12)


def test_a_constant_alone_is_mean_median_and_midrange() -> None:
    none = np.zeros((len(Y), 1))
    for name, want in (("linear_regression", Y.mean()), ("minimax_regression", (Y.min() + Y.max()) / 2)):
        assert fit(name, none, Y).predict(none[:1])[0] == pytest.approx(want, rel=1e-12)
    odd = Y[:-1] if len(Y) % 2 == 0 else Y
    median = fit("least_absolute_deviations", none[: len(odd)], odd)
    assert median.predict(none[:1])[0] == pytest.approx(np.median(odd), rel=1e-12)


def test_softmax_probabilities_do_not_know_a_common_vector() -> None:
    A, labels = data.classification()
    m = fit("softmax_regression", A, labels, alpha=0.5)
    shift = np.array([0.3, -2.0, 5.0])
    moved = softmax(A @ (m.coef_ + shift).T + m.intercept_ + 1.5, axis=1)
    np.testing.assert_allclose(moved, m.predict_proba(A), atol=1e-12)


@pytest.mark.parametrize("at", FAMILIES, ids=" ".join)
def test_slopes_of_the_log_partition_are_mean_and_variance(at: Any) -> None:
    """Of a canonical link, of the loss A(η) - y η by differences; else of the loss at its own mean."""
    family = FAMILIES[at]
    eta = np.array([0.3, 0.9, 1.7])
    mean = family.mean(eta)
    value, slope, curve = family.loss.all(eta[:, None], mean)
    np.testing.assert_allclose(slope[:, 0], 0, atol=1e-12)
    h = 1e-5
    around = [family.loss.value((eta + t)[:, None], mean) for t in (-h, h)]
    np.testing.assert_allclose((around[0] + around[1] - 2 * value) / h**2, curve[:, 0, 0], rtol=1e-4)
    rate = (family.mean(eta + h) - family.mean(eta - h)) / (2 * h)
    np.testing.assert_allclose(np.square(rate / family.deviation(mean)), curve[:, 0, 0], rtol=1e-7)
    if at[1] != "log" or at[0] == "poisson":
        np.testing.assert_allclose(np.abs(rate), family.deviation(mean) ** 2, rtol=1e-7)
