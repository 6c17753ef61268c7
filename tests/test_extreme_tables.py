"""Legal tables at the ends of what doubles hold, against the same in eighty or seven hundred digits."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest

from ml_core.errors import InvalidData
from ml_core.registry import build

NO_TAILS = {"decimals": False, "exact_powers": False}


def exactly(A: np.ndarray) -> Any:
    return mp.matrix(np.asarray(A, dtype=float).tolist())


def fitted(name: str, X: np.ndarray, y: np.ndarray, s: Any = None, **params: Any) -> tuple[Any, Any]:
    """Model and report, whose certificates hold."""
    model: Any = build({"algorithm": name, "params": params}).fit(X, y, s)
    report = model.diagnostics(X, y, s)
    assert all(c.holds for c in report.certificates), report.certificates
    return model, report


@pytest.mark.parametrize("units", [(1.0, 1e-140, 1.0), (1e-140, 1.0, 1e-140), (1e90, 1.0, 1e-140), (1e-140,) * 3,
                                   (1e99, 1.0, 1e-149)])  # fmt: skip
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 1.0, 1e3])
def test_smooth_coefficients_whatever_the_units(units: tuple[float, ...], alpha: float) -> None:
    r = np.random.default_rng(0)
    Z = r.normal(size=(20, 3))
    X, y = Z * units, Z @ [1.0, 2.0, 3.0] + r.normal(size=20)
    model, _ = fitted("generalized_tikhonov", X, y, alpha=alpha, operator="first_difference")
    with mp.workdps(700):
        A, K = exactly(np.hstack([np.ones((20, 1)), X])), mp.zeros(2, 4)
        K[0, 1], K[0, 2], K[1, 2], K[1, 3] = -1, 1, -1, 1
        want = mp.lu_solve(A.T * A + mp.mpf(alpha) * K.T * K, A.T * exactly(y[:, None]))
        got = exactly(np.append(model.intercept_, model.coef_)[:, None])
        assert all(abs(got[j] / want[j] - 1) < mp.mpf("1e-12") for j in range(1, 4))


@pytest.mark.parametrize("seed", range(12))
def test_the_shortest_of_many_solutions_fits_where_columns_are_graded_and_far_from_zero(seed: int) -> None:
    r, intercept = np.random.default_rng(seed), seed % 3 > 0
    n, d = int(r.integers(3, 8)), int(r.integers(8, 12))
    X = (r.normal(size=(n, d)) + 10.0 ** r.uniform(0, 6, d) * r.choice([0, 1], d)) * 10.0 ** r.uniform(-8, 8, d)
    y = r.normal(size=n) + 10.0 ** r.uniform(-2, 3)
    model, _ = fitted("linear_regression", X, y, fit_intercept=intercept, **NO_TAILS)
    with mp.workdps(80):
        A = exactly(np.hstack([np.ones((n, 1)), X]) if intercept else X)
        want = A.T * mp.lu_solve(A * A.T, exactly(y[:, None]))
        slopes = np.array([float(v) for v in list(want)[int(intercept) :]])
    np.testing.assert_allclose(model.predict(X), y, atol=1e-12 * np.abs(y).max())
    np.testing.assert_allclose(model.coef_, slopes, atol=1e-9 * np.abs(slopes).max())


@pytest.mark.parametrize("apart", [1e-4, 1e-8])
@pytest.mark.parametrize("far", [0.0, 1e6])
@pytest.mark.parametrize("alpha", [1.0, 1e-12])
@pytest.mark.parametrize("intercept", [False, True])
def test_bayesian_regression_loses_the_condition_and_not_its_square(
    apart: float, far: float, alpha: float, intercept: bool
) -> None:
    r = np.random.default_rng(3)
    X = r.normal(size=(40, 3))
    X[:, 2] = X[:, 0] + apart * X[:, 2]
    X += far
    y = X[:, 0] - 2 * X[:, 1] + 0.1 * r.normal(size=40)
    params = {"alpha": alpha, "noise_variance": 0.01, "fit_intercept": intercept}
    model, _ = fitted("bayesian_linear_regression", X, y, **params)
    halves: Any = build({"algorithm": "bayesian_linear_regression", "params": params}).fit(X[:20], y[:20])
    halves.update(X[20:], y[20:])
    with mp.workdps(80):
        A = exactly(np.hstack([np.ones((40, 1)), X]) if intercept else X)
        inverse = (A.T * A / mp.mpf(0.01) + mp.mpf(alpha) * mp.eye(A.cols)) ** -1
        mean = [float(v) for v in inverse * A.T * exactly(y[:, None]) / mp.mpf(0.01)][int(intercept) :]
        sd = [float(mp.sqrt(inverse[j, j])) for j in range(int(intercept), A.cols)]
    spread = np.sqrt(np.diag(model.parameter_posterior()["coefficients"].covariance[0]))
    for found in (model, halves):
        np.testing.assert_allclose(found.coef_, mean, rtol=1e-14 / apart)
    np.testing.assert_allclose(spread, sd, rtol=1e-14 / apart)


@pytest.mark.parametrize("tiny", [1e-140, 1e-160, 1e-200])
def test_a_column_of_zeros_that_turns_out_tiny(tiny: float) -> None:
    r = np.random.default_rng(5)
    X = r.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 3.0] + r.normal(size=60)
    X[:20, 1], X[20:, 1] = 0.0, X[20:, 1] * tiny
    model: Any = build({"algorithm": "bayesian_linear_regression", "params": {"alpha": tiny**1.5}})
    model.fit(X[:20], y[:20]).update(X[20:], y[20:])
    want = build({"algorithm": "linear_regression", "params": {}}).fit(X, y).coef_
    np.testing.assert_allclose(model.coef_[[0, 2]], want[[0, 2]], rtol=0.1)
    assert all(c.holds for c in model.diagnostics(X, y).certificates)
    labels = np.where(y > 0, "yes", "no")
    naive: Any = build({"algorithm": "gaussian_naive_bayes", "params": {}}).fit(X[:20], labels[:20])
    if tiny < 1e-150:
        with pytest.raises(InvalidData, match="column 1 is below 1e-150"):
            naive.update(X[20:], labels[20:])
    else:
        naive.update(X[20:], labels[20:])
        assert all(c.holds for c in naive.diagnostics(X, labels).certificates)


@pytest.mark.parametrize("name", ["logistic_regression", "penalized_logistic_regression", "ridge_regression"])
@pytest.mark.parametrize("far", [1e3, 1e6])
@pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e3])
def test_certificates_of_a_penalised_bias_hold_far_from_zero(name: str, far: float, alpha: float) -> None:
    r = np.random.default_rng(1)
    X = r.normal(size=(40, 2)) + far
    y = X[:, 0] - far + r.normal(size=40)
    model, _ = fitted(name, X, y if name == "ridge_regression" else y > 0, alpha=alpha, penalize_bias=True)
    if name == "ridge_regression":
        with mp.workdps(50):
            A = exactly(np.hstack([np.ones((40, 1)), X]))
            w = mp.lu_solve(A.T * A + mp.mpf(alpha) * mp.eye(3), A.T * exactly(y[:, None]))
            np.testing.assert_allclose(model.predict(X), [float(v) for v in A * w], atol=1e-8)


def test_a_certificate_says_where_a_penalised_bias_is_too_far_to_be_found() -> None:
    r = np.random.default_rng(1)
    X = r.normal(size=(40, 2)) + 1e8
    y = X[:, 0] - 1e8 + r.normal(size=40) > 0
    model: Any = build({"algorithm": "logistic_regression", "params": {"alpha": 1.0, "penalize_bias": True}}).fit(X, y)
    held = {c.name: c.holds for c in model.diagnostics(X, y).certificates}
    assert not held["duality_gap"]


@pytest.mark.parametrize("family", ["bernoulli", "binomial"])
def test_deviance_counts_rows_whose_fitted_share_rounds_to_one(family: str) -> None:
    r = np.random.default_rng(11)
    X, s = r.normal(size=(60, 2)), np.ones(60)
    y = (2 * X[:, 0] + r.logistic(size=60) > 0).astype(float)
    X[0], y[0], s[0] = [40.0, 0.0], 0.0, 1e-6
    model: Any = build({"algorithm": "generalized_linear_model", "params": {"family": family}}).fit(X, y, s)
    assert model.predict(X[:1]) == 1.0
    report = model.diagnostics(X, y, s)
    eta = model.intercept_ + X @ model.coef_
    loss = np.logaddexp(0.0, np.where(y > 0, -eta, eta))
    assert report.summary["deviance"] == pytest.approx(2 * s @ loss, rel=1e-12)
    assert report.summary["log_likelihood"] == pytest.approx(-s @ loss, rel=1e-12)
    assert report.summary["pearson_chi2"] == pytest.approx(s @ np.exp(np.where(y > 0, -eta, eta)), rel=1e-9)


def test_profiles_of_rows_that_weigh_far_apart_are_found_or_told() -> None:
    r = np.random.default_rng(13)
    X, s = r.normal(size=(40, 3)), 10.0 ** r.uniform(-6, 6, 40)
    X[:, 2] = X[:, 0] + 1e-6 * X[:, 2]
    params = {"penalty": "firth"}
    y = X[:, 0] + r.logistic(size=40) > 0
    model: Any = build({"algorithm": "penalized_logistic_regression", "params": params}).fit(X, y, s)
    table = model.diagnostics(X, y, s).tables["coefficients"]
    z, reason = table.columns.index("z"), table.columns.index("reason")
    assert all((row[z] is None) == (row[reason] is not None) for row in table.rows)
