"""Losses, costs, penalties, lifts and steps against the formula as books print it, written out here once more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ml_core.registry import build, functions
from ml_core.solvers.updates import DiagonalLevenbergMarquardt

R = np.random.default_rng(11)
Z, Y = 3 * R.normal(size=40), 3 * R.normal(size=40)
Z[:5] = Y[:5] + np.array([0.0, 0.5, -0.5, 1.0, -1.0])  # kinks and ends of the tubes below
SIGN = np.where(R.random(40) < 0.5, -1.0, 1.0)
S = R.uniform(0.2, 3.0, 40)
P = R.uniform(0.05, 0.95, 40)


def called(name: str, **arguments: Any) -> dict[str, Any]:
    given = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    out: dict[str, Any] = functions()[name](given)["result"]
    return out


RESIDUAL: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "squared_error": ({}, np.square),
    "absolute_error": ({}, np.abs),
    "huber_loss": ({"delta": 1.0}, lambda r: np.where(np.abs(r) <= 1, r * r / 2, np.abs(r) - 0.5)),
    "tukey_loss": ({"c": 2.0}, lambda r: 4 / 6 * (1 - np.where(np.abs(r) <= 2, 1 - (r / 2) ** 2, 0) ** 3)),
    "epsilon_insensitive_loss": ({"epsilon": 0.5}, lambda r: np.maximum(0, np.abs(r) - 0.5)),
}
MARGIN: dict[str, Callable[[Any], Any]] = {
    "hinge_loss": lambda m: np.maximum(0, 1 - m),
    "exponential_loss": lambda m: np.exp(-m),
    "perceptron_loss": lambda m: np.maximum(0, -m),
}


@pytest.mark.parametrize("name", RESIDUAL)
def test_losses_of_residuals(name: str) -> None:
    params, formula = RESIDUAL[name]
    out = called(name, prediction=Z, y=Y, sample_weight=S, **params)
    want = formula(Z - Y)
    np.testing.assert_allclose(out["value"], want, rtol=1e-12, atol=1e-15)
    assert out["total"] == pytest.approx(S @ want)
    assert out["mean"] == pytest.approx(S @ want / S.sum())


@pytest.mark.parametrize("name", MARGIN)
def test_losses_of_margins(name: str) -> None:
    out = called(name, scores=Z, y=SIGN.astype(int))
    np.testing.assert_allclose(out["value"], MARGIN[name](SIGN * Z), rtol=1e-12, atol=1e-15)


def test_the_log_loss_in_its_three_forms() -> None:
    y = (SIGN > 0).astype(int)
    odds, plain = np.log(P / (1 - P)), -y * np.log(P) - (1 - y) * np.log(1 - P)
    for given, scores in (("probabilities", P), ("logits", odds)):
        np.testing.assert_allclose(called("logistic_loss", scores=scores, y=y, given=given)["value"], plain, rtol=1e-10)
    by_margin = called("logistic_loss", scores=SIGN * odds, given="margins")
    np.testing.assert_allclose(by_margin["value"], np.log(1 + np.exp(-SIGN * odds)), rtol=1e-10)
    slopes = called("logistic_loss", scores=P, y=y, given="probabilities")["gradient"]
    np.testing.assert_allclose(slopes, (P - y) / (P * (1 - P)), rtol=1e-10)
    np.testing.assert_allclose(called("logistic_loss", scores=odds, y=y)["gradient"], P - y, rtol=1e-10)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0, "inf"])
def test_norms(p: Any) -> None:
    A, B = Z.reshape(10, 4), Y.reshape(10, 4)
    D = np.abs(A - B)
    want = D.max(axis=1) if p == "inf" else (D**p).sum(axis=1) ** (1 / p)
    np.testing.assert_allclose(called("p_norm_loss", prediction=A, y=B, p=p)["value"], want, rtol=1e-12)
    name = {1.0: "l1_norm_loss", 2.0: "l2_norm_loss"}.get(p)
    if name:
        np.testing.assert_allclose(called(name, prediction=A, y=B)["value"], want, rtol=1e-12)


def test_figures_and_costs() -> None:
    r = Z - Y
    want = {"mean_squared_error": np.mean(r**2), "mean_absolute_error": np.mean(np.abs(r)),
            "root_mean_squared_error": np.mean(r**2) ** 0.5, "residual_sum_of_squares": np.sum(r**2),
            "sum_of_squared_errors": np.sum(r**2) / 2}  # fmt: skip
    for name, value in want.items():
        assert called(name, prediction=Z, y=Y)["value"] == pytest.approx(value, rel=1e-12)
    given: dict[str, Any] = {"loss": "absolute", "prediction": Z, "y": Y}
    assert called("mean_cost", **given)["value"] == pytest.approx(np.mean(np.abs(r)))
    assert called("max_cost", **given)["value"] == pytest.approx(np.abs(r).max())
    assert called("weighted_sum_cost", weights=S, **given)["value"] == pytest.approx(S @ np.abs(r))


def test_penalties() -> None:
    w, D = Z[:6], S[:6]
    free = np.delete(np.arange(6), 2)
    for name, more, value, slope in (
        ("l2_penalty", {}, w[free] @ w[free], 2 * w), ("l1_penalty", {}, np.abs(w[free]).sum(), np.sign(w)),
        ("diagonal_penalty", {"diagonal": D}, D[free] @ w[free] ** 2, 2 * D * w),
    ):  # fmt: skip
        out = called(name, w=w, strength=1.7, intercept=2, **more)
        assert out["value"] == pytest.approx(1.7 * value, rel=1e-12), name
        np.testing.assert_allclose(out["gradient"], np.where(np.arange(6) == 2, 0, 1.7 * slope), rtol=1e-12)


def test_lifts() -> None:
    X = Z.reshape(20, 2)
    a, b = X.T
    for name, want in (("parabolic_lift", [a, b, a**2 + b**2]), ("axis_aligned_quadric_lift", [a**2, b**2, a, b]),
                       ("quadric_lift", [a**2, b**2, a * b, a, b])):  # fmt: skip
        lifted: Any = build({"algorithm": name}).fit(X).transform(X)  # type: ignore[attr-defined]
        found = {tuple(np.round(column, 9)) for column in lifted.T}
        assert found == {tuple(np.round(column, 9)) for column in want}, name


def test_a_rate_for_each_unknown_follows_the_running_mean_of_curvatures() -> None:
    rule = DiagonalLevenbergMarquardt(c=0.25, mu=0.5)
    state, mean = rule.begin(2), np.zeros(2)
    for t, (g, h) in enumerate(R.uniform(0.1, 2.0, (5, 2, 2)), 1):
        mean = h if t == 1 else 0.75 * mean + 0.25 * h
        step, state = rule.move(state, g, h, 0.3, t)
        np.testing.assert_allclose(step, -0.3 * g / (mean + 0.5), rtol=1e-14)


@pytest.mark.parametrize("n", [20, 80])
def test_more_rows_lower_the_variance_of_least_squares_and_leave_no_bias(n: int) -> None:
    """At the rows the mean variance of predictions is σ² (d + 1)/n, and their mean is the truth, whatever n."""
    r = np.random.default_rng(n)
    X, draws = r.normal(size=(n, 3)), 4000
    truth = X @ [1.0, -2.0, 0.5] + 3.0
    noisy = truth[:, None] + 0.7 * r.normal(size=(n, draws))
    predicted: Any = build({"algorithm": "multi_output_regression"}).fit(X, noisy).predict(X)  # type: ignore[attr-defined]
    freedom = draws * 4
    low, high = stats.chi2(freedom).interval(1 - 1e-6)
    assert low <= np.square(predicted - truth[:, None]).sum() / 0.49 <= high
    assert np.mean(np.var(predicted, axis=1)) == pytest.approx(0.49 * 4 / n, rel=0.1)
    np.testing.assert_allclose(predicted.mean(axis=1), truth, atol=6 * 0.7 / np.sqrt(draws))


@pytest.mark.parametrize("seed", range(3))
def test_the_lagrangian_lies_below_the_objective_at_feasible_points(seed: int) -> None:
    """L(x, λ) = f + Σ λ (G x - h) ≤ f needs G x ≤ h and λ ≥ 0; its least value over x is the dual's at the answer."""
    r = np.random.default_rng(seed)
    B, q, G = r.normal(size=(3, 3)), r.normal(size=3), r.normal(size=(4, 3))
    P_ = B @ B.T + np.eye(3)
    h = G @ r.normal(size=3) + 0.3
    out = called("quadratic_programming", P=0.5 * (P_ + P_.T), q=q, G=G, h=h)
    lam = np.array(out["inequality_multipliers"])
    assert (lam >= 0).all()

    def f(v: Any) -> float:
        return float(0.5 * v @ P_ @ v + q @ v)

    x = np.array(out["x"])
    assert (G @ x <= h + 1e-7).all()
    least = np.linalg.solve(P_, -(q + G.T @ lam))
    np.testing.assert_allclose(least, x, atol=1e-6)
    assert f(least) + lam @ (G @ least - h) == pytest.approx(out["objective"], abs=1e-6)
    for v in x + r.normal(size=(200, 3)):
        if (G @ v <= h).all():
            assert f(v) >= f(v) + lam @ (G @ v - h) >= out["objective"] - 1e-7
