"""Gaussian and sigmoid bases: closed forms, every way to place centres, weights as counts, the way back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_core.errors import InvalidData, InvalidParameter
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.preprocessing.gaussian_basis import GaussianBasis
from ml_core.preprocessing.pipeline import Pipeline
from ml_core.preprocessing.sigmoid_basis import SigmoidBasis
from ml_core.solvers import sample
from ml_core.sums import diagnose_chunks, fit_chunks
from tests.test_sums import Cut

X2 = np.random.default_rng(1).normal(size=(50, 2)) * [1.0, 100.0]
BASES = pytest.mark.parametrize("basis", [GaussianBasis, SigmoidBasis])


def test_gaussian_values():
    model = GaussianBasis(centers=[[0.0, 10.0], [2.0, 30.0]], width=2.0).fit([[0.0, 10.0]])
    x = np.array([[1.0, 14.0]])
    want = [np.exp(-((1 - c) ** 2) / 8) for c in (0, 2)] + [np.exp(-((14 - c) ** 2) / 8) for c in (10, 30)]
    np.testing.assert_allclose(model.transform(x)[0], want, rtol=1e-14)
    assert list(model.get_feature_names_out(["a", "b"])) == ["gaussian0(a)", "gaussian1(a)", "gaussian0(b)",
                                                              "gaussian1(b)"]  # fmt: skip
    joint = GaussianBasis(centers=[[0.0, 10.0], [2.0, 30.0]], width=2.0, joint=True).fit([[0.0, 10.0]])
    np.testing.assert_allclose(joint.transform(x)[0], [np.exp(-17 / 8), np.exp(-257 / 8)], rtol=1e-13)


def test_sigmoid_values():
    model = SigmoidBasis(centers=[[0.0], [2.0]], width=0.5).fit([[0.0]])
    np.testing.assert_allclose(model.transform([[1.0]])[0], [1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))], rtol=1e-14)
    np.testing.assert_allclose(model.transform([[1.0]])[0, 1], np.exp(-2) / (1 + np.exp(-2)), rtol=1e-14)


@BASES
def test_a_grid_is_even_and_its_width_is_its_step(basis):
    model = basis(centers="grid", n_centers=5).fit(X2)
    np.testing.assert_allclose(model.centers_, np.linspace(X2.min(axis=0), X2.max(axis=0), 5), rtol=1e-14)
    np.testing.assert_allclose(model.widths_, np.ptp(X2, axis=0) / 4, rtol=1e-12)


@BASES
def test_quantiles_are_rows_by_rank(basis):
    model = basis(n_centers=5).fit(X2)
    ordered = np.sort(X2, axis=0)
    np.testing.assert_array_equal(model.centers_, ordered[[4, 14, 24, 34, 44]])
    np.testing.assert_allclose(model.widths_, np.median(np.diff(model.centers_, axis=0), axis=0), rtol=1e-14)


@BASES
@given(st.lists(st.integers(0, 4), min_size=50, max_size=50).filter(any))
@settings(max_examples=30, deadline=None)
def test_weights_are_counts(basis, counts):
    one = basis(n_centers=4).fit(X2, sample_weight=np.array(counts, dtype=float))
    two = basis(n_centers=4).fit(np.repeat(X2, counts, axis=0))
    np.testing.assert_array_equal(one.centers_, two.centers_)
    np.testing.assert_allclose(one.widths_, two.widths_, rtol=1e-12)


@BASES
def test_k_means_finds_the_groups_of_each_feature(basis):
    r = np.random.default_rng(2)
    X = np.column_stack([np.repeat([0.0, 10, 50], 30), np.repeat([-5.0, 5, 6], 30)]) + 0.01 * r.normal(size=(90, 2))
    model = basis(centers="k_means", n_centers=3, random_state=4).fit(X)
    np.testing.assert_allclose(model.centers_, [[0, -5], [10, 5], [50, 6]], atol=0.02)
    joint = GaussianBasis(centers="k_means", n_centers=3, joint=True).fit(X)
    np.testing.assert_allclose(joint.centers_, [[0, -5], [10, 5], [50, 6]], atol=0.02)
    nearest = np.sort([np.hypot(10, 10), np.hypot(10, 10), np.hypot(40, 1)])
    assert joint.widths_[0] == pytest.approx(nearest[1], rel=1e-2)


def test_a_joint_grid_is_a_product():
    X = X2 / [1, 100]
    model = GaussianBasis(centers="grid", n_centers=3, joint=True).fit(X)
    assert model.n_features_out_ == model._width(2) == 9
    assert len(np.unique(model.centers_, axis=0)) == 9
    assert model.diagnostics(X).summary["least_cover"] > 0.5


def test_unit_changes_change_nothing():
    for basis in (GaussianBasis, SigmoidBasis):
        one, two = basis().fit(X2).transform(X2), basis().fit(X2 * 1024 + 2048).transform(X2 * 1024 + 2048)
        np.testing.assert_allclose(one, two, atol=1e-11)


@BASES
def test_a_constant_column_is_told(basis):
    X = np.column_stack([np.full(20, 3.0), np.arange(20.0)])
    for how in ("quantiles", "grid", "k_means"):
        model = basis(centers=how, n_centers=4).fit(X)
        assert [n.code for n in model.notices_] == ["constant_column"], how
        assert model.widths_[0] == 1
        assert np.isfinite(model.transform(X)).all()


@BASES
def test_refusals(basis):
    with pytest.raises(InvalidParameter, match=r"\(m, 2\)"):
        basis(centers=[[1.0]]).fit(X2)
    with pytest.raises(InvalidParameter, match="columns of 50"):
        basis(n_centers=10_000).fit(np.ones((2, 50)))
    with pytest.raises(InvalidParameter):
        basis(centers="middle").fit(X2)
    with pytest.raises(InvalidParameter):
        basis(width=0.0).fit(X2)


def test_joint_quantiles_are_refused_with_what_to_do():
    with pytest.raises(InvalidParameter, match="k_means, grid") as caught:
        GaussianBasis(joint=True).fit(X2)
    assert caught.value.issues[0].pointer == "/params/centers"


@given(st.floats(-4, 4), st.floats(0.2, 3))
@settings(max_examples=60, deadline=None)
def test_the_way_back_from_sigmoids(x, width):
    model = SigmoidBasis(centers=[[-1.0], [0.0], [1.5]], width=width).fit([[0.0]])
    back = model.inverse_transform(model.transform([[x]]))[0, 0]
    slope = np.exp(-abs(x - min((-1.0, 0.0, 1.5), key=lambda c: abs(c - x))) / width) / width
    assert back == pytest.approx(x, abs=1e-14 * (1 + 1 / slope))


def test_a_saturated_row_has_no_way_back():
    model = SigmoidBasis(centers=[[0.0]], width=1.0).fit([[0.0]])
    with pytest.raises(InvalidData, match=r"row 1: .* saturated"):
        model.inverse_transform(model.transform([[0.0], [100.0]]))
    report = model.diagnostics([[0.0], [100.0]])
    assert report.summary["saturated_rows"] == 1
    assert report.certificates[0].holds


def test_bumps_learn_a_wave_and_fall_back_far_away():
    x = np.linspace(0, 6, 200)[:, None]
    pipe = Pipeline(steps=[GaussianBasis(centers="grid", n_centers=12, width=1.5), RidgeRegression(alpha=1e-6)])
    pipe.fit(x, np.sin(x[:, 0]))
    np.testing.assert_allclose(pipe.predict(x), np.sin(x[:, 0]), atol=5e-3)
    assert pipe.predict([[1e6]])[0] == pytest.approx(pipe.steps_[1].intercept_)


WAYS = [{"n_centers": 4}, {"n_centers": 1}, {"centers": "grid", "n_centers": 3}, {"centers": "k_means", "n_centers": 3},
        {"centers": [[0.0, 10.0], [2.0, 30.0]]}, {"width": 0.5}]  # fmt: skip
JOINT = [{"joint": True, "n_centers": 3, "centers": how} for how in ("grid", "k_means")]
JOINT += [{"joint": True, "n_centers": 1, "centers": "grid"}]
CHUNKED = [(b, p) for b in (GaussianBasis, SigmoidBasis) for p in WAYS] + [(GaussianBasis, p) for p in JOINT]
NUMBERS = st.sampled_from([-1e90, -2.5, -0.0, 0.0, 1e-100, 1.0, 1.0000000000000002, 7.0])


@pytest.mark.parametrize(("basis", "params"), CHUNKED)
@pytest.mark.parametrize("weighted", [False, True])
def test_chunks_place_the_centres_of_all_rows(basis, params, weighted):
    s = np.random.default_rng(5).random(50) + 0.1 if weighted else None
    pieces = Cut(X2, None, s, tuple(np.split(np.arange(50), [3, 3, 20])))
    parts, whole = fit_chunks(basis(**params), pieces), basis(**params).fit(X2, sample_weight=s)
    np.testing.assert_array_equal(parts.centers_, whole.centers_)
    np.testing.assert_allclose(parts.widths_, whole.widths_, rtol=1e-14)
    assert parts.n_features_out_ == whole.n_features_out_
    one, two = diagnose_chunks(parts, pieces), whole.diagnostics(X2, sample_weight=s)
    assert one.summary == two.summary or weighted
    assert all(c.holds for c in one.certificates)


@given(st.lists(NUMBERS, min_size=1, max_size=40), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_quantiles_from_chunks_are_those_of_numpy(values, m):
    x = np.array(values)[:, None]
    pieces = Cut(x, None, None, tuple(np.array_split(np.arange(len(x)), 3)))
    want = np.quantile(x[:, 0], (np.arange(m) + 0.5) / m, method="inverted_cdf")
    found = fit_chunks(GaussianBasis(n_centers=m, width=1.0), pieces).centers_[:, 0]
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(GaussianBasis(n_centers=m, width=1.0).fit(x).centers_[:, 0], want)


def test_k_means_of_many_rows_says_that_it_saw_a_sample(monkeypatch):
    monkeypatch.setattr("ml_core.preprocessing.basis_centres.room", lambda d: 20)
    pieces = Cut(X2, None, None, tuple(np.array_split(np.arange(50), 4)))
    model = fit_chunks(GaussianBasis(centers="k_means", n_centers=3), pieces)
    assert [n.code for n in model.notices_] == ["centres_of_sample"]
    assert len(sample.keys_of(X2, 0)) == 50
    assert (model.centers_ >= X2.min(axis=0)).all()
