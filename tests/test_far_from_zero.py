"""Tables far from 0, against the same in fifty digits: what a mean of 1e9 must not cost where no intercept takes it."""

import mpmath as mp
import numpy as np
import pytest

from ml_core.linear.bayesian_linear_regression import BayesianLinearRegression
from ml_core.registry import build

DIGITS = 50


def evidence(X, y):
    """alpha, noise variance and slopes at the fixed point of MacKay, from Gram matrices in fifty digits."""
    with mp.workdps(DIGITS):
        A, t = mp.matrix(X.tolist()), mp.matrix(y.tolist())
        values, Q = mp.eigsy(A.T * A)
        z, whole, d = Q.T * (A.T * t), (t.T * t)[0], len(values)
        alpha, noise, moved = mp.mpf(1), mp.mpf(1), mp.mpf(1)
        while moved > mp.mpf("1e-14"):
            under = [v + alpha * noise for v in values]
            gamma = mp.fsum(values[j] / under[j] for j in range(d))
            w = [z[j] / under[j] for j in range(d)]
            rss = whole - 2 * mp.fsum(w[j] * z[j] for j in range(d)) + mp.fsum(values[j] * w[j] ** 2 for j in range(d))
            new = gamma / mp.fsum(v * v for v in w), rss / (len(X) - gamma)
            moved = max(abs(mp.log(new[0] / alpha)), abs(mp.log(new[1] / noise)))
            alpha, noise = new
        return float(alpha), float(noise), np.array([float(v) for v in Q * mp.matrix(w)])


@pytest.mark.parametrize("far", [0.0, 1e6, 1e9])
@pytest.mark.parametrize("scale", [1.0, 1e-6])
@pytest.mark.parametrize("target", [0.0, 1.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_evidence_is_maximised_far_from_zero(far, scale, target, intercept):
    rng = np.random.default_rng(3)
    unit = np.array([1.0, scale, 1.0])
    X = (rng.normal(size=(30, 3)) + far) * unit
    y = X @ (np.array([1.0, -2.0, 0.5]) / unit) + rng.normal(size=30) + target * far
    alpha, noise, w = evidence(np.hstack([X, np.ones((30, 1))]) if intercept else X, y)
    m = BayesianLinearRegression(hyperparameters="evidence", fit_intercept=intercept).fit(X, y)
    assert m.alpha_ == pytest.approx(alpha, rel=1e-7)
    assert m.noise_variance_ == pytest.approx(noise, rel=1e-8)
    np.testing.assert_allclose(m.coef_ * unit, w[:3] * unit, rtol=1e-7, atol=1e-7 * np.abs(w[:3] * unit).max())
    report = m.diagnostics(X, y)
    assert [n.code for n in report.warnings] == []
    assert all(c.holds for c in report.certificates)
    halves = BayesianLinearRegression(hyperparameters="evidence", fit_intercept=intercept).fit(X[:10], y[:10])
    halves.update(X[10:], y[10:])
    np.testing.assert_allclose(halves.coef_, m.coef_, rtol=1e-6, atol=1e-6 * np.abs(m.coef_).max())


CLASSIFIERS = [
    ("logistic_regression", {"alpha": 0.5}), ("softmax_regression", {"alpha": 0.5}), ("one_vs_rest", {}),
    ("one_vs_one", {}), ("penalized_logistic_regression", {"alpha": 0.5}), ("bayesian_logistic_regression", {}),
    ("penalized_logistic_regression", {"penalty": "l1"}), ("penalized_logistic_regression", {"penalty": "firth"}),
    ("soft_margin_svm", {}), ("least_squares_classifier", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params"), CLASSIFIERS, ids=lambda v: str(v) if isinstance(v, str) else "")
def test_scores_do_not_see_an_exact_shift(name, params):
    """Whole numbers, and the same beyond a million million: both tables are exact."""
    rng = np.random.default_rng(8)
    X = rng.integers(-20, 21, (120, 3)).astype(float)
    classes = 2 if params.get("penalty") in ("l1", "firth") or name in ("logistic_regression", "soft_margin_svm") else 3
    y = np.digitize(X @ [1.0, -0.5, 0.3] + 12 * rng.normal(size=120), [0.0, 8.0][: classes - 1])
    far = X + 2.0**40
    here, there = (build({"algorithm": name, "params": params}).fit(A, y) for A in (X, far))
    np.testing.assert_allclose(there.decision_function(far), here.decision_function(X), rtol=1e-6, atol=1e-6)
    if hasattr(here, "predict_proba"):
        np.testing.assert_allclose(there.predict_proba(far), here.predict_proba(X), rtol=1e-6, atol=1e-6)


RISKS = [("linear", "absolute"), ("logistic", "logistic"), ("logistic", "squared")]


@pytest.mark.parametrize(("function", "loss"), RISKS)
def test_risks_do_not_see_an_exact_shift(function, loss):
    rng = np.random.default_rng(8)
    X = rng.integers(-20, 21, (120, 3)).astype(float)
    y = X @ [0.1, -0.05, 0.03] + rng.normal(size=120)
    if function == "logistic":
        y = (y > 0).astype(float)
    params, far = {"function": function, "loss": loss}, X + 2.0**40
    here, there = (build({"algorithm": "empirical_risk_minimizer", "params": params}).fit(A, y) for A in (X, far))
    np.testing.assert_allclose(there.predict(far), here.predict(X), rtol=1e-5, atol=1e-5)
