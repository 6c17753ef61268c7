"""Huber's and Tukey's regressions: known values, statsmodels and scikit-learn, duals, starts, invariances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import HuberRegressor

from ml_core import progress
from ml_core.errors import Cancelled
from ml_core.linear.huber_regression import HuberRegression
from ml_core.linear.least_absolute_deviations import LeastAbsoluteDeviations
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.robust_scale import mad
from ml_core.linear.tukey_biweight_regression import TukeyBiweightRegression

OUT_X, OUT_Y = np.arange(5.0)[:, None], np.array([0.0, 1, 2, 3, 14])
STACK = np.array([
    [42, 80, 27, 89], [37, 80, 27, 88], [37, 75, 25, 90], [28, 62, 24, 87], [18, 62, 22, 87], [18, 62, 23, 87],
    [19, 62, 24, 93], [20, 62, 24, 93], [15, 58, 23, 87], [14, 58, 18, 80], [14, 58, 18, 89], [13, 58, 17, 88],
    [11, 58, 18, 82], [12, 58, 19, 93], [8, 50, 18, 89], [7, 50, 18, 86], [8, 50, 19, 72], [8, 50, 19, 79],
    [9, 50, 20, 80], [15, 56, 20, 82], [15, 70, 20, 91],
], dtype=float)  # fmt: skip
"""Brownlee's stack loss: loss, air flow, water temperature, acid concentration."""
ALL = [
    HuberRegression, lambda: HuberRegression(scale="joint"), lambda: HuberRegression(scale="none", delta=0.7),
    TukeyBiweightRegression, lambda: TukeyBiweightRegression(scale="start"),
    lambda: TukeyBiweightRegression(scale="none", c=6.0),
]  # fmt: skip


def table(seed=0, n=60, d=3):
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d))
    y = X @ r.normal(size=d) + r.normal(size=n) + 1
    y[:6] += 30 * r.random(6)
    return X, y


def certified(m, X, y, s=None):
    report = m.diagnostics(X, y, s)
    assert [(c.name, c.value) for c in report.certificates if not c.holds] == []
    assert report.certificates
    return report


def test_known_values():
    m = HuberRegression(delta=1.0, scale="none").fit(OUT_X, OUT_Y)
    np.testing.assert_allclose([m.coef_[0], m.intercept_], [1.5, -0.5], atol=1e-12)
    assert certified(m, OUT_X, OUT_Y).summary["objective"] == pytest.approx(8.75, rel=1e-12)
    t = TukeyBiweightRegression(c=4.685, scale="none").fit(OUT_X, OUT_Y)
    np.testing.assert_allclose([t.coef_[0], t.intercept_], [1, 0], atol=1e-10)
    rows = certified(t, OUT_X, OUT_Y).tables["outlier_weights"].rows
    assert [(row[0], row[2]) for row in rows] == [(4, 0.0)]


@pytest.mark.parametrize(("make", "norm"), [(HuberRegression, sm.robust.norms.HuberT()),
                                            (TukeyBiweightRegression, sm.robust.norms.TukeyBiweight())])  # fmt: skip
def test_estimates_scale_and_errors_are_the_peers(make, norm):
    X, y = STACK[:, 1:], STACK[:, 0]
    ours = make().fit(X, y)
    peer = sm.RLM(y, sm.add_constant(X), M=norm).fit(maxiter=3000, tol=1e-13)
    np.testing.assert_allclose([ours.intercept_, *ours.coef_], peer.params, rtol=1e-8)
    assert ours.scale_ == pytest.approx(peer.scale, rel=1e-8)
    rows = certified(ours, X, y).tables["coefficients"].rows
    np.testing.assert_allclose([row[2] for row in rows], peer.bse, rtol=1e-7)
    np.testing.assert_allclose([row[4] for row in rows], peer.pvalues, rtol=1e-5, atol=1e-12)


