"""Passes over columns of numbers against NumPy and exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from ml_core.errors import InvalidData
from ml_core.preprocessing.number_columns import gaps_and_mean, lie
from ml_core.preprocessing.policies import Encoding
from ml_core.preprocessing.table import Column
from ml_core.preprocessing.table_fit import fit_encoder

R = np.random.default_rng(0)
COLUMNS = {
    "plain": R.normal(size=5000), "offset": 1e9 + R.normal(size=5000), "tiny": 1e-200 * R.normal(size=700),
    "huge": 1e200 * R.normal(size=700), "heavy": np.sinh(8 * R.normal(size=3001)), "one": np.array([3.0]),
    "constant": np.full(1025, 0.1), "subnormal": 5e-324 * R.integers(0, 9, 64),
}  # fmt: skip


def exact(x):
    """Mean and variance in rationals."""
    cells = [Fraction(float(v)) for v in x]
    mean = sum(cells) / len(cells)
    return mean, sum((c - mean) ** 2 for c in cells) / len(cells)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_moments_are_those_of_rational_arithmetic(name, gaps):
    x = COLUMNS[name].copy()
    x[R.random(len(x)) < gaps] = np.nan
    x[0] = COLUMNS[name][0]
    present = x[~np.isnan(x)]
    empty, fill = gaps_and_mean(x)
    size = np.abs(present).max()
    assert empty == len(x) - len(present)
    assert abs(Fraction(fill) - exact(present)[0]) <= 4e-16 * size + 5e-324
    filled = np.where(np.isnan(x), fill, x)
    mean, square = exact(filled)
    low, high, found, sd = lie(x, fill)
    assert (low, high) == (filled.min(), filled.max())
    assert abs(Fraction(found) - mean) <= 4e-16 * size + 5e-324
    assert (sd == 0) == (low == high)
    if sd:
        assert abs(Fraction(sd) ** 2 - square) <= (Fraction(sd) + Fraction(5e-324)) * Fraction(
            1e-14 * sd + 1e-16 * size + 1e-323
        )


def test_gaps_without_a_fill_are_not_hidden():
    assert np.isnan(lie(np.array([1.0, np.nan, 2.0]), None)).all()
    assert gaps_and_mean(np.array([np.nan, np.nan]))[0] == 2


@pytest.mark.parametrize("threads_matter", [10, 40_000])
def test_matrix_is_filled_and_scaled_in_place_whatever_the_layout(threads_matter):
    X = R.normal(size=(threads_matter, 30))
    X[R.random(X.shape) < 0.1] = np.nan
    X[0] = 1.0
    before = X.copy()
    table = {f"c{j}": Column("number", X[:, j]) for j in range(30)}
    encoder = fit_encoder(table, Encoding(missing="mean", scale="standard"))
    Z, keep = encoder.matrix(table)
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    np.testing.assert_allclose(Z, (filled - filled.mean(axis=0)) / filled.std(axis=0), rtol=0, atol=1e-13)
    assert keep.all()
    assert Z.flags.c_contiguous
    assert np.array_equal(X, before, equal_nan=True)
    for a in (0, 7):
        assert np.array_equal(encoder.matrix({k: Column("number", c.values[a : a + 1]) for k, c in table.items()})[0],
                              Z[a : a + 1])  # fmt: skip


def test_mixed_columns_keep_their_order_and_scales():
    n = 200
    x, city = R.normal(5, 3, n), np.array(["a", "b", "c", None] * (n // 4), dtype=object)
    flag = np.where(R.random(n) < 0.2, np.nan, R.integers(0, 2, n))
    table = {"city": Column("category", city), "x": Column("number", x), "flag": Column("boolean", flag)}
    policies = Encoding(missing="mean", scale="standard", columns={"flag": {"missing": "indicator"}})
    encoder = fit_encoder(table, policies)
    Z = encoder.matrix(table)[0]
    assert encoder.names == ["city=a", "city=b", "city=c", "x", "flag", "flag is missing"]
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-13)
    np.testing.assert_allclose(Z.std(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(encoder.unscaled(Z)[:, 3], x, rtol=1e-13)


def test_columns_too_large_to_scale_are_refused_by_name():
    table = {"a": Column("number", np.array([0.0, 1e301])), "b": Column("number", np.array([0.0, 1.0]))}
    with pytest.raises(InvalidData, match="'a'"):
        fit_encoder(table, Encoding(scale="standard"))
