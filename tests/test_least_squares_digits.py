"""Least squares to the last digit: certified values, exact fractions, powers, double-double kernels."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from ml_core.linear.decimals import decimal_tails
from ml_core.linear.exact_powers import find_powers
from ml_core.linear.linear_regression import LinearRegression
from ml_core.numerics.compensated import normal_residual, power, residual, two_diff
from tests.least_squares import holds, solution

NIST = Path(__file__).parent / "data" / "nist"
CERTIFIED = json.loads((NIST / "certified.json").read_text())
# least digits of coefficients and of standard errors, over the BLAS kernels of Haswell, Zen, Sandybridge and Prescott
DIGITS = {name: (15, 14) for name in CERTIFIED if (NIST / f"{name}.csv").exists()} | {"Filip": (14.9, 12.4)}


def nist(name, power_of=lambda x, k: x**k):
    rows = list(csv.reader((NIST / f"{name}.csv").read_text().splitlines()))[1:]
    X, degree = np.array([[float(v) for v in r[1:]] for r in rows]), CERTIFIED[name].get("degree") or 1
    if X.shape[1] == 1 and degree > 1:
        X = np.stack([power_of(X[:, 0], k) for k in range(1, degree + 1)], axis=1)
    return X, np.array([float(r[0]) for r in rows])


def digits(values, exact):
    """-log10 of the largest relative (absolute, where the truth is 0) error, in exact arithmetic, at most 15."""
    worst = max(
        abs((Fraction(float(v)) - Fraction(e)) / (Fraction(e) or 1)) for v, e in zip(values, exact, strict=True)
    )
    return min(15.0, -np.log10(float(worst))) if worst else 15.0


@pytest.mark.parametrize("solver", ["auto", "qr", "svd"])
@pytest.mark.parametrize("name", DIGITS)
def test_nist_certified_digits_with_default_settings(name, solver):
    X, y = nist(name)
    m = LinearRegression(fit_intercept=bool(CERTIFIED[name]["intercept"]), solver=solver).fit(X, y)
    w, se = solution(m)
    assert digits(w, CERTIFIED[name]["exact_coef"]) >= DIGITS[name][0]
    assert digits(se, CERTIFIED[name]["exact_se"]) >= DIGITS[name][1]
    assert m.rank_ == len(w)
    assert holds(m, X, y)


def test_decimals_are_read_as_written():
    r = np.random.default_rng(0)
    A = np.round(r.normal(size=(50, 3)) * [1, 1e3, 1e8], 4)
    A[0] = [0.1, -2.5, 3.0]
    exact = [[float(Fraction(repr(v)) - Fraction(v)) for v in row] for row in A.tolist()]
    np.testing.assert_array_equal(decimal_tails(A), exact)
    assert not decimal_tails(r.normal(size=(50, 3))).any()
    assert not decimal_tails(np.array([[np.pi, 0.1]])).any()


def test_without_decimals_the_doubles_themselves_are_fitted():
    X, y = nist("Longley")
    plain = solution(LinearRegression(decimals=False).fit(X, y))[0]
    ones = [[Fraction(1), *map(Fraction, row)] for row in X.tolist()]
    columns, targets = list(zip(*ones, strict=True)), list(map(Fraction, y.tolist()))

    def dot(a, b):
        return sum(u * v for u, v in zip(a, b, strict=True))

    normal = [dot(c, targets) for c in columns]
    gram = [[dot(c, d) for d in columns] for c in columns]
    residual_of = [abs(sum(g * Fraction(w) for g, w in zip(row, plain.tolist(), strict=True)) / n - 1)
                   for row, n in zip(gram, normal, strict=True)]  # fmt: skip
    assert float(max(residual_of)) < 1e-13


def repeated(x, k):
    out = x.copy()
    for _ in range(k - 1):
        out = out * x
    return out


@pytest.mark.parametrize("power_of", [np.power, repeated, lambda x, k: np.array([float(v) ** k for v in x])])
def test_filip_does_not_depend_on_how_the_client_rounded_the_powers(power_of):
    X, y = nist("Filip", power_of)
    m = LinearRegression().fit(X, y)
    assert digits(solution(m)[0], CERTIFIED["Filip"]["exact_coef"]) >= 13
    assert m.diagnostics(X, y).tables["exact_powers"].rows == [[k - 1, 0, k] for k in range(2, 11)]


def test_rounded_powers_as_sent_lose_half_of_filips_digits():
    X, y = nist("Filip")
    m = LinearRegression(exact_powers=False).fit(X, y)
    assert 7 < digits(solution(m)[0], CERTIFIED["Filip"]["exact_coef"]) < 8.6
    assert m.powers_ == []


def test_powers_are_found_only_where_they_are():
    r = np.random.default_rng(3)
    x = r.normal(size=30) * 10
    assert find_powers(r.normal(size=(30, 6))) == []
    assert find_powers((r.random((30, 4)) < 0.5).astype(float)) == []
    assert find_powers(np.stack([x, x**3 * (1 + 1e-13)], axis=1)) == []
    assert find_powers(np.zeros((3, 2))) == []
    found = find_powers(np.stack([x**2, x, x**4], axis=1))
    assert [(p.column, p.base, p.exponent) for p in found] == [(0, 1, 2), (2, 1, 4)]


def test_lin3_wampler1_prediction_at_zero():
    X, y = nist("Wampler1")
    assert LinearRegression().fit(X, y).predict(np.zeros((1, 5))) == pytest.approx([1.0], abs=1e-9)


def test_conditioning_example_of_degree_eleven():
    x = np.linspace(0, 1, 50)
    X = np.stack([x**k for k in range(1, 12)], axis=1)
    m = LinearRegression().fit(X, 1 + X.sum(axis=1))
    np.testing.assert_allclose([m.intercept_, *m.coef_], 1, atol=1e-8)
    assert m.diagnostics(X, 1 + X.sum(axis=1)).summary["condition_number"] == pytest.approx(1.2e8, rel=0.1)


def test_double_double_kernels_against_fractions():
    r = np.random.default_rng(0)
    zh, xh = r.normal(size=(5, 40)), r.normal(size=(5, 2))
    zl, xl = zh * 1e-17 * r.random((5, 40)), xh * 1e-17
    exact = [[sum((Fraction(float(zh[j, i])) + Fraction(float(zl[j, i]))) * (Fraction(float(xh[j, k]))
              + Fraction(float(xl[j, k]))) for j in range(5)) for i in range(40)] for k in range(2)]  # fmt: skip
    th = np.array([[float(v) for v in row] for row in exact])
    tl = np.array([[float(v - Fraction(float(v))) for v in row] for row in exact])
    assert np.abs(residual(zh, zl, xh, xl, th, tl, np.zeros((2, 40)))).max() < 1e-29
    s, w = r.random(40), r.normal(size=(1, 40))
    g = normal_residual(zh, zl, s, w, np.zeros((5, 1)))
    for j in range(5):
        z = [Fraction(float(zh[j, i])) + Fraction(float(zl[j, i])) for i in range(40)]
        want = -sum(z[i] * Fraction(float(s[i])) * Fraction(float(w[0, i])) for i in range(40))
        assert abs(Fraction(float(g[j, 0])) - want) <= abs(want) * Fraction(2) ** -52
    hi, lo = power(np.array([1.1, -0.7]), 9)
    for x, h, low in zip((1.1, -0.7), hi, lo, strict=True):
        assert (
            abs(Fraction(float(h)) + Fraction(float(low)) - Fraction(x) ** 9)
            < abs(Fraction(x) ** 9) * Fraction(2) ** -98
        )
    h, low = two_diff(np.array([1.0]), np.array([1e-20]))
    assert Fraction(float(h[0])) + Fraction(float(low[0])) == 1 - Fraction(1e-20)


def test_compiled_kernels_equal_their_source():
    r = np.random.default_rng(1)
    z, x, t = r.normal(size=(3, 7)), r.normal(size=(3, 1)), r.normal(size=(1, 7))
    args = (z, 0 * z, x, 0 * x, t, 0 * t, 0 * t)
    np.testing.assert_allclose(residual(*args), t - x.T @ z, atol=1e-14)
    np.testing.assert_allclose(normal_residual(z, 0 * z, np.ones(7), t, x), x - z @ t.T, atol=1e-14)
