"""Quadratic discriminant analysis: known values, scipy densities, invariance, singular classes, decisions by loss."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis as Peer

from ml_core.discriminant.quadratic_discriminant_analysis import QuadraticDiscriminantAnalysis as QDA
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.numerics.gaussian import Spectrum, moments

A = [(0, 0), (2, 0), (0, 2), (2, 2)]
B = [(4, 4), (6, 4), (4, 6), (6, 6), (5, 5), (5, 5)]
X = np.array(A + B, dtype=float)
y = np.array(list("AAAABBBBBB"))
LINE = np.array([(-2, -4), (-1, -2), (0, 0), (1, 2), (2, 4), (5, 0), (6, 2), (7, 1), (5, 3), (8, 2), (6, 0)], float)
LINE_y = np.repeat([0, 1], [5, 6])
IRIS, species = load_iris(return_X_y=True)


def codes(model):
    return [n.code for n in model.notices_]


def test_textbook_groups():
    m = QDA().fit(X, y)
    np.testing.assert_allclose(m.covariances_, [np.eye(2), 2 / 3 * np.eye(2)], atol=1e-15)
    np.testing.assert_allclose(m.priors_, [0.4, 0.6])
    odds = 2.25 * np.exp(-2)
    assert m.predict_proba([[3, 3]])[0, 1] == pytest.approx(odds / (1 + odds), rel=1e-14)
    assert odds / (1 + odds) == pytest.approx(0.2334254, abs=1e-7)
    S = QDA(ddof=1).fit(X, y).covariances_
    np.testing.assert_allclose(S, [4 / 3 * np.eye(2), 0.8 * np.eye(2)], atol=1e-15)


def test_discriminants_are_those_of_the_formula():
    m = QDA().fit(IRIS, species)
    g = []
    for c in range(3):
        Z = IRIS[species == c]
        mean, S = Z.mean(axis=0), np.cov(Z.T, ddof=0)
        D = IRIS - mean
        square = np.einsum("ij,jk,ik->i", D, np.linalg.inv(S), D)
        g.append(-0.5 * square - 0.5 * np.linalg.slogdet(S)[1] + np.log(1 / 3))
    np.testing.assert_allclose(m.decision_function(IRIS), np.transpose(g), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(m.predict_proba(IRIS), softmax(np.transpose(g), axis=1), atol=1e-12)


def test_iris_errors_and_report():
    m = QDA().fit(IRIS, species)
    assert int((m.predict(IRIS) != species).sum()) == 3
    d = m.diagnostics(IRIS, species)
    assert d.summary["parameters"] == 2 + 3 * 4 + 3 * 10
    assert d.summary["discriminant_parameters"] == 2 * (4 * 7 // 2 + 1)
    assert d.summary["error_rate"] == pytest.approx(3 / 150)
    want = sum(
        multivariate_normal(m.means_[c], m.covariances_[c]).logpdf(IRIS[species == c]).sum() + 50 * np.log(1 / 3)
        for c in range(3)
    )
    assert d.summary["log_likelihood"] == pytest.approx(want, rel=1e-12)
    assert [r[3] for r in d.tables["classes"].rows] == [4, 4, 4]
    correlation = np.corrcoef(IRIS[species == 1].T)
    assert d.tables["classes"].rows[1][4] == pytest.approx(np.linalg.cond(correlation), rel=1e-9)
    assert sum(map(sum, (r[1:] for r in d.tables["confusion"].rows))) == 150
    assert len(d.certificates) == 3
    assert all(c.holds for c in d.certificates)


def test_certificates_fail_for_wrong_answers():
    m = QDA().fit(IRIS, species)
    m.means_ = m.means_ + 0.01
    assert not m.diagnostics(IRIS, species).certificates[1].holds
    m = QDA().fit(IRIS, species)
    m.covariances_ = m.covariances_ * 1.01
    assert not m.diagnostics(IRIS, species).certificates[0].holds


def test_class_densities_are_scipys():
    m = QDA().fit(IRIS, species)
    want = [multivariate_normal(m.means_[c], m.covariances_[c]).logpdf(IRIS) for c in range(3)]
    np.testing.assert_allclose(m.class_log_densities(IRIS), np.transpose(want), rtol=1e-10)


def test_invariant_to_affine_maps_of_the_columns():
    r = np.random.default_rng(0)
    M = r.normal(size=(4, 4)) + 3 * np.eye(4)
    one, two = QDA().fit(IRIS, species), QDA().fit(IRIS @ M + 7, species)
    np.testing.assert_allclose(one.predict_proba(IRIS), two.predict_proba(IRIS @ M + 7), atol=1e-9)
    wide = IRIS * [1e-8, 1, 1e6, 1e9]
    np.testing.assert_allclose(QDA().fit(wide, species).predict_proba(wide), one.predict_proba(IRIS), atol=1e-9)


def test_a_large_offset_costs_no_digits():
    far = IRIS.round(1) * 8 + 2.0**30
    near = IRIS.round(1) * 8 + 2.0**30 - 2.0**30
    one, two = QDA().fit(far, species), QDA().fit(near, species)
    np.testing.assert_allclose(one.covariances_, two.covariances_, rtol=1e-9)
    np.testing.assert_allclose(one.predict_proba(far), two.predict_proba(near), atol=1e-6)


def test_equal_covariances_give_the_linear_rule():
    S = np.array([[2.0, 0.5], [0.5, 1.0]])
    m = QDA(means=np.array([[0.0, 0], [2, 1]]), covariances=np.stack([S, S]), priors=np.array([0.3, 0.7])).fit(X, y)
    Q = np.random.default_rng(1).normal(size=(50, 2))
    w = np.linalg.solve(S, [2.0, 1.0])
    b = -0.5 * np.array([2.0, 1.0]) @ w + np.log(0.7 / 0.3)
    np.testing.assert_allclose(m.decision_function(Q), Q @ w + b, atol=1e-12)


def test_known_distributions_learn_nothing_but_priors():
    known = {"means": [[-1.0], [1.0]], "covariances": [[[1.0]], [[1.0]]]}
    m = QDA(**known).fit([[50.0], [60.0], [70.0], [80.0]], ["a", "b", "b", "b"])
    np.testing.assert_allclose(m.priors_, [0.25, 0.75])
    np.testing.assert_array_equal(m.means_, [[-1], [1]])
    equal = QDA(**known, priors=[0.5, 0.5]).fit([[0.0], [0.0]], ["a", "b"])
    np.testing.assert_allclose(equal.predict_proba([[0.0]]), [[0.5, 0.5]])
    assert equal.predict([[0.0]])[0] == "b"
    assert [c.name for c in equal.diagnostics([[0.0], [0.0]], ["a", "b"]).certificates] == ["factor_residual"]
    assert codes(equal) == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"means": [[0.0, 0], [1, 1]]}, "covariances is missing"),
        ({"covariances": [np.eye(2).tolist()] * 2}, "means is missing"),
        ({"means": [[0.0, 0]], "covariances": [np.eye(2).tolist()] * 2}, "2 classes and 2 columns"),
        ({"means": [[0.0, 0], [1, 1]], "covariances": [[[1.0, 2], [2, 1]]] * 2}, "symmetric with eigenvalues"),
        ({"means": [[0.0, 0], [1, 1]], "covariances": [[[1.0, 0.5], [0, 1]]] * 2}, "symmetric with eigenvalues"),
        ({"priors": [0.5, 0.6]}, "sum to 1"),
        ({"priors": [1.5, -0.5]}, "sum to 1"),
        ({"priors": [1.0]}, "sum to 1"),
        ({"loss": [[0.0, 1, 2], [1, 0, 2]]}, "loss must be 2 × 2"),
        ({"eps": 0.0}, "greater than 0"),
        ({"ddof": 2}, "0 or 1"),
    ],
)
def test_refuses_parameters(bad, words):
    with pytest.raises(InvalidParameter, match=words):
        QDA(**bad).fit(X, y)


def test_loss_moves_the_boundary():
    known = {"means": [[-1.0], [1.0]], "covariances": [[[1.0]], [[1.0]]], "priors": [0.5, 0.5]}
    fair = QDA(**known).fit([[0.0], [0.0]], [0, 1])
    costly = QDA(**known, loss=[[0.0, 4.0], [1.0, 0.0]]).fit([[0.0], [0.0]], [0, 1])
    edge = -np.log(4) / 2
    around = np.array([[edge - 1e-9], [edge + 1e-9]])
    assert costly.predict(around).tolist() == [0, 1]
    assert fair.predict(around).tolist() == [0, 0]
    np.testing.assert_array_equal(costly.decision_function(around) >= 0, [False, True])


def test_decision_has_least_expected_loss():
    L = np.array([[0.0, 1, 4], [2, 0, 1], [5, 3, 0]])
    m = QDA(loss=L).fit(IRIS, species)
    Q = np.random.default_rng(2).uniform(IRIS.min(0), IRIS.max(0), size=(300, 4))
    P = m.predict_proba(Q)
    risk = np.array([[sum(L[z, t] * p[t] for t in range(3)) for z in range(3)] for p in P])
    np.testing.assert_allclose(m.decision_function(Q), -risk, atol=1e-12)
    chosen = m.predict(Q)
    assert (risk[np.arange(300), chosen] <= risk.min(axis=1) + 1e-12).all()
    assert m.diagnostics(IRIS, species).summary["mean_loss"] == pytest.approx(np.mean(L[m.predict(IRIS), species]))


def test_singular_class_is_named():
    with pytest.raises(InvalidData, match=r"class 0 is singular: rank 1 of 2, columns 0, 1") as e:
        QDA().fit(LINE, LINE_y)
    assert [i.pointer for i in e.value.issues] == ["/columns/0", "/columns/1"]
    constant = np.column_stack([LINE[:, 0], np.where(LINE_y == 1, LINE[:, 1], 0.1), np.cos(np.arange(11))])
    with pytest.raises(InvalidData, match=r"rank 2 of 3, columns 1"):
        QDA().fit(constant, LINE_y)


@pytest.mark.parametrize("how", ["epsilon", "pseudo_inverse"])
def test_singular_class_regularized(how):
    m = QDA(regularization=how).fit(LINE, LINE_y)
    assert m.predict([[0, 0]])[0] == 0
    assert (m.predict(LINE[:5]) == 0).all()
    assert "singular_covariance" in codes(m)
    assert m.rank_.tolist() == [1, 2]
    assert m.condition_[0] == np.inf
    report = m.diagnostics(LINE, LINE_y)
    assert all(c.holds for c in report.certificates)
    assert report.to_json()["tables"]["classes"]["rows"][0][4] is None


def test_automatic_epsilon_is_relative():
    trace = np.trace(np.cov(LINE[:5].T, ddof=0))
    m = QDA(regularization="epsilon").fit(LINE, LINE_y)
    np.testing.assert_allclose(m.added_, [1e-6 * trace / 2, 0], rtol=1e-12)
    small = QDA(regularization="epsilon").fit(LINE * 1e-6, LINE_y)
    np.testing.assert_allclose(small.predict_proba(LINE * 1e-6), m.predict_proba(LINE), atol=1e-6)
    given = QDA(regularization="epsilon", eps=0.25).fit(X, y)
    np.testing.assert_allclose(given.covariances_[0], 1.25 * np.eye(2))
    assert codes(given) == []


def test_pseudo_inverse_uses_the_pseudo_determinant():
    m = QDA(regularization="pseudo_inverse").fit(LINE, LINE_y)
    S, D = np.cov(LINE[:5].T, ddof=0), np.array([[1.0, 3.0]]) - LINE[:5].mean(axis=0)
    values = np.linalg.eigvalsh(S)
    g0 = -0.5 * (D @ np.linalg.pinv(S) @ D.T)[0, 0] - 0.5 * np.log(values[1]) + np.log(5 / 11)
    S, D = np.cov(LINE[5:].T, ddof=0), np.array([[1.0, 3.0]]) - LINE[5:].mean(axis=0)
    g1 = -0.5 * (D @ np.linalg.inv(S) @ D.T)[0, 0] - 0.5 * np.linalg.slogdet(S)[1] + np.log(6 / 11)
    assert m.decision_function([[1.0, 3.0]])[0] == pytest.approx(g1 - g0, rel=1e-9)


def test_few_rows_are_told():
    Z = np.random.default_rng(3).normal(size=(8, 5))
    m = QDA(regularization="epsilon").fit(Z, [0] * 4 + [1] * 4)
    assert codes(m).count("few_rows") == 2
    assert m.rank_.tolist() == [3, 3]
    alone = QDA(regularization="epsilon", ddof=1).fit([[0.0], [1.0], [5.0]], [0, 0, 1])
    assert np.isfinite(alone.predict_proba([[3.0]])).all()


def test_weights_repeat_rows_and_scale_freely():
    r = np.random.default_rng(4)
    s = r.integers(1, 4, size=150)
    for ddof in (0, 1):
        one = QDA(ddof=ddof).fit(IRIS, species, sample_weight=s)
        two = QDA(ddof=ddof).fit(np.repeat(IRIS, s, axis=0), np.repeat(species, s))
        np.testing.assert_allclose(one.predict_proba(IRIS), two.predict_proba(IRIS), atol=1e-11)
    scaled = QDA().fit(IRIS, species, sample_weight=s * 1e-5)
    np.testing.assert_allclose(scaled.predict_proba(IRIS), QDA().fit(IRIS, species, s).predict_proba(IRIS), atol=1e-11)
    with pytest.raises(InvalidData, match="ddof=1 reads weights as counts"):
        QDA(ddof=1).fit(IRIS, species, sample_weight=np.full(150, 1e-3))


def test_scikit_learn_with_given_priors():
    p = np.array([0.2, 0.5, 0.3])
    ours, peer = QDA(priors=p).fit(IRIS, species), Peer(priors=p).fit(IRIS, species)
    np.testing.assert_allclose(ours.predict_log_proba(IRIS), peer.predict_log_proba(IRIS), rtol=1e-8, atol=1e-10)


def test_posterior_is_the_softmax_of_the_discriminants():
    m = QDA().fit(X, y)
    batch = m.posterior(X)
    assert batch.classes == ["A", "B"]
    np.testing.assert_array_equal(batch.probabilities, m.predict_proba(X))
    row = m.posterior([[3, 3]]).to_json()[0]
    assert row["family"] == "categorical"
    assert row["classes"] == ["A", "B"]
    assert row["probabilities"][1] == pytest.approx(0.2334254, abs=1e-7)


def test_samples_have_the_moments_of_their_class():
    m = QDA(priors=[0.25, 0.75]).fit(X, y)
    rows, labels = m.sample(40_000, random_state=5)
    assert np.mean(labels == "B") == pytest.approx(0.75, abs=0.01)
    np.testing.assert_allclose(rows[labels == "A"].mean(axis=0), [1, 1], atol=0.05)
    np.testing.assert_allclose(np.cov(rows[labels == "B"].T), 2 / 3 * np.eye(2), atol=0.03)
    np.testing.assert_array_equal(rows, m.sample(40_000, random_state=5)[0])
    flat = QDA(regularization="pseudo_inverse").fit(LINE, LINE_y)
    rows, labels = flat.sample(500)
    np.testing.assert_allclose(rows[labels == 0][:, 1], 2 * rows[labels == 0][:, 0], atol=1e-9)


def test_far_rows_get_definite_answers():
    m = QDA().fit(IRIS, species)
    P = m.predict_proba(np.array([[1e5] * 4, [-1e200] * 4, [1e308, -1e308, 1e308, -1e308]]))
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    zero = QDA(priors=[0.0, 1.0]).fit(X, y)
    assert (zero.predict(X) == "B").all()
    np.testing.assert_array_equal(zero.predict_proba(X)[:, 0], 0)


def test_moments_of_known_points():
    g = moments(np.array([(0, 0), (2, 0), (0, 2), (2, 2), (1, 6)], dtype=float))
    np.testing.assert_allclose(g.mean, [1, 2])
    np.testing.assert_allclose(g.scatter / 5, np.diag([0.8, 4.8]), atol=1e-15)
    off = moments(np.array([[1e9 + 4], [1e9 + 7], [1e9 + 13], [1e9 + 16]]))
    assert off.scatter[0, 0] / 4 == 22.5
    assert moments(np.full((7, 1), 0.1)).scatter[0, 0] == 0


def test_spectrum_ignores_units():
    r = np.random.default_rng(6)
    Z = r.normal(size=(50, 3))
    Z = np.column_stack([Z, Z[:, 0] - Z[:, 2]])
    for scale in (np.ones(4), np.array([1e-9, 1, 1e6, 1e3])):
        p = Spectrum.of(moments(Z * scale).scatter)
        assert p.rank == 3
        assert p.dependent() == [0, 2, 3]
