"""Means, deviations and largest magnitudes of columns against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from ml_core.numerics.column_moments import BLOCK, column_moments, magnitudes
from ml_core.parallel import use_threads


def exact(x, s):
    """Mean and variance of fractions."""
    total = sum(map(Fraction, s))
    mean = sum(Fraction(a) * Fraction(b) for a, b in zip(s, x, strict=True)) / total
    return mean, sum(Fraction(a) * (Fraction(b) - mean) ** 2 for a, b in zip(s, x, strict=True)) / total


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 9, BLOCK - 1, BLOCK + 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_length_has_the_moments_of_exact_arithmetic(n, order):
    r = np.random.default_rng(n)
    rough = r.normal(size=n)
    far = rough.copy()
    far[0] = 1e9
    odd = [1e12 + rough, 1e-300 * rough, 1e299 * rough, 1e15 + np.rint(rough), far, np.full(n, 0.1)]
    X = np.column_stack([rough, *odd])
    s = r.uniform(0.5, 2, n)
    s.flags.writeable = False
    mean, sd, constant = column_moments(np.asarray(X, order=order), s)
    assert constant.tolist() == [len(set(x)) == 1 for x in X.T]
    for j, x in enumerate(X.T):
        want, square = exact(x, s)
        assert abs(Fraction(mean[j]) - want) <= Fraction(2e-16) * Fraction(float(np.abs(x).max()))
        if square:
            unit = Fraction(float(np.abs(x - x[0]).max()))
            want = float(np.sqrt(float(square / unit**2))) * float(unit)
            assert sd[j] == pytest.approx(want, rel=1e-13)


@pytest.mark.parametrize("order", ["C", "F"])
def test_ranges_of_rows_have_the_moments_of_exact_arithmetic_on_any_number_of_threads(monkeypatch, order):
    monkeypatch.setattr("ml_core.parallel.CELLS", 300)
    r = np.random.default_rng(0)
    rough, s = r.normal(size=1000), r.uniform(0.5, 2, 1000)
    X = np.asarray(np.column_stack([rough, 1e12 + rough, np.full(1000, 0.1), 1e-300 * rough]), order=order)
    found = []
    for n in (1, 2, 3):
        with use_threads(n):
            found.append(np.array(column_moments(X, s)))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
    mean, sd, constant = found[0]
    assert constant.tolist() == [0, 0, 1, 0]
    assert mean[2] == 0.1
    for j in (0, 1, 3):
        want, square = exact(X[:, j], s)
        assert abs(Fraction(mean[j]) - want) <= Fraction(2e-16) * Fraction(float(np.abs(X[:, j]).max()))
        assert sd[j] == pytest.approx(float(np.sqrt(float(square * 10**600))) * 1e-300 if j == 3 else
                                      float(np.sqrt(float(square))), rel=1e-13)  # fmt: skip


def test_cells_near_the_largest_number_do_not_overflow():
    mean, sd, _ = column_moments(np.array([[1.7e308], [-1.7e308], [0.0]]), np.ones(3))
    assert abs(mean[0]) < 1e293
    assert sd[0] == pytest.approx(1.7e308 * np.sqrt(2 / 3), rel=1e-15)


@pytest.mark.parametrize("n", range(1, 10))
def test_the_largest_magnitude_of_a_column_is_that_of_numpy_and_nan_where_one_is(n):
    X = np.random.default_rng(n).normal(size=(n, 5))
    X[n - 1, 1], X[0, 2], X[n // 2, 3] = -7.0, -np.inf, np.nan
    X.flags.writeable = False
    np.testing.assert_array_equal(magnitudes(X), np.abs(X).max(axis=0))
