"""Gaussian naive Bayes: 20-digit references, scipy densities, units, constant columns, weights as repeated rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import norm
from sklearn.datasets import load_iris

from ml_core.bayes.gaussian_naive_bayes import GaussianNaiveBayes as GNB
from ml_core.discriminant.quadratic_discriminant_analysis import QuadraticDiscriminantAnalysis as QDA
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.sums import fit_chunks
from tests.test_sums import Cut

IRIS, species = load_iris(return_X_y=True)
X = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 5.0], [5.0, 4.0], [7.0, 6.0], [6.0, 9.0]])
y = np.array(["a", "a", "a", "b", "b", "b"])
# Posteriors of rows of iris by 50-digit arithmetic.
REFERENCE = {
    70: (2.5914055055889284309e-130, 0.15449405668866419689, 0.84550594331133580311),
    83: (2.1405960641817621962e-135, 0.61215984248451100004, 0.38784015751548899996),
    133: (2.6837077986363727635e-131, 0.71264515509897440115, 0.28735484490102559885),
    106: (2.2345393468776833628e-109, 0.97351434334829356263, 0.026485656651706437373),
}


def codes(model):
    return [n.code for n in model.notices_]


@pytest.mark.parametrize("row", REFERENCE)
def test_reference_posteriors_of_iris(row):
    m = GNB().fit(IRIS, species)
    np.testing.assert_allclose(m.predict_proba(IRIS[[row]])[0], REFERENCE[row], rtol=5e-13)


def test_moments_densities_and_posterior_are_those_of_the_formula():
    for ddof in (0, 1):
        m = GNB(ddof=ddof, priors=[0.3, 0.7]).fit(X, y)
        means = np.array([X[:3].mean(axis=0), X[3:].mean(axis=0)])
        variances = np.array([X[:3].var(axis=0, ddof=ddof), X[3:].var(axis=0, ddof=ddof)])
        np.testing.assert_allclose(m.means_, means, rtol=1e-14)
        np.testing.assert_allclose(m.variances_, variances, rtol=1e-14)
        logs = np.stack([norm(a, np.sqrt(v)).logpdf(X).sum(axis=1) for a, v in zip(means, variances, strict=True)], 1)
        np.testing.assert_allclose(m.class_log_densities(X), logs, rtol=1e-13)
        np.testing.assert_allclose(m.predict_proba(X), softmax(logs + np.log([0.3, 0.7]), axis=1), rtol=1e-12)


def test_iris_errors_and_report():
    m = GNB().fit(IRIS, species)
    assert int((m.predict(IRIS) != species).sum()) == 6
    d = m.diagnostics(IRIS, species)
    assert d.summary["parameters"] == 2 + 2 * 12
    assert d.summary["error_rate"] == pytest.approx(6 / 150)
    assert len(d.tables["densities"].rows) == 12
    assert all(c.holds for c in d.certificates)
    m.means_ = m.means_ + 0.01
    assert not m.diagnostics(IRIS, species).certificates[0].holds
    m = GNB().fit(IRIS, species)
    m.whiten_ = m.whiten_ * 1.001
    assert not m.diagnostics(IRIS, species).certificates[1].holds


def test_one_column_is_quadratic_discriminant_analysis():
    Z = IRIS[:, [2]]
    np.testing.assert_allclose(GNB().fit(Z, species).predict_proba(Z), QDA().fit(Z, species).predict_proba(Z),
                               rtol=1e-11, atol=1e-300)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.sampled_from([0.0, 1e-3, 0.5]), st.sampled_from([0, 1]))
def test_units_origins_and_order_of_columns_change_nothing(seed, K, smoothing, ddof):
    r = np.random.default_rng(seed)
    t = np.resize(np.arange(K), 40)
    Z = r.normal(size=(40, 3)) + t[:, None]
    params = {"smoothing": smoothing, "ddof": ddof}
    one = GNB(**params).fit(Z, t)
    moved = Z * 10.0 ** r.integers(-8, 9, 3) * [1, -1, 1] + r.normal(size=3)
    two = GNB(**params).fit(moved, t)
    np.testing.assert_allclose(two.predict_proba(moved), one.predict_proba(Z), atol=1e-6)
    assert all(c.holds for c in two.diagnostics(moved, t).certificates)
    turned = GNB(**params).fit(Z[:, ::-1], t)
    np.testing.assert_allclose(turned.predict_proba(Z[:, ::-1]), one.predict_proba(Z), rtol=1e-10)
    s = r.integers(1, 4, 40)
    weighted, repeated = GNB(**params).fit(Z, t, s), GNB(**params).fit(np.repeat(Z, s, axis=0), np.repeat(t, s))
    np.testing.assert_allclose(weighted.predict_proba(Z), repeated.predict_proba(Z), rtol=1e-11)
    if ddof == 0:
        twice = GNB(**params).fit(Z, t, np.full(40, 2.0))
        np.testing.assert_allclose(twice.predict_proba(Z), one.predict_proba(Z), rtol=1e-12)


def test_a_column_that_is_the_same_in_every_row_is_left_out_and_told():
    for value in (0.0, 0.1, 1e9):
        Z = np.column_stack([X, np.full(6, value)])
        m = GNB().fit(Z, y)
        assert codes(m) == ["constant_column"]
        np.testing.assert_array_equal(m.predict_proba(Z), GNB().fit(X, y).predict_proba(X))
        np.testing.assert_allclose(m.class_log_densities(Z), GNB().fit(X, y).class_log_densities(X), rtol=1e-14)
        report = m.diagnostics(Z, y)
        assert report.summary["columns_left_out"] == 1
        assert all(c.holds for c in report.certificates)
        assert report.to_json()["tables"]["densities"]["rows"][2][3] is None
        np.testing.assert_array_equal(m.sample(5)[0][:, 2], value)
    alone = GNB().fit(np.ones((6, 1)), np.array(list("aabbbb")))
    np.testing.assert_allclose(alone.predict_proba([[4.0]]), [[1 / 3, 2 / 3]])


def test_a_column_that_is_constant_within_one_class_is_refused_by_name():
    Z = np.column_stack([X, [3.0, 3, 3, 1, 2, 3]])
    with pytest.raises(InvalidData, match=r"columns 2 do not vary within class 'a' \(3 rows\)") as e:
        GNB().fit(Z, y)
    assert [(i.pointer, i.code) for i in e.value.issues] == [("/columns/2", "zero_variance")]
    m = GNB(smoothing=1e-9).fit(Z, y)
    assert codes(m) == ["zero_variance"]
    assert m.variances_[0, 2] == pytest.approx(1e-9 * Z[:, 2].var(), rel=1e-12)
    assert all(c.holds for c in m.diagnostics(Z, y).certificates)
    with pytest.raises(InvalidData, match="1 rows"):
        GNB().fit([[0.0], [1.0], [5.0]], [0, 0, 1])


def test_smoothing_is_a_share_of_the_variance_of_each_column():
    m = GNB(smoothing=0.25).fit(X, y)
    np.testing.assert_allclose(m.variances_[0], X[:3].var(axis=0) + 0.25 * X.var(axis=0), rtol=1e-14)
    assert codes(m) == []


def test_chunks_in_which_a_class_or_a_column_is_missing():
    Z = np.column_stack([IRIS, np.full(150, 0.1)])
    pieces = Cut(Z, species, None, tuple(np.split(np.arange(150), [50, 51, 100])))
    ours, whole = fit_chunks(GNB(), pieces), GNB().fit(Z, species)
    np.testing.assert_allclose(ours.predict_proba(Z), whole.predict_proba(Z), rtol=1e-11)
    assert codes(ours) == ["constant_column"]
    again = GNB().fit(Z[50:], species[50:]).update(Z[60:80], species[60:80])
    np.testing.assert_allclose(again.forget(Z[60:80], species[60:80]).predict_proba(Z),
                               GNB().fit(Z[50:], species[50:]).predict_proba(Z), rtol=1e-9)  # fmt: skip


def test_a_large_offset_costs_no_digits():
    far = IRIS.round(1) * 8 + 2.0**30
    near = far - 2.0**30
    one, two = GNB().fit(far, species), GNB().fit(near, species)
    np.testing.assert_allclose(one.variances_, two.variances_, rtol=1e-12)
    np.testing.assert_allclose(one.predict_proba(far), two.predict_proba(near), atol=1e-6)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"priors": [0.5, 0.6]}, "sum to 1"),
        ({"loss": [[0.0, 1, 2], [1, 0, 2]]}, "loss must be 2 × 2"),
        ({"smoothing": -1.0}, "greater than or equal to 0"),
        ({"ddof": 2}, "0 or 1"),
    ],
)
def test_refuses_parameters(bad, words):
    with pytest.raises(InvalidParameter, match=words):
        GNB(**bad).fit(X, y)


def test_weights_below_a_count_are_refused_and_far_rows_answered():
    with pytest.raises(InvalidData, match="ddof=1 reads weights as counts"):
        GNB(ddof=1).fit(IRIS, species, sample_weight=np.full(150, 1e-3))
    m = GNB(priors=[0.2, 0.3, 0.5]).fit(IRIS, species)
    P = m.predict_proba(np.array([[1e5] * 4, [1e200] * 4, [-1.7e308] * 4]))
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_allclose(P[1:], [[0.2, 0.3, 0.5]] * 2)
    report = m.diagnostics(np.vstack([IRIS, [[1e99] * 4]]), [*species, 0])
    assert report.to_json()["summary"]["log_loss"] is not None


def test_decision_has_least_expected_loss():
    L = np.array([[0.0, 1, 4], [2, 0, 1], [5, 3, 0]])
    m = GNB(loss=L).fit(IRIS, species)
    np.testing.assert_array_equal(m.predict(IRIS), (m.predict_proba(IRIS) @ L.T).argmin(axis=1))


def test_samples_have_the_moments_of_their_class():
    m = GNB(priors=[0.25, 0.75]).fit(X, y)
    rows, labels = m.sample(40_000, random_state=5)
    assert np.mean(labels == "b") == pytest.approx(0.75, abs=0.01)
    np.testing.assert_allclose(rows[labels == "b"].mean(axis=0), m.means_[1], atol=0.05)
    np.testing.assert_allclose(rows[labels == "b"].var(axis=0), m.variances_[1], rtol=0.05)
    assert np.corrcoef(rows[labels == "b"].T)[0, 1] == pytest.approx(0, abs=0.03)
