"""Bernoulli naive Bayes: known values, the product of coins, contingency tables, exact counts, excluded rows."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_core.bayes.bernoulli_naive_bayes import BernoulliNaiveBayes as BNB
from ml_core.errors import InvalidData, InvalidParameter

X = np.array([[1, 1], [1, 0], [0, 1], [0, 0], [1, 0], [0, 0]], dtype=float)
y = np.array([1, 1, 1, 0, 0, 0])


def codes(model):
    return [n.code for n in model.notices_]


def exact(F, t, alpha, row, K):
    """The posterior of one row by fractions."""
    joint = []
    for c in range(K):
        mine = [f for f, k in zip(F, t, strict=True) if k == c]
        p = Fraction(len(mine), len(F))
        for j, x in enumerate(row):
            ones = sum(int(f[j]) for f in mine)
            p *= (Fraction(alpha) + (ones if x else len(mine) - ones)) / (len(mine) + 2 * Fraction(alpha))
        joint.append(p)
    return [float(p / sum(joint)) for p in joint]


def test_textbook_rows():
    mle = BNB(alpha=0.0).fit(X, y)
    assert mle.predict_proba([[1, 1]]).tolist() == [[0, 1]]
    np.testing.assert_allclose(mle.probabilities_, [[1 / 3, 0], [2 / 3, 2 / 3]], rtol=1e-15)
    m = BNB().fit(X, y)
    assert m.predict_proba([[1, 1]])[0, 1] == pytest.approx(0.9 / 1.1, rel=1e-14)
    assert m.predict_proba([[1, 1]])[0, 1] == pytest.approx(0.8181818, abs=5e-8)
    assert m.predict_proba([[1, 0]])[0, 1] == pytest.approx(3 / 7, rel=1e-14)
    assert m.predict([[1, 0], [1, 1]]).tolist() == [0, 1]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.sampled_from([0.5, 1.0, 0.001953125, 64.0]))
def test_the_posterior_is_that_of_fractions(seed, K, alpha):
    r = np.random.default_rng(seed)
    F, t = (r.random((20, 3)) < 0.4).astype(float), np.resize(np.arange(K), 20)
    m = BNB(alpha=alpha).fit(F, t)
    for row in product([0.0, 1.0], repeat=3):
        np.testing.assert_allclose(m.predict_proba([row])[0], exact(F, t, alpha, row, K), rtol=1e-13)
    s = r.integers(1, 4, 20)
    weighted, repeated = BNB(alpha=alpha).fit(F, t, s), BNB(alpha=alpha).fit(np.repeat(F, s, axis=0), np.repeat(t, s))
    np.testing.assert_array_equal(weighted.predict_proba(F), repeated.predict_proba(F))
    cut = K + int(r.integers(0, 20 - K))
    grown = BNB(alpha=alpha).fit(F[:cut], t[:cut])
    first = grown.probabilities_
    np.testing.assert_array_equal(grown.update(F, t, s).forget(F, t, s).probabilities_, first)
    turned = BNB(alpha=alpha).fit(1.0 - F, t)
    np.testing.assert_allclose(turned.predict_proba(1.0 - F), m.predict_proba(F), rtol=1e-12)


def test_one_column_is_the_contingency_table():
    F, t = np.array([[1.0]] * 5 + [[0.0]] * 7), np.array([0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 2, 2])
    P = BNB(alpha=0.0).fit(F, t).predict_proba([[1.0], [0.0]])
    np.testing.assert_allclose(P, [[2 / 5, 3 / 5, 0], [4 / 7, 1 / 7, 2 / 7]], rtol=1e-14, atol=0)


def test_a_thousand_columns_do_not_underflow():
    r = np.random.default_rng(1)
    F, t = (r.random((40, 2000)) < 0.1).astype(float), np.resize([0, 1], 40)
    m = BNB().fit(F, t)
    assert (m.class_log_densities(F) < -300).all()
    assert np.isfinite(m.predict_log_proba(F)).all()
    np.testing.assert_allclose(m.predict_proba(F).sum(axis=1), 1, atol=1e-13)
    np.testing.assert_array_equal(m.predict(F), t)


def test_rows_that_every_class_excludes_get_the_prior_and_are_told():
    F, t = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]]), np.array(["a", "a", "b", "b"])
    m = BNB(alpha=0.0, priors=[0.25, 0.75]).fit(F, t)
    assert codes(m) == ["zero_probability"]
    np.testing.assert_allclose(m.predict_proba([[1, 1], [1, 0]]), [[0.25, 0.75], [1, 0]])
    assert m.predict([[1, 1]])[0] == "b"
    assert np.isneginf(m.class_log_densities([[1, 1]])).all()
    report = m.diagnostics(np.vstack([F, [[1, 1]]]), [*t, "a"])
    assert "excluded_rows" in [w.code for w in report.warnings]
    assert report.to_json()["summary"]["log_likelihood"] is None
    assert report.summary["log_loss"] == pytest.approx(-np.log(0.25) / 5)
    assert codes(BNB().fit(F, t)) == []


def test_fractional_weights_come_and_go_without_a_trace():
    F, t = np.array([[1.0, 1], [1, 0], [1, 0], [1, 1]]), np.array([0, 0, 1, 1])
    s = np.array([0.1, 0.2, 0.3, 0.7])
    m = BNB(alpha=0.0).fit(F, t, s)
    again = m.update(1.0 - F, t, 0.7 * s).forget(1.0 - F, t, 0.7 * s)
    np.testing.assert_array_equal(again.probabilities_[:, 0], 1)
    np.testing.assert_allclose(again.predict_proba([[0.0, 1.0]])[0], again.priors_, rtol=1e-14)


def test_threshold_makes_ones():
    Z = X * 3 + 2
    m = BNB(binarize=2.5).fit(Z, y)
    assert m.accepts == "real"
    np.testing.assert_array_equal(m.predict_proba(Z), BNB().fit(X, y).predict_proba(X))
    with pytest.raises(InvalidData, match="0 or 1"):
        BNB().fit(Z, y)
    with pytest.raises(InvalidData, match="0 or 1"):
        BNB().fit(X, y).predict(Z)


def test_report_and_certificates():
    m = BNB().fit(X, y)
    d = m.diagnostics(X, y)
    assert d.summary["parameters"] == 1 + 4
    joint = [np.log(exact(X, y, 1, [], 2)[c]) + m.class_log_densities(X[[i]])[0, c] for i, c in enumerate(y)]
    assert d.summary["log_likelihood"] == pytest.approx(sum(joint), rel=1e-13)
    assert all(c.holds for c in d.certificates)
    m.probabilities_ = m.probabilities_ + 1e-6
    assert [c.holds for c in m.diagnostics(X, y).certificates] == [True, False, True]
    assert not BNB().fit(X, y).diagnostics(1.0 - X, y).certificates[0].holds


def test_least_expected_loss_decides():
    m = BNB(loss=[[0.0, 1.0], [5.0, 0.0]]).fit(X, y)
    P = m.predict_proba(X)
    np.testing.assert_array_equal(m.predict(X), (P[:, 1] >= 5 * P[:, 0]).astype(int))


def test_samples_have_the_frequencies_of_their_class():
    m = BNB(priors=[0.25, 0.75]).fit(X, y)
    rows, labels = m.sample(40_000, random_state=3)
    assert labels.mean() == pytest.approx(0.75, abs=0.01)
    for c in (0, 1):
        np.testing.assert_allclose(rows[labels == c].mean(axis=0), m.probabilities_[c], atol=0.02)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"alpha": -1.0}, "greater than or equal to 0"),
        ({"alpha": 1e300}, "less than or equal"),
        ({"priors": [0.5, 0.6]}, "sum to 1"),
        ({"loss": [[0.0]]}, "loss must be 2 × 2"),
    ],
)
def test_refuses_parameters(bad, words):
    with pytest.raises(InvalidParameter, match=words):
        BNB(**bad).fit(X, y)


def test_forgetting_what_was_never_there_is_refused():
    m = BNB().fit(X, y)
    with pytest.raises(InvalidData, match="more ones or zeros"):
        m.forget([[0.0, 1.0]], [0])
    with pytest.raises(InvalidData, match="all that it has seen"):
        m.forget(X[3:], y[3:])
