"""Kernel ridge regression: closed forms, its linear twin, its Gaussian process, leaving rows out, hostile input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge as Peer

from ml_core.errors import InvalidData, OverBudget
from ml_core.gp.gaussian_process_regression import GaussianProcessRegression
from ml_core.gp.kernel_ridge_regression import KernelRidgeRegression
from ml_core.kernels import (
    ExponentialKernel,
    Kernel,
    LinearKernel,
    MaternKernel,
    PolynomialKernel,
    PrecomputedKernel,
    RBFKernel,
    TrigonometricKernel,
)
from ml_core.linear.ridge_regression import RidgeRegression

KERNELS = [RBFKernel(0.8), ExponentialKernel(0.7), PolynomialKernel(2), TrigonometricKernel(), MaternKernel(1.0, 1.5)]


def rows(n: int = 50, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * r.normal(size=n) + 5


def holds(model: KernelRidgeRegression, X: np.ndarray, y: np.ndarray, s: np.ndarray | None = None) -> None:
    report = model.diagnostics(X, y, s).to_json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]


def test_known_values() -> None:
    x, y = np.arange(1.0, 5)[:, None], np.array([1.0, 3, 2, 5])
    m = KernelRidgeRegression(kernel=RBFKernel(1.0), alpha=0.5, intercept="none").fit(x, y)
    np.testing.assert_allclose(m.dual_coef_, [-0.129112, 2.111613, -0.932522, 3.520841], atol=5e-7)
    np.testing.assert_allclose(m.predict([[2.5]]), 2.141678, atol=5e-7)
    K = RBFKernel(1.0)(x)
    primal = 0.5 * np.sum((y - K @ m.dual_coef_) ** 2) + 0.25 * m.dual_coef_ @ K @ m.dual_coef_
    np.testing.assert_allclose(primal, 5.4862222, atol=5e-8)
    lin = KernelRidgeRegression(kernel=LinearKernel(), alpha=1.0, intercept="penalised").fit(x, y)
    np.testing.assert_allclose(lin.intercept_, 0.2, atol=1e-12)
    np.testing.assert_allclose(lin.predict([[1.0]]) - lin.intercept_, 1.0, atol=1e-12)


@pytest.mark.parametrize("k", KERNELS, ids=lambda k: k.name)
def test_dual_weights_are_scikit_learns(k: Kernel) -> None:
    X, y = rows()
    Y = np.column_stack([y, X[:, 0] * X[:, 1]])
    for target in (y, Y):
        m = KernelRidgeRegression(kernel=k, alpha=0.3, intercept="none").fit(X, target)
        peer = Peer(alpha=0.3, kernel="precomputed").fit(k(X), target)
        np.testing.assert_allclose(m.dual_coef_, peer.dual_coef_, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(m.predict(X[:5] + 1), peer.predict(k(X[:5] + 1, X)), rtol=1e-8, atol=1e-9)
        holds(m, X, target)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("intercept", "twin"), [("free", {}), ("penalised", {"penalize_bias": True}),
                                                 ("none", {"fit_intercept": False})])  # fmt: skip
def test_linear_kernel_is_ridge_regression(intercept: str, twin: dict[str, bool], weighted: bool) -> None:
    X, y = rows()
    Y = np.column_stack([y, X[:, 2] - y])
    s = np.random.default_rng(3).uniform(0.2, 3.0, size=len(y)) if weighted else np.ones(len(y))
    m = KernelRidgeRegression(kernel=LinearKernel(), alpha=1.7, intercept=intercept).fit(X, Y, s)
    r = RidgeRegression(alpha=1.7, **twin).fit(X, Y, s)
    np.testing.assert_allclose(m.predict(X + 1), r.predict(X + 1), rtol=1e-9)
    np.testing.assert_allclose(m.dual_coef_.T @ X, r.coef_, rtol=1e-9)
    np.testing.assert_allclose(m.intercept_, r.intercept_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(m.left_out(X, Y, s), r.left_out(X, Y, s), rtol=1e-8)
    ours, theirs = m.diagnostics(X, Y, s).summary, r.diagnostics(X, Y, s).summary
    # of weighted rows ridge's summary leaves one unit of weight out, ours the whole row
    for name in ("rss", "r2", *(() if weighted else ("effective_parameters", "leave_one_out_mse"))):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-7, err_msg=name)
    holds(m, X, Y, s)


def test_free_intercept_is_centring() -> None:
    X, y = rows()
    k = RBFKernel(0.9)
    n = len(y)
    J = np.eye(n) - 1 / n
    a = np.linalg.solve(J @ k(X) @ J + 0.4 * np.eye(n), y - y.mean())
    m = KernelRidgeRegression(kernel=k, alpha=0.4).fit(X, y)
    np.testing.assert_allclose(m.predict(X), J @ k(X) @ J @ a + y.mean(), rtol=1e-9)
    np.testing.assert_allclose(m.dual_coef_.sum(), 0.0, atol=1e-10)
    shifted = KernelRidgeRegression(kernel=k, alpha=0.4).fit(X, y + 1e6)
    np.testing.assert_allclose(shifted.predict(X) - 1e6, m.predict(X), atol=1e-6)


def test_it_is_the_mean_of_a_gaussian_process() -> None:
    X, y = rows()
    k = MaternKernel((0.8, 1.0, 2.0), 2.5)
    m = KernelRidgeRegression(kernel=k, alpha=0.05 / 2.0, intercept="none").fit(X, y)
    g = GaussianProcessRegression(kernel=k, signal_variance=2.0, noise_variance=0.05, hyperparameters="given").fit(X, y)
    np.testing.assert_allclose(m.predict(X + 0.5), g.predict(X + 0.5), rtol=1e-8)
    c = GaussianProcessRegression(
        kernel=k, signal_variance=2.0, noise_variance=0.05, hyperparameters="given", mean="constant"
    ).fit(X, y)
    free = KernelRidgeRegression(kernel=k, alpha=0.05 / 2.0).fit(X, y)
    np.testing.assert_allclose(free.predict(X + 0.5), c.predict(X + 0.5), rtol=1e-8)


@pytest.mark.parametrize("intercept", ["free", "none"])
def test_left_out_is_a_fit_without_the_row(intercept: str) -> None:
    X, y = rows(20)
    s = np.random.default_rng(1).uniform(0.5, 2.0, size=20)
    how = {"kernel": RBFKernel(0.9), "alpha": 0.2, "intercept": intercept}
    m = KernelRidgeRegression(**how).fit(X, y, s)
    fast = m.left_out(X, y, s)
    for i in range(20):
        rest = np.arange(20) != i
        one = KernelRidgeRegression(**how).fit(X[rest], y[rest], s[rest]).predict(X[[i]])
        np.testing.assert_allclose(fast[i], one[0], rtol=1e-9)
    report = m.diagnostics(X, y, s)
    np.testing.assert_allclose(report.summary["leave_one_out_mse"], np.average((y - fast) ** 2, weights=s), rtol=1e-9)


def test_weights_repeat_rows() -> None:
    X, y = rows(20)
    s = np.random.default_rng(1).integers(1, 4, size=20)
    often = np.repeat(np.arange(20), s)
    one = KernelRidgeRegression(alpha=0.2, kernel=RBFKernel(1.0)).fit(X, y, s.astype(float))
    two = KernelRidgeRegression(alpha=0.2, kernel=RBFKernel(1.0)).fit(X[often], y[often])
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-9)


def test_without_a_penalty_it_interpolates_and_says_so() -> None:
    X, y = rows(15)
    m = KernelRidgeRegression(alpha=0.0, kernel=MaternKernel(1.0, 0.5)).fit(X, y)
    np.testing.assert_allclose(m.predict(X), y, rtol=1e-8)
    assert [n.code for n in m.notices_] == ["not_regularised"]
    twice = np.vstack([X, X])
    again = KernelRidgeRegression(alpha=0.0, kernel=MaternKernel(1.0, 0.5)).fit(twice, np.append(y, y))
    assert [n.code for n in again.notices_] == ["not_regularised", "jitter"]
    np.testing.assert_allclose(again.predict(X), y, rtol=1e-6)


def test_precomputed_values_are_the_same_model() -> None:
    X, y = rows(30)
    k = RBFKernel(0.9)
    direct = KernelRidgeRegression(kernel=k, alpha=0.2).fit(X[:20], y[:20])
    valued = KernelRidgeRegression(kernel=PrecomputedKernel(), alpha=0.2).fit(k(X[:20]), y[:20])
    np.testing.assert_allclose(valued.predict(k(X[20:], X[:20])), direct.predict(X[20:]), rtol=1e-9)
    with pytest.raises(InvalidData, match="symmetric"):
        KernelRidgeRegression(kernel=PrecomputedKernel()).fit(np.triu(k(X[:20])), y[:20])


def test_memory_is_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    monkeypatch.setattr("ml_core.numerics.memory.granted", lambda: 1e3)
    with pytest.raises(OverBudget, match="50 rows needs about"):
        KernelRidgeRegression().fit(X, y)
    assert KernelRidgeRegression().cost(8000, 8).memory_bytes > 3 * 8 * 8000**2


def test_many_queries_go_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    m = KernelRidgeRegression(kernel=RBFKernel(1.0)).fit(X, y)
    whole = m.predict(X)
    monkeypatch.setattr("ml_core.kernels.weighted.BLOCK_BYTES", 8)
    np.testing.assert_allclose(m.predict(X), whole, rtol=1e-12)


@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
@pytest.mark.parametrize("rows", [1, 2, 40])
def test_constant_targets_and_single_rows_are_certified(intercept: str, rows: int) -> None:
    X = np.random.default_rng(0).normal(size=(rows, 2))
    y = np.full(rows, 5.0)
    model = KernelRidgeRegression(intercept=intercept).fit(X, y)  # type: ignore[arg-type]
    report = model.diagnostics(X, y)
    assert all(c.holds for c in report.certificates), report.certificates
    if intercept == "free":
        np.testing.assert_allclose(model.predict(X), 5.0)
        assert (report.summary["leave_one_out_mse"] is None) == (rows == 1)


@pytest.mark.parametrize("alpha", [1e-20, 1e-80, 1e-300])
def test_an_alpha_below_rounding_interpolates_and_says_so(alpha: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    model = KernelRidgeRegression(kernel=RBFKernel(0.2), alpha=alpha).fit(X, y)
    found = model.diagnostics(X, y)
    assert "alpha_below_rounding" in [n.code for n in found.warnings]
    assert {c.name for c in found.certificates} == {"solve_backward_error", "interpolation_error"}
    assert all(c.holds for c in found.certificates)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-8)


def test_an_alpha_that_rounding_spoils_fails_its_gap_and_names_the_remedy() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    found = KernelRidgeRegression(alpha=1e-12).fit(X, y).diagnostics(X, y)
    assert [(n.code, n.advice.split(":")[0]) for n in found.warnings] == [("certificate_fails", "raise alpha")]
