"""The lasso against known values, its conditions of optimality, exact references and an independent solver."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import ElasticNet

from ml_core.errors import InvalidParameter
from ml_core.linear.lasso import Lasso
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.ridge_regression import RidgeRegression
from tests.least_squares import KNOWN_X, KNOWN_Y

DIABETES = [
    -0.277552278381780, -11.16077941617479, 24.853286360922769, 15.242107110989376, -26.47759336137286,
    13.756707649992521, 0.0, 7.0430175378803656, 31.588975454897385, 3.1587959114435827,
]  # fmt: skip
"""Slopes of standardised columns at 1/(2n) RSS + 0.1 ‖w‖₁, from 30-digit arithmetic with verified conditions."""


def objective(m, X, y, s=1.0):
    return float(np.sum(s * (y - m.predict(X)) ** 2) + m.alpha_ * (m.units_ @ np.abs(m.coef_)))


def check_certificates(m, X, y, s=None):
    report = m.diagnostics(X, y, s)
    assert [c.name for c in report.certificates if not c.holds] == []
    return report


@pytest.mark.parametrize(
    ("alpha", "slope", "bias", "value"),
    [(0.0, 1.1, 0.0, 2.7), (1.0, 1.0, 0.25, 3.75), (4.0, 0.7, 1.0, 6.3), (11.0, 0.0, 2.75, 8.75)],
)
def test_known_values(alpha, slope, bias, value):
    m = Lasso(alpha=alpha).fit(KNOWN_X, KNOWN_Y)
    np.testing.assert_allclose([m.coef_[0], m.intercept_], [slope, bias], atol=1e-14)
    report = check_certificates(m, KNOWN_X, KNOWN_Y)
    assert report.summary["objective"] == pytest.approx(value, rel=1e-14)
    assert report.summary["alpha_max"] == pytest.approx(11.0, rel=1e-15)


def test_the_largest_penalty_is_exact_at_its_boundary():
    X, y = np.array([[-1.0, 1], [0, -2], [1, 1]]), np.array([1.0, 2, 6])
    scale = 2 * len(y)
    assert Lasso(alpha=scale * 5 / 3).fit(X, y).coef_.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(Lasso(alpha=scale * 0.999 * 5 / 3).fit(X, y).coef_, [0.0025, 0.0], atol=1e-14)
    mean = Lasso(alpha=2 * 0.999 * 5 / 3, objective_scale="mean").fit(X, y)
    np.testing.assert_allclose(mean.coef_, [0.0025, 0.0], atol=1e-14)


@pytest.mark.parametrize(("X", "y"), [(np.zeros((3, 1)), np.zeros(3)), (np.arange(8.0).reshape(4, 2), np.full(4, 7.0)),
                                      (np.ones((3, 2)), np.arange(3.0))])  # fmt: skip
def test_nothing_to_learn_gives_zeros_and_the_mean(X, y):
    m = Lasso().fit(X, y)
    assert not m.coef_.any()
    assert m.intercept_ == y.mean()
    assert check_certificates(m, X, y).summary["support_size"] == 0


def test_the_reference_on_the_diabetes_data():
    table = np.loadtxt(Path(__file__).parent / "data" / "diabetes_raw.tsv", skiprows=1)
    X, y = table[:, :-1], table[:, -1]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    m = Lasso(alpha=0.2, objective_scale="mean").fit(Z, y)
    want = np.array(DIABETES)
    np.testing.assert_allclose(m.coef_, want, rtol=1e-11, atol=1e-12)
    assert m.alpha_max_ / 2 / len(y) == pytest.approx(45.160030020462899943, rel=1e-13)
    raw = Lasso(alpha=0.2, objective_scale="mean", standardize=True).fit(X, y)
    np.testing.assert_allclose(raw.coef_ * X.std(axis=0), want, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(raw.predict(X), m.predict(Z), rtol=1e-12)
    report = check_certificates(raw, X, y)
    assert [row[0] for row in report.tables["support"].rows] == np.flatnonzero(want).tolist()
    assert report.tables["entry_order"].rows[0][1] in (2, 8)
    assert (np.diff(report.curves["path"]["rss"]) <= 1e-9).all()


@given(
    st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 12), st.floats(0.001, 1.2), st.booleans(), st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_the_conditions_of_the_minimum_hold(seed, n, d, share, intercept, twins):
    r = np.random.default_rng(seed)
    X, s = r.normal(size=(n, d)), r.integers(1, 4, n).astype(float)
    X = np.hstack([X, X[:, :1]]) if twins else X
    y = X[:, 0] - 2 * X[:, -1] + r.normal(size=n)
    top = Lasso(fit_intercept=intercept, path_length=0).fit(X, y, sample_weight=s).alpha_max_
    m = Lasso(alpha=share * top, fit_intercept=intercept, path_length=0).fit(X, y, sample_weight=s)
    check_certificates(m, X, y, s)
    pull = 2 * (X - m.center_).T @ (s * (y - m.predict(X)))
    slack = 1e-9 * (1 + top)
    assert (np.abs(pull) <= m.alpha_ + slack).all()
    on = m.coef_ != 0
    np.testing.assert_allclose(pull[on], m.alpha_ * np.sign(m.coef_[on]), atol=slack)
    many = s.astype(int)
    again = Lasso(alpha=share * top, fit_intercept=intercept, path_length=0)
    again.fit(np.repeat(X, many, axis=0), np.repeat(y, many))
    np.testing.assert_allclose(m.predict(X), again.predict(X), atol=1e-9 * (1 + np.abs(y).max()))
    if share >= 1.0 + 1e-9:
        assert not m.coef_.any()


def test_an_independent_optimiser_finds_no_better_point():
    r = np.random.default_rng(2)
    X, y = r.normal(size=(30, 6)), r.normal(size=30)
    m = Lasso(alpha=6.0, fit_intercept=False).fit(X, y)

    def split(v):
        w = v[:6] - v[6:]
        return float(np.sum((y - X @ w) ** 2) + 6.0 * v.sum())

    found = minimize(split, np.full(12, 0.1), bounds=[(0, None)] * 12, method="L-BFGS-B", options={"ftol": 1e-15})
    assert objective(m, X, y) <= found.fun * (1 + 1e-12)


@pytest.mark.parametrize("shape", [(60, 8), (40, 200), (200, 150)])
def test_equals_the_peer_on_correlated_columns(shape):
    r = np.random.default_rng(5)
    X = r.normal(size=shape) + 3 * r.normal(size=(shape[0], 1)) + 100.0
    y = X[:, :5] @ [3, -2, 1, 0, 4] + r.normal(size=shape[0])
    ours = Lasso(alpha=0.5, alpha_l2=0.2, objective_scale="mean").fit(X, y)
    peer = ElasticNet(alpha=0.25 + 0.2, l1_ratio=0.25 / 0.45, tol=1e-14, max_iter=1_000_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-7 * np.abs(peer.coef_).max())
    check_certificates(ours, X, y)


def test_limits_are_least_squares_and_ridge():
    r = np.random.default_rng(3)
    X, y = r.normal(size=(40, 5)), r.normal(size=40)
    np.testing.assert_allclose(Lasso(alpha=0.0).fit(X, y).coef_, LinearRegression().fit(X, y).coef_, rtol=1e-10)
    ridge = RidgeRegression(alpha=3.0).fit(X, y)
    np.testing.assert_allclose(Lasso(alpha=0.0, alpha_l2=3.0).fit(X, y).coef_, ridge.coef_, rtol=1e-10)
    check_certificates(Lasso(alpha=0.0, alpha_l2=3.0).fit(X, y), X, y)


def test_units_of_columns_only_scale_slopes_when_standardized():
    r = np.random.default_rng(4)
    X, y, units = r.normal(size=(50, 4)), r.normal(size=50), np.array([1e-12, 1.0, 1e9, 3.0])
    plain = Lasso(alpha=5.0, standardize=True).fit(X, y)
    other = Lasso(alpha=5.0, standardize=True).fit(X * units + 1e3 * units, y)
    np.testing.assert_allclose(other.coef_ * units, plain.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(other.coef_ == 0, plain.coef_ == 0)


def test_the_laplace_prior_gives_the_penalty():
    m = Lasso(noise_variance=2.0, prior_scale=0.5).fit(KNOWN_X, KNOWN_Y)
    assert m.alpha_ == 8.0
    with pytest.raises(InvalidParameter, match="prior_scale"):
        Lasso(noise_variance=2.0).fit(KNOWN_X, KNOWN_Y)


def test_twins_are_reported_and_cut_rounds_say_so():
    r = np.random.default_rng(6)
    x = r.normal(size=(30, 1))
    X, y = np.hstack([x, x, r.normal(size=(30, 1))]), 3 * x[:, 0] + 0.1 * r.normal(size=30)
    report = check_certificates(Lasso(alpha=1.0).fit(X, y), X, y)
    assert "not_unique" in [w.code for w in report.warnings]
    wide = r.normal(size=(60, 40)) + 5 * r.normal(size=(60, 1))
    cut = Lasso(alpha=1e-3, max_iter=1).fit(wide, wide.sum(axis=1))
    report = cut.diagnostics(wide, wide.sum(axis=1))
    assert not cut.converged_
    assert "not_converged" in [w.code for w in report.warnings]
    assert not report.certificates[0].holds


def test_an_early_stop_is_within_its_gap():
    r = np.random.default_rng(7)
    X = r.normal(size=(80, 300))
    y = X[:, :20].sum(axis=1) + r.normal(size=80)
    exact = Lasso(alpha=10.0, path_length=0).fit(X, y)
    early = Lasso(alpha=10.0, tol=1e-2, path_length=0).fit(X, y)
    total = float(((y - y.mean()) ** 2).sum())
    assert objective(exact, X, y) <= objective(early, X, y) <= objective(exact, X, y) + 1e-2 * total
    check_certificates(early, X, y)


@pytest.mark.parametrize(("n", "d", "more"), [(50, 8, 8), (200, 30, 40), (40, 60, 30)])
@pytest.mark.parametrize("share", [0.3, 1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_copies_of_columns_cost_nothing_and_change_nothing(n, d, more, share, sign):
    r = np.random.default_rng(n)
    X = r.normal(size=(n, d))
    y = X @ np.where(r.random(d) < 0.4, r.normal(size=d), 0.0) + 0.5 * r.normal(size=n)
    twins = np.hstack([X, sign * X[:, r.choice(d, more)]])[:, r.permutation(d + more)]
    alpha = share * Lasso(path_length=0).fit(X, y).alpha_max_
    alone, both = (Lasso(alpha=alpha, path_length=0).fit(Z, y) for Z in (X, twins))
    assert both.converged_
    assert both.reason_ == "gradient"
    check_certificates(both, twins, y)
    assert objective(both, twins, y) == pytest.approx(objective(alone, X, y), rel=1e-13, abs=1e-14 * (y @ y))
    assert np.count_nonzero(both.coef_) <= min(n, d)


def test_a_sum_of_columns_that_never_varies_costs_no_digits():
    r = np.random.default_rng(4)
    levels = np.eye(5)[r.integers(0, 5, 300)]
    X, y = np.hstack([levels, np.eye(3)[r.integers(0, 3, 300)]]), r.normal(size=300)
    top = Lasso(path_length=0).fit(X, y).alpha_max_
    for share in (0.5, 1e-3, 1e-6):
        m = Lasso(alpha=share * top, path_length=0).fit(X, y)
        assert m.reason_ == "gradient"
        check_certificates(m, X, y)
        assert np.linalg.matrix_rank(X[:, m.coef_ != 0] - X[:, m.coef_ != 0].mean(axis=0)) == np.count_nonzero(m.coef_)
