"""Ridge regression against its normal equations, its limits, and exact sums."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from ml_core.errors import InvalidData, InvalidParameter
from ml_core.linear.bayesian_linear_regression import BayesianLinearRegression
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.ridge_regression import RidgeRegression
from tests.least_squares import KNOWN_X, KNOWN_Y, problem


@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_a_penalised_bias_solves_the_printed_equations(offset):
    X, y = problem(offset=offset)
    A = np.hstack([np.ones((len(X), 1)), X])
    want = np.linalg.solve(A.T @ A + 3 * np.eye(A.shape[1]), A.T @ y)
    m = RidgeRegression(alpha=3.0, penalize_bias=True).fit(X, y)
    np.testing.assert_allclose([m.intercept_, *m.coef_], want, rtol=1e-10)
    np.testing.assert_allclose(m.effective_parameters_, np.trace(A @ np.linalg.solve(A.T @ A + 3 * np.eye(5), A.T)))
    assert all(c.holds for c in m.diagnostics(X, y).certificates)


def test_known_values():
    m = RidgeRegression().fit(KNOWN_X, KNOWN_Y)
    report = m.diagnostics(KNOWN_X, KNOWN_Y)
    np.testing.assert_allclose([m.coef_[0], m.intercept_], [0.9166667, 0.4583333], atol=1e-7)
    assert m.effective_parameters_ == pytest.approx(1.8333333)
    assert report.summary["leave_one_out_mse"] == pytest.approx(2.5886198)
    biased = RidgeRegression(penalize_bias=True).fit(KNOWN_X, KNOWN_Y)
    np.testing.assert_allclose([biased.coef_[0], biased.intercept_], [1.0, 0.2])
    assert RidgeRegression(alpha=4.0).fit(KNOWN_X, KNOWN_Y).coef_[0] == pytest.approx(0.6111111)


@pytest.mark.parametrize("params", [{}, {"penalize_bias": True}, {"fit_intercept": False}])
def test_leaving_one_out_equals_refitting(params):
    X, y = problem(n=12)
    errors = []
    for i in range(12):
        rest = np.arange(12) != i
        errors.append(y[i] - RidgeRegression(**params).fit(X[rest], y[rest]).predict(X[i : i + 1])[0])
    report = RidgeRegression(**params).fit(X, y).diagnostics(X, y)
    assert report.summary["leave_one_out_mse"] == pytest.approx(np.mean(np.square(errors)), rel=1e-9)
    assert all(c.holds for c in report.certificates)


@pytest.mark.parametrize("shape", [(40, 4), (6, 30)])
@pytest.mark.parametrize("intercept", [True, False])
def test_equals_the_peer_with_weights_and_more_columns_than_rows(shape, intercept):
    r = np.random.default_rng(0)
    X, Y, s = r.normal(size=shape), r.normal(size=(shape[0], 2)), r.random(shape[0]) + 0.5
    ours = RidgeRegression(alpha=0.7, fit_intercept=intercept).fit(X, Y, sample_weight=s)
    peer = Ridge(alpha=0.7, fit_intercept=intercept).fit(X, Y, sample_weight=s)
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ours.rss_, s @ (Y - ours.predict(X)) ** 2, rtol=1e-10)


def test_without_penalty_it_is_least_squares_and_with_a_large_one_the_mean():
    X, y = problem()
    np.testing.assert_allclose(
        RidgeRegression(alpha=0.0).fit(X, y).coef_, LinearRegression().fit(X, y).coef_, rtol=1e-9
    )
    flat = RidgeRegression(alpha=1e15).fit(X, y)
    np.testing.assert_allclose(flat.predict(X), y.mean(), rtol=1e-9)
    assert flat.effective_parameters_ == pytest.approx(1, abs=1e-9)
    few = RidgeRegression(alpha=0.0).fit(X[:3], y[:3])
    np.testing.assert_allclose(few.predict(X[:3]), y[:3], rtol=1e-9)


def test_two_variances_stand_for_the_penalty_and_the_answer_is_the_posterior_mean():
    X, y = problem()
    m = RidgeRegression(noise_variance=0.5, prior_variance=0.25).fit(X, y)
    assert m.alpha_ == 2.0
    bayes = BayesianLinearRegression(alpha=4.0, noise_variance=0.5, bias_prior_variance="flat").fit(X, y)
    np.testing.assert_allclose(m.coef_, bayes.coef_, rtol=1e-10)
    with pytest.raises(InvalidParameter, match="prior_variance is missing"):
        RidgeRegression(noise_variance=0.5).fit(X, y)


def test_shrinkage_is_monotone_along_the_path():
    X, y = problem()
    path = RidgeRegression().fit(X, y).diagnostics(X, y).curves["path"]
    assert (np.diff(path["coefficient_norm"]) <= 0).all()
    assert (np.diff(path["rss"]) >= 0).all()
    assert (np.diff(path["effective_parameters"]) < 0).all()
    at = 8
    one = RidgeRegression(alpha=float(path["x"][at])).fit(X, y)
    assert path["rss"][at] == pytest.approx(one.rss_[0])
    assert path["effective_parameters"][at] == pytest.approx(one.effective_parameters_)


def test_foreign_rows_cannot_be_forgotten():
    X, y = problem()
    m = RidgeRegression().fit(X, y)
    with pytest.raises(InvalidData, match="cannot have seen"):
        m.forget(X[:5] * 1000, y[:5])
