"""Nearest means and least squares on indicators: known boundaries, theorems, and what they report."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression as PeerLeastSquares
from sklearn.neighbors import NearestCentroid

from ml_core.discriminant.linear_discriminant_analysis import LinearDiscriminantAnalysis
from ml_core.errors import InvalidData
from ml_core.linear.centroid_classifier import CentroidClassifier
from ml_core.linear.least_squares_classifier import LeastSquaresClassifier

X3, Y3 = np.random.default_rng(0).normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
X3 = X3 + 2.0 * (Y3[:, None] == np.array(["a", "b", "c"]))
FOUR = np.array([[3.0, 3], [5, 3], [1, 1], [1, 3]])
LABELS = [["no", "yes"], [0, 1], [False, True], [-7, 3], ["10", "9"]]


def held(model, X, y, **given):
    return [c for c in model.diagnostics(X, y, **given).certificates if not c.holds]


def test_the_bisector_of_two_means():
    model = CentroidClassifier().fit(FOUR, ["x+", "x+", "x", "x"])
    np.testing.assert_allclose(model.coef_, [[3, 1]], rtol=1e-15)
    np.testing.assert_allclose(model.intercept_, [-10], rtol=1e-15)
    table = model.diagnostics(FOUR, ["x+", "x+", "x", "x"]).tables["coefficients"]
    assert [row[:3] for row in table.rows] == [["x+", "intercept", -10.0], ["x+", 0, 3.0], ["x+", 1, 1.0]]
    rows = model.diagnostics(FOUR, ["x+", "x+", "x", "x"]).tables["boundaries"].rows
    assert rows == [["x", "x+", pytest.approx(10**0.5), pytest.approx(-10), pytest.approx(10**0.5)]]


def test_a_tie_is_the_second_class_of_two():
    model = CentroidClassifier().fit([[0.0], [2.0]], ["a", "b"])
    assert list(model.predict([[1.0], [0.999], [1.001]])) == ["b", "a", "b"]
    assert list(model.decision_function([[1.0], [3.0]])) == [0.0, 4.0]


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("kind", [CentroidClassifier, LeastSquaresClassifier])
def test_labels_of_any_kind(kind, labels):
    y = np.array(labels)[[1, 1, 0, 0]]
    model = kind().fit(FOUR, y)
    assert model.predict(FOUR).tolist() == y.tolist()
    assert model.classes_.tolist() == sorted(labels)
    assert not held(model, FOUR, y)


def test_centroids_equal_the_peer_and_the_isotropic_bayes_rule():
    ours, theirs = CentroidClassifier().fit(X3, Y3), NearestCentroid().fit(X3, Y3)
    Z = np.random.default_rng(1).normal(size=(500, 3)) * 3
    assert (ours.predict(Z) == theirs.predict(Z)).all()
    bayes = LinearDiscriminantAnalysis(means=ours.centroids_, covariance=2.5 * np.eye(3), priors=[1 / 3] * 3)
    assert (ours.predict(Z) == bayes.fit(X3, Y3).predict(Z)).all()
    distances = ((Z[:, None] - ours.centroids_) ** 2).sum(axis=2)
    f = ours.decision_function(Z)
    np.testing.assert_allclose(f[:, :1] - f, -0.5 * (distances[:, :1] - distances), atol=1e-10)


def test_offsets_cost_centroids_no_digits():
    Z = np.random.default_rng(1).normal(size=(50, 3)) * 3
    one, two = CentroidClassifier().fit(X3, Y3), CentroidClassifier().fit(X3 + 2.0**30, Y3)
    f, g = one.decision_function(Z), two.decision_function(Z + 2.0**30)
    np.testing.assert_allclose(f[:, :1] - f, g[:, :1] - g, atol=1e-5)
    assert not held(two, X3 + 2.0**30, Y3)


def test_equal_means_are_told():
    model = CentroidClassifier().fit([[0.0], [2.0], [1.0], [1.0]], ["a", "a", "b", "b"])
    assert [n.code for n in model.notices_] == ["equal_means"]


def test_weights_move_the_mean():
    model = CentroidClassifier().fit([[0.0], [3.0], [10.0]], ["a", "a", "b"], sample_weight=[2, 1, 1])
    np.testing.assert_allclose(model.centroids_, [[1.0], [10.0]], rtol=1e-15)


@given(st.integers(0, 10**6), st.integers(2, 5), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_decision_regions_are_convex(seed, K, share):
    r = np.random.default_rng(seed)
    X, y = r.normal(size=(12 * K, 2)), np.arange(12 * K) % K
    X = X + y[:, None]
    for model in (CentroidClassifier().fit(X, y), LeastSquaresClassifier().fit(X, y)):
        A, B = r.normal(size=(2, 200, 2)) * 6
        a, b, c = model.predict(A), model.predict(B), model.predict(share * A + (1 - share) * B)
        assert (c[a == b] == a[a == b]).all()


def boundary(x, y):
    model = LeastSquaresClassifier().fit(np.array(x, dtype=float)[:, None], y)
    return -model.intercept_[0] / model.coef_[0, 0], model


def test_a_far_row_moves_the_least_squares_boundary():
    at, model = boundary([0, 1, 2, 3], [0, 0, 1, 1])
    assert at == pytest.approx(1.5, rel=1e-14)
    at, model = boundary([0, 1, 2, 3, 20], [0, 0, 1, 1, 1])
    assert at == pytest.approx(2.2340426, abs=5e-8)
    assert model.predict([[2.0]])[0] == 0
    summary = model.diagnostics(np.array([[0.0], [1], [2], [3], [20]]), [0, 0, 1, 1, 1]).summary
    assert summary["rows_outside_unit_interval"] >= 1
    assert summary["error_rate"] == pytest.approx(0.2)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_least_squares_equal_the_peer(fit_intercept):
    s = np.random.default_rng(2).integers(1, 4, 90).astype(float)
    ours = LeastSquaresClassifier(fit_intercept=fit_intercept).fit(X3, Y3, sample_weight=s)
    T = (Y3[:, None] == np.array(["a", "b", "c"])).astype(float)
    theirs = PeerLeastSquares(fit_intercept=fit_intercept).fit(X3, T, sample_weight=s)
    np.testing.assert_allclose(ours.class_scores(X3), theirs.predict(X3), atol=1e-12)
    np.testing.assert_allclose(ours.decision_function(X3), theirs.predict(X3), atol=1e-12)
    if fit_intercept:
        np.testing.assert_allclose(ours.class_scores(X3 * 100).sum(axis=1), 1, atol=1e-10)
    assert not held(ours, X3, Y3, sample_weight=s)


def test_two_classes_are_regression_cut_at_a_half():
    X, y = X3[:60], Y3[:60]
    ours = LeastSquaresClassifier().fit(X, y)
    f = PeerLeastSquares().fit(X, y == "b").predict(X)
    np.testing.assert_allclose(ours.decision_function(X), 2 * f - 1, atol=1e-12)
    assert (ours.predict(X) == np.where(f >= 0.5, "b", "a")).all()


def test_a_middle_class_is_masked():
    x = np.concatenate([np.linspace(-4, -2, 30), np.linspace(-1, 1, 30), np.linspace(2, 4, 30)])[:, None]
    model = LeastSquaresClassifier().fit(x, np.repeat([0, 1, 2], 30))
    assert 1 not in model.predict(x)
    assert (CentroidClassifier().fit(x, np.repeat([0, 1, 2], 30)).predict(x) == np.repeat([0, 1, 2], 30)).all()


def test_collinear_columns_are_named_and_predictions_unharmed():
    X = np.column_stack([X3, X3[:, 0] - X3[:, 1]])
    model = LeastSquaresClassifier().fit(X, Y3)
    assert [n.code for n in model.notices_] == ["rank_deficient"]
    want = LeastSquaresClassifier().fit(X3, Y3).class_scores(X3)
    np.testing.assert_allclose(model.class_scores(X), want, atol=1e-11)


@pytest.mark.parametrize("kind", [CentroidClassifier, LeastSquaresClassifier])
def test_labels_never_seen_are_refused_by_update(kind):
    model = kind().fit(X3, Y3)
    with pytest.raises(InvalidData, match="never seen"):
        model.update(X3[:2], ["a", "z"])