def test_the_joint_scale_is_the_peers():
    X, y = table(1)
    ours = HuberRegression(delta=1.5, scale="joint", alpha=0.0).fit(X, y)
    peer = HuberRegressor(epsilon=1.5, alpha=0.0, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose([ours.intercept_, ours.scale_, *ours.coef_],
                               [peer.intercept_, peer.scale_, *peer.coef_], rtol=1e-4)  # fmt: skip
    certified(ours, X, y)


@given(st.integers(0, 5000), st.integers(4, 50), st.integers(1, 3), st.sampled_from([0.05, 0.8, 5.0]),
       st.sampled_from([0.0, 2.0]), st.booleans())  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_no_general_solver_finds_less_and_the_gap_closes(seed, n, d, delta, alpha, intercept):
    X, y = table(seed, max(n, 7), d)
    s = np.random.default_rng(seed).integers(1, 4, len(y)).astype(float)
    m = HuberRegression(delta=delta, scale="none", alpha=alpha, fit_intercept=intercept).fit(X, y, sample_weight=s)

    def cost(v):
        r = y - X @ v[1:] - intercept * v[0]
        size = np.abs(r)
        rho = np.where(size <= delta, 0.5 * r**2, delta * (size - 0.5 * delta))
        return float(s @ rho + 0.5 * alpha * v[1:] @ v[1:])

    at = np.array([m.intercept_, *m.coef_])
    found = minimize(cost, at + 0.1, method="BFGS", options={"gtol": 1e-10})
    assert cost(at) <= found.fun * (1 + 1e-9) + 1e-9
    assert certified(m, X, y, s).summary["objective"] == pytest.approx(cost(at), rel=1e-8)


def test_limits_are_least_squares_and_least_absolute_deviations():
    X, y = table(2)
    wide = HuberRegression(delta=1e6, scale="none").fit(X, y)
    np.testing.assert_allclose(wide.predict(X), LinearRegression().fit(X, y).predict(X), rtol=1e-9)
    np.testing.assert_allclose(TukeyBiweightRegression(c=1e6, scale="none").fit(X, y).predict(X), wide.predict(X),
                               rtol=1e-6)  # fmt: skip
    narrow = HuberRegression(delta=1e-7, scale="none").fit(X, y)
    np.testing.assert_allclose(narrow.predict(X), LeastAbsoluteDeviations().fit(X, y).predict(X), atol=1e-5)


def test_the_median_size_of_residuals():
    r, s = np.array([3.0, -1, 2, 0.5]), np.array([1.0, 2, 1, 0.0])
    assert mad(r, s) == pytest.approx(np.median([3, 1, 1, 2]) / 0.6744897501960817)


@pytest.mark.parametrize("make", ALL)
def test_units_order_and_repeated_rows_change_nothing(make):
    X, y = table(3)
    one, size = make().fit(X, y), 1e-7 * np.abs(y).max()
    Z = X[:, [2, 0, 1]] * [1e-6, 1.0, 1e8] + [1e-5, -3.0, 1e9]
    np.testing.assert_allclose(make().fit(Z, y).predict(Z), one.predict(X), atol=size)
    s = np.random.default_rng(0).integers(0, 4, len(y))
    heavy = make().fit(X, y, sample_weight=s.astype(float))
    many = make().fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    np.testing.assert_allclose(heavy.predict(X), many.predict(X), atol=size)
    a, b = (m.diagnostics(X, y, w).tables["coefficients"].rows if w is not None else
            m.diagnostics(np.repeat(X, s, axis=0), np.repeat(y, s)).tables["coefficients"].rows
            for m, w in ((heavy, s), (many, None)))  # fmt: skip
    np.testing.assert_allclose([row[2] for row in a], [row[2] for row in b], rtol=1e-6)


def test_kinds_of_weights_differ_in_errors_only():
    X, y = table(4)
    s = np.random.default_rng(4).random(len(y)) + 0.5
    one, two = HuberRegression().fit(X, y, s), HuberRegression(weight_kind="precision").fit(X, y, s)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    scaled = HuberRegression(weight_kind="precision").fit(X, y, 100 * s)
    a, b = (m.diagnostics(X, y, w).tables["coefficients"].rows[1][2] for m, w in ((two, s), (scaled, 100 * s)))
    assert a == pytest.approx(b, rel=1e-6)


def test_several_minima_are_told_and_random_starts_find_the_lower():
    r = np.random.default_rng(5)
    x = np.concatenate([r.uniform(0, 10, 30), r.uniform(8, 10, 24)])
    y = np.concatenate([x[:30] + 0.1 * r.normal(size=30), -60 + 0.1 * r.normal(size=24)])
    m = TukeyBiweightRegression(c=2.0, scale="none", n_starts=30).fit(x[:, None], y)
    assert m.coef_[0] == pytest.approx(1.0, abs=0.05)
    assert "local_minima" in [n.code for n in m.notices_]
    assert len(certified(m, x[:, None], y).tables["starts"].rows) == 33
    same = TukeyBiweightRegression(c=2.0, scale="none", n_starts=30).fit(x[:, None], y)
    np.testing.assert_array_equal(m.coef_, same.coef_)


def test_lines_through_most_rows_and_rejected_majorities_are_told():
    for make in (HuberRegression, TukeyBiweightRegression):
        m = make().fit(OUT_X, OUT_Y)
        assert "scale_is_zero" in [n.code for n in m.notices_]
        np.testing.assert_allclose([m.coef_[0], m.intercept_], [1, 0], atol=1e-9)
        certified(m, OUT_X, OUT_Y)
    X, y = table(6)
    tight = TukeyBiweightRegression(c=0.3, scale="none").fit(X, y)
    assert "most_rows_rejected" in [n.code for n in tight.notices_]


@pytest.mark.parametrize("make", ALL)
def test_degenerate_tables_and_cancelling(make):
    for X, y in ((np.ones((3, 2)), np.arange(3.0)), (np.arange(6.0).reshape(3, 2), np.full(3, 7.0)),
                 (np.array([[1.0, 2.0]]), np.array([3.0])), (np.zeros((4, 1)), np.zeros(4)),
                 (np.arange(4.0)[:, None], 2 * np.arange(4.0) + 1e9)):  # fmt: skip
        m = make().fit(X, y)
        assert np.isfinite(m.predict(X)).all()
        certified(m, X, y)

    def stop(_):
        raise Cancelled

    with progress.listen(stop), pytest.raises(Cancelled):
        make().fit(*table())


@pytest.mark.parametrize("delta", [1.1, 1.35, 2.5])
@pytest.mark.parametrize("kind", ["normal", "cauchy", "two"])
def test_the_joint_scale_is_never_worse_than_the_peers(kind: str, delta: float) -> None:
    for seed in range(12):
        r = np.random.default_rng(seed)
        n, d = int(r.integers(5, 60)), int(r.integers(1, 4))
        X = r.normal(size=(n, d))
        y = {"normal": r.normal(size=n), "cauchy": r.standard_cauchy(n), "two": r.choice([-1.0, 1.0], n)}[kind]
        y = y + 0.1 * r.normal(size=n)
        model = HuberRegression(delta=delta, scale="joint").fit(X, y)
        peer = HuberRegressor(epsilon=delta, alpha=0.0, tol=1e-10, max_iter=10_000).fit(X, y)
        report = model.diagnostics(X, y)
        assert all(c.holds for c in report.certificates), (seed, report.certificates)

        def objective(w: np.ndarray, b: float, sigma: float, X: np.ndarray = X, y: np.ndarray = y) -> float:
            z = np.abs(y - X @ w - b) / sigma
            return float(sigma * (len(y) + np.where(z <= delta, z**2, 2 * delta * z - delta**2).sum()))

        ours = objective(model.coef_, model.intercept_, max(model.scale_, 1e-12))
        assert ours <= objective(peer.coef_, peer.intercept_, peer.scale_) * (1 + 1e-9), seed
        assert model.scale_ > 0 or "scale_is_zero" in [n.code for n in model.notices_]


@pytest.mark.parametrize("noise", [1.0, 1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("make", [HuberRegression, lambda: HuberRegression(scale="joint"), TukeyBiweightRegression])
def test_small_noise_beside_a_large_slope_costs_no_digits(make: Any, noise: float) -> None:
    for seed in range(6):
        r = np.random.default_rng(seed)
        X, e = r.normal(size=(30, 2)), r.standard_t(3, size=30)
        model = make().fit(X, X @ [1.0, -2.0] + noise * e)
        assert model.converged_
        report = model.diagnostics(X, X @ [1.0, -2.0] + noise * e)
        assert all(c.holds for c in report.certificates), report.certificates
        alone = make().fit(X, noise * e)
        np.testing.assert_allclose(model.coef_ - [1.0, -2.0], alone.coef_, rtol=0, atol=1e-8 * noise + 1e-14)
        assert model.scale_ == pytest.approx(alone.scale_, rel=1e-6 + 1e-13 / noise)
