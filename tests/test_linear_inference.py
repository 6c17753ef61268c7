"""Inference after least squares against statsmodels and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from ml_core.distributions.student import StudentT
from ml_core.linear.linear_regression import LinearRegression
from tests.least_squares import KNOWN_X, problem, solution


@pytest.mark.parametrize("kind", ["frequency", "precision"])
def test_inference_agrees_with_statsmodels(kind):
    X, y = problem(1)
    s = np.random.default_rng(2).integers(1, 4, size=len(y)).astype(float)
    m = LinearRegression(weight_kind=kind).fit(X, y, s)
    if kind == "precision":
        peer = sm.WLS(y, sm.add_constant(X), weights=s).fit()
    else:
        at = np.repeat(np.arange(len(y)), s.astype(int))
        peer = sm.OLS(y[at], sm.add_constant(X[at])).fit()
    d = m.diagnostics(X, y, s)
    table = np.array([row[2:8] for row in d.tables["coefficients"].rows], dtype=float)
    want = np.column_stack([peer.params, peer.bse, peer.tvalues, peer.pvalues, peer.conf_int()])
    np.testing.assert_allclose(table, want, rtol=1e-9, atol=1e-14)
    assert d.summary["log_likelihood"] == pytest.approx(peer.llf, rel=1e-12)
    assert d.summary["aic"] == pytest.approx(peer.aic, rel=1e-12)
    assert d.summary["bic"] == pytest.approx(peer.bic, rel=1e-12)
    assert d.summary["adjusted_r2"] == pytest.approx(peer.rsquared_adj, rel=1e-12)
    assert d.matrices["coefficient_covariance"] == pytest.approx(peer.cov_params(), rel=1e-10)
    assert all(c.holds for c in d.certificates)


def test_influence_agrees_with_statsmodels():
    X, y = problem(4, n=25)
    y[7] += 20
    m = LinearRegression().fit(X, y)
    peer = sm.OLS(y, sm.add_constant(X)).fit().get_influence()
    rows = {r[0]: r[2:] for r in m.diagnostics(X, y).tables["influential_rows"].rows}
    assert next(iter(rows)) == 7
    for i, (_, _, h, inner, outer, cook) in rows.items():
        assert h == pytest.approx(peer.hat_matrix_diag[i], rel=1e-10)
        assert inner == pytest.approx(peer.resid_studentized_internal[i], rel=1e-9)
        assert outer == pytest.approx(peer.resid_studentized_external[i], rel=1e-9)
        assert cook == pytest.approx(peer.cooks_distance[0][i], rel=1e-9)
    vif = [r[8] for r in m.diagnostics(X, y).tables["coefficients"].rows[1:]]
    for j, v in enumerate(vif):
        assert v == pytest.approx(
            1 / (1 - sm.OLS(X[:, j], sm.add_constant(np.delete(X, j, 1))).fit().rsquared), rel=1e-9
        )


def test_predictive_distribution_is_the_classical_interval():
    X, y = problem(5)
    Q = X[:6] + 0.5
    m = LinearRegression().fit(X, y)
    frame = (
        sm.OLS(y, sm.add_constant(X)).fit().get_prediction(sm.add_constant(Q, has_constant="add")).summary_frame(0.05)
    )
    rows = m.posterior(Q).to_json(0.95)
    np.testing.assert_allclose([r["interval"] for r in rows], frame[["obs_ci_lower", "obs_ci_upper"]], rtol=1e-10)
    np.testing.assert_allclose(
        [r["mean_interval"] for r in rows], frame[["mean_ci_lower", "mean_ci_upper"]], rtol=1e-10
    )
    np.testing.assert_allclose([r["epistemic_scale"] for r in rows], frame["mean_se"], rtol=1e-10)


def test_student_t_against_scipy():
    p = StudentT(np.array([0.0, 2.0]), np.array([1.0, 3.0]), np.array([5.0, 1.5]))
    peer = stats.t(p.degrees_of_freedom, p.location, p.scale)
    np.testing.assert_allclose(p.log_density(np.array([0.3, -4.0])), peer.logpdf([0.3, -4.0]), rtol=1e-12)
    np.testing.assert_allclose(p.interval(0.9).T, peer.interval(0.9), rtol=1e-9)
    np.testing.assert_allclose(p.mean, peer.mean())
    np.testing.assert_allclose(p.variance, peer.var())
    draws = p.sample(4000, np.random.default_rng(0))
    assert draws.shape == (4000, 2)
    assert stats.kstest((draws[:, 0]), stats.t(5).cdf).pvalue > 1e-3
    assert "epistemic_scale" not in p.to_json()[0]


@pytest.mark.parametrize("columns", [[0, 1, 2], [0, 1], [1, 2]])
@pytest.mark.parametrize("solver", ["auto", "svd"])
def test_lin7_intervals_of_a_rank_deficient_model(columns, solver):
    X, y = np.array([[1.0, 2, 3], [1, 3, 4], [1, 5, 6], [1, 8, 9]])[:, columns], np.array([2.0, 4, 5, 9])
    m = LinearRegression(solver=solver).fit(X, y)
    row = m.posterior(np.array([[1.0, 4, 5]])[:, columns]).to_json(0.95)[0]
    assert row["location"] == pytest.approx(4.452380952381, abs=1e-12)
    assert row["epistemic_scale"] == pytest.approx(0.325590341219, abs=1e-12)
    assert row["mean_interval"] == pytest.approx([3.051478781957, 5.853283122805], abs=1e-11)
    assert row["interval"] == pytest.approx([1.377350646126, 7.527411258635], abs=1e-11)


def test_a_row_outside_the_span_of_the_data_has_an_infinite_scale():
    X, y = np.array([[1.0, 2, 3], [1, 3, 4], [1, 5, 6], [1, 8, 9]]), np.array([2.0, 4, 5, 9])
    row = LinearRegression().fit(X, y).posterior([[1.0, 4, 6]]).to_json()[0]
    assert row["scale"] is None
    assert row["interval"] == [None, None]


@pytest.mark.parametrize(("kind", "se", "df"), [("frequency", 0.044117647059, 4), ("precision", 0.088235294118, 1)])
def test_lin17_weight_kinds_and_rows_of_weight_zero(kind, se, df):
    m = LinearRegression(weight_kind=kind).fit(KNOWN_X, [1.0, 2, 2, 5], [2, 1, 0, 3])
    np.testing.assert_allclose([m.coef_[0], m.intercept_], [1.352941176471, -0.441176470588], rtol=1e-11)
    assert m.df_ == df
    assert solution(m)[1][1] == pytest.approx(se, abs=1e-12)
    rows = np.repeat(np.arange(4), [2, 1, 0, 3])
    twin = LinearRegression().fit(KNOWN_X[rows], np.array([1.0, 2, 2, 5])[rows])
    np.testing.assert_allclose(twin.coef_, m.coef_, rtol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_geometry_of_least_squares(seed):
    X, y = problem(seed, n=20)
    d = LinearRegression().fit(X, y).diagnostics(X, y)
    H = d.matrices["hat"]
    np.testing.assert_allclose(H @ H, H, atol=1e-13)
    np.testing.assert_allclose(H, H.T, atol=1e-15)
    assert np.trace(H) == pytest.approx(5)
    fewer = LinearRegression().fit(X[:, :3], y).diagnostics(X[:, :3], y)
    assert fewer.summary["rss"] >= d.summary["rss"]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shift", [0.0, 300.0])
@pytest.mark.parametrize("noise", [0.0, 0.3, 30.0])
def test_digits_left_bound_what_a_change_of_the_cells_moves(seed, shift, noise):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)) @ (np.eye(4) + 3.0 * rng.normal(size=(4, 4))) * 10.0 ** rng.integers(-3, 4, 4)
    X += shift * X.std(axis=0)
    y = X @ (1 / X.std(axis=0)) + noise * rng.normal(size=60)
    m = LinearRegression().fit(X, y)
    left = m.diagnostics(X, y).summary["digits_left"]
    size, change = X.std(axis=0), 1e-7
    moved = []
    for _ in range(20):
        A, b = (v * (1 + change * rng.uniform(-1, 1, v.shape)) for v in (X, y))
        moved.append(LinearRegression().fit(A, b))
    far = max(np.linalg.norm(size * (k.coef_ - m.coef_)) for k in moved) / np.linalg.norm(size * m.coef_)
    told = 10.0**-left / np.finfo(float).eps * change
    assert far <= 1.05 * told
    assert told < 300 * far  # a bound, not a shrug


def test_digits_left_of_known_designs():
    X = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    exact = LinearRegression().fit(X, X @ [1.0, 1.0]).diagnostics(X, X @ [1.0, 1.0]).summary["digits_left"]
    assert exact == pytest.approx(-np.log10(np.finfo(float).eps * 2**0.5 * (2**0.5 + 8**0.5 / 8**0.5)), abs=1e-6)
    twins = np.column_stack([X[:, 0], X[:, 0] + 1e-8 * X[:, 1]])
    y = np.arange(4.0)
    assert LinearRegression().fit(twins, y).diagnostics(twins, y).summary["digits_left"] < 8
    flat = np.ones(4)
    assert LinearRegression().fit(X, flat).diagnostics(X, flat).summary["digits_left"] is None
