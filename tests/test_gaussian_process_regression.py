"""Gaussian process regression: closed forms, references, scikit-learn, brute force, and what it says of itself."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor as Peer
from sklearn.gaussian_process import kernels as sk

from ml_core.errors import InvalidData, InvalidParameter, OverBudget
from ml_core.gp import exact, sparse
from ml_core.gp.gaussian_process_regression import GaussianProcessRegression
from ml_core.gp.task import Mean, Task
from ml_core.kernels import (
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    RationalQuadraticKernel,
    RBFKernel,
    WhiteKernel,
    log_parameters,
    with_log_parameters,
)
from ml_core.linear.bayesian_linear_regression import BayesianLinearRegression
from ml_core.registry import build

KEPT = {"hyperparameters": "given"}


def wavy(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * r.normal(size=n)


def codes(model: Any) -> list[str]:
    return [n.code for n in model.notices_]


def certified(model: Any, X: np.ndarray, y: np.ndarray, s: Any = None) -> dict[str, Any]:
    report = model.diagnostics(X, y, s).to_json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]
    return report


def test_known_values() -> None:
    x, y = np.arange(1.0, 5)[:, None], np.array([1.0, 3, 2, 5])
    m = GaussianProcessRegression(kernel=RBFKernel(1.0), noise_variance=0.5, **KEPT).fit(x, y)
    np.testing.assert_allclose(m.surface_.weights, [-0.129112, 2.111613, -0.932522, 3.520841], atol=5e-7)
    at = m.posterior([[2.5]])
    np.testing.assert_allclose(at.mean, 2.141678, atol=5e-7)
    np.testing.assert_allclose(at.epistemic_sd**2, 0.260277, atol=5e-7)
    np.testing.assert_allclose(at.variance - at.epistemic_sd**2, 0.5, rtol=1e-12)
    np.testing.assert_allclose(m.log_marginal_likelihood_, -15.1836212, atol=5e-8)
    assert m.hyperparameters_ == pytest.approx({"kernel/length_scale": 1.0, "noise_variance": 0.5})




def co2() -> tuple[np.ndarray, np.ndarray]:
    """Every 26th measured week of Mauna Loa's carbon dioxide, the first 60; years since the first row."""
    text = (Path(__file__).parent / "data" / "co2_sixty_weeks.csv").read_text().splitlines()
    rows = list(csv.reader(text[1:]))
    return np.array([[int(r[0]) / 52] for r in rows]), np.array([float(r[1]) for r in rows])


def test_carbon_dioxide_to_the_digits_of_a_reference_of_twenty() -> None:
    x, y = co2()
    m = GaussianProcessRegression(kernel=400.0 * RBFKernel(10.0), noise_variance=4.0, mean="average", **KEPT).fit(x, y)
    np.testing.assert_allclose(m.log_marginal_likelihood_, -147.48828355965610178, rtol=1e-13)
    at = m.posterior([[5.5], [32.25], [60.0]])
    means = [318.39113392214417411, 351.95888278472834862, 330.91308923887610107]
    latent = [0.60459948726265559907, 2.0435155442017952577, 19.985892888157182565]
    outcome = [2.0893875992735924271, 2.8593628275184594747, 20.085714190361562753]
    np.testing.assert_allclose(at.mean, means, rtol=1e-12)
    np.testing.assert_allclose(at.epistemic_sd, latent, rtol=1e-10)
    np.testing.assert_allclose(at.sd, outcome, rtol=1e-11)
    certified(m, x, y)


def test_optimum_is_scikit_learns() -> None:
    X, y = wavy(60)
    m = GaussianProcessRegression(kernel=RBFKernel((1.0, 1.0)), n_restarts=0).fit(X, y)
    peer = Peer(sk.ConstantKernel(1.0) * sk.RBF([1.0, 1.0]) + sk.WhiteKernel(0.1)).fit(X, y)
    np.testing.assert_allclose(m.log_marginal_likelihood_, peer.log_marginal_likelihood_value_, rtol=1e-6)
    Q = np.random.default_rng(5).uniform(-3, 3, size=(20, 2))
    mean, sd = peer.predict(Q, return_std=True)
    np.testing.assert_allclose(m.predict(Q), mean, rtol=0, atol=2e-3 * np.abs(mean).max())
    np.testing.assert_allclose(m.posterior(Q).sd, sd, rtol=5e-3)
    report = certified(m, X, y)
    assert {"gradient", "solve_backward_error"} <= {c["name"] for c in report["certificates"]}


