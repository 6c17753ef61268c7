"""Monomials against scikit-learn and exact arithmetic, kernel identities, lifts, and widths that are refused."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
import sklearn.preprocessing as peer
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammainc, gammaln

from ml_core.errors import InvalidData, InvalidParameter
from ml_core.linear.linear_regression import LinearRegression
from ml_core.numerics.monomials import Monomials
from ml_core.preprocessing.axis_aligned_quadric_lift import AxisAlignedQuadricLift
from ml_core.preprocessing.gaussian_taylor_features import GaussianTaylorFeatures
from ml_core.preprocessing.parabolic_lift import ParabolicLift
from ml_core.preprocessing.pipeline import Pipeline
from ml_core.preprocessing.polynomial_features import PolynomialFeatures
from ml_core.preprocessing.polynomial_kernel_features import PolynomialKernelFeatures
from ml_core.preprocessing.quadric_lift import QuadricLift
from ml_core.preprocessing.trigonometric_features import TrigonometricFeatures
from ml_core.solvers.separation import separation

X4 = np.random.default_rng(0).normal(size=(30, 4))


@pytest.mark.parametrize("interaction_only", [False, True])
@pytest.mark.parametrize("include_bias", [False, True])
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_polynomials_equal_the_peer(d, degree, include_bias, interaction_only):
    ours = PolynomialFeatures(degree=degree, include_bias=include_bias, interaction_only=interaction_only)
    theirs = peer.PolynomialFeatures(degree, include_bias=include_bias, interaction_only=interaction_only)
    X = X4[:, :d]
    np.testing.assert_allclose(ours.fit_transform(X), theirs.fit_transform(X), rtol=1e-13)
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())
    np.testing.assert_array_equal(ours.monomials_.exponents(d), theirs.powers_)
    assert ours.n_features_out_ == ours._width(d) == theirs.n_output_features_
    np.testing.assert_array_equal(ours.inverse_transform(ours.transform(X)), X)


def test_two_columns_of_degree_two_and_nine_cubic_features():
    model = PolynomialFeatures().fit(np.array([[2.0, 3.0]]))
    assert list(model.get_feature_names_out(["a", "b"])) == ["a", "b", "a^2", "a b", "b^2"]
    np.testing.assert_array_equal(model.transform([[2.0, 3.0]]), [[2, 3, 4, 6, 9]])
    assert PolynomialFeatures(degree=3).fit(np.ones((1, 2))).n_features_out_ == 9
    assert PolynomialFeatures(include_bias=True).fit(np.ones((1, 3))).n_features_out_ == 10


@given(st.integers(1, 4), st.integers(1, 5), st.booleans())
@settings(max_examples=40, deadline=None)
def test_graded_monomials_are_all_of_them_once(d, degree, distinct):
    choose = combinations if distinct else combinations_with_replacement
    want = [tuple(map(c.count, range(d))) for k in range(degree + 1) for c in choose(range(d), k)]
    assert list(map(tuple, Monomials.graded(d, degree, constant=True, distinct=distinct).exponents(d))) == want


@given(st.integers(1, 3), st.integers(0, 4))
@settings(max_examples=20, deadline=None)
def test_boxed_monomials_are_all_of_them_once(d, most):
    found = list(map(tuple, Monomials.boxed(d, most).exponents(d)))
    assert sorted(found) == sorted(product(range(most + 1), repeat=d))
    assert [e[::-1] for e in found] == sorted(e[::-1] for e in found)


@pytest.mark.parametrize(("model", "named"), [
    (PolynomialFeatures(degree=10), "degree=10 makes 75,394,027,565 columns of 50"),
    (PolynomialKernelFeatures(degree=10), "degree=10 makes 75,394,027,566 columns of 50"),
    (GaussianTaylorFeatures(terms=10, truncation="each"), "makes 100,000,000,000,000,000,000"),
    (TrigonometricFeatures(frequencies=100_000), "frequencies=100000 makes 10,000,100 columns"),
], ids=lambda v: type(v).__name__ if not isinstance(v, str) else "")  # fmt: skip
def test_absurd_widths_are_refused_with_their_count(model, named):
    X = np.ones((2, 50))
    for refuse in (model.fit, model.check):
        with pytest.raises(InvalidParameter, match=named) as caught:
            refuse(X)
        assert caught.value.issues[0].pointer == f"/params/{model._narrower()[0]}"
    assert model.cost(1000, 50).memory_bytes >= 8.0 * 1000 * model._width(50)


def test_the_pipeline_states_the_memory_of_a_wide_step():
    pipe = Pipeline(steps=[PolynomialFeatures(degree=4), LinearRegression()])
    assert pipe._width(40) == math.comb(44, 4) - 1
    assert pipe.cost(10_000, 40).memory_bytes > 8.0 * 10_000 * math.comb(44, 4)
    with pytest.raises(InvalidParameter, match="columns") as caught:
        Pipeline(steps=[PolynomialFeatures(degree=9), LinearRegression()]).fit(np.ones((3, 40)), np.arange(3.0))
    assert caught.value.issues[0].pointer == "/params/steps/0/params/degree"


def test_overflow_names_the_row():
    model = PolynomialFeatures(degree=3).fit(np.ones((2, 1)))
    with pytest.raises(InvalidData, match="row 1 gives a number beyond"):
        model.transform([[1.0], [1e200]])


def test_polynomial_kernel_of_known_points():
    for c, value in ((1.0, 4.0), (3.0, 16.0)):
        model = PolynomialKernelFeatures(coef0=c).fit(np.ones((1, 2)))
        a, b = model.transform([[1.0, 2.0], [3.0, -1.0]])
        assert a @ b == pytest.approx(value, rel=1e-15)
    model = PolynomialKernelFeatures(coef0=3.0).fit(np.ones((1, 2)))
    r2, r6 = 2**0.5, 6**0.5
    want = {"1": 3, "x0": r6 * 5, "x1": r6 * 7, "x0^2": 25, "x0 x1": r2 * 35, "x1^2": 49}
    names = [n.split(" ", 1)[1] if n[0].isdigit() else n for n in model.get_feature_names_out()]
    assert dict(zip(names, model.transform([[5.0, 7.0]])[0], strict=True)) == pytest.approx(want)


@pytest.mark.parametrize("coef0", [0.0, 1e-12, 0.5, 7.0])
@pytest.mark.parametrize("degree", [1, 2, 5, 10])
def test_polynomial_kernel_identity_in_exact_arithmetic(degree, coef0):
    r = np.random.default_rng(degree)
    A = r.integers(-8, 9, size=(6, 3)) / 4.0
    Z = PolynomialKernelFeatures(degree=degree, coef0=coef0).fit_transform(A)
    for i in range(6):
        for j in range(6):
            dot = sum(Fraction(a) * Fraction(b) for a, b in zip(A[i], A[j], strict=True))
            size = float(np.abs(A[i]) @ np.abs(A[j]) + coef0) ** degree
            assert abs(float((dot + Fraction(coef0)) ** degree) - Z[i] @ Z[j]) <= 1e-14 * degree * size + 1e-300
    assert Z.shape[1] == (math.comb(3 + degree, degree) if coef0 else math.comb(2 + degree, degree))


def test_ridge_on_kernel_features_is_kernel_ridge():
    r = np.random.default_rng(3)
    X, y, alpha = r.normal(size=(25, 2)), r.normal(size=25), 0.7
    Z = PolynomialKernelFeatures(degree=3, coef0=1.5).fit_transform(X)
    primal = Z @ np.linalg.solve(Z.T @ Z + alpha * np.eye(Z.shape[1]), Z.T @ y)
    K = (X @ X.T + 1.5) ** 3
    np.testing.assert_allclose(primal, K @ np.linalg.solve(K + alpha * np.eye(25), y), rtol=1e-8, atol=1e-10)


def test_gaussian_taylor_of_known_points():
    for terms, value in ((10, 0.54607442664), (3, 0.5475823)):
        a, b = GaussianTaylorFeatures(terms=terms).fit_transform([[0.8], [-0.3]])
        assert a @ b == pytest.approx(value, abs=6e-12 if terms == 10 else 5e-8)


@pytest.mark.parametrize("truncation", ["total", "each"])
def test_gaussian_taylor_columns_and_error_bound(truncation):
    r = np.random.default_rng(5)
    X, s, terms = r.normal(size=(40, 2)), 1.3, 7
    model = GaussianTaylorFeatures(terms=terms, scale=s, truncation=truncation).fit(X)
    Z, E = model.transform(X), model.monomials_.exponents(2)
    assert (E.sum(axis=1) if truncation == "total" else E.max(axis=1)).max() == terms - 1
    want = np.exp(-(X**2).sum(axis=1, keepdims=True) / (2 * s * s)) * np.prod(
        (X[:, None] / s) ** E * np.exp(-0.5 * gammaln(E + 1)), axis=2
    )
    np.testing.assert_allclose(Z, want, rtol=1e-12, atol=1e-300)
    off = np.abs(Z @ Z.T - np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / (2 * s * s)))
    assert off.max() <= model.truncation_bound_ + 1e-14
    if truncation == "total":
        assert off.max() == pytest.approx(gammainc(terms, (X**2).sum(axis=1).max() / s**2), rel=1e-9)
        assert model.truncation_bound_ == pytest.approx(off.max(), rel=1e-9)


def test_gaussian_taylor_neither_overflows_nor_hides_a_coarse_truncation():
    model = GaussianTaylorFeatures(terms=300).fit([[0.0], [30.0]])
    Z = model.transform([[30.0], [1e6], [-1e80]])
    assert np.isfinite(Z).all()
    assert (Z[1:] == 0).all()
    assert model.truncation_bound_ == pytest.approx(1.0)
    assert [n.code for n in model.notices_] == ["coarse_truncation"]
    fine = GaussianTaylorFeatures(terms=60, scale=10.0).fit([[0.0], [30.0]])
    assert not fine.notices_
    assert fine.truncation_bound_ < 1e-20


@pytest.mark.parametrize("model", [ParabolicLift(), AxisAlignedQuadricLift(), QuadricLift()],
                         ids=lambda m: type(m).__name__)  # fmt: skip
def test_lifts_invert_and_have_their_width(model):
    Z = model.fit_transform(X4)
    assert Z.shape[1] == model.n_features_out_ == {ParabolicLift: 5, AxisAlignedQuadricLift: 8, QuadricLift: 14}[
        type(model)
    ]
    assert len(set(model.get_feature_names_out())) == Z.shape[1]
    np.testing.assert_array_equal(model.inverse_transform(Z), X4)


def test_a_sphere_is_a_plane_of_the_parabolic_lift():
    r = np.random.default_rng(9)
    X = r.normal(size=(200, 2))
    inside = ((X - [0.3, -0.2]) ** 2).sum(axis=1) < 1.0
    codes, none = inside.astype(np.int64), np.zeros((3, 1))
    assert separation(np.column_stack([X, np.ones(200)]), codes, 2, none).kind == "none"
    lifted = np.column_stack([ParabolicLift().fit_transform(X), np.ones(200)])
    assert separation(lifted, codes, 2, np.zeros((4, 1))).kind == "complete"


def test_quadric_lift_is_degree_two_in_another_order():
    ours, theirs = QuadricLift().fit(X4), PolynomialFeatures().fit(X4)
    one = dict(zip(ours.get_feature_names_out(), ours.transform(X4).T, strict=True))
    two = dict(zip(theirs.get_feature_names_out(), theirs.transform(X4).T, strict=True))
    assert one.keys() == two.keys()
    for name, column in one.items():
        np.testing.assert_allclose(column, two[name], rtol=1e-15)


def test_trigonometric_products_tend_to_the_kernel():
    X = np.array([[0.1, 0.4], [0.35, -0.2], [0.1, 0.9]])
    D = X[:, None] - X
    kernel = (2 * np.pi * np.sinc(2 * D)).sum(axis=2)
    errors = []
    for L in (10, 100, 1000):
        model = TrigonometricFeatures(frequencies=L).fit(X)
        Z = model.transform(X)
        assert Z.shape[1] == 2 * 2 * (L + 1)
        errors.append(np.abs(2 * np.pi / L * Z @ Z.T - kernel).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02


def test_trigonometric_angles_beyond_rounding_are_refused():
    with pytest.raises(InvalidData, match="1e\\+12"):
        TrigonometricFeatures().fit([[1e13], [0.0]])


CELLS = st.floats(-1e3, 1e3).map(lambda v: v if abs(v) > 1e-100 else 0.0)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_certificates_hold_on_any_table(rows):
    X = np.array(rows)
    polynomials = (PolynomialFeatures(degree=3), PolynomialKernelFeatures(degree=4), GaussianTaylorFeatures(terms=4))
    lifts = (ParabolicLift(), AxisAlignedQuadricLift(), QuadricLift())
    for model in (*polynomials, *lifts, TrigonometricFeatures(frequencies=3)):
        broken = [c for c in model.fit(X).diagnostics(X).certificates if not c.holds]
        assert not broken, (type(model).__name__, broken)
