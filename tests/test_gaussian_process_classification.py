"""Gaussian process classification: scikit-learn, quadrature, dense formulas, differences, and its linear twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax
from sklearn.gaussian_process import GaussianProcessClassifier as Peer
from sklearn.gaussian_process import kernels as sk

from ml_core.errors import InvalidParameter, OverBudget
from ml_core.gp.curvature import Curvature, Evidence, Gram
from ml_core.gp.gaussian_process_classification import GaussianProcessClassification
from ml_core.gp.kernel_logistic_regression import KernelLogisticRegression
from ml_core.gp.laplace import Labelled, mode
from ml_core.gp.laplace_report import dense_logdet
from ml_core.kernels import LinearKernel, RBFKernel, log_parameters, with_log_parameters
from ml_core.numerics.averaged import averaged_logistic, averaged_softmax

KEPT = {"hyperparameters": "given"}


def labelled(classes: int = 2, n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 2))
    scores = 2 * X @ r.normal(size=(2, classes)) + r.gumbel(size=(n, classes))
    return X, np.array(["a", "b", "c", "d"])[scores.argmax(axis=1)]


def rows_of(classes: int, n: int = 30) -> Labelled:
    X, y = labelled(classes, n)
    s = np.random.default_rng(1).integers(1, 4, size=n).astype(float)
    offset = np.random.default_rng(2).normal(size=1 if classes == 2 else classes)
    return Labelled(X, np.unique(y, return_inverse=True)[1], s, classes, offset)


def certified(model: Any, X: np.ndarray, y: np.ndarray, s: Any = None) -> dict[str, Any]:
    report = model.diagnostics(X, y, s).to_json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]
    return report


def test_given_hyperparameters_are_scikit_learns() -> None:
    X, y = labelled()
    m = GaussianProcessClassification(kernel=RBFKernel((0.8, 1.5)), signal_variance=3.0, **KEPT).fit(X, y)
    peer = Peer(3.0 * sk.RBF([0.8, 1.5]), optimizer=None).fit(X, y)
    np.testing.assert_allclose(m.log_marginal_likelihood_, peer.log_marginal_likelihood_value_, rtol=1e-9)
    mean, _ = peer.latent_mean_and_variance(X)
    np.testing.assert_allclose(m.surface_.at(X)[:, 0], mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(m.predict_proba(X), peer.predict_proba(X), atol=1e-3)  # its integral has five terms
    certified(m, X, y)


def test_latent_variance_is_scikit_learns() -> None:
    X, y = labelled()
    Q = np.random.default_rng(4).uniform(-3, 3, size=(20, 2))
    m = GaussianProcessClassification(kernel=RBFKernel(1.0), signal_variance=3.0, **KEPT).fit(X, y)
    peer = Peer(3.0 * sk.RBF(1.0), optimizer=None).fit(X, y)
    mean, variance = peer.latent_mean_and_variance(Q)
    (latent,) = m.latent_posterior(Q)
    np.testing.assert_allclose(latent.mean, mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(latent.variance, variance, rtol=1e-6)
    told = m.posterior(Q)
    np.testing.assert_allclose(told.latent_sd[:, 0], latent.sd)
    np.testing.assert_allclose(told.probabilities, m.predict_proba(Q))


def test_optimum_is_scikit_learns() -> None:
    X, y = labelled()
    m = GaussianProcessClassification(kernel=RBFKernel(1.0), n_restarts=1).fit(X, y)
    peer = Peer(4.0 * sk.RBF(1.0), n_restarts_optimizer=1, random_state=0).fit(X, y)
    np.testing.assert_allclose(m.log_marginal_likelihood_, peer.log_marginal_likelihood_value_, rtol=1e-6)
    names = {c["name"] for c in certified(m, X, y)["certificates"]}
    assert {"mode_stationarity", "newton_decrement", "evidence_error", "gradient", "gradient_error"} <= names


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_gradient_is_the_derivative(classes: int) -> None:
    rows, kernel = rows_of(classes), 3.0 * RBFKernel((0.8, 1.7)) + 0.4 * LinearKernel()
    logs = log_parameters(kernel)[1]
    gradient = Evidence()(rows, kernel)[1]
    for i in range(len(logs)):
        step = 1e-5 * np.eye(len(logs))[i]
        high, low = (Evidence()(rows, with_log_parameters(kernel, logs + t * step))[0] for t in (1, -1))
        np.testing.assert_allclose(gradient[i], (high - low) / 2e-5, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_evidence_and_covariances_are_the_dense_ones(classes: int) -> None:
    rows, kernel = rows_of(classes), 2.0 * RBFKernel(0.9)
    K = kernel(rows.X)
    at = mode(rows, Gram(K))
    n, C = at.f.shape
    dense = at.value - 0.5 * dense_logdet(rows, K, at.f)
    np.testing.assert_allclose(Evidence()(rows, kernel)[0], dense, rtol=1e-10)
    p, W = rows.chances(at.f), np.zeros((n, C, n, C))
    for i in range(n):
        one = p[i, 0] * (1 - p[i, 0]) if C == 1 else np.diag(p[i]) - np.outer(p[i], p[i])
        W[i, :, i] = rows.weight[i] * one
    prior = np.kron(K, np.eye(C))
    W = W.reshape(n * C, n * C)
    whole = prior - prior @ np.linalg.solve(np.eye(n * C) + W @ prior, W @ prior)
    found = Curvature.of(rows, K, at.f).spread(K, K.diagonal())
    want = np.array([whole.reshape(n, C, n, C)[i, :, i] for i in range(n)])
    np.testing.assert_allclose(found, want, atol=1e-9)
    V = np.random.default_rng(0).normal(size=(n, C))
    direct = np.linalg.solve(np.eye(n * C) + W @ prior, W @ V.ravel())
    np.testing.assert_allclose(Curvature.of(rows, K, at.f).apply(V).ravel(), direct, atol=1e-9)


def test_one_row_per_class_against_quadrature() -> None:
    """Two rows: the exact posterior mean and evidence by a grid; Laplace is close where likelihoods are wide."""
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    k = 0.5 * RBFKernel(1.0)
    m = GaussianProcessClassification(kernel=k, **KEPT).fit(X, y)
    R = np.linalg.cholesky(k(X))
    z = np.linspace(-8, 8, 1601)
    w = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    f = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1) @ R.T
    likelihood = expit(-f[..., 0]) * expit(f[..., 1])
    evidence = w @ likelihood @ w
    np.testing.assert_allclose(np.exp(m.log_marginal_likelihood_), evidence, rtol=1e-2)
    truth = w @ (likelihood * expit(f[..., 1])) @ w / evidence
    np.testing.assert_allclose(m.predict_proba(X)[1, 1], truth, atol=5e-3)


@pytest.mark.parametrize(("mean", "sd"), [(0.3, 0.5), (-3.0, 2.0), (5.0, 10.0), (-20.0, 3.0), (1.0, 0.0), (0.0, 1.0)])
def test_averaged_logistic_is_the_integral(mean: float, sd: float) -> None:
    found = averaged_logistic(np.array([mean]), np.array([sd]))[0]
    if sd == 0:
        assert found == pytest.approx(expit(mean), rel=1e-14)
        return

    def at(t: float) -> float:
        return float(expit(t) * np.exp(-0.5 * ((t - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi)))

    want = quad(at, mean - 12 * sd, mean + 12 * sd, epsabs=1e-15, epsrel=1e-12, limit=500)[0]
    np.testing.assert_allclose(found, want, rtol=1e-11)


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_averaged_softmax_is_the_integral(size: float) -> None:
    A, mean = np.random.default_rng(0).normal(size=(3, 3)), np.array([0.3, -0.2, 1.0])
    S = size * A @ A.T
    D = np.eye(3)[:-1] - np.eye(3)[-1]
    z = np.linspace(-8, 8, 401)
    w = np.exp(-0.5 * z**2)
    w /= w.sum()
    f = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1) @ np.linalg.cholesky(D @ S @ D.T).T + D @ mean
    p = softmax(np.concatenate([f, np.zeros((*f.shape[:2], 1))], axis=2), axis=2)
    want = np.einsum("i,j,ijk->k", w, w, p)
    np.testing.assert_allclose(averaged_softmax(mean[None], S[None])[0], want, atol=3e-4)
    alone = averaged_softmax(mean[None], np.zeros((1, 3, 3)))[0]
    np.testing.assert_allclose(alone, softmax(mean), rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", [LinearKernel(), RBFKernel(1.0)])
def test_mode_is_kernel_logistic_regression(classes: int, kernel: Any) -> None:
    X, y = labelled(classes)
    m = GaussianProcessClassification(kernel=kernel, **KEPT).fit(X, y)
    twin = KernelLogisticRegression(kernel=kernel, alpha=1.0, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(m.surface_.weights, twin.dual_coef_, atol=1e-8)
    np.testing.assert_allclose(m.surface_.at(X), twin.decision_function(X).reshape(len(X), -1), atol=1e-7)


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_repeat_rows(classes: int) -> None:
    X, y = labelled(classes, 25)
    s = np.random.default_rng(4).integers(1, 4, size=len(y))
    often = np.repeat(np.arange(len(y)), s)
    one = GaussianProcessClassification(kernel=RBFKernel(0.8), signal_variance=2.0, **KEPT).fit(X, y, s.astype(float))
    two = GaussianProcessClassification(kernel=RBFKernel(0.8), signal_variance=2.0, **KEPT).fit(X[often], y[often])
    np.testing.assert_allclose(one.log_marginal_likelihood_, two.log_marginal_likelihood_, rtol=1e-8)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-8)
    certified(one, X, y, s.astype(float))


def test_classes_have_no_order() -> None:
    X, y = labelled(3)
    other = np.array(["c", "a", "b"])[np.searchsorted(["a", "b", "c"], y)]
    how = {"kernel": RBFKernel(1.0), "signal_variance": 4.0} | KEPT
    one, two = (GaussianProcessClassification(**how).fit(X, t) for t in (y, other))
    np.testing.assert_allclose(one.log_marginal_likelihood_, two.log_marginal_likelihood_, rtol=1e-10)
    np.testing.assert_allclose(one.predict_proba(X)[:, [1, 2, 0]], two.predict_proba(X), atol=3e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_draws_have_the_moments_of_prior_and_posterior(classes: int) -> None:
    X, y = labelled(classes, 30)
    k = 2.0 * RBFKernel(1.0)
    m = GaussianProcessClassification(kernel=k, **KEPT).fit(X, y)
    Q = X[:4] + 0.2
    prior = m.draw(Q, 20_000, prior=True)
    np.testing.assert_allclose(np.cov(prior[:, 0].T), k(Q), atol=0.1)
    after = m.draw(Q, 20_000, random_state=1)
    for c, latent in enumerate(m.latent_posterior(Q)):
        np.testing.assert_allclose(after[:, c].mean(axis=0), latent.mean, atol=0.06)
        np.testing.assert_allclose(after[:, c].std(axis=0), latent.sd, atol=0.06)


def test_huge_and_tiny_variances() -> None:
    X, y = labelled(2, 30)
    for signal in (1e-8, 1e6):
        m = GaussianProcessClassification(kernel=RBFKernel(1.0), signal_variance=signal, **KEPT).fit(X, y)
        P = m.predict_proba(X)
        assert np.isfinite(P).all()
        np.testing.assert_allclose(P.sum(axis=1), 1.0)
        certified(m, X, y)
    tiny = GaussianProcessClassification(kernel=RBFKernel(1.0), signal_variance=1e-8, **KEPT).fit(X, y)
    np.testing.assert_allclose(tiny.log_marginal_likelihood_, -30 * np.log(2), rtol=1e-6)


def test_refusals() -> None:
    X, y = labelled()
    with pytest.raises(InvalidParameter, match="noise_variance"):
        GaussianProcessClassification(fixed=["noise_variance"]).fit(X, y)
    with pytest.raises(OverBudget, match="latent functions"):
        GaussianProcessClassification(method="exact").fit(np.zeros((400_000, 1)), np.arange(400_000) % 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_prior_mean_is_the_base_rate_far_away_and_moves_the_mode(classes: int) -> None:
    X, y = labelled(classes)
    keep = (y != "a") | (np.arange(len(y)) % 4 == 0)
    X, y = X[keep], y[keep]
    m = GaussianProcessClassification(kernel=RBFKernel(1.0), signal_variance=1e-6, mean="base_rate", **KEPT).fit(X, y)
    shares = np.unique(y, return_counts=True)[1] / len(y)
    np.testing.assert_allclose(m.predict_proba(X + 1e3), np.tile(shares, (len(X), 1)), atol=1e-5)
    wide = GaussianProcessClassification(kernel=RBFKernel(1.0), signal_variance=4.0, mean="base_rate", **KEPT)
    wide.fit(X, y)
    certified(wide, X, y)
    logs = np.log(shares)
    offset = logs[1:] - logs[:1] if classes == 2 else logs - logs.mean()
    K, codes = 4.0 * RBFKernel(1.0)(X), np.unique(y, return_inverse=True)[1]

    def downhill(a: np.ndarray) -> tuple[float, np.ndarray]:
        A = a.reshape(len(X), -1)
        f = K @ A + offset
        f = np.hstack([np.zeros_like(f), f]) if classes == 2 else f
        p = np.exp(f - logsumexp(f, axis=1, keepdims=True))
        g = np.eye(classes)[codes] - p
        value = 0.5 * np.vdot(A, K @ A) - np.log(p[np.arange(len(X)), codes]).sum()
        return value, (K @ (A - g[:, -A.shape[1] :])).ravel()

    a = minimize(downhill, np.zeros(wide.surface_.weights.size), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(wide.surface_.at(X), K @ a.reshape(len(X), -1) + offset, atol=1e-5)
    draws = wide.draw(X[:2] + 1e3, 4000, prior=True)
    np.testing.assert_allclose(draws.mean(axis=(0, 2)), offset, atol=0.15)


def test_equal_shares_leave_the_prior_mean_at_zero() -> None:
    X, y = labelled()
    X, y = np.vstack([X, X + 0.1]), np.concatenate([y, np.where(y == "a", "b", "a")])
    one, two = (GaussianProcessClassification(mean=k, **KEPT).fit(X, y).predict_proba(X) for k in ("zero", "base_rate"))
    np.testing.assert_array_equal(one, two)
