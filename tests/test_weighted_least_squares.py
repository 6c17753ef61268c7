"""Weighted least squares and several targets: known values, repeated rows, statsmodels' errors, one fit per target."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from ml_core.errors import InvalidData
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.multi_output_regression import MultiOutputRegression
from ml_core.linear.weighted_least_squares import WeightedLeastSquares
from tests.least_squares import KNOWN_X, KNOWN_Y


def errors(m, X, y, s=None):
    rows = m.diagnostics(X, y, s).tables["coefficients"].rows
    return [r[3] for r in rows]


def test_known_values():
    m = WeightedLeastSquares().fit(KNOWN_X, KNOWN_Y, sample_weight=[1, 1, 1, 3])
    np.testing.assert_allclose([m.coef_[0], m.intercept_], [1.25, -0.25], atol=1e-14)


@pytest.mark.parametrize(("kind", "error"), [("frequency", 0.044117647059), ("precision", 0.062391774811 * 2**0.5)])
def test_the_two_kinds_of_weights_differ_in_their_errors_only(kind, error):
    X, y, s = np.arange(1.0, 5)[:, None], np.array([1.0, 2, 2, 5]), np.array([2.0, 1, 0, 3])
    m = WeightedLeastSquares(weight_kind=kind).fit(X, y, sample_weight=s)
    np.testing.assert_allclose([m.coef_[0], m.intercept_], [1.352941176471, -0.441176470588], rtol=1e-11)
    keep = s > 0
    peer = sm.WLS(y[keep], sm.add_constant(X[keep]), weights=s[keep]).fit()
    found = errors(m, X, y, s)
    if kind == "precision":
        np.testing.assert_allclose(found, peer.bse, rtol=1e-9)
    assert found[1] == pytest.approx(error, rel=1e-9)


def test_a_factor_of_precision_weights_changes_no_error_and_weights_are_checked():
    r = np.random.default_rng(0)
    X, y, s = r.normal(size=(30, 3)), r.normal(size=30), r.random(30) + 0.1
    one, two = WeightedLeastSquares().fit(X, y, s), WeightedLeastSquares().fit(X, y, 1e6 * s)
    np.testing.assert_allclose(errors(one, X, y, s), errors(two, X, y, 1e6 * s), rtol=1e-9)
    report = one.diagnostics(X, y, s)
    assert report.summary["effective_rows"] == pytest.approx(s.sum() ** 2 / (s @ s))
    assert "equal_weights" in [n.code for n in WeightedLeastSquares().fit(X, y).notices_]
    for bad in (-s, 0 * s, s[:-1]):
        with pytest.raises(InvalidData):
            WeightedLeastSquares().fit(X, y, bad)


def test_integer_weights_repeat_rows_also_where_columns_are_aliased():
    r = np.random.default_rng(1)
    X = r.normal(size=(12, 2))
    X, y, s = np.hstack([X, X[:, :1] + X[:, 1:]]), r.normal(size=12), r.integers(0, 4, 12).astype(float)
    m = WeightedLeastSquares(weight_kind="frequency").fit(X, y, s)
    many = LinearRegression().fit(np.repeat(X, s.astype(int), axis=0), np.repeat(y, s.astype(int)))
    np.testing.assert_allclose(m.coef_, many.coef_, rtol=1e-9)
    assert m.df_ == many.df_


def test_several_targets_are_fits_of_each():
    r = np.random.default_rng(2)
    X = r.normal(size=(50, 4))
    Y = X @ r.normal(size=(4, 3)) + r.normal(size=(50, 3)) @ np.array([[1, 0.9, 0], [0, 0.3, 0], [0, 0, 2]])
    m, report = MultiOutputRegression().fit(X, Y), MultiOutputRegression().fit(X, Y).diagnostics(X, Y)
    for k in range(3):
        one = sm.OLS(Y[:, k], sm.add_constant(X)).fit()
        np.testing.assert_allclose([m.intercept_[k], *m.coef_[k]], one.params, rtol=1e-10)
        found = [row[3] for row in report.tables["coefficients"].rows if row[0] == k]
        np.testing.assert_allclose(found, one.bse, rtol=1e-9)
        np.testing.assert_allclose(report.tables["outputs"].rows[k][3], one.rsquared, rtol=1e-9)
    R = Y - m.predict(X)
    np.testing.assert_allclose(report.matrices["residual_covariance"], R.T @ R / 45, rtol=1e-9)
    np.testing.assert_allclose(report.matrices["residual_correlation"], np.corrcoef(R.T), rtol=1e-9)
    assert report.tables["residual_correlations"].rows[0][:2] == [0, 1]
    assert m.posterior(X[:2]).interval(0.9).shape == (2, 3, 2)
    Y[3, 1] = np.nan
    with pytest.raises(InvalidData):
        MultiOutputRegression().fit(X, Y)
