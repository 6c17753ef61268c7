"""Multinomial naive Bayes: fractions, text by hand, units, exact counts, empty rows and classes, excluded rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_core.bayes.multinomial_naive_bayes import MultinomialNaiveBayes as MNB
from ml_core.errors import InvalidData, InvalidParameter

# Chinese, Beijing, Shanghai, Macao, Tokyo, Japan: the example of Introduction to Information Retrieval, table 13.1.
X = np.array([[2, 1, 0, 0, 0, 0], [2, 0, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 1]], dtype=float)
y = np.array(["china", "china", "china", "other"])


def codes(model):
    return [n.code for n in model.notices_]


def exact(N, t, alpha, row, K):
    """The posterior of one row by fractions."""
    joint, d = [], len(row)
    for c in range(K):
        mine = [[int(v) for v in x] for x, k in zip(N, t, strict=True) if k == c]
        total = sum(map(sum, mine)) + Fraction(alpha) * d
        p = Fraction(len(mine), len(N))
        for j, x in enumerate(row):
            p *= ((sum(m[j] for m in mine) + Fraction(alpha)) / total) ** int(x)
        joint.append(p)
    return [float(p / sum(joint)) for p in joint]


def test_textbook_documents():
    m = MNB().fit(X, y)
    np.testing.assert_allclose(np.exp(m.log_probabilities_[:, [0, 4, 5]]),
                               [[3 / 7, 1 / 14, 1 / 14], [2 / 9, 2 / 9, 2 / 9]], rtol=1e-14)  # fmt: skip
    query = [[3, 0, 0, 0, 1, 1]]
    joint = np.array([3 / 4 * (3 / 7) ** 3 / 14**2, 1 / 4 * (2 / 9) ** 5])
    assert joint == pytest.approx([0.0003, 0.0001], abs=4e-5)
    np.testing.assert_allclose(m.predict_proba(query)[0], joint / joint.sum(), rtol=1e-13)
    assert m.predict(query)[0] == "china"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.sampled_from([0.5, 1.0, 0.001953125, 64.0]))
def test_the_posterior_is_that_of_fractions(seed, K, alpha):
    r = np.random.default_rng(seed)
    N, t = r.poisson(2.0, size=(20, 3)).astype(float), np.resize(np.arange(K), 20)
    m = MNB(alpha=alpha).fit(N, t)
    for row in N[:6]:
        np.testing.assert_allclose(m.predict_proba([row])[0], exact(N, t, alpha, row, K), rtol=1e-12)
    s = r.integers(1, 4, 20)
    weighted, repeated = MNB(alpha=alpha).fit(N, t, s), MNB(alpha=alpha).fit(np.repeat(N, s, axis=0), np.repeat(t, s))
    np.testing.assert_array_equal(weighted.predict_proba(N), repeated.predict_proba(N))
    grown = MNB(alpha=alpha).fit(N[:12], t[:12])
    first = grown.log_probabilities_
    np.testing.assert_array_equal(grown.update(N, t, s).forget(N, t, s).log_probabilities_, first)
    unit = MNB(alpha=alpha * 4).fit(N * 4, t)
    np.testing.assert_allclose(unit.log_probabilities_, m.log_probabilities_, rtol=1e-13)


def test_long_rows_do_not_underflow_and_empty_rows_get_the_prior():
    m = MNB().fit(X, y)
    P = m.predict_proba(np.vstack([X * 1e6, np.zeros((1, 6))]))
    np.testing.assert_array_equal(P[:4, 0], [1, 1, 1, 0])
    np.testing.assert_allclose(P[4], [0.75, 0.25])
    assert np.isfinite(m.class_log_densities(X * 1e6)).all()
    np.testing.assert_array_equal(m.predict_proba(X * 8e307), P[:4])
    excluded = MNB(alpha=0.0).fit(X, y).predict_proba([[0, 1e308, 0, 0, 1e308, 0], [1e308, 0, 0, 0, 1e308, 0]])
    np.testing.assert_allclose(excluded, [[0.75, 0.25], [0, 1]])


def test_rows_that_every_class_excludes_get_the_prior_and_are_told():
    m = MNB(alpha=0.0).fit(X, y)
    assert codes(m) == ["zero_probability"]
    np.testing.assert_allclose(m.predict_proba([[0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 1, 0]]), [[0.75, 0.25], [0, 1]])
    report = m.diagnostics(np.vstack([X, [[0, 1, 0, 0, 1, 0]]]), [*y, "china"])
    assert "excluded_rows" in [w.code for w in report.warnings]
    assert all(c.holds for c in m.diagnostics(X, y).certificates)
    with pytest.raises(InvalidData, match="class 'b' hold no counts"):
        MNB(alpha=0.0).fit([[1.0, 2], [0, 0]], ["a", "b"])
    flat = MNB().fit([[1.0, 2], [0, 0]], ["a", "b"])
    np.testing.assert_allclose(np.exp(flat.log_probabilities_[1]), [0.5, 0.5])
    assert all(c.holds for c in flat.diagnostics([[1.0, 2], [0, 0]], ["a", "b"]).certificates)


def test_fractions_count_as_they_are():
    m = MNB(alpha=0.5).fit(X / 10, y)
    np.testing.assert_allclose(np.exp(m.log_probabilities_[1]), (X[3] / 10 + 0.5) / (0.3 + 3), rtol=1e-14)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 1e200])
def test_cells_that_are_no_counts_are_refused(bad):
    Z = X.copy()
    Z[2, 1] = bad
    with pytest.raises(InvalidData, match="row 2"):
        MNB().fit(Z, y)


def test_certificates_fail_for_wrong_answers():
    m = MNB().fit(X, y)
    d = m.diagnostics(X, y)
    assert d.summary["parameters"] == 1 + 2 * 5
    assert all(c.holds for c in d.certificates)
    assert not m.diagnostics(X[::-1], y).certificates[0].holds
    m.log_probabilities_ = m.log_probabilities_ + 1e-6
    assert [c.holds for c in m.diagnostics(X, y).certificates] == [True, False, False]


def test_given_priors_and_losses_decide():
    query = [[1.0, 0, 0, 0, 0, 0]]
    assert MNB(priors=[0.1, 0.9]).fit(X, y).predict(query)[0] == "other"
    assert MNB(loss=[[0.0, 9.0], [1.0, 0.0]]).fit(X, y).predict(query)[0] == "other"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"alpha": -1.0}, "greater than or equal to 0"),
        ({"priors": [0.5, 0.6]}, "sum to 1"),
        ({"loss": [[0.0]]}, "loss must be 2 × 2"),
    ],
)
def test_refuses_parameters(params, words):
    with pytest.raises(InvalidParameter, match=words):
        MNB(**params).fit(X, y)


def test_forgetting_what_was_never_there_is_refused():
    m = MNB().fit(X, y)
    with pytest.raises(InvalidData, match="more counts"):
        m.forget([[0.0, 0, 0, 0, 9, 0]], ["china"])
    with pytest.raises(InvalidData, match="all rows of a class"):
        m.forget(X[3:], y[3:])
