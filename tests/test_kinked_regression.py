"""Absolute, tilted, ε-insensitive and largest residuals: known values, linear programs, statsmodels, invariances."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from sklearn.linear_model import QuantileRegressor

from ml_core import progress
from ml_core.errors import Cancelled
from ml_core.linear.epsilon_insensitive_regression import EpsilonInsensitiveRegression
from ml_core.linear.least_absolute_deviations import LeastAbsoluteDeviations
from ml_core.linear.minimax_regression import MinimaxRegression
from tests.least_squares import KNOWN_X, KNOWN_Y

OUT_X, OUT_Y = np.arange(5.0)[:, None], np.array([0.0, 1, 2, 3, 14])
ALL = [
    LeastAbsoluteDeviations, lambda: LeastAbsoluteDeviations(quantile=0.2),
    lambda: LeastAbsoluteDeviations(alpha_l1=2.0),
    lambda: LeastAbsoluteDeviations(alpha_l2=0.5), lambda: EpsilonInsensitiveRegression(epsilon=0.4),
    lambda: EpsilonInsensitiveRegression(epsilon=0.4, alpha_l2=1.0), MinimaxRegression,
]  # fmt: skip


def table(seed=0, n=40, d=3, whole=False):
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d))
    y = X @ r.normal(size=d) + r.standard_t(2, size=n) + 1
    return (np.round(2 * X), np.round(2 * y)) if whole else (X, y)


def program(X, y, s, eps=0.0, up=1.0, down=1.0, intercept=True):
    """The optimum by HiGHS."""
    A = np.hstack([np.ones((len(X), 1)), X]) if intercept else X
    n, p = A.shape
    rows = np.block([[-A, -np.eye(n), np.zeros((n, n))], [A, np.zeros((n, n)), -np.eye(n)]])
    cost = np.concatenate([np.zeros(p), up * s, down * s])
    return linprog(cost, rows, np.concatenate([eps - y, eps + y]), bounds=[(None, None)] * p + [(0, None)] * 2 * n).fun


def certified(m, X, y, s=None):
    report = m.diagnostics(X, y, s)
    assert [(c.name, c.value) for c in report.certificates if not c.holds] == []
    assert report.certificates
    return report


def test_known_values():
    m = LeastAbsoluteDeviations().fit(KNOWN_X, KNOWN_Y)
    np.testing.assert_allclose([m.coef_[0], m.intercept_], [4 / 3, -1 / 3], atol=1e-12)
    report = certified(m, KNOWN_X, KNOWN_Y)
    assert report.summary["objective"] == pytest.approx(7 / 3, rel=1e-12)
    assert [row[0] for row in report.tables["active_rows"].rows] == [0, 3]
    np.testing.assert_allclose([row[2] for row in report.tables["active_rows"].rows], [-1 / 3, 1 / 3], atol=1e-9)
    assert m.laplace_scale_ == pytest.approx(7 / 12)
    out = LeastAbsoluteDeviations().fit(OUT_X, OUT_Y)
    np.testing.assert_allclose([out.coef_[0], out.intercept_], [1, 0], atol=1e-12)
    assert certified(out, OUT_X, OUT_Y).summary["objective"] == pytest.approx(10)
    tube = certified(EpsilonInsensitiveRegression(epsilon=0.5).fit(KNOWN_X, KNOWN_Y), KNOWN_X, KNOWN_Y)
    assert tube.summary["objective"] == pytest.approx(1.0, rel=1e-10)
    flat = MinimaxRegression().fit(KNOWN_X, KNOWN_Y)
    np.testing.assert_allclose([flat.coef_[0], flat.intercept_, flat.bound_], [1, 0, 1], atol=1e-12)
    signs = [np.sign(row[1]) for row in certified(flat, KNOWN_X, KNOWN_Y).tables["active_rows"].rows]
    assert len(signs) == 3
    assert signs[0] == -signs[1] == signs[2]


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 4), st.booleans(), st.booleans(),
       st.sampled_from([(0.0, 0.5), (0.0, 0.15), (0.7, 0.5)]))  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_the_optimum_is_that_of_the_linear_program(seed, n, d, whole, intercept, kind):
    X, y = table(seed, n, d, whole)
    s = np.random.default_rng(seed).integers(1, 4, n).astype(float)
    eps, tau = kind
    m = (EpsilonInsensitiveRegression(epsilon=eps, fit_intercept=intercept) if eps else
         LeastAbsoluteDeviations(quantile=tau, fit_intercept=intercept)).fit(X, y, sample_weight=s)  # fmt: skip
    r = y - m.predict(X)
    found = float(s @ (2 * tau * np.maximum(r - eps, 0) + 2 * (1 - tau) * np.maximum(-r - eps, 0)))
    want = program(X, y, s, eps, 2 * tau, 2 * (1 - tau), intercept)
    assert found <= want * (1 + 1e-8) + 1e-8
    certified(m, X, y, s)


@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_largest_residual_is_that_of_the_linear_program(seed, n, d, whole):
    X, y = table(seed, n, d, whole)
    m = MinimaxRegression().fit(X, y)
    A = np.hstack([np.ones((n, 1)), X])
    rows = np.vstack([np.hstack([-A, -np.ones((n, 1))]), np.hstack([A, -np.ones((n, 1))])])
    free = [(None, None)] * (d + 1) + [(0, None)]
    want = linprog(np.eye(d + 2)[-1], rows, np.concatenate([-y, y]), bounds=free).fun
    assert m.bound_ <= want + 1e-7
    certified(m, X, y)


@pytest.mark.parametrize("tau", [0.5, 0.2, 0.9])
def test_estimates_and_errors_are_the_peers(tau):
    X, y = table(3, 400, 3)
    ours = LeastAbsoluteDeviations(quantile=tau).fit(X, y)
    peer = sm.QuantReg(y, sm.add_constant(X)).fit(q=tau, vcov="iid", p_tol=1e-10, max_iter=5000)
    np.testing.assert_allclose([ours.intercept_, *ours.coef_], peer.params, atol=1e-5)
    rows = certified(ours, X, y).tables["coefficients"].rows
    np.testing.assert_allclose([row[2] for row in rows], peer.bse, rtol=1e-4)
    exact = QuantileRegressor(quantile=tau, alpha=0.0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, exact.coef_, atol=1e-9)


def test_penalties_reach_the_optimum_of_a_general_solver():
    X, y = table(4, 25, 2)
    for l1, l2, eps in ((3.0, 0.0, 0.0), (0.0, 2.0, 0.0), (1.0, 1.0, 0.5), (0.0, 4.0, 0.5)):
        m = EpsilonInsensitiveRegression(epsilon=eps, alpha_l1=l1, alpha_l2=l2).fit(X, y)

        def cost(v, l1=l1, l2=l2, eps=eps):
            r = np.abs(y - X @ v[1:] - v[0])
            return np.maximum(r - eps, 0).sum() + l1 * np.abs(v[1:]).sum() + 0.5 * l2 * v[1:] @ v[1:]

        at = np.array([m.intercept_, *m.coef_])
        found = min((minimize(cost, at + e, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
                     for e in (0.0, 0.3)), key=lambda f: f.fun)  # fmt: skip
        assert cost(at) <= found.fun + 1e-8
        assert certified(m, X, y).summary["objective"] == pytest.approx(cost(at), rel=1e-9)
        mean = EpsilonInsensitiveRegression(epsilon=eps, alpha_l1=l1 / 25, alpha_l2=l2 / 25, objective_scale="mean")
        np.testing.assert_allclose(mean.fit(X, y).predict(X), m.predict(X), atol=1e-7)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("whole", [False, True])
def test_units_order_and_repeated_rows_change_nothing(make, whole):
    X, y = table(5, 30, 3, whole)
    free = make().get_params().get("alpha_l1", 0) == make().get_params().get("alpha_l2", 0) == 0
    one, size = make().fit(X, y), 1e-7 * np.abs(y).max()
    order = [2, 0, 1]
    np.testing.assert_allclose(make().fit(X[:, order], y).predict(X[:, order]), one.predict(X), atol=size)
    np.testing.assert_allclose(make().fit(X + 100.0, y).predict(X + 100.0), one.predict(X), atol=size)
    if free:
        Z = X * [1e-6, 1.0, 1e8] + [1e-5, -3.0, 1e9]
        np.testing.assert_allclose(make().fit(Z, y).predict(Z), one.predict(X), atol=size)
    s = np.random.default_rng(0).integers(0, 4, 30)
    heavy = make().fit(X, y, sample_weight=s.astype(float))
    many = make().fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    np.testing.assert_allclose(heavy.predict(X), many.predict(X), atol=size)
    np.testing.assert_allclose(make().fit(X[::-1], y[::-1]).predict(X), one.predict(X), atol=size)


def test_a_constant_alone_is_median_and_midrange_and_ties_are_told():
    ones, y = np.ones((4, 1)), np.array([1.0, 2, 3, 10])
    median = LeastAbsoluteDeviations().fit(ones, y)
    assert median.intercept_ == pytest.approx(2.5)
    assert not median.unique_
    assert "not_unique" in [n.code for n in median.notices_]
    assert LeastAbsoluteDeviations().fit(ones[:3], y[:3]).intercept_ == pytest.approx(2.0)
    assert MinimaxRegression().fit(ones, y).intercept_ == pytest.approx(5.5)
    wide = EpsilonInsensitiveRegression(epsilon=50.0).fit(*table(6))
    assert not wide.unique_
    assert certified(wide, *table(6)).summary["rows_outside"] == 0


def test_aliased_columns_keep_predictions_and_have_no_errors():
    X, y = table(7, 30, 2)
    both = np.hstack([X, X[:, :1] - 2 * X[:, 1:], np.full((30, 1), 5.0)])
    m = LeastAbsoluteDeviations().fit(both, y)
    np.testing.assert_allclose(m.predict(both), LeastAbsoluteDeviations().fit(X, y).predict(X), atol=1e-9)
    assert "rank_deficient" in [n.code for n in m.notices_]
    rows = certified(m, both, y).tables["coefficients"].rows
    assert all(row[2] is None and row[7] for row in rows)
    assert m.coef_[3] == 0.0


def test_scale_weights_of_the_largest_residual():
    X, y = table(8, 20, 1)
    s = np.random.default_rng(8).random(20) + 0.2
    m = MinimaxRegression(weight_kind="scale").fit(X, y, sample_weight=s)
    at = minimize(lambda v: np.max(s * np.abs(y - v[0] - v[1] * X[:, 0])), [m.intercept_ + 0.01, m.coef_[0]],
                  method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12})  # fmt: skip
    assert m.bound_ <= at.fun + 1e-8
    certified(m, X, y, s)


@pytest.mark.parametrize("make", ALL)
def test_degenerate_tables_and_cancelling(make):
    for X, y in ((np.ones((3, 2)), np.arange(3.0)), (np.arange(6.0).reshape(3, 2), np.full(3, 7.0)),
                 (np.array([[1.0, 2.0]]), np.array([3.0])), (np.zeros((4, 1)), np.zeros(4)),
                 (np.arange(4.0)[:, None], 2 * np.arange(4.0) + 1e9)):  # fmt: skip
        m = make().fit(X, y)
        assert np.isfinite(m.predict(X)).all()
        certified(m, X, y)

    def stop(_):
        raise Cancelled

    with progress.listen(stop), pytest.raises(Cancelled):
        make().fit(*table())


def test_many_rows_take_few_steps():
    X, y = table(9, 30_000, 5)
    m = LeastAbsoluteDeviations().fit(X, y)
    assert m.n_iter_ < 60
    assert certified(m, X, y).summary["active_rows"] == 6
    assert MinimaxRegression().fit(X, y).converged_


@pytest.mark.parametrize("model", [LeastAbsoluteDeviations, EpsilonInsensitiveRegression])
def test_a_table_without_variation_has_a_certificate_too(model):
    X, y = np.zeros((3, 2)), np.array([1.0, -2.0, 0.0])
    report = certified(model(fit_intercept=False).fit(X, y), X, y)
    assert report.summary["objective"] == pytest.approx(report.summary["dual_bound"])
