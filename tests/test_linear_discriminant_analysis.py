"""Linear discriminant analysis: known values, 20-digit references, the logistic form, invariance, singular tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as Peer

from ml_core.discriminant.linear_discriminant_analysis import LinearDiscriminantAnalysis as LDA
from ml_core.discriminant.quadratic_discriminant_analysis import QuadraticDiscriminantAnalysis as QDA
from ml_core.errors import InvalidData, InvalidParameter

A = [(0, 0), (2, 0), (0, 2), (2, 2)]
B = [(4, 4), (6, 4), (4, 6), (6, 6), (5, 5), (5, 5)]
X = np.array(A + B, dtype=float)
y = np.array(list("AAAABBBBBB"))
IRIS, species = load_iris(return_X_y=True)
FLAT = np.column_stack([X, X[:, 0] - 2 * X[:, 1]])
# Posteriors of rows of iris by 50-digit arithmetic.
REFERENCE = {
    (0, 70): (2.0942270071288724803e-28, 0.24907733395274600363, 0.75092266604725399637),
    (0, 83): (9.7931003741089173026e-33, 0.138969368149148998, 0.861030631850851002),
    (0, 133): (3.5032547218726484345e-29, 0.73336356770902624927, 0.26663643229097375073),
    (0, 106): (8.3096203362843965087e-34, 0.045888570256547701495, 0.9541114297434522985),
    (1, 70): (7.4081175816249413184e-28, 0.25322822473817875335, 0.74677177526182124665),
    (1, 83): (4.2419519447407179761e-32, 0.14339190807875730429, 0.85660809192124269571),
    (1, 133): (1.2838906243207798103e-28, 0.72938812803179642039, 0.27061187196820357961),
    (1, 106): (3.7978371892019739213e-33, 0.048620253756358117757, 0.95137974624364188224),
}


def codes(model):
    return [n.code for n in model.notices_]


def test_textbook_groups():
    m = LDA().fit(X, y)
    np.testing.assert_allclose(m.covariance_, 0.8 * np.eye(2), atol=1e-15)
    np.testing.assert_allclose(m.coef_, [[5, 5]], rtol=1e-14)
    assert m.intercept_[0] == pytest.approx(-30 + np.log(1.5), rel=1e-14)
    assert m.intercept_[0] == pytest.approx(-29.5945349, abs=5e-8)
    np.testing.assert_allclose(m.predict_proba([[3, 3]]), [[0.4, 0.6]], rtol=1e-14)
    np.testing.assert_allclose(LDA(ddof=1).fit(X, y).covariance_, np.eye(2), atol=1e-15)
    np.testing.assert_allclose(m.distances(), np.sqrt([[0, 40], [40, 0]]), rtol=1e-14)


@pytest.mark.parametrize(("ddof", "row"), REFERENCE)
def test_reference_posteriors_of_iris(ddof, row):
    P = LDA(ddof=ddof).fit(IRIS, species).predict_proba(IRIS[[row]])[0]
    np.testing.assert_allclose(P, REFERENCE[ddof, row], rtol=2e-13)


def test_iris_errors_and_report():
    m = LDA().fit(IRIS, species)
    assert int((m.predict(IRIS) != species).sum()) == 3
    d = m.diagnostics(IRIS, species)
    assert d.summary["parameters"] == 2 + 3 * 4 + 10
    assert d.summary["discriminant_parameters"] == 2 * 5
    assert d.summary["error_rate"] == pytest.approx(3 / 150)
    want = sum(multivariate_normal(m.means_[c], m.covariance_).logpdf(IRIS[species == c]).sum() + 50 * np.log(1 / 3)
               for c in range(3))  # fmt: skip
    assert d.summary["log_likelihood"] == pytest.approx(want, rel=1e-12)
    assert len(d.certificates) == 4
    assert all(c.holds for c in d.certificates)


def test_the_posterior_is_logistic_with_the_stated_weights():
    two = species > 0
    Z, t = IRIS[two], species[two]
    for p in (None, [0.1, 0.9]):
        m = LDA(priors=p).fit(Z, t)
        one, other = m.means_
        w = np.linalg.solve(m.covariance_, other - one)
        b = 0.5 * (one @ np.linalg.solve(m.covariance_, one) - other @ np.linalg.solve(m.covariance_, other))
        odds = np.log(m.priors_[1] / m.priors_[0])
        np.testing.assert_allclose(m.coef_[0], w, rtol=1e-10)
        np.testing.assert_allclose(m.intercept_[0], b + odds, rtol=1e-10)
        np.testing.assert_allclose(m.decision_function(Z), Z @ w + b + odds, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(m.predict_proba(Z)[:, 1], expit(Z @ m.coef_[0] + m.intercept_[0]), rtol=1e-9)


def test_discriminants_are_those_of_the_formula():
    m = LDA(priors=[0.2, 0.5, 0.3]).fit(IRIS, species)
    S = sum(49 * np.cov(IRIS[species == c].T) for c in range(3)) / 150
    np.testing.assert_allclose(m.covariance_, S, rtol=1e-12)
    U = np.linalg.solve(S, m.means_.T)
    g = IRIS @ U - 0.5 * np.einsum("cj,jc->c", m.means_, U) + np.log([0.2, 0.5, 0.3])
    np.testing.assert_allclose(m.predict_proba(IRIS), softmax(g, axis=1), rtol=1e-8, atol=1e-30)
    scores = m.decision_function(IRIS)
    np.testing.assert_allclose(scores - scores[:, :1], g - g[:, :1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(IRIS @ m.coef_.T + m.intercept_, scores, rtol=1e-9, atol=1e-9)


def test_the_unbiased_covariance_divides_by_the_degrees_of_freedom():
    ours, peer = LDA(ddof=1).fit(IRIS, species), Peer(solver="lsqr").fit(IRIS, species)
    np.testing.assert_allclose(ours.covariance_, peer.covariance_ * 150 / 147, rtol=1e-12)
    np.testing.assert_allclose(ours.distances() ** 2 * 150, LDA().fit(IRIS, species).distances() ** 2 * 147, rtol=1e-12)


def test_equal_covariances_make_both_rules_one():
    S = np.array([[2.0, 0.5], [0.5, 1.0]])
    known = {"means": [[0.0, 0], [2, 1], [-1, 3]], "priors": [0.3, 0.5, 0.2]}
    t = np.resize([0, 1, 2], 10)
    one = LDA(covariance=S, **known).fit(X, t)
    two = QDA(covariances=[S, S, S], **known).fit(X, t)
    Q = np.random.default_rng(0).normal(size=(50, 2)) * 4
    np.testing.assert_allclose(one.predict_proba(Q), two.predict_proba(Q), rtol=1e-11)
    np.testing.assert_allclose(one.class_log_densities(Q), two.class_log_densities(Q), rtol=1e-12)


def test_known_distributions_learn_nothing_but_priors():
    known = {"means": [[-1.0], [1.0]], "covariance": [[1.0]]}
    m = LDA(**known).fit([[50.0], [60.0], [70.0], [80.0]], ["a", "b", "b", "b"])
    np.testing.assert_allclose(m.priors_, [0.25, 0.75])
    assert m.intercept_[0] == pytest.approx(np.log(3))
    tie = LDA(**known, priors=[0.5, 0.5]).fit([[0.0], [0.0]], ["a", "b"])
    assert tie.predict([[0.0]])[0] == "b"
    assert [c.name for c in tie.diagnostics([[0.0], [0.0]], ["a", "b"]).certificates] == [
        "factor_residual", "linear_posterior_error"]  # fmt: skip
    assert codes(tie) == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"means": [[0.0, 0], [1, 1]]}, "covariance is missing"),
        ({"covariance": np.eye(2).tolist()}, "means is missing"),
        ({"means": [[0.0, 0]], "covariance": np.eye(2).tolist()}, "2 classes and 2 columns"),
        ({"means": [[0.0, 0], [1, 1]], "covariance": [[1.0]]}, "2 columns need covariance"),
        ({"means": [[0.0, 0], [1, 1]], "covariance": [[1.0, 2], [2, 1]]}, "symmetric with eigenvalues"),
        ({"priors": [0.5, 0.6]}, "sum to 1"),
        ({"loss": [[0.0, 1, 2], [1, 0, 2]]}, "loss must be 2 × 2"),
        ({"eps": 0.0}, "greater than 0"),
        ({"ddof": 2}, "0 or 1"),
    ],
)
def test_refuses_parameters(bad, words):
    with pytest.raises(InvalidParameter, match=words):
        LDA(**bad).fit(X, y)


def test_decision_has_least_expected_loss():
    L = np.array([[0.0, 1, 4], [2, 0, 1], [5, 3, 0]])
    m = LDA(loss=L).fit(IRIS, species)
    risk = m.predict_proba(IRIS) @ L.T
    np.testing.assert_allclose(m.decision_function(IRIS), -risk, atol=1e-12)
    np.testing.assert_array_equal(m.predict(IRIS), risk.argmin(axis=1))
    assert m.diagnostics(IRIS, species).summary["mean_loss"] == pytest.approx(np.mean(L[m.predict(IRIS), species]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.sampled_from([0, 1]))
def test_units_origins_and_mixtures_of_columns_change_nothing(seed, K, ddof):
    r = np.random.default_rng(seed)
    Z, t = r.normal(size=(40, 3)) + np.resize(np.arange(K), 40)[:, None], np.resize(np.arange(K), 40)
    one = LDA(ddof=ddof).fit(Z, t)
    moved = Z * 10.0 ** r.integers(-8, 9, 3) + r.normal(size=3)
    mixed = Z @ (r.normal(size=(3, 3)) + 4 * np.eye(3)) + 7
    for other in (moved, mixed):
        two = LDA(ddof=ddof).fit(other, t)
        np.testing.assert_allclose(two.predict_proba(other), one.predict_proba(Z), atol=1e-6)
        assert all(c.holds for c in two.diagnostics(other, t).certificates)
    s = r.integers(1, 4, 40)
    weighted, repeated = LDA(ddof=ddof).fit(Z, t, s), LDA(ddof=ddof).fit(np.repeat(Z, s, axis=0), np.repeat(t, s))
    np.testing.assert_allclose(weighted.predict_proba(Z), repeated.predict_proba(Z), atol=1e-11)


def test_a_large_offset_costs_no_digits():
    far = IRIS.round(1) * 8 + 2.0**30
    near = IRIS.round(1) * 8 + 2.0**30 - 2.0**30
    one, two = LDA().fit(far, species), LDA().fit(near, species)
    np.testing.assert_allclose(one.covariance_, two.covariance_, rtol=1e-9)
    np.testing.assert_allclose(one.predict_proba(far), two.predict_proba(near), atol=1e-6)
    np.testing.assert_allclose(one.decision_function(far), two.decision_function(near), rtol=1e-6, atol=1e-6)


def test_singular_covariance_is_named():
    with pytest.raises(InvalidData, match=r"pooled covariance is singular: rank 2 of 3, columns 0, 1, 2") as e:
        LDA().fit(FLAT, y)
    assert {i.code for i in e.value.issues} == {"singular_covariance"}
    Z = np.column_stack([X[:, 0] + np.arange(10) ** 2, np.where(y == "A", 0.1, 0.7)])
    with pytest.raises(InvalidData, match=r"rank 1 of 2, columns 1 are constant or linearly dependent within the cla"):
        LDA().fit(Z, y)


@pytest.mark.parametrize("how", ["epsilon", "pseudo_inverse"])
def test_singular_covariance_regularized(how):
    m = LDA(regularization=how).fit(FLAT, y)
    assert codes(m) == ["singular_covariance"]
    assert (m.rank_, m.condition_) == (2, np.inf)
    np.testing.assert_array_equal(m.predict(FLAT), y)
    report = m.diagnostics(FLAT, y).to_json()
    assert all(c["holds"] for c in report["certificates"])
    assert report["summary"]["condition"] is None
    np.testing.assert_allclose(m.predict_proba(FLAT), LDA().fit(X, y).predict_proba(X), atol=1e-4)


def test_pseudo_inverse_is_numpys_and_epsilon_is_relative():
    m = LDA(regularization="pseudo_inverse").fit(FLAT, y)
    S = sum(FLAT[y == c].shape[0] * np.cov(FLAT[y == c].T, ddof=0) for c in "AB") / 10
    np.testing.assert_allclose(m.coef_[0], np.linalg.pinv(S) @ (m.means_[1] - m.means_[0]), rtol=1e-10)
    e = LDA(regularization="epsilon").fit(FLAT, y)
    assert e.added_ == pytest.approx(1e-6 * np.trace(S) / 3, rel=1e-12)
    given_eps = LDA(regularization="epsilon", eps=0.2).fit(X, y)
    np.testing.assert_allclose(given_eps.covariance_, np.eye(2), atol=1e-15)


def test_few_rows_are_told():
    Z, t = np.random.default_rng(3).normal(size=(6, 5)), [0, 0, 0, 1, 1, 1]
    m = LDA(regularization="epsilon").fit(Z, t)
    assert codes(m) == ["few_rows", "singular_covariance"]
    assert m.rank_ == 4
    alone = LDA(regularization="epsilon", ddof=1).fit([[0.0], [1.0]], [0, 1])
    np.testing.assert_allclose(alone.predict_proba([[0.5]]), [[0.5, 0.5]], atol=1e-6)
    with pytest.raises(InvalidData, match="ddof=1 reads weights as counts"):
        LDA(ddof=1).fit(IRIS, species, sample_weight=np.full(150, 1e-3))


def test_separated_classes_and_far_rows_get_definite_answers():
    Z = np.array([[0.0], [1.0], [1e6], [1e6 + 1]])
    m = LDA().fit(Z, [0, 0, 1, 1])
    assert np.isfinite(m.coef_).all()
    np.testing.assert_array_equal(m.predict_proba(Z)[:, 1], [0, 0, 1, 1])
    m = LDA().fit(IRIS, species)
    far = np.array([[1e5] * 4, [-1e200] * 4, [1e308, -1e308, 1e308, -1e308], [1.7e308] * 4, [-1.7e308] * 4])
    P = m.predict_proba(far)
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_array_equal(m.predict(far), m.predict(far * [[1], [1e-195], [1e-303], [1e-303], [1e-303]]))
    zero = LDA(priors=[0.0, 1.0]).fit(X, y)
    assert (zero.predict(X) == "B").all()
    assert zero.diagnostics(X, y).to_json()["summary"]["log_likelihood"] is None


def test_certificates_fail_for_wrong_answers():
    m = LDA().fit(IRIS, species)
    m.means_ = m.means_ + 0.01
    assert not m.diagnostics(IRIS, species).certificates[2].holds
    m = LDA().fit(IRIS, species)
    m.covariance_ = m.covariance_ * 1.01
    assert not m.diagnostics(IRIS, species).certificates[0].holds
    m = LDA().fit(IRIS, species)
    m.slopes_ = m.slopes_ * 0.1
    assert not m.diagnostics(IRIS, species).certificates[1].holds


def test_samples_have_the_moments_of_their_class():
    m = LDA(priors=[0.25, 0.75]).fit(X, y)
    rows, labels = m.sample(40_000, random_state=5)
    assert np.mean(labels == "B") == pytest.approx(0.75, abs=0.01)
    np.testing.assert_allclose(rows[labels == "A"].mean(axis=0), [1, 1], atol=0.05)
    np.testing.assert_allclose(np.cov(rows[labels == "B"].T), 0.8 * np.eye(2), atol=0.03)
    flat = LDA(regularization="pseudo_inverse").fit(FLAT, y)
    rows, _ = flat.sample(300)
    np.testing.assert_allclose(rows[:, 2], rows[:, 0] - 2 * rows[:, 1], atol=1e-9)
