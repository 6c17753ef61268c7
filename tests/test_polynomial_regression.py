"""Polynomial regression and least mean squares: known values, exact expansion, choice of degree, steps by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import Polynomial

from ml_core.errors import InvalidData, InvalidParameter
from ml_core.linear.least_mean_squares import LeastMeanSquares
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.polynomial_regression import PolynomialRegression
from ml_core.linear.ridge_regression import RidgeRegression


def curve(n=40, seed=0, degree=3):
    r = np.random.default_rng(seed)
    x = np.sort(r.uniform(-2, 5, n))
    return x[:, None], Polynomial(r.normal(size=degree + 1))(x) + 0.3 * r.normal(size=n)


@pytest.mark.parametrize("scale", [True, False])
def test_known_values_in_the_powers_of_x(scale):
    X, y = np.array([[0.0], [1], [2]]), np.array([1.0, 2, 5])
    m = PolynomialRegression(degree=2, scale=scale).fit(X, y)
    rows = m.diagnostics(X, y).tables["raw_coefficients"].rows
    assert [row[1] for row in rows] == ["1", "x0", "x0^2"]
    np.testing.assert_allclose([row[2] for row in rows], [1, 0, 1], atol=1e-13)


def test_raw_coefficients_of_several_columns_predict_the_same():
    r = np.random.default_rng(1)
    X, Y = r.uniform(2, 5, size=(60, 3)), r.normal(size=(60, 2))
    m = PolynomialRegression(degree=3).fit(X, Y)
    E = m.basis_.monomials_.exponents(3)
    Z = np.hstack([np.ones((60, 1)), np.prod(X[:, None, :] ** E, axis=2)])
    rows = m.diagnostics(X, Y).tables["raw_coefficients"].rows
    W = np.array([row[2] for row in rows]).reshape(2, -1).T
    np.testing.assert_allclose(Z @ W, m.predict(X), rtol=1e-8, atol=1e-8)
    plain = LinearRegression().fit(Z[:, 1:], Y)
    np.testing.assert_allclose(m.predict(X), plain.predict(Z[:, 1:]), rtol=1e-7, atol=1e-8)


def test_high_degrees_keep_their_digits_and_units_do_not_matter():
    x = np.linspace(0, 1, 50)[:, None]
    y = sum(x[:, 0] ** k for k in range(11))
    m = PolynomialRegression(degree=10).fit(x, y)
    np.testing.assert_allclose(m.predict(x), y, rtol=1e-12)
    far = PolynomialRegression(degree=10).fit(1e3 * x + 1e6, y)
    np.testing.assert_allclose(far.predict(1e3 * x + 1e6), y, rtol=1e-6)
    report = m.diagnostics(x, y)
    assert report.summary["condition_number"] < 1e5
    assert all(c.holds for c in report.certificates)


def test_the_degree_is_chosen_by_leaving_one_out():
    X, y = curve()
    m = PolynomialRegression(degrees=[1, 2, 3, 4, 5, 6, 7]).fit(X, y)
    left = []
    for degree in range(1, 8):
        errors = []
        for i in range(len(y)):
            rest = np.arange(len(y)) != i
            p = Polynomial.fit(X[rest, 0], y[rest], degree)
            errors.append((y[i] - p(X[i, 0])) ** 2)
        left.append(np.mean(errors))
    rows = m.diagnostics(X, y).tables["degrees"].rows
    np.testing.assert_allclose([row[3] for row in rows], left, rtol=1e-7)
    assert m.degree_ == 1 + int(np.argmin(left))
    assert (np.diff([row[2] for row in rows]) <= 0).all()


def test_intervals_exist_without_and_a_penalty_is_ridge():
    X, y = curve()
    plain, ridge = PolynomialRegression(degree=4).fit(X, y), PolynomialRegression(degree=4, alpha=2.0).fit(X, y)
    assert plain.posterior(X[:3]).interval(0.9).shape == (3, 2)
    assert not hasattr(ridge, "posterior")
    u = (X - ridge.middle_) / ridge.half_
    Z = np.hstack([u, u**2, u**3, u**4])
    np.testing.assert_allclose(ridge.predict(X), RidgeRegression(alpha=2.0).fit(Z, y).predict(Z), rtol=1e-9)
    s = np.random.default_rng(0).integers(0, 3, len(y))
    one = PolynomialRegression(degree=2).fit(X, y, sample_weight=s.astype(float))
    two = PolynomialRegression(degree=2).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-9)
    with pytest.raises(InvalidData):
        PolynomialRegression(degree=10, scale=False).fit(1e40 * X, y)


def by_hand(X, y, w, step, normalized=False):
    for x, t in zip(np.hstack([np.ones((len(X), 1)), X]), y, strict=True):
        w = w - step * (w @ x - t) * x / (x @ x if normalized else 1.0)
    return w


@pytest.mark.parametrize("normalized", [False, True])
def test_steps_are_those_of_the_rule_and_updates_go_on(normalized):
    r = np.random.default_rng(2)
    X, y = r.normal(size=(30, 3)), r.normal(size=30)
    m = LeastMeanSquares(step=0.05, schedule="constant", epochs=1, shuffle=False, average=False, standardize=False,
                         normalized=normalized).fit(X[:20], y[:20])  # fmt: skip
    np.testing.assert_allclose([m.intercept_, *m.coef_], by_hand(X[:20], y[:20], np.zeros(4), 0.05, normalized))
    m.update(X[20:], y[20:])
    np.testing.assert_allclose([m.intercept_, *m.coef_], by_hand(X, y, np.zeros(4), 0.05, normalized))
    assert m.seen_ == 30
    assert len(m.losses_) == 2


def test_shrinking_steps_come_to_least_squares_in_any_units():
    r = np.random.default_rng(3)
    X, w = r.normal(size=(400, 3)), np.array([1.0, -2, 0.5])
    y = X @ w + 0.5 * r.normal(size=400) + 4
    best = LinearRegression().fit(X, y)
    m = LeastMeanSquares(epochs=300).fit(X, y)
    np.testing.assert_allclose(m.predict(X), best.predict(X), atol=0.08)
    assert all(c.holds for c in m.diagnostics(X, y).certificates)
    Z = X * [1e-6, 1, 1e6] + [1, 0, 1e7]
    np.testing.assert_allclose(LeastMeanSquares(epochs=300).fit(Z, y).predict(Z), m.predict(X), atol=1e-6)
    np.testing.assert_array_equal(LeastMeanSquares(epochs=300).fit(X, y).coef_, m.coef_)


def test_too_large_a_step_fails_with_the_safe_one_and_changes_nothing():
    r = np.random.default_rng(4)
    X, y = 100 * r.normal(size=(50, 2)), r.normal(size=50)
    with pytest.raises(InvalidParameter, match="safe on these rows"):
        LeastMeanSquares(step=0.1, schedule="constant", standardize=False).fit(X, y)
    m = LeastMeanSquares(step=0.1, schedule="constant", average=False).fit(X, y)
    before = m.coef_.copy()
    with pytest.raises(InvalidParameter, match="diverged"):
        m.update(1e6 * X, y)
    np.testing.assert_array_equal(m.coef_, before)
    assert m.seen_ == 50 * 50


def test_degrees_are_compared_by_errors_of_one_copy_of_a_counted_row():
    r = np.random.default_rng(0)
    X, s = r.normal(size=(40, 1)), r.integers(1, 4, 40).astype(float)
    y = X[:, 0] ** 2 + r.normal(size=40)
    again = np.repeat(np.arange(40), s.astype(int))
    counted = PolynomialRegression(degrees=[1, 2, 3]).fit(X, y, s)
    repeated = PolynomialRegression(degrees=[1, 2, 3]).fit(X[again], y[again])
    np.testing.assert_allclose(counted.degrees_, repeated.degrees_, rtol=1e-10)
    chosen = next(row for row in counted.degrees_ if row[0] == counted.degree_)
    assert chosen[3] == pytest.approx(counted.diagnostics(X, y, s).summary["leave_one_out_mse"], rel=1e-10)
