"""Theorems of linear models that tie one algorithm to another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from ml_core.linear.glm_families import FAMILIES
from ml_core.linear.linear_decisions import boundaries
from ml_core.losses.softmax import Softmax
from ml_core.registry import build
from tests.rows import data

X, Y = data.regression()


def fit(name: str, A: Any, y: Any, **params: Any) -> Any:
    return build({"algorithm": name, "params": params}).fit(A, y)  # type: ignore[attr-defined]


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 50.0])
def test_ridge_is_least_squares_on_augmented_rows(alpha: float) -> None:
    d = X.shape[1]
    A = np.vstack([np.column_stack([np.ones(len(X)), X]), np.sqrt(alpha) * np.eye(d + 1)])
    stacked = fit("linear_regression", A, np.append(Y, np.zeros(d + 1)), fit_intercept=False)
    both = fit("ridge_regression", X, Y, alpha=alpha, penalize_bias=True)
    np.testing.assert_allclose([both.intercept_, *both.coef_], stacked.coef_, rtol=1e-12)
    free = fit("linear_regression", np.delete(A, len(X), axis=0), np.append(Y, np.zeros(d)), fit_intercept=False)
    plain = fit("ridge_regression", X, Y, alpha=alpha)
    np.testing.assert_allclose([plain.intercept_, *plain.coef_], free.coef_, rtol=1e-12)
    bayes = fit("bayesian_linear_regression", X, Y, alpha=alpha / 0.3, noise_variance=0.3)
    np.testing.assert_allclose([bayes.intercept_, *bayes.coef_], [both.intercept_, *both.coef_], rtol=1e-11)


@pytest.mark.parametrize("alpha", [0.5, 3.0, 40.0])
def test_lasso_of_orthonormal_columns_is_a_soft_threshold(alpha: float) -> None:
    Q = np.linalg.qr(np.column_stack([np.ones(len(X)), X]))[0][:, 1:]
    z = Q.T @ Y
    want = np.sign(z) * np.maximum(np.abs(z) - alpha / 2, 0)
    np.testing.assert_allclose(fit("lasso", Q, Y, alpha=alpha).coef_, want, atol=1e-12)
    np.testing.assert_allclose(fit("ridge_regression", Q, Y, alpha=alpha).coef_, z / (1 + alpha), rtol=1e-12)


def test_a_constant_alone_is_mean_median_and_midrange() -> None:
    none = np.zeros((len(Y), 1))
    for name, want in (("linear_regression", Y.mean()), ("minimax_regression", (Y.min() + Y.max()) / 2)):
        assert fit(name, none, Y).predict(none[:1])[0] == pytest.approx(want, rel=1e-12)
    odd = Y[:-1] if len(Y) % 2 == 0 else Y
    median = fit("least_absolute_deviations", none[: len(odd)], odd)
    assert median.predict(none[:1])[0] == pytest.approx(np.median(odd), rel=1e-12)


def test_softmax_probabilities_do_not_know_a_common_vector() -> None:
    A, labels = data.classification()
    m = fit("softmax_regression", A, labels, alpha=0.5)
    shift = np.array([0.3, -2.0, 5.0])
    moved = softmax(A @ (m.coef_ + shift).T + m.intercept_ + 1.5, axis=1)
    np.testing.assert_allclose(moved, m.predict_proba(A), atol=1e-12)


@pytest.mark.parametrize("at", FAMILIES, ids=" ".join)
def test_slopes_of_the_log_partition_are_mean_and_variance(at: Any) -> None:
    """Of a canonical link, of the loss A(η) - y η by differences; else of the loss at its own mean."""
    family = FAMILIES[at]
    eta = np.array([0.3, 0.9, 1.7])
    mean = family.mean(eta)
    value, slope, curve = family.loss.all(eta[:, None], mean)
    np.testing.assert_allclose(slope[:, 0], 0, atol=1e-12)
    h = 1e-5
    around = [family.loss.value((eta + t)[:, None], mean) for t in (-h, h)]
    np.testing.assert_allclose((around[0] + around[1] - 2 * value) / h**2, curve[:, 0, 0], rtol=1e-4)
    rate = (family.mean(eta + h) - family.mean(eta - h)) / (2 * h)
    deviation = -0.5 * mean / family.off(0.5 * mean, eta)
    np.testing.assert_allclose(np.square(rate / deviation), curve[:, 0, 0], rtol=1e-7)
    if at[1] != "log" or at[0] == "poisson":
        np.testing.assert_allclose(np.abs(rate), deviation**2, rtol=1e-7)


def test_criteria_of_least_squares_count_the_bias_and_adjusted_r2_does_not() -> None:
    x, y = np.array([[1.0], [2], [3], [4]]), np.array([1.0, 3, 2, 5])
    out = fit("linear_regression", x, y).diagnostics(x, y).summary
    assert out["aic"] == pytest.approx(13.7793379, abs=6e-8)
    assert out["bic"] == pytest.approx(12.5519266, abs=6e-8)
    assert out["adjusted_r2"] == pytest.approx(1 - (2.7 / 2) / (8.75 / 3), rel=1e-12)


def test_likelihoods_are_those_of_the_noise() -> None:
    """Gaussian for squares, Laplace with exponent -|r|/b for absolute values, at the best scale."""
    plain, median = fit("linear_regression", X, Y), fit("least_absolute_deviations", X, Y)
    r = Y - plain.predict(X)
    known = stats.norm(0, np.sqrt(np.mean(r**2))).logpdf(r).sum()
    assert plain.diagnostics(X, Y).summary["log_likelihood"] == pytest.approx(known, rel=1e-12)
    r = Y - median.predict(X)
    known = stats.laplace(0, np.abs(r).mean()).logpdf(r).sum()
    assert median.diagnostics(X, Y).summary["log_likelihood"] == pytest.approx(known, rel=1e-12)


def test_bernoulli_has_the_log_odds_as_parameter_and_softplus_as_partition() -> None:
    family, p = FAMILIES["bernoulli", "logit"], np.array([0.1, 0.5, 0.8])
    eta = np.log(p / (1 - p))
    np.testing.assert_allclose(family.mean(eta), p, rtol=1e-14)
    np.testing.assert_allclose(family.loss.value(eta[:, None], np.zeros(3)), np.log1p(np.exp(eta)), rtol=1e-14)


def test_shares_of_far_scores() -> None:
    scores = np.tile([1000.0, 1001, 1002], (3, 1))
    known = [0.0900306, 0.2447285, 0.6652410]
    np.testing.assert_allclose(np.exp(-Softmax(3).value(scores @ Softmax(3).basis, np.arange(3.0))), known, atol=6e-8)


@pytest.mark.parametrize("name", ["linear_regression", "least_absolute_deviations", "minimax_regression"])
def test_optima_touch_their_rows(name: str) -> None:
    """Least absolute deviations pass through as many rows as the rank; d + 2 rows are at the largest residual."""
    m, d = fit(name, X, Y), X.shape[1]
    r = Y - m.predict(X)
    if name == "linear_regression":
        np.testing.assert_allclose(np.column_stack([np.ones(len(X)), X]).T @ r, 0, atol=1e-10 * np.abs(Y).sum())
    elif name == "least_absolute_deviations":
        assert (np.abs(r) <= 1e-9).sum() >= d + 1
    else:
        assert (np.abs(r) >= np.abs(r).max() * (1 - 1e-9)).sum() >= d + 2


@pytest.mark.parametrize(
    "case",
    [("logistic_regression", {}), ("logistic_regression", {"alpha": 2.0, "threshold": 0.3}), ("perceptron", {}),
     ("penalized_logistic_regression", {"penalty": "l1"}), ("penalized_logistic_regression", {"penalty": "firth"}),
     ("bayesian_logistic_regression", {}), ("least_squares_classifier", {}), ("centroid_classifier", {})],
    ids=str,
)  # fmt: skip
def test_boundaries_have_their_geometry_and_a_tie_is_the_second_class(case: Any) -> None:
    name, params = case
    A, labels = data.binary()
    m = fit(name, A, labels, **params)
    table = m.diagnostics(A, labels).tables["boundaries"]
    row = dict(zip(table.columns, table.rows[0], strict=True))
    w = np.ravel(m.coef_)
    assert row["normal_length"] == pytest.approx(np.linalg.norm(w), rel=1e-12)
    assert row["plane_offset"] == pytest.approx(-row["intercept"] / np.linalg.norm(w), rel=1e-12)
    on = A - ((A @ w + row["intercept"]) / (w @ w))[:, None] * w
    np.testing.assert_allclose(m.decision_function(on), 0, atol=1e-9 * np.abs(m.decision_function(A)).max())
    away = on + 3.0 * w / np.linalg.norm(w)
    np.testing.assert_allclose((away @ w + row["intercept"]) / row["normal_length"], 3.0, rtol=1e-9)
    assert (m.predict(away) == m.classes_[1]).all()
    nothing = np.zeros_like(m.intercept_)
    vars(m).update(coef_=np.zeros_like(m.coef_), intercept_=nothing, offset_=nothing)
    if params.get("threshold", 0.5) == 0.5 and name not in ("least_squares_classifier", "centroid_classifier"):
        assert (m.predict(A) == m.classes_[1]).all()


def test_the_known_plane() -> None:
    table = boundaries(["a", "b"], np.array([[3.0, 4.0]]), np.array([-5.0]))
    assert table.rows == [["a", "b", 5.0, -5.0, 1.0]]
    assert (np.array([3.0, 4.0]) @ [3.0, 4.0] - 5) / 5 == 4.0


@pytest.mark.parametrize("name", ["logistic_regression", "softmax_regression"])
def test_a_penalised_fit_is_a_sum_of_its_rows(name: str) -> None:
    """alpha W = Xᵀ S (T - P), and with a free bias Σ s (T - P) = 0."""
    A, labels = data.classification()
    y = labels if name == "softmax_regression" else labels == labels[0]
    s = np.random.default_rng(0).uniform(0.5, 2.0, len(A))
    m: Any = build({"algorithm": name, "params": {"alpha": 0.7}}).fit(A, y, s)  # type: ignore[attr-defined]
    off = (m.classes_ == np.asarray(y)[:, None]) - m.predict_proba(A)
    off = off if name == "softmax_regression" else off[:, 1:]
    np.testing.assert_allclose(0.7 * m.coef_, (s[:, None] * off).T @ A, atol=1e-8)
    np.testing.assert_allclose(s @ off, 0, atol=1e-9)


def test_few_strong_columns_are_the_lassos_and_many_weak_ones_ridges() -> None:
    r = np.random.default_rng(3)
    A, fresh = r.normal(size=(60, 40)), r.normal(size=(2000, 40))
    noise = r.normal(size=60)
    for w, better in ((np.append([3.0, -2.0, 2.0], np.zeros(37)), "lasso"), (np.full(40, 0.4), "ridge_regression")):
        errors = {}
        for name in ("lasso", "ridge_regression"):
            m = fit(name, A, A @ w + noise, choose_alpha="cross_validation")
            errors[name] = np.mean((m.predict(fresh) - fresh @ w) ** 2)
        assert min(errors, key=lambda k: errors[k]) == better


@pytest.mark.parametrize("kind", ["int32", "float32", "bool"])
@pytest.mark.parametrize(
    "name", ["linear_regression", "ridge_regression", "lasso", "huber_regression", "logistic_regression", "perceptron",
             "standard_scaler", "polynomial_features"],
)  # fmt: skip
def test_other_numbers_become_doubles_first(name: str, kind: str) -> None:
    A = np.random.default_rng(0).integers(0, 2 if kind == "bool" else 2000, (30, 2)).astype(kind)
    y = (np.arange(30) % 2).astype("int32")
    target = y if name in ("logistic_regression", "perceptron") else y.astype("float32")
    how = "transform" if name in ("standard_scaler", "polynomial_features") else "predict"
    one = getattr(fit(name, A, target), how)(A)
    two = getattr(fit(name, A.astype(float), target), how)(A.astype(float))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_tells_the_condition_of_its_centred_columns(weighted):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4)) + 7.0, rng.normal(size=50)
    s = rng.uniform(0.5, 2.0, 50) if weighted else np.ones(50)
    twins = np.hstack([X, X[:, :1]])

    def told(A):
        spec = {"algorithm": "ridge_regression", "params": {"alpha": 2.0}}
        return build(spec).fit(A, y, s).diagnostics(A, y, s).summary["condition_number"]

    assert told(X) == pytest.approx(np.linalg.cond(np.sqrt(s)[:, None] * (X - s @ X / s.sum())), rel=1e-9)
    assert told(twins) is None


@pytest.mark.parametrize("solver", ["newton", "irls", "lbfgs"])
def test_likelihood_fits_tell_their_solver(solver):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 3))
    y = rng.poisson(np.exp(0.3 * X[:, 0]))
    for name, t, more in [
        ("generalized_linear_model", y.astype(float), {"family": "poisson"}),
        ("logistic_regression", (y > 0).astype(int), {}),
        ("softmax_regression", np.minimum(y, 2), {}),
    ]:
        m = fit(name, X, t, solver=solver, **more)
        table = m.diagnostics(X, t).tables["solver"]
        assert table.rows == [[solver, m.solution_.n_iter, m.solution_.reason]]
