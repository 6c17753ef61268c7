"""Kernel logistic regression: its linear twin, known values, brute force, weights, and its certificates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from ml_core.errors import OverBudget
from ml_core.gp.kernel_logistic_regression import KernelLogisticRegression
from ml_core.kernels import LinearKernel, PolynomialKernel, RBFKernel
from ml_core.linear.logistic_regression import LogisticRegression


def rows(classes: int = 2, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(0)
    X = r.normal(size=(n, 3))
    scores = X @ r.normal(size=(3, classes)) + r.gumbel(size=(n, classes))
    return X, np.array(["a", "b", "c", "d"])[scores.argmax(axis=1)]


def holds(model: KernelLogisticRegression, X: np.ndarray, y: np.ndarray, s: np.ndarray | None = None) -> None:
    report = model.diagnostics(X, y, s).to_json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("classes", [2, 4])
def test_linear_kernel_is_logistic_regression(classes: int, intercept: bool, weighted: bool) -> None:
    X, y = rows(classes)
    s = np.random.default_rng(1).uniform(0.2, 3.0, size=len(y)) if weighted else np.ones(len(y))
    m = KernelLogisticRegression(kernel=LinearKernel(), alpha=0.7, fit_intercept=intercept).fit(X, y, s)
    twin = LogisticRegression(alpha=0.7, fit_intercept=intercept).fit(X, y, s)
    assert m.rank_ == 3
    np.testing.assert_allclose(m.predict_proba(X + 0.3), twin.predict_proba(X + 0.3), rtol=1e-8)
    np.testing.assert_allclose(m.dual_coef_.T @ X, twin.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(m.intercept_, twin.intercept_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(m.decision_function(X), twin.decision_function(X), rtol=1e-7, atol=1e-8)
    holds(m, X, y, s)


def test_known_values_of_exclusive_or() -> None:
    X = np.array([[1.0, 1.0], [1, -1], [-1, 1], [-1, -1]])
    y = np.array([1, 0, 0, 1])
    m = KernelLogisticRegression(kernel=PolynomialKernel(2, 1.0), alpha=1.0, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(m.dual_coef_[:, 0], 0.1851936 * np.array([1, -1, -1, 1]), atol=5e-8)
    np.testing.assert_allclose(m.predict_proba(X)[:, 1], [0.8148064, 0.1851936, 0.1851936, 0.8148064], atol=5e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_minimum_is_that_of_brute_force(classes: int) -> None:
    X, y = rows(classes, 40)
    k, alpha = RBFKernel(1.2), 0.3
    m = KernelLogisticRegression(kernel=k, alpha=alpha).fit(X, y)
    holds(m, X, y)
    K, codes = k(X), np.searchsorted(m.classes_, y)
    q = 1 if classes == 2 else classes

    def objective(v: np.ndarray) -> float:
        a, b = v[: 40 * q].reshape(40, q), v[40 * q :]
        f = K @ a + b
        full = np.hstack([np.zeros((40, 1)), f]) if q == 1 else f
        each = np.log(np.exp(full).sum(axis=1)) - full[np.arange(40), codes]
        return float(each.sum() + 0.5 * alpha * np.vdot(a, K @ a))

    ours = objective(np.append(m.dual_coef_.ravel(), m.intercept_))
    np.testing.assert_allclose(ours, m.diagnostics(X, y).summary["objective"], rtol=1e-9)
    best = minimize(objective, np.zeros(41 * q), method="L-BFGS-B", options={"maxiter": 3000, "maxfun": 10**6}).fun
    assert ours <= best + 1e-6


def test_it_bends_where_a_line_cannot_and_weights_repeat_rows() -> None:
    r = np.random.default_rng(2)
    X = r.normal(size=(80, 2))
    y = (X**2).sum(axis=1) > 1.4
    m = KernelLogisticRegression(alpha=0.05).fit(X, y)
    assert m.score(X, y) > 0.95
    s = r.integers(1, 4, size=80)
    often = np.repeat(np.arange(80), s)
    one = KernelLogisticRegression(kernel=RBFKernel(1.0)).fit(X, y, s.astype(float))
    two = KernelLogisticRegression(kernel=RBFKernel(1.0)).fit(X[often], y[often])
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-7)


def test_limits_and_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    m = KernelLogisticRegression(max_iter=1, tol=1e-14).fit(X, y)
    assert [n.code for n in m.notices_] == ["not_converged"]
    monkeypatch.setattr("ml_core.gp.kernel_logistic_regression.NEWTON_UNKNOWNS", 5)
    by_lbfgs = KernelLogisticRegression().fit(X, y)
    holds(by_lbfgs, X, y)
    monkeypatch.setattr("ml_core.numerics.memory.granted", lambda: 1e3)
    with pytest.raises(OverBudget):
        KernelLogisticRegression().fit(X, y)
