"""The scaler against exact fractions and scikit-learn, at every unit and offset, and what it refuses."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sklearn.preprocessing as peer
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ml_core.base import clone
from ml_core.errors import InvalidData
from ml_core.preprocessing.standard_scaler import StandardScaler
from ml_core.validation import WEIGHTS

MEASURED = np.random.default_rng(0).normal(size=(40, 3))


def exact(column: np.ndarray, s: np.ndarray, ddof: int) -> tuple[float, float]:
    """Mean and variance in rational arithmetic."""
    x, w = [Fraction(float(v)) for v in column], [Fraction(float(v)) for v in s]
    mean = sum(a * b for a, b in zip(x, w, strict=True)) / sum(w)
    return float(mean), float(sum(b * (a - mean) ** 2 for a, b in zip(x, w, strict=True)) / (sum(w) - ddof))


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("offset", [0.0, 1e9, -1e15])
@pytest.mark.parametrize("unit", [1e-140, 1e-3, 1.0, 1e140])
def test_moments_equal_exact_fractions(unit: float, offset: float, ddof: int) -> None:
    X = (MEASURED + offset) * unit
    s = np.arange(1.0, 41.0)
    model = StandardScaler(ddof=ddof).fit(X, sample_weight=s)
    for j in range(3):
        mean, var = exact(X[:, j], s, ddof)
        assert model.mean_[j] == pytest.approx(mean, rel=1e-15)
        assert model.scale_[j] == pytest.approx(var**0.5, rel=1e-13)
    assert all(c.holds for c in model.diagnostics(X, sample_weight=s).certificates)


def test_variance_of_four_numbers_far_from_zero() -> None:
    X = 1e9 + np.array([[4.0], [7], [13], [16]])
    assert StandardScaler().fit(X).scale_[0] ** 2 == pytest.approx(22.5, rel=1e-14)


def test_a_constant_column_becomes_zero_and_is_reported() -> None:
    X = np.column_stack([np.full(1000, 14.62), np.arange(1000.0)])
    model = StandardScaler().fit(X)
    assert model.scale_[0] == 1
    assert (model.transform(X)[:, 0] == 0).all()
    assert [n.code for n in model.notices_] == ["constant_column"]
    assert model.notices_[0].advice
    report = model.diagnostics(X)
    assert report.summary["constant_columns"] == 1
    assert [row[3] for row in report.tables["columns"].rows] == [True, False]


@pytest.mark.parametrize("value", [0.1, 1e9 + 0.1, -1.7e299, 5e-324])
def test_no_constant_is_mistaken_for_a_spread(value: float) -> None:
    model = StandardScaler().fit(np.full((17, 1), value))
    assert model.mean_[0] == value
    assert model.scale_[0] == 1


@pytest.mark.parametrize("with_mean", [True, False])
@pytest.mark.parametrize("with_std", [True, False])
def test_equals_the_peer(with_mean: bool, with_std: bool) -> None:
    s = np.linspace(0, 3, 40)
    ours = StandardScaler(with_mean=with_mean, with_std=with_std).fit(MEASURED, sample_weight=s)
    theirs = peer.StandardScaler(with_mean=with_mean, with_std=with_std).fit(MEASURED, sample_weight=s)
    np.testing.assert_allclose(ours.transform(MEASURED), theirs.transform(MEASURED), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("ddof", [0, 1])
def test_weights_are_counts(ddof: int) -> None:
    counts = np.random.default_rng(1).integers(0, 5, 40)
    one = StandardScaler(ddof=ddof).fit(MEASURED, sample_weight=counts)
    two = StandardScaler(ddof=ddof).fit(np.repeat(MEASURED, counts, axis=0))
    np.testing.assert_allclose(one.mean_, two.mean_, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(one.scale_, two.scale_, rtol=1e-13)


def test_with_the_mle_divisor_the_unit_of_the_weights_does_not_matter() -> None:
    s = np.linspace(1, 2, 40)
    for factor in (1e-80, 1e80):
        np.testing.assert_allclose(
            StandardScaler().fit(MEASURED, sample_weight=s * factor).scale_,
            StandardScaler().fit(MEASURED, sample_weight=s).scale_, rtol=1e-13,
        )  # fmt: skip


def test_counts_that_sum_to_one_leave_no_degree_of_freedom() -> None:
    with pytest.raises(InvalidData, match="ddof=1"):
        StandardScaler(ddof=1).fit(MEASURED[:2], sample_weight=[0.5, 0.5])
    assert StandardScaler(ddof=1).fit(MEASURED[:1]).scale_.tolist() == [1, 1, 1]


@settings(max_examples=80, deadline=None)
@given(arrays(np.float64, (7, 2), elements=st.floats(-1e299, 1e299)), st.sampled_from([0, 1]))
def test_any_table_is_scaled_and_restored(X: np.ndarray, ddof: int) -> None:
    model = StandardScaler(ddof=ddof).fit(X)
    Z = model.transform(X)
    assert np.isfinite(Z).all()
    assert (np.abs(Z) <= 7).all() or (model.scale_ == 1).any()
    back = model.inverse_transform(Z)
    size = np.maximum(np.abs(X).max(axis=0), model.scale_)
    assert (np.abs(back - X) <= 4e-15 * size).all()
    broken = [c for c in model.diagnostics(X).certificates if not c.holds]
    assert not broken, broken


@settings(max_examples=40, deadline=None)
@given(st.integers(-900, 900), st.integers(0, 2**31))
def test_units_change_only_the_units(power: int, seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(9, 2)) + 3
    unit = 2.0**power
    one, two = StandardScaler().fit(X), StandardScaler().fit(X * unit)
    np.testing.assert_array_equal(two.transform(X * unit), one.transform(X))
    np.testing.assert_array_equal(two.scale_, one.scale_ * unit)


def test_a_row_too_far_to_be_represented_is_named() -> None:
    model = StandardScaler().fit(np.array([[1e-300], [2e-300]]))
    with pytest.raises(InvalidData, match="row 1, column 0") as e:
        model.transform(np.array([[1e-300], [1e300]]))
    assert e.value.issues[0].pointer == "/rows/1/0"


@pytest.mark.parametrize("X", [np.array([[1.0], [1.7e308]]), np.array([[-1.7e308], [1.7e308]])])
def test_numbers_too_large_to_subtract_are_refused(X: np.ndarray) -> None:
    with pytest.raises(InvalidData, match="divide column 0 by a constant"):
        StandardScaler().fit(X)


@pytest.mark.parametrize("weight", [WEIGHTS[0] / 2, WEIGHTS[1] * 2])
def test_weights_out_of_range_are_refused(weight: float) -> None:
    with pytest.raises(InvalidData, match="row 1 is"):
        StandardScaler().fit(MEASURED, sample_weight=np.where(np.arange(40) == 1, weight, 1.0))


def test_refitting_keeps_nothing() -> None:
    model = StandardScaler().fit(np.column_stack([MEASURED, np.ones(40)]))
    again = model.fit(MEASURED[:, :2] * 7)
    fresh = clone(model).fit(MEASURED[:, :2] * 7)
    assert vars(again).keys() == vars(fresh).keys()
    assert again.notices_ == []
    np.testing.assert_array_equal(again.scale_, fresh.scale_)


@pytest.mark.parametrize("kind", ["f4", "f2", "i8", "?"])
def test_other_types_are_converted_first(kind: str) -> None:
    X = (MEASURED * 3).astype(kind)
    np.testing.assert_array_equal(StandardScaler().fit(X).scale_, StandardScaler().fit(X.astype(float)).scale_)


def test_certificates_allow_for_the_rounding_of_long_sums():
    r = np.random.default_rng(0)
    for n in (20_000, 200_000):
        X = np.column_stack([(r.random(n) < 0.3).astype(float), np.round(r.gamma(1.0, 4.0, n)), r.normal(1e3, 1.0, n)])
        report = StandardScaler().fit(X).diagnostics(X)
        assert all(c.holds for c in report.certificates), report.certificates
    moved = StandardScaler().fit(X)
    moved.mean_ = moved.mean_ + 1e-9
    assert not all(c.holds for c in moved.diagnostics(X).certificates)