def test_posterior_given_hyperparameters_is_scikit_learns() -> None:
    X, y = wavy()
    kernels = [
        (MaternKernel((0.8, 1.5), 2.5), sk.Matern([0.8, 1.5], nu=2.5)),
        (RationalQuadraticKernel(1.2, 0.7), sk.RationalQuadratic(1.2, 0.7)),
        (RBFKernel(0.9) + 0.3 * LinearKernel(), sk.RBF(0.9) + 0.3 * sk.DotProduct(0.0, sigma_0_bounds="fixed")),
    ]
    Q = X[:7] + 0.3
    for ours, theirs in kernels:
        m = GaussianProcessRegression(kernel=ours, signal_variance=2.0, noise_variance=0.05, **KEPT).fit(X, y)
        peer = Peer(2.0 * theirs, alpha=0.05, optimizer=None).fit(X, y)
        mean, C = peer.predict(Q, return_cov=True)
        np.testing.assert_allclose(m.predict(Q), mean, rtol=1e-7, atol=1e-9)
        joint = m.joint_posterior(Q)
        np.testing.assert_allclose(joint.covariance[0], C + 0.05 * np.eye(7), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(joint.variance[0], m.posterior(Q).variance, rtol=1e-9)


def likelihood_of(model: GaussianProcessRegression, X: np.ndarray, y: np.ndarray, D: np.ndarray) -> float:
    C = model.kernel_(X) + np.diag(D)
    return float(stats.multivariate_normal(np.zeros(len(y)), C).logpdf(y))


def test_marginal_likelihood_is_a_normal_density_also_with_known_noise() -> None:
    X, y = wavy()
    known = np.random.default_rng(3).uniform(0, 0.5, size=len(y))
    T = np.column_stack([X, known])
    m = GaussianProcessRegression(kernel=RBFKernel(0.9), noise_variance=0.04, noise_column=2, **KEPT).fit(T, y)
    np.testing.assert_allclose(m.log_marginal_likelihood_, likelihood_of(m, X, y, 0.04 + known), rtol=1e-10)
    K = m.kernel_(X)
    w = np.linalg.solve(K + np.diag(0.04 + known), y)
    np.testing.assert_allclose(m.predict(T), K @ w, rtol=1e-8, atol=1e-10)
    asked = np.column_stack([X[:2], [0.0, 7.0]])
    at = m.posterior(asked)
    np.testing.assert_allclose(at.variance - at.epistemic_sd**2, [0.04, 7.04], rtol=1e-10)
    certified(m, T, y)


@pytest.mark.parametrize("mean", ["zero", "average", "constant", "linear"])
def test_weights_repeat_rows(mean: str) -> None:
    X, y = wavy(25)
    s = np.random.default_rng(4).integers(1, 4, size=len(y)).astype(float)
    often = np.repeat(np.arange(len(y)), s.astype(int))
    how = {"kernel": RBFKernel(0.8), "noise_variance": 0.1, "mean": mean}
    for more in (KEPT, {"n_restarts": 0}):
        one = GaussianProcessRegression(**how, **more).fit(X, y, s)
        two = GaussianProcessRegression(**how, **more).fit(X[often], y[often])
        loose = 1e-9 if more == KEPT else 1e-4
        np.testing.assert_allclose(one.log_marginal_likelihood_, two.log_marginal_likelihood_, rtol=loose)
        np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=100 * loose, atol=loose)
        np.testing.assert_allclose(one.posterior(X).sd, two.posterior(X).sd, rtol=100 * loose)
        certified(one, X, y, s)


def task_of(mean: str, n: int = 30) -> Task:
    X, y = wavy(n)
    r = np.random.default_rng(7)
    basis = Mean(mean, 0.0, X.mean(axis=0)).basis(X)
    return Task(X, y, r.uniform(0, 0.2, size=n), r.integers(1, 4, size=n).astype(float), basis)


