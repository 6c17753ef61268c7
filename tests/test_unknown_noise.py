"""Bayesian linear regression whose noise variance has an inverse-gamma prior: closed forms and scipy's t."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from ml_core.distributions.inverse_gamma import InverseGamma
from ml_core.distributions.normal_inverse_gamma import NormalInverseGamma
from ml_core.distributions.student import MultivariateStudentT, StudentT
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.linear.bayesian_linear_regression import BayesianLinearRegression
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.ridge_regression import RidgeRegression
from tests.least_squares import KNOWN_X, KNOWN_Y, problem


def conjugate(X, y, m0, V0, a, b):
    """Posterior by the textbook's formulas, with inverses."""
    A = np.column_stack([np.ones(len(X)), X])
    P0 = np.linalg.inv(V0)
    V = np.linalg.inv(P0 + A.T @ A)
    m = V @ (P0 @ m0 + A.T @ y)
    return m, V, a + len(y) / 2, b + 0.5 * (y @ y + m0 @ P0 @ m0 - m @ np.linalg.inv(V) @ m)


def evidence(X, y, m0, V0, a, b):
    A = np.column_stack([np.ones(len(X)), X])
    return stats.multivariate_t(A @ m0, b / a * (np.eye(len(y)) + A @ V0 @ A.T), df=2 * a).logpdf(y)


@pytest.fixture(scope="module")
def case():
    X, y = problem(3, n=12, d=2, offset=5.0)
    r = np.random.default_rng(1)
    root = r.normal(size=(3, 3))
    return X, y, r.normal(size=3), root @ root.T, 1.7, 2.3


def model(m0, V0, a, b):
    return BayesianLinearRegression(prior_mean=m0, prior_covariance=V0, noise_shape=a, noise_scale=b)


def test_posterior_and_evidence_are_the_closed_forms(case):
    X, y, m0, V0, a, b = case
    m = model(m0, V0, a, b).fit(X, y)
    mean, V, aN, bN = conjugate(*case)
    np.testing.assert_allclose([m.intercept_, *m.coef_], mean, rtol=1e-10)
    np.testing.assert_allclose([m.unknown_noise_.shape, m.unknown_noise_.scale], [aN, bN], rtol=1e-10)
    assert m.log_evidence_ == pytest.approx(evidence(*case), rel=1e-11)
    p = m.parameter_posterior()
    assert isinstance(p["coefficients"], NormalInverseGamma)
    np.testing.assert_allclose(p["coefficients"].relative_covariance[0], V[1:, 1:], rtol=1e-9)
    assert isinstance(p["noise_variance"], InverseGamma)
    np.testing.assert_allclose(p["noise_variance"].mean, bN / (aN - 1), rtol=1e-10)
    np.testing.assert_allclose(p["intercept"].scale, np.sqrt(bN / aN * V[0, 0]), rtol=1e-9)


def test_predictions_are_ratios_of_evidences(case):
    """log p(y* | y) = log p(y, y*) - log p(y), for one row and for several together."""
    X, y, m0, V0, a, b = case
    new, at = np.array([[4.0, 7.0], [-1.0, 3.0]]), np.array([2.5, -4.0])
    m = model(m0, V0, a, b).fit(X, y)
    each = m.posterior(new)
    assert isinstance(each, StudentT)
    before = evidence(*case)
    for i in range(2):
        both = evidence(np.vstack([X, new[i : i + 1]]), np.append(y, at[i]), m0, V0, a, b)
        assert each.log_density(at)[i] == pytest.approx(both - before, rel=1e-8)
    joint = m.joint_posterior(new)
    both = evidence(np.vstack([X, new]), np.append(y, at), m0, V0, a, b)
    assert joint.log_density(at[None])[0] == pytest.approx(both - before, rel=1e-8)


def test_updates_in_any_order_are_one_fit(case):
    X, y, m0, V0, a, b = case
    whole = model(m0, V0, a, b).fit(X, y)
    parts = model(m0, V0, a, b).fit(X[8:], y[8:])
    parts.update(X[:3], y[:3]).update(X[3:8], y[3:8])
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-10)
    assert parts.unknown_noise_.scale == pytest.approx(whole.unknown_noise_.scale, rel=1e-10)
    assert parts.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-10)


def test_weights_are_repetitions(case):
    X, y, m0, V0, a, b = case
    s = np.arange(len(y)) % 3 + 1.0
    one = model(m0, V0, a, b).fit(X, y, sample_weight=s)
    many = model(m0, V0, a, b).fit(np.repeat(X, s.astype(int), axis=0), np.repeat(y, s.astype(int)))
    assert one.unknown_noise_.shape == many.unknown_noise_.shape
    assert one.log_evidence_ == pytest.approx(many.log_evidence_, rel=1e-10)


