"""Gaussian mixtures: known sequences, reference digits, unbounded likelihoods, units, monotone steps, scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Peer

from ml_core import progress
from ml_core.discriminant.quadratic_discriminant_analysis import QuadraticDiscriminantAnalysis
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.mixture.gaussian_mixture import GaussianMixture as GMM
from ml_core.mixture.starts import Frame
from ml_core.parallel import use_threads
from ml_core.solvers.base import answered, at_once
from ml_core.solvers.em import Stop, Unbounded, em, restarts
from ml_core.solvers.gaussian_em import GaussianEM
from ml_core.solvers.gaussian_sums import of_labels

IRIS, SPECIES = load_iris(return_X_y=True)
FIVE = np.array([[0.0], [1], [2], [6], [8]])
START = {
    "init": "given", "means_init": [[0.0], [6.0]], "weights_init": [0.6, 0.4], "covariances_init": [[[1.0]], [[4.0]]],
}  # fmt: skip
FORM = GaussianEM("full", np.zeros(1), np.ones(1))
KINDS = ["full", "tied", "diagonal", "isotropic", "identity"]
PEERS = {"full": "full", "tied": "tied", "diagonal": "diag", "isotropic": "spherical"}


def codes(model):
    return [n.code for n in model.notices_]


def drawn(n=400, d=3, K=3, seed=0):
    r = np.random.default_rng(seed)
    z = r.integers(0, K, n)
    return r.normal(size=(n, d)) @ (np.eye(d) + 0.3 * r.normal(size=(d, d))) + 4 * r.normal(size=(K, d))[z], z


def test_sequence_from_the_given_start():
    one = GMM(**START, max_iter=1).fit(FIVE)
    np.testing.assert_allclose(one.solution_.trace, [-12.0308074, -10.5119975], atol=5e-8)
    np.testing.assert_allclose(one.means_.ravel(), [0.909536, 6.377636], atol=5e-7)
    np.testing.assert_allclose(one.covariances_.ravel(), [0.633198, 3.68753], atol=5e-6)
    np.testing.assert_allclose(one.weights_, [0.544547, 0.455453], atol=5e-7)
    assert "not_converged" in codes(one)
    end = GMM(**START, tol=1e-13, max_iter=5000).fit(FIVE)
    assert end.solution_.trace[2] == pytest.approx(-10.0287820, abs=5e-8)
    assert end.log_likelihood_ == pytest.approx(-9.8515490, abs=5e-8)
    np.testing.assert_allclose(end.means_.ravel(), [1, 7], atol=1e-4)
    np.testing.assert_allclose(end.covariances_.ravel(), [2 / 3, 1], atol=2e-4)
    np.testing.assert_allclose(end.weights_, [0.6, 0.4], atol=1e-5)


def test_responsibilities_of_the_start():
    theta = FORM.theta(np.array([0.6, 0.4]), np.array([[0.0], [6]]), np.array([[[1.0]], [[4]]]))
    mass = np.array([problem_rows(x, theta) for x in (0.0, 2.0)])
    np.testing.assert_allclose(mass, [[0.996311, 0.003689], [0.75, 0.25]], atol=5e-4)


def problem_rows(x, theta):
    return answered(FORM.e_step(theta), lambda part: part(np.array([[x]]), np.ones(1)))[0].mass


def test_reference_of_iris():
    m = GMM(n_components=3, reg_covar=0.0, tol=1e-14, max_iter=5000, n_init=2).fit(IRIS)
    assert m.log_likelihood_ == pytest.approx(-180.185477131303, abs=1e-9)
    np.testing.assert_allclose(m.weights_, [0.333333333333333, 0.299193187738886, 0.367473478927780], atol=1e-7)
    third = [6.544548649347891, 2.948661150019195, 5.479553434682861, 1.984604952851538]
    np.testing.assert_allclose(m.means_[2], third, atol=1e-6)
    assert m.score(IRIS) * 150 == pytest.approx(m.log_likelihood_, rel=1e-12)
    default = GMM(n_components=3, tol=1e-14, max_iter=5000, n_init=2).fit(IRIS)
    assert default.log_likelihood_ == pytest.approx(-180.185477131303, abs=1e-9)


def test_one_component_is_the_closed_form_in_one_step():
    m = GMM(n_components=1).fit(IRIS)
    np.testing.assert_allclose(m.means_[0], IRIS.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(m.covariances_[0], np.cov(IRIS.T, ddof=0), rtol=1e-11)
    assert (m.n_iter_, m.converged_) == (1, True)
    want = multivariate_normal(IRIS.mean(axis=0), np.cov(IRIS.T, ddof=0)).logpdf(IRIS).sum()
    assert m.log_likelihood_ == pytest.approx(want, rel=1e-12)


def test_a_positive_log_density_is_legal():
    x = [[-0.01], [0.0], [0.01]]
    m = GMM(n_components=1).fit(x)
    assert m.covariances_[0, 0, 0] == pytest.approx(2e-4 / 3, rel=1e-12)
    assert m.score(x) == pytest.approx(3.388964206838, abs=1e-12)


def test_unbounded_likelihood_is_floored_and_told_or_refused():
    x = np.array([[0.0], [0], [0], [10], [11], [12]])
    m = GMM().fit(x)
    assert m.covariances_[0, 0, 0] == pytest.approx(1e-6 * x.var(), rel=1e-9)
    assert m.floored_ == [0]
    assert "variance_floor" in codes(m)
    np.testing.assert_allclose(m.floor_, 1e-6 * x.var())
    assert all(c.holds for c in m.diagnostics(x).certificates)
    for kind in ("full", "tied", "diagonal", "isotropic"):
        refused = np.repeat([[0.0, 0.0], [5.0, 5.0]], 4, axis=0)
        with pytest.raises(InvalidData, match=r"no bound.*reg_covar"):
            GMM(reg_covar=0.0, covariance_type=kind).fit(refused)


@pytest.mark.parametrize("kind", ["full", "tied", "diagonal", "isotropic"])
def test_units_change_nothing(kind):
    one = GMM(n_components=3, covariance_type=kind).fit(IRIS)
    small = GMM(n_components=3, covariance_type=kind).fit(IRIS * 1e-4)
    assert adjusted_rand_score(one.predict(IRIS), small.predict(IRIS * 1e-4)) == 1.0
    np.testing.assert_allclose(small.predict_proba(IRIS * 1e-4), one.predict_proba(IRIS), atol=1e-6)
    if kind == "full":
        assert adjusted_rand_score(SPECIES, small.predict(IRIS * 1e-4)) == pytest.approx(0.904, abs=5e-4)
    if kind != "isotropic":
        scale = np.array([1e-6, 1.0, 1e5, 1e9])
        each = GMM(n_components=3, covariance_type=kind).fit(IRIS * scale + 3e3 * scale)
        np.testing.assert_allclose(each.predict_proba(IRIS * scale + 3e3 * scale), one.predict_proba(IRIS), atol=1e-5)


@pytest.mark.parametrize("kind", list(PEERS))
def test_scikit_learn_from_the_same_start(kind):
    X, z = drawn()
    m0 = np.stack([X[z == k].mean(axis=0) + 0.3 for k in range(3)])
    S0 = np.repeat(np.cov(X.T, ddof=0)[None], 3, axis=0)
    P0 = {"full": np.linalg.inv(S0), "tied": np.linalg.inv(S0[0]), "diagonal": 1 / np.einsum("kjj->kj", S0),
          "isotropic": 1 / np.einsum("kjj->k", S0) * 3}[kind]  # fmt: skip
    ours = GMM(n_components=3, covariance_type=kind, init="given", means_init=m0, covariances_init=S0, reg_covar=0.0,
               tol=1e-12, max_iter=3000).fit(X)  # fmt: skip
    peer = Peer(3, covariance_type=PEERS[kind], means_init=m0, precisions_init=P0, weights_init=np.full(3, 1 / 3),
                reg_covar=0.0, tol=1e-12, max_iter=3000).fit(X)  # fmt: skip
    assert ours.score(X) == pytest.approx(peer.score(X), abs=1e-10)
    np.testing.assert_allclose(ours.covariances_, peer.covariances_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-5)
    report = ours.diagnostics(X).summary
    assert report["parameters"] == peer._n_parameters()
    assert report["bic"] == pytest.approx(peer.bic(X), abs=1e-6)
    assert report["aic"] == pytest.approx(peer.aic(X), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", ["k_means", "random"])
def test_every_step_raises_the_likelihood(kind, init):
    X, _ = drawn(seed=1)
    m = GMM(n_components=4, covariance_type=kind, init=init, n_init=2, tol=1e-10, reg_covar=0.0).fit(X)
    steps = np.diff(m.solution_.trace)
    assert len(steps) > 1
    assert (steps >= -1e-12 * abs(m.log_likelihood_)).all()
    assert m.log_likelihood_ == pytest.approx(m.score_samples(X).sum(), rel=1e-12)
    report = m.diagnostics(X)
    of_covariances = {"full": 24, "tied": 6, "diagonal": 12, "isotropic": 4, "identity": 0}
    assert report.summary["parameters"] == 3 + 12 + of_covariances[kind]
    assert all(c.holds for c in report.certificates)


def test_monotone_with_an_active_floor():
    X = np.concatenate([drawn(60, 2, 2, 3)[0], np.zeros((6, 2))])
    for kind in ("full", "tied", "diagonal", "isotropic"):
        m = GMM(n_components=4, covariance_type=kind, reg_covar=0.4, tol=1e-10, n_init=1).fit(X)
        assert (np.diff(m.solution_.trace) >= -1e-12 * abs(m.log_likelihood_)).all()
        S = m.covariances_ if kind in ("full", "tied") else None
        least = np.linalg.eigvalsh(S).min() if S is not None else m.covariances_.min()
        assert least >= 0.4 * (1 - 1e-9)
        assert all(c.holds for c in m.diagnostics(X).certificates)


def test_certificates_fail_for_wrong_answers():
    m = GMM(n_components=3).fit(IRIS)
    m.means_ = m.means_ + 0.05
    held = {c.name: c.holds for c in m.diagnostics(IRIS).certificates}
    assert held == {"em_step_loss": True, "em_step_gain": False}


def test_known_labels_give_the_class_estimates():
    qda = QuadraticDiscriminantAnalysis().fit(IRIS, SPECIES)
    s = np.ones(150)
    frame = Frame.of_rows(IRIS, s, "full", None)
    theta = frame.outside(frame.form.maximise(of_labels(frame.rows(IRIS), s, SPECIES, 3, diagonal=False)))
    np.testing.assert_allclose(theta.means, qda.means_, rtol=1e-12)
    np.testing.assert_allclose(theta.covariances, qda.covariances_, rtol=1e-9, atol=1e-12)


def test_far_jump_of_a_narrow_component_keeps_its_variance():
    r = np.random.default_rng(7)
    X = np.concatenate([r.normal(0, 1e-3, 50), r.normal(100, 1e-3, 50)])[:, None]
    m = GMM(init="given", means_init=[[-5e3], [6e3]], covariances_init=[[[1e4]], [[1e4]]], reg_covar=0.0).fit(X)
    np.testing.assert_allclose(m.covariances_.ravel(), [X[:50].var(), X[50:].var()], rtol=1e-9)


def test_integer_weights_repeat_rows():
    X, z = drawn(seed=2)
    s = np.random.default_rng(8).integers(1, 4, len(X))
    m0 = np.stack([X[z == k].mean(axis=0) for k in range(3)])
    one = GMM(n_components=3, init="given", means_init=m0, tol=1e-12, max_iter=2000).fit(X, sample_weight=s)
    two = GMM(n_components=3, init="given", means_init=m0, tol=1e-12, max_iter=2000).fit(np.repeat(X, s, axis=0))
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, rel=1e-12)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-8)
    tiny = GMM(n_components=3, init="given", means_init=m0, tol=1e-12, max_iter=2000).fit(X, sample_weight=s * 1e-9)
    np.testing.assert_allclose(tiny.predict_proba(X), one.predict_proba(X), atol=1e-8)


def test_empty_component_is_restarted_and_told():
    X = np.concatenate([np.random.default_rng(9).normal(m, 1, size=(40, 2)) for m in (0.0, 12.0)])
    far = [[0.0, 0.0], [12.0, 12.0], [1e6, 1e6]]
    m = GMM(n_components=3, init="given", means_init=far, covariances_init=[np.eye(2).tolist()] * 3).fit(X)
    assert m.resets_ >= 1
    assert "empty_component" in codes(m)
    assert np.isfinite(m.score_samples(X)).all()
    assert (m.weights_ > 0).all()
    np.testing.assert_allclose(m.weights_.sum(), 1)


def test_duplicates_and_constant_columns():
    m = GMM(n_components=3).fit(np.repeat([[1.0, 2.0], [5.0, 2.0]], 6, axis=0))
    assert {"constant_column", "variance_floor"} <= set(codes(m))
    assert np.isfinite(m.score_samples([[1.0, 2.0], [7.0, 3.0]])).all()
    flat = GMM(n_components=2).fit(np.ones((5, 2)))
    assert np.isfinite(flat.predict_proba([[1.0, 1.0], [2.0, 0.0]])).all()


def test_more_rows_than_a_block_and_any_number_of_threads():
    X, _ = drawn(9001, 4, 3, 4)
    fits = []
    for n in (1, 2, 5):
        with use_threads(n):
            fits.append(GMM(n_components=3, n_init=1, tol=1e-8).fit(X))
    for m in fits[1:]:
        np.testing.assert_array_equal(m.covariances_, fits[0].covariances_)
    np.testing.assert_allclose(fits[0].score_samples(X).sum(), fits[0].log_likelihood_, rtol=1e-12)


def test_density_is_scipys_and_posterior_its_shares():
    m = GMM(n_components=3).fit(IRIS)
    parts = zip(m.weights_, m.means_, m.covariances_, strict=True)
    joint = np.stack([w * multivariate_normal(a, S).pdf(IRIS) for w, a, S in parts])
    np.testing.assert_allclose(m.score_samples(IRIS), np.log(joint.sum(axis=0)), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(m.predict_proba(IRIS), (joint / joint.sum(axis=0)).T, atol=1e-9)
    np.testing.assert_array_equal(m.predict(IRIS), joint.argmax(axis=0))
    batch = m.posterior(IRIS)
    assert batch.classes == [0, 1, 2]
    np.testing.assert_array_equal(batch.probabilities, m.predict_proba(IRIS))
    assert (np.diff(m.means_[:, 0]) > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_samples_have_the_moments(kind):
    X, _ = drawn(500, 2, 2, 5)
    m = GMM(covariance_type=kind, n_init=1).fit(X)
    rows, z = m.sample(60_000, random_state=3)
    S = m._stack()
    for k in range(2):
        want = np.diag(S[k, :, 0]) if S.shape[2] == 1 else S[k]
        np.testing.assert_allclose(np.cov(rows[z == k].T), want, atol=0.05 * np.abs(want).max())
        np.testing.assert_allclose(rows[z == k].mean(axis=0), m.means_[k], atol=0.06 * np.sqrt(np.abs(want).max()))
        assert np.mean(z == k) == pytest.approx(m.weights_[k], abs=0.01)


def test_every_iteration_ticks():
    seen = []
    with progress.listen(seen.append):
        m = GMM(n_components=3, n_init=2, init="random", max_iter=40).fit(IRIS)
    assert len(seen) >= m.n_iter_
    assert {t.total for t in seen} == {80}
    assert seen[-1].metrics["objective"] == pytest.approx(m.start_log_likelihoods_[-1] / 150)


def test_best_start_is_kept():
    m = GMM(n_components=3, n_init=5).fit(IRIS)
    assert len(m.start_log_likelihoods_) == 5
    assert m.log_likelihood_ == max(m.start_log_likelihoods_)
    assert m.diagnostics(IRIS).tables["starts"].rows[0] == [0, m.start_log_likelihoods_[0]]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"init": "given"}, "means_init of shape"),
        ({"init": "given", "means_init": [[0.0, 1]]}, "means_init of shape"),
        ({"init": "given", "means_init": [[0.0], [1]], "weights_init": [0.5, 0.6]}, "sum to 1"),
        ({"init": "given", "means_init": [[0.0], [1]], "weights_init": [1.5, -0.5]}, "sum to 1"),
        ({"init": "given", "means_init": [[0.0], [1]], "covariances_init": [[[1.0]], [[-1.0]]]}, "positive definite"),
        ({"covariance_type": "spherical"}, "isotropic"),
        ({"n_components": 0}, "greater than or equal to 1"),
        ({"reg_covar": -1.0}, "greater than or equal to 0"),
        ({"tol": 0.0}, "greater than 0"),
    ],
)
def test_refuses_parameters(bad, words):
    with pytest.raises(InvalidParameter, match=words):
        GMM(**bad).fit(FIVE)


def test_refuses_more_components_than_rows():
    with pytest.raises(InvalidParameter, match="at least 6 rows"):
        GMM(n_components=6).fit(FIVE)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e3, 1e3)), min_size=3, max_size=20), st.integers(1, 3))
def test_any_finite_rows_get_an_answer(rows, K):
    X = np.array(rows)
    X[np.abs(X) < 1e-150] = 0.0
    m = GMM(n_components=K, n_init=1, max_iter=30).fit(X)
    P = m.predict_proba(X)
    assert np.isfinite(m.score_samples(X)).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-12)


def test_em_stops_by_gain_or_count_and_reports_a_break():
    def e_step(x):
        return x, -((x - 1) ** 2)

    def m_step(x, expected):
        if expected > 5:
            raise Unbounded("too far")
        return 0.5 * (expected + 1)

    def flat(x):
        return np.array([x])

    def steps(start, stop):
        return em(start, at_once(e_step), at_once(m_step), flat, stop)

    near = answered(steps(0.0, Stop(1e-8, 100, 1.0)))
    assert near.solution.reason == "objective"
    assert near.solution.trace == sorted(near.solution.trace)
    short = answered(steps(0.0, Stop(1e-8, 3, 1.0)))
    assert (short.solution.reason, short.solution.n_iter, short.theta) == ("max_iter", 3, 0.875)
    broken = answered(steps(9.0, Stop(1e-8, 3, 1.0)))
    assert (broken.solution.reason, broken.failure, broken.theta) == ("diverged", "too far", 9.0)
    best, tried = restarts([broken, short, near])
    assert best is near
    assert len(tried) == 3
    assert restarts([broken])[0] is None