KERNEL = 1.3 * RBFKernel((0.8, 1.7)) + 0.4 * PeriodicKernel(1.0, 1.5) + 0.1 * LinearKernel() + 0.02 * WhiteKernel()


@pytest.mark.parametrize("mean", ["zero", "linear"])
@pytest.mark.parametrize("method", ["exact", "sparse"])
def test_gradient_is_the_derivative(mean: str, method: str) -> None:
    task, s2 = task_of(mean), 0.05
    Z = task.X[::3]

    def both(logs: np.ndarray) -> tuple[float, np.ndarray]:
        k = with_log_parameters(KERNEL, logs[:-1])
        if method == "exact":
            return exact.value_gradient(task, k, float(np.exp(logs[-1])))
        return sparse.value_gradient(task, k, float(np.exp(logs[-1])), Z)

    at = np.append(log_parameters(KERNEL)[1], np.log(s2))
    gradient = both(at)[1]
    for i in range(len(at)):
        step = np.zeros(len(at))
        step[i] = 1e-5
        want = (both(at + step)[0] - both(at - step)[0]) / 2e-5
        np.testing.assert_allclose(gradient[i], want, rtol=2e-5, atol=2e-6)


def test_basis_of_flat_prior_is_the_limit_of_wide_priors() -> None:
    """A coefficient of variance v is the kernel v h(x) h(z); v → ∞, the likelihood less ½ log v per coefficient."""
    X, y = wavy()
    flat = GaussianProcessRegression(kernel=RBFKernel(0.9), noise_variance=0.1, mean="linear", **KEPT).fit(X, y)
    v = 1e6
    ones = np.column_stack([X, np.ones(len(X))])
    wide = RBFKernel((0.9, 0.9, 1e12)) + v * LinearKernel()
    near = GaussianProcessRegression(kernel=wide, noise_variance=0.1, **KEPT).fit(ones, y)
    Q = np.random.default_rng(8).uniform(-4, 4, size=(9, 2))
    at, other = flat.posterior(Q), near.posterior(np.column_stack([Q, np.ones(9)]))
    np.testing.assert_allclose(at.mean, other.mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(at.sd, other.sd, rtol=1e-4)
    p = 3
    limit = near.log_marginal_likelihood_ + 0.5 * p * np.log(v) + 0.5 * p * np.log(2 * np.pi)
    np.testing.assert_allclose(flat.log_marginal_likelihood_, limit, atol=1e-3)
    certified(flat, X, y)


@pytest.mark.parametrize("mean", ["zero", "linear"])
def test_leave_one_out_is_a_fit_without_the_row(mean: str) -> None:
    X, y = wavy(20)
    how = {"kernel": RBFKernel(0.9), "noise_variance": 0.1, "mean": mean, **KEPT}
    m = GaussianProcessRegression(**how).fit(X, y)
    curve = m.diagnostics(X, y).curves["leave_one_out"]
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        one = GaussianProcessRegression(**how).fit(X[rest], y[rest]).posterior(X[[i]])
        np.testing.assert_allclose(curve["y"][i], one.mean[0], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(curve["standard_deviation"][i], one.sd[0], rtol=1e-8)
        np.testing.assert_allclose(curve["log_density"][i], one.log_density(y[[i]])[0], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mean", ["zero", "linear"])
def test_leave_one_out_of_the_sparse_method_is_a_bound_without_the_row(mean: str, weighted: bool) -> None:
    X, y = wavy(30)
    known = np.random.default_rng(2).uniform(0, 0.3, size=30)
    s = np.random.default_rng(3).integers(1, 4, size=30).astype(float) if weighted else np.ones(30)
    T = np.column_stack([X, known])
    m = GaussianProcessRegression(kernel=RBFKernel(0.9), noise_variance=0.1, mean=mean, noise_column=2, method="sparse",
                                  n_inducing=8, **KEPT).fit(T, y, s)  # fmt: skip
    curve = certified(m, T, y, s)["curves"]["leave_one_out"]
    Z, basis = m.surface_.rows, m.surface_.mean
    task = Task(X, y, known, s, basis.basis(X))
    for i in range(len(y)):
        rest = task.take(np.arange(len(y)) != i)
        at = sparse.bound(rest, m.kernel_, 0.1, m.kernel_(Z), m.kernel_(Z, rest.X))
        f, variance = sparse.surface(rest, m.kernel_, basis, at, Z).marginal(X[[i]])
        np.testing.assert_allclose(curve["y"][i], f[0], rtol=1e-7, atol=1e-8)
        want = np.sqrt(variance[0] + (0.1 + known[i]) / s[i])
        np.testing.assert_allclose(curve["standard_deviation"][i], want, rtol=1e-6)


def test_linear_kernel_is_bayesian_linear_regression() -> None:
    X, y = wavy()
    m = GaussianProcessRegression(kernel=LinearKernel(), signal_variance=0.5, noise_variance=0.3, **KEPT).fit(X, y)
    b = BayesianLinearRegression(alpha=2.0, noise_variance=0.3, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(m.predict(X), b.predict(X), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(m.posterior(X).epistemic_sd, b.posterior(X).epistemic_sd, rtol=1e-6)
    np.testing.assert_allclose(m.log_marginal_likelihood_, b.log_evidence_, rtol=1e-8)


def test_variance_shrinks_with_rows_and_vanishes_at_noiseless_ones() -> None:
    X, y = wavy(12)
    how = {"kernel": MaternKernel(1.0, 1.5), "noise_variance": 0.0, **KEPT}
    few = GaussianProcessRegression(**how).fit(X[:6], y[:6])
    all_ = GaussianProcessRegression(**how).fit(X, y)
    Q = np.random.default_rng(1).uniform(-3, 3, size=(30, 2))
    assert (few.posterior(Q).sd <= 1.0 + 1e-12).all()
    assert (all_.posterior(Q).sd <= few.posterior(Q).sd + 1e-9).all()
    np.testing.assert_allclose(all_.posterior(X).epistemic_sd, 0.0, atol=1e-6)
    np.testing.assert_allclose(all_.predict(X), y, atol=1e-8)


def test_draws_have_the_moments_of_prior_and_posterior() -> None:
    X, y = wavy(15)
    m = GaussianProcessRegression(kernel=RBFKernel(1.0), signal_variance=2.0, noise_variance=0.1, **KEPT).fit(X, y)
    Q = np.array([[0.0, 0.0], [0.4, 0.1], [3.0, 3.0]])
    mean, C = m.surface_.joint(Q)
    for prior, center, cov in ((True, np.zeros(3), 2.0 * RBFKernel(1.0)(Q)), (False, mean, C)):
        drawn = m.draw(Q, 40_000, prior=prior, random_state=1)
        np.testing.assert_allclose(drawn.mean(axis=0), center, atol=0.03)
        np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.06)
    assert np.array_equal(m.draw(Q, 3, random_state=2), m.draw(Q, 3, random_state=2))
    drawn, nothing = m.sample(20_000, 3)
    assert nothing is None
    np.testing.assert_allclose(drawn.mean(axis=0), m.predict(X), atol=0.02)


@pytest.mark.parametrize("mean", ["zero", "linear"])
def test_sparse_is_exact_when_every_row_is_inducing_and_a_bound_otherwise(mean: str) -> None:
    X, y = wavy(60)
    how = {"kernel": RBFKernel(0.9), "noise_variance": 0.1, "mean": mean, **KEPT}
    full = GaussianProcessRegression(**how).fit(X, y)
    Q = X[:9] + 0.2
    values = []
    for m in (5, 15, 60):
        s = GaussianProcessRegression(method="sparse", n_inducing=m, **how).fit(X, y)
        assert "sparse" in codes(s)
        values.append(s.log_marginal_likelihood_)
        report = certified(s, X, y)
        assert {"bound", "marginal_likelihood_error"} <= {c["name"] for c in report["certificates"]}
    assert values[0] < values[1] < values[2] <= full.log_marginal_likelihood_ + 1e-5
    np.testing.assert_allclose(values[2], full.log_marginal_likelihood_, rtol=1e-4)
    np.testing.assert_allclose(s.predict(Q), full.predict(Q), atol=1e-4)
    np.testing.assert_allclose(s.posterior(Q).sd, full.posterior(Q).sd, rtol=1e-3)
    np.testing.assert_allclose(s.joint_posterior(Q).variance[0], s.posterior(Q).variance, rtol=1e-8)


def test_sparse_learns_hyperparameters_of_many_rows() -> None:
    X, y = wavy(640)
    m = GaussianProcessRegression(exact_rows=600, n_inducing=40, n_restarts=0).fit(X, y)
    assert m.method_ == "sparse"
    full = GaussianProcessRegression(n_restarts=0).fit(X, y)
    assert m.log_marginal_likelihood_ <= full.log_marginal_likelihood_ + 1e-6
    np.testing.assert_allclose(m.log_marginal_likelihood_, full.log_marginal_likelihood_, atol=3.0)
    np.testing.assert_allclose(m.noise_variance_, 0.04, rtol=0.2)
    certified(m, X, y)


def test_duplicates_are_flagged_and_solved() -> None:
    x, y = np.array([[0.0], [0.0], [1.0]]), np.array([0.0, 1.0, 2.0])
    m = GaussianProcessRegression(kernel=RBFKernel(1.0), noise_variance=1e-10, **KEPT).fit(x, y)
    at = m.posterior([[0.0], [1.0], [2.0]])
    np.testing.assert_allclose(at.mean, [0.5000000000564, 1.9999999997, 1.475381918893], atol=1e-12)
    np.testing.assert_allclose(at.epistemic_sd[2], 0.73930531178628, rtol=1e-12)
    np.testing.assert_allclose(m.log_marginal_likelihood_, -2.49999999376e9, rtol=1e-11)
    assert "duplicate_rows" in codes(m)
    certified(m, x, y)
    none = GaussianProcessRegression(kernel=RBFKernel(1.0), noise_variance=1e-20, **KEPT).fit(x, y)
    assert {"duplicate_rows", "jitter"} <= set(codes(none))
    assert none.jitter_ > 0
    fitted = GaussianProcessRegression().fit(x, y)
    assert "duplicate_rows" not in codes(fitted)


@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
def test_equal_rows_count_as_one_with_the_mean_of_their_targets(mean: str) -> None:
    r = np.random.default_rng(3)
    F = r.normal(size=(12, 2))[r.integers(0, 12, 40)]
    y, known, w = r.normal(size=40), r.uniform(0.01, 1.0, 40), r.integers(1, 4, 40).astype(float)
    X = np.column_stack([F, known])
    m = GaussianProcessRegression(kernel=RBFKernel(0.8), noise_variance=0.3, mean=mean, noise_column=2, **KEPT)
    certified(m.fit(X, y, w), X, y, w)
    again = np.repeat(np.arange(40), w.astype(int))  # every repetition a row of its own: dense, nothing merged
    G, t = F[again], y[again]
    H = np.column_stack([np.ones(len(t)), G])[:, : {"zero": 0, "constant": 1, "linear": 3}[mean]]
    C = RBFKernel(0.8)(G) + np.diag(0.3 + known[again])
    beta = np.linalg.solve(H.T @ np.linalg.solve(C, H), H.T @ np.linalg.solve(C, t))
    alpha = np.linalg.solve(C, t - H @ beta)
    Z = r.normal(size=(5, 2))
    h = np.column_stack([np.ones(5), Z])[:, : H.shape[1]]
    np.testing.assert_allclose(m.predict(np.column_stack([Z, np.ones(5)])), RBFKernel(0.8)(Z, G) @ alpha + h @ beta,
                               rtol=1e-9)  # fmt: skip
    value = -0.5 * t @ alpha - 0.5 * np.linalg.slogdet(C)[1] - 0.5 * (len(t) - H.shape[1]) * np.log(2 * np.pi)
    value -= 0.5 * np.linalg.slogdet(H.T @ np.linalg.solve(C, H))[1]
    np.testing.assert_allclose(m.log_marginal_likelihood_, value, rtol=1e-10)
    assert len(m.surface_.rows) == len(np.unique(F, axis=0))


@pytest.mark.parametrize("mean", ["average", "constant"])
def test_constant_target(mean: str) -> None:
    X, _ = wavy(20)
    m = GaussianProcessRegression(mean=mean).fit(X, np.full(20, 5.0))
    at = m.posterior(np.vstack([X, X + 50]))
    np.testing.assert_allclose(at.mean, 5.0, rtol=1e-9)
    assert np.isfinite(at.sd).all()
    assert "constant_target" in codes(m)
    certified(m, X, np.full(20, 5.0))


def test_given_and_fixed_hyperparameters_keep_their_bits() -> None:
    X, y = wavy(20)
    values = {"signal_variance": 1.7, "noise_variance": 1e-10}
    m = GaussianProcessRegression(kernel=RBFKernel(0.3), hyperparameters="given", **values).fit(X, y)  # type: ignore[arg-type]
    assert m.hyperparameters_ == values | {"kernel/length_scale": 0.3}
    assert m.kernel_ == 1.7 * RBFKernel(0.3)
    m = GaussianProcessRegression(kernel=RBFKernel(0.3), fixed=["noise_variance"], noise_variance=0.02).fit(X, y)
    assert m.noise_variance_ == m.hyperparameters_["noise_variance"] == 0.02


def test_amplitude_is_fitted_and_far_away_is_the_prior() -> None:
    x = np.linspace(0, 6, 12)[:, None]
    m = GaussianProcessRegression(kernel=RBFKernel(1.0)).fit(x, 1000 * np.sin(x[:, 0]))
    at = m.posterior([[20.0]])
    assert 200 < at.sd[0] < 5000
    assert abs(at.mean[0]) < 100
    np.testing.assert_allclose(at.epistemic_sd[0] ** 2, m.hyperparameters_["signal_variance"], rtol=0.05)


def test_pure_noise_is_flagged_with_its_runs() -> None:
    x = np.linspace(0, 1, 15)[:, None]
    for seed in range(11, 17):
        y = np.random.default_rng(seed).normal(size=15)
        m = GaussianProcessRegression(n_restarts=5).fit(x, y)
        assert {"at_bound", "multimodal", "not_identified"} & set(codes(m))
        assert "no_signal" in codes(m)
    runs = m.diagnostics(x, y).tables["runs"]
    assert len(runs.rows) == 6
    values = [row[2] for row in runs.rows]
    assert values[-1] == max(values)
    np.testing.assert_allclose(values[-1], m.log_marginal_likelihood_, rtol=1e-8)


def test_hyperparameters_can_be_fixed_and_bounds_are_reported() -> None:
    X, y = wavy()
    m = GaussianProcessRegression(noise_variance=0.5, fixed=["noise_variance", "kernel/length_scale"],
                                  kernel=RBFKernel(0.7), n_restarts=1).fit(X, y)  # fmt: skip
    assert m.hyperparameters_["noise_variance"] == pytest.approx(0.5)
    assert m.hyperparameters_["kernel/length_scale"] == pytest.approx(0.7)
    tight = GaussianProcessRegression(kernel=RBFKernel(0.2), search_factor=2.0, n_restarts=0).fit(X, y)
    assert tight.hyperparameters_["kernel/length_scale"] == pytest.approx(0.4)
    assert any("kernel/length_scale = 0.4" in n.message for n in tight.notices_ if n.code == "at_bound")
    certified(tight, X, y)
    with pytest.raises(InvalidParameter, match="noise_variance") as refused:
        GaussianProcessRegression(fixed=["noise"]).fit(X, y)
    assert refused.value.issues[0].pointer == "/params/fixed"


def test_an_amplitude_of_its_own_is_not_doubled() -> None:
    X, y = wavy(30)
    own = GaussianProcessRegression(kernel=2.0 * RBFKernel(1.0) + 0.1 * LinearKernel(), n_restarts=0).fit(X, y)
    assert set(own.hyperparameters_) == {"kernel/terms/0/factor", "kernel/terms/0/term/length_scale",
                                         "kernel/terms/1/factor", "noise_variance"}  # fmt: skip
    bare = GaussianProcessRegression(kernel=RBFKernel(1.0), n_restarts=0).fit(X, y)
    assert set(bare.hyperparameters_) == {"signal_variance", "kernel/length_scale", "noise_variance"}


def test_far_mean_is_noted() -> None:
    X, y = wavy(30)
    assert "no_signal" not in codes(GaussianProcessRegression(n_restarts=0).fit(X, y))
    assert "mean_far_from_zero" in codes(GaussianProcessRegression(n_restarts=0).fit(X, y + 1000))
    moved = GaussianProcessRegression(n_restarts=0, mean="constant").fit(X, y + 1000)
    assert "mean_far_from_zero" not in codes(moved)
    np.testing.assert_allclose(moved.predict(X + 100), np.full(30, 1000.0), atol=5)


def test_wrong_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = wavy(10)
    with pytest.raises(InvalidData, match="more than 3 rows"):
        GaussianProcessRegression(mean="linear").fit(X[:3], y[:3])
    flat = np.column_stack([X, np.ones(len(X))])
    with pytest.raises(InvalidData, match="dependent"):
        GaussianProcessRegression(mean="linear").fit(flat, y)
    with pytest.raises(InvalidParameter, match="noise_column"):
        GaussianProcessRegression(noise_column=2).fit(X, y)
    with pytest.raises(InvalidData, match="not negative"):
        GaussianProcessRegression(noise_column=1).fit(X, y)
    with pytest.raises(InvalidParameter, match="sparse method needs noise"):
        GaussianProcessRegression(method="sparse", noise_variance=0.0, **KEPT).fit(X, y)
    monkeypatch.setattr("ml_core.gp.gaussian_process_regression.granted", lambda: 1e3)
    switched = GaussianProcessRegression(n_restarts=0, n_inducing=1).fit(X, y)
    assert switched.method_ == "sparse"
    monkeypatch.setattr("ml_core.numerics.memory.granted", lambda: 1e2)
    for method in ("exact", "auto"):
        with pytest.raises(OverBudget, match="GB"):
            GaussianProcessRegression(method=method).fit(X, y)


def test_a_noise_of_zero_stays_zero_in_every_climb() -> None:
    X = np.linspace(0, 3, 12)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GaussianProcessRegression(noise_variance=0.0, n_restarts=1).fit(X, np.sin(X[:, 0]))
    assert model.noise_variance_ == 0.0


def test_weights_that_add_up_to_less_than_the_mean_has_coefficients() -> None:
    X = np.linspace(0, 3, 12)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GaussianProcessRegression(mean="linear", n_restarts=0)
        model.fit(X, np.sin(X[:, 0]), sample_weight=np.full(12, 1e-3))
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("method", ["exact", "sparse"])
def test_draws_name_the_rows_they_are_of(method: str) -> None:
    """Rows of weight zero and repeated rows count among those given; behind a scaler draws stay functions."""
    X = np.array([[9.0], [1.0], [2.0], [1.0], [3.0]])
    y, s = np.array([100.0, 1.0, 2.0, 1.0, 3.0]), np.array([0.0, 1.0, 1.0, 1.0, 1.0])
    how: dict[str, Any] = {"signal_variance": 4.0, "noise_variance": 1e-6, "hyperparameters": "given", "method": method}
    m = GaussianProcessRegression(**how).fit(X, y, s)
    drawn = m.sample(3)[0]
    assert sorted(m.sampled_rows_) == [1, 2, 4]
    np.testing.assert_array_equal(X[m.sampled_rows_], m.surface_.rows)
    np.testing.assert_allclose(drawn, np.tile(y[m.sampled_rows_], (3, 1)), atol=0.02)
    steps = [{"algorithm": "standard_scaler"}, {"algorithm": "gaussian_process_regression", "params": how}]
    pipe = build({"algorithm": "pipeline", "params": {"steps": steps}}).fit(X, y)
    assert pipe.draws == "functions"
    np.testing.assert_allclose(pipe.sample(1)[0][0], y[pipe.sampled_rows_], atol=0.02)