def test_the_mean_is_ridge_and_a_vague_prior_gives_least_squares():
    X, y = problem(5, n=30, d=3)
    m = BayesianLinearRegression(alpha=2.5, bias_prior_variance="flat", noise_shape=1.0, noise_scale=1.0).fit(X, y)
    np.testing.assert_allclose(m.coef_, RidgeRegression(alpha=2.5).fit(X, y).coef_, rtol=1e-10)
    vague = BayesianLinearRegression(alpha=1e-12, bias_prior_variance="flat", noise_shape=1e-9, noise_scale=1e-9)
    vague.fit(X, y)
    least = LinearRegression().fit(X, y)
    np.testing.assert_allclose(vague.coef_, least.coef_, rtol=1e-9)
    assert vague.unknown_noise_.scale == pytest.approx(least.rss_[0] / 2, rel=1e-7)
    assert vague.unknown_noise_.freedom == pytest.approx(29)  # the slopes' proper prior spends no degree of freedom


def test_certificates_table_and_draws():
    m = BayesianLinearRegression(alpha=1.0, noise_shape=2.0, noise_scale=1.0).fit(KNOWN_X, KNOWN_Y)
    out = m.diagnostics(KNOWN_X, KNOWN_Y)
    assert {c.name for c in out.certificates} == {"posterior_mean_equation", "evidence_error"}
    assert all(c.holds for c in out.certificates)
    flat = BayesianLinearRegression(bias_prior_variance="flat", noise_shape=2.0, noise_scale=1.0)
    assert all(c.holds for c in flat.fit(KNOWN_X, KNOWN_Y).diagnostics(KNOWN_X, KNOWN_Y).certificates)
    assert out.summary["noise_variance"] == pytest.approx(out.summary["noise_scale"] / (out.summary["noise_shape"] - 1))
    row = out.tables["coefficients"].rows[1]
    marginal = m.parameter_posterior()["coefficients"]
    assert row[2] == pytest.approx(marginal.variance[0, 0] ** 0.5)
    np.testing.assert_allclose(row[3:5], [marginal.quantile(p)[0, 0] for p in (0.025, 0.975)], rtol=1e-10)
    assert row[6] == pytest.approx(1.0)  # 1/alpha times the prior mean of the noise variance, 1/(2 - 1)
    W, b = m.sample(40_000, random_state=1)
    assert W.std() == pytest.approx(row[2], rel=0.03)
    assert b.mean() == pytest.approx(m.intercept_, abs=0.02)


def test_refusals():
    for params, name in [({"noise_shape": 1.0}, "noise_scale"), ({"noise_scale": 1.0}, "noise_shape"),
                         ({"noise_shape": 1.0, "noise_scale": 1.0, "noise_variance": 1.0}, "noise_variance"),
                         ({"noise_shape": 1.0, "noise_scale": 1.0, "hyperparameters": "evidence"}, "hyperparameters")]:
        with pytest.raises(InvalidParameter) as e:
            BayesianLinearRegression(**params).fit(KNOWN_X, KNOWN_Y)
        assert e.value.issues[0].pointer == f"/params/{name}"


def test_the_multivariate_t_is_that_of_scipy():
    S, x = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.0, -2.0]])
    ours = MultivariateStudentT(np.array([[0.5, 1.0]]), S[None], np.array([5.0]))
    peer = stats.multivariate_t([0.5, 1.0], S, df=5)
    assert ours.log_density(x)[0] == pytest.approx(peer.logpdf(x[0]), rel=1e-12)
    np.testing.assert_allclose(ours.variance[0], np.diag(S) * 5 / 3)
    draws = ours.sample(60_000, np.random.default_rng(0))[:, 0]
    np.testing.assert_allclose(np.cov(draws.T), S * 5 / 3, atol=0.12)
    median = ours.quantile(0.5)[0, 0]
    assert quad(lambda t: stats.t(5, 0.5, 2**0.5).pdf(t), -np.inf, median)[0] == pytest.approx(0.5)


def test_weights_that_leave_no_posterior_of_the_noise_are_refused():
    X, y = np.arange(3.0)[:, None], np.array([0.0, 1.5, 2.0])
    model = BayesianLinearRegression(noise_shape=0.1, noise_scale=1.0, bias_prior_variance="flat")
    with pytest.raises(InvalidData, match="noise_shape"):
        model.fit(X, y, sample_weight=np.full(3, 0.1))
