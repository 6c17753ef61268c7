"""Bayesian linear regression: known values, references, dense Gaussian algebra, ridge, and the theorems of updating."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal
from sklearn.linear_model import BayesianRidge, Ridge

from ml_core.bundle import load_bundle, save_bundle
from ml_core.errors import InvalidParameter
from ml_core.linear.bayesian_linear_regression import BayesianLinearRegression
from ml_core.linear.linear_regression import LinearRegression
from ml_core.registry import build, spec_of

KNOWN_X, KNOWN_Y = np.array([[1.0], [2], [3], [4]]), np.array([1.0, 3, 2, 5])
FAR_X, FAR_Y = np.arange(100, 105.0)[:, None], np.array([1, 2.2, 2.9, 4.1, 5])


def problem(seed=0, n=40, d=4, offset=0.0):
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d)) + offset
    return X, X @ r.normal(size=d) + 2 + 0.5 * r.normal(size=n)


def holds(m, X, y, s=None):
    return all(c.holds for c in m.diagnostics(X, y, s).certificates)


def dense(X, y, prior_mean, S0, noise):
    """Posterior mean and covariance of (b, w) by the textbook formulas in 40 digits; the log evidence in doubles."""
    A = np.column_stack([np.ones(len(X)), X])
    with mpmath.workdps(40):
        M, P, v = mpmath.matrix(A.tolist()), mpmath.matrix(S0.tolist()) ** -1, mpmath.mpf(noise)
        SN = (P + M.T * M / v) ** -1
        mean = SN * (P * mpmath.matrix(prior_mean.tolist()) + M.T * mpmath.matrix(y.tolist()) / v)
    logs = multivariate_normal(A @ prior_mean, noise * np.eye(len(y)) + A @ S0 @ A.T).logpdf(y)
    return np.array(mean.tolist(), dtype=float)[:, 0], np.array(SN.tolist(), dtype=float), logs


def test_known_values_and_updates_one_by_one():
    m = BayesianLinearRegression(alpha=1.0, noise_variance=0.25).fit(KNOWN_X, KNOWN_Y)
    assert [m.intercept_, m.coef_[0]] == pytest.approx([0.0962801, 1.0590810], abs=5e-8)
    assert m.log_evidence_ == pytest.approx(-9.9480016, abs=5e-8)
    row = m.posterior([[5.0]]).to_json()[0]
    assert (row["mean"], row["variance"]) == pytest.approx((5.3916849, 0.5694748), abs=6e-8)
    assert row["epistemic_sd"] ** 2 == pytest.approx(row["variance"] - 0.25, rel=1e-12)
    assert holds(m, KNOWN_X, KNOWN_Y)
    ridge = Ridge(alpha=0.25, fit_intercept=False).fit(np.column_stack([np.ones(4), KNOWN_X]), KNOWN_Y)
    np.testing.assert_allclose([m.intercept_, *m.coef_], ridge.coef_, rtol=1e-12)
    for order in itertools.permutations(range(4)):
        u = BayesianLinearRegression(alpha=1.0, noise_variance=0.25).fit(KNOWN_X[[order[0]]], KNOWN_Y[[order[0]]])
        for i in order[1:]:
            u.update(KNOWN_X[[i]], KNOWN_Y[[i]])
        np.testing.assert_allclose([u.intercept_, *u.coef_, u.log_evidence_],
                                   [m.intercept_, *m.coef_, m.log_evidence_], rtol=1e-12)  # fmt: skip


def test_diabetes_reference():
    lines = (Path(__file__).parent / "data" / "diabetes_raw.tsv").read_text().splitlines()
    A = np.array([[float(v) for v in r] for r in list(csv.reader(lines, delimiter="\t"))[1:]])
    Z, t = (A[:, :-1] - A[:, :-1].mean(axis=0)) / A[:, :-1].std(axis=0), A[:, -1] - A[:, -1].mean()
    m = BayesianLinearRegression(alpha=0.01, noise_variance=1 / 0.0003, fit_intercept=False).fit(Z, t)
    mean = [-0.02672304498255663364, -10.175181976414123607, 23.706878075509994314, 14.57539401264923059,
            -4.8816722556419163551, -2.8737129691269364144, -8.7876939931740615327, 5.4428016678887184444,
            21.872539463792722795, 3.9611764994810940157]  # fmt: skip
    sd = [2.8872056953292999891, 2.9395561964432528299, 3.1574697100062357167, 3.1167224034193198129,
          6.9045719208207407078, 6.1817832293067319472, 5.0011203752209977423, 5.6651872868165832392,
          4.1944772127217158787, 3.1537772134937117756]  # fmt: skip
    np.testing.assert_allclose(m.coef_, mean, rtol=2e-11)
    np.testing.assert_allclose(m.parameter_posterior()["coefficients"].sd[0], sd, rtol=1e-12)
    assert m.log_evidence_ == pytest.approx(-2408.5688826684111158, rel=1e-13)
    p = m.posterior(Z[:1])
    assert p.mean[0] + A[:, -1].mean() == pytest.approx(200.77177758580171948, rel=1e-12)
    assert p.sd[0] == pytest.approx(58.112471228713366034, rel=1e-13)


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_any_gaussian_prior_agrees_with_dense_algebra(offset):
    X, y = problem(1, offset=offset)
    r = np.random.default_rng(9)
    B = r.normal(size=(5, 5))
    S0, m0 = B @ B.T + 0.1 * np.eye(5), r.normal(size=5)
    m = BayesianLinearRegression(prior_mean=m0, prior_covariance=S0, noise_variance=0.3).fit(X, y)
    w, S, logs = dense(X, y, m0, S0, 0.3)
    np.testing.assert_allclose([m.intercept_, *m.coef_], w, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(m.diagnostics(X, y).matrices["posterior_covariance"], S, rtol=1e-8, atol=1e-12)
    assert m.log_evidence_ == pytest.approx(logs, rel=1e-7)
    Q = X[:3] + 0.1
    A = np.column_stack([np.ones(3), Q])
    np.testing.assert_allclose(m.posterior(Q).variance, 0.3 + np.diag(A @ S @ A.T), rtol=1e-6)
    joint = m.joint_posterior(Q)
    np.testing.assert_allclose(joint.covariance[0], 0.3 * np.eye(3) + A @ S @ A.T, rtol=1e-5, atol=1e-7)
    assert holds(m, X, y)


def test_prior_of_the_slopes_with_its_own_bias_variance():
    X, y = problem(2)
    S0 = np.diag([1.0, 2, 3, 4])
    full = np.zeros((5, 5))
    full[0, 0], full[1:, 1:] = 7.0, S0
    one = BayesianLinearRegression(prior_covariance=S0, bias_prior_variance=7.0, noise_variance=0.3).fit(X, y)
    two = BayesianLinearRegression(prior_covariance=full, noise_variance=0.3).fit(X, y)
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-12)
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, rel=1e-12)


@pytest.mark.parametrize("flat", ["flat", float("inf")])
def test_flat_bias_is_ridge_with_a_free_intercept_and_the_limit_of_wide_priors(flat):
    X, y = problem(3, offset=50.0)
    m = BayesianLinearRegression(alpha=2.0, noise_variance=0.5, bias_prior_variance=flat).fit(X, y)
    ridge = Ridge(alpha=1.0).fit(X, y)
    np.testing.assert_allclose(m.coef_, ridge.coef_, rtol=1e-9)
    assert m.intercept_ == pytest.approx(ridge.intercept_, rel=1e-9)
    wide = BayesianLinearRegression(alpha=2.0, noise_variance=0.5, bias_prior_variance=1e10).fit(X, y)
    np.testing.assert_allclose(wide.posterior(X).sd, m.posterior(X).sd, rtol=1e-6)
    assert wide.log_evidence_ + 0.5 * np.log(2 * np.pi * 1e10) == pytest.approx(m.log_evidence_, abs=1e-4)
    assert holds(m, X, y)


def test_limits_of_the_prior():
    X, y = problem(4)
    ols = LinearRegression().fit(X, y)
    loose = BayesianLinearRegression(alpha=1e-12, noise_variance=0.3).fit(X, y)
    np.testing.assert_allclose(loose.coef_, ols.coef_, rtol=1e-9)
    w0 = np.arange(4.0)
    pinned = BayesianLinearRegression(prior_mean=w0, prior_covariance=np.zeros((4, 4)), noise_variance=0.3).fit(X, y)
    np.testing.assert_array_equal(pinned.coef_, w0)
    assert holds(pinned, X, y)
    tight = BayesianLinearRegression(alpha=1e14, noise_variance=0.3, bias_prior_variance="flat").fit(X, y)
    assert np.abs(tight.coef_).max() < 1e-10
    assert tight.intercept_ == pytest.approx(y.mean(), rel=1e-9)


def test_evidence_is_at_its_maximum():
    X, y = problem(5)
    m = BayesianLinearRegression(hyperparameters="evidence").fit(X, y)
    for scale in (0.9, 1.1):
        for a, v in ((scale, 1.0), (1.0, scale)):
            other = BayesianLinearRegression(alpha=m.alpha_ * a, noise_variance=m.noise_variance_ * v).fit(X, y)
            assert other.log_evidence_ < m.log_evidence_
    fixed = BayesianLinearRegression(hyperparameters="evidence", noise_variance=0.3, bias_prior_variance=5.0).fit(X, y)
    best = minimize_scalar(lambda t: -BayesianLinearRegression(
        alpha=float(np.exp(t)), noise_variance=0.3, bias_prior_variance=5.0).fit(X, y).log_evidence_,
        bracket=(-2, 1), tol=1e-10)  # fmt: skip
    assert fixed.alpha_ == pytest.approx(np.exp(best.x), rel=1e-4)
    assert holds(m, X, y)
    assert holds(fixed, X, y)
    assert m.n_iter_ == len(m.trace_) > 1


def test_evidence_agrees_with_bayesian_ridge_without_hyperpriors():
    X, y = problem(6)
    peer = BayesianRidge(alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, fit_intercept=False, tol=1e-12, max_iter=500)
    peer.fit(X, y)
    m = BayesianLinearRegression(hyperparameters="evidence", fit_intercept=False).fit(X, y)
    assert (m.alpha_, m.noise_variance_) == pytest.approx((peer.lambda_, 1 / peer.alpha_), rel=1e-6)
    mean, sd = peer.predict(X, return_std=True)
    np.testing.assert_allclose(m.predict(X), mean, rtol=1e-7)
    np.testing.assert_allclose(m.posterior(X).sd, sd, rtol=1e-6)


@pytest.mark.parametrize("params", [{}, {"bias_prior_variance": "flat"}, {"bias_prior_variance": 1e8}])
def test_lin15_uncertainty_grows_away_from_data_far_from_the_origin(params):
    noise = {} if params else {"alpha": 1e-9}
    m = BayesianLinearRegression(hyperparameters="evidence" if params else "given", **params, **noise).fit(FAR_X, FAR_Y)
    x = np.array([0.0, 90, 98, 100, 101, 102, 103, 104, 106, 114])[:, None]
    sd = m.posterior(x).sd
    assert sd.argmin() == 5
    assert (np.diff(sd[:6]) < 0).all()
    assert (np.diff(sd[5:]) > 0).all()


def test_lin15_with_the_peers_hyperparameters_adds_the_variance_of_the_intercept():
    peer = BayesianRidge().fit(FAR_X, FAR_Y)
    m = BayesianLinearRegression(
        alpha=float(peer.lambda_), noise_variance=float(1 / peer.alpha_), bias_prior_variance="flat"
    )
    sd = m.fit(FAR_X, FAR_Y).posterior([[102.0], [110.0], [0.0]]).sd
    np.testing.assert_allclose(np.sqrt(sd**2 - m.noise_variance_ / 5), [0.11291808, 0.30699755, 3.64158022], rtol=1e-6)


@pytest.mark.parametrize(
    "params", [{}, {"hyperparameters": "evidence"}, {"noise_variance": 0.4, "bias_prior_variance": "flat"}]
)
def test_updates_in_any_order_and_batching_equal_one_fit(params):
    X, y = problem(7, n=60, offset=20.0)
    s = np.random.default_rng(0).integers(1, 4, 60).astype(float)
    whole = BayesianLinearRegression(**params).fit(X, y, s)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(60)
        parts = np.split(order, [1, 7, 30])
        m = BayesianLinearRegression(**params).fit(X[parts[0]], y[parts[0]], s[parts[0]])
        for p in parts[1:]:
            m.update(X[p], y[p], s[p])
        np.testing.assert_allclose(m.coef_, whole.coef_, rtol=1e-8)
        np.testing.assert_allclose(m.posterior(X).sd, whole.posterior(X).sd, rtol=1e-8)
        assert m.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-8)
    assert m.sums_.rows == 60


def test_integer_weights_repeat_rows():
    X, y = problem(8)
    s = np.random.default_rng(0).integers(0, 4, 40)
    a = BayesianLinearRegression(hyperparameters="evidence").fit(X, y, s)
    b = BayesianLinearRegression(hyperparameters="evidence").fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)
    assert a.log_evidence_ == pytest.approx(b.log_evidence_, rel=1e-10)
    assert holds(a, X, y, s)


def test_information_only_shrinks_the_posterior_and_predictions_keep_the_noise():
    X, y = problem(9)
    m = BayesianLinearRegression(noise_variance=0.3).fit(X[:5], y[:5])
    before = m.diagnostics(X[:5], y[:5]).matrices["posterior_covariance"]
    m.update(X[5:20], y[5:20])
    after = m.diagnostics(X[:20], y[:20]).matrices["posterior_covariance"]
    assert np.linalg.eigvalsh(before - after).min() > -1e-14
    assert (m.posterior(X).variance >= 0.3).all()


def test_draws_of_the_parameters_have_the_posterior_moments():
    X, y = problem(10)
    m = BayesianLinearRegression(noise_variance=0.3).fit(X, y)
    w, b = m.sample(40000, random_state=3)
    S = m.diagnostics(X, y).matrices["posterior_covariance"]
    both = np.column_stack([b, w])
    assert w.shape == (40000, 4)
    np.testing.assert_allclose(both.mean(axis=0), [m.intercept_, *m.coef_], atol=5 * np.sqrt(np.diag(S).max() / 40000))
    np.testing.assert_allclose(np.cov(both.T), S, atol=0.05 * np.diag(S).max())
    np.testing.assert_array_equal(m.sample(3, random_state=3)[0], m.sample(3, random_state=3)[0])
    assert m.parameter_posterior()["intercept"].sd[0] == pytest.approx(np.sqrt(S[0, 0]), rel=1e-12)


def test_noise_default_is_the_residual_variance_of_a_ridge_fit():
    X, y = problem(11)
    m = BayesianLinearRegression(alpha=3.0, bias_prior_variance="flat").fit(X, y)
    ridge = Ridge(alpha=3.0).fit(X, y)
    values = np.linalg.eigvalsh((X - X.mean(axis=0)).T @ (X - X.mean(axis=0)))
    left = 40 - 1 - (values / (values + 3)).sum()
    assert m.noise_variance_ == pytest.approx(((y - ridge.predict(X)) ** 2).sum() / left, rel=1e-10)


@pytest.mark.parametrize(
    "params",
    [
        {"prior_mean": np.zeros(7)}, {"prior_covariance": np.eye(3)}, {"prior_covariance": -np.eye(4)},
        {"prior_covariance": np.array([[1.0, 2], [0, 1]])}, {"alpha": 0.0}, {"noise_variance": 0.0},
        {"bias_prior_variance": -1.0}, {"bias_prior_variance": "wide"},
        {"prior_covariance": np.eye(4), "hyperparameters": "evidence"},
    ],
)  # fmt: skip
def test_wrong_parameters_are_named(params):
    X, y = problem(12)
    with pytest.raises(InvalidParameter, match=next(iter(params))):
        BayesianLinearRegression(**params).fit(X, y)


def test_a_joint_prior_leaves_no_room_for_another_bias_variance():
    X, y = problem(12)
    with pytest.raises(InvalidParameter, match="bias_prior_variance"):
        BayesianLinearRegression(prior_covariance=np.eye(5), bias_prior_variance=2.0).fit(X, y)


@pytest.mark.parametrize("hyper", ["given", "evidence"])
def test_degenerate_data_have_finite_answers_and_a_notice(hyper):
    for X, y in (
        (np.zeros((4, 2)), np.ones(4)), (np.ones((3, 1)), np.zeros(3)), (np.array([[1.0, 2]]), np.array([3.0])),
        (np.arange(4.0)[:, None], np.arange(4.0)), (np.random.default_rng(0).normal(size=(3, 9)), np.arange(3.0)),
    ):  # fmt: skip
        m = BayesianLinearRegression(hyperparameters=hyper).fit(X, y)
        p = m.posterior(X)
        assert np.isfinite(p.mean).all()
        assert np.isfinite(p.sd).all()
        assert np.isfinite(m.log_evidence_)


def test_spec_and_bundle_round_trip():
    X, y = problem(13)
    m = BayesianLinearRegression(prior_mean=np.ones(4), bias_prior_variance="flat").fit(X, y)
    assert spec_of(build(spec_of(m))) == spec_of(m)
    buffer = io.BytesIO()
    save_bundle(m, buffer)
    again = load_bundle(buffer)
    np.testing.assert_array_equal(again.predict(X), m.predict(X))
    again.update(X, y)
    m.update(X, y)
    np.testing.assert_array_equal(again.coef_, m.coef_)


def test_a_column_of_zeros_keeps_its_prior_and_the_certificate_holds():
    r = np.random.default_rng(0)
    X = np.column_stack([r.normal(size=(50, 2)), np.zeros(50)])
    m = BayesianLinearRegression(alpha=4.0, noise_variance=1.0).fit(X, X[:, 0] + r.normal(size=50))
    assert all(c.holds for c in m.diagnostics(X, X[:, 0] + 0.0).certificates) is False
    fresh = r.normal(size=50) + X[:, 0]
    again = BayesianLinearRegression(alpha=4.0, noise_variance=1.0).fit(X, fresh)
    assert all(c.holds for c in again.diagnostics(X, fresh).certificates)
    np.testing.assert_allclose(again.coef_[2], 0, atol=1e-12)
    block = next(iter(again.parameter_posterior().values()))
    np.testing.assert_allclose(block.sd.ravel()[-1], 0.5, rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 3.0, 1e6, 1e-6, -1e12])
@pytest.mark.parametrize(
    "how", [{"bias_prior_variance": 4.0}, {}, {"bias_prior_variance": "flat"}, {"fit_intercept": False}]
)
@pytest.mark.parametrize("hyper", ["given", "evidence"])
def test_a_constant_target_is_certified_under_every_prior(value, how, hyper):
    for n in (1, 5, 30):
        X, y = np.random.default_rng(n).normal(size=(n, 3)), np.full(n, value)
        m = BayesianLinearRegression(hyperparameters=hyper, **how).fit(X, y)
        assert [c for c in m.diagnostics(X, y).certificates if not c.holds] == []


def test_the_evidence_of_a_tiny_noise_is_that_of_many_digits():
    mpmath = pytest.importorskip("mpmath")
    X, y = np.random.default_rng(0).normal(size=(12, 2)), np.full(12, 3.0)
    m = BayesianLinearRegression(noise_variance=1e-13, alpha=2.0, bias_prior_variance=4.0).fit(X, y)
    with mpmath.workdps(60):
        A = mpmath.matrix(np.column_stack([np.ones(12), X]).tolist())
        K = A * mpmath.diag([4.0, 0.5, 0.5]) * A.T + mpmath.mpf(1e-13) * mpmath.eye(12)
        t = mpmath.matrix(y.tolist())
        want = -(t.T * mpmath.lu_solve(K, t))[0] / 2 - mpmath.log(mpmath.det(K)) / 2 - 6 * mpmath.log(2 * mpmath.pi)
    assert m.log_evidence_ == pytest.approx(float(want), rel=1e-9)
    assert all(c.holds for c in m.diagnostics(X, y).certificates)
