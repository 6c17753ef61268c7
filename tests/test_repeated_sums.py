"""Models fitted by repeated sums over chunks: k-means, mixtures, logistic regression, against fits in memory."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans as PeerKMeans
from sklearn.linear_model import LogisticRegression as PeerLogistic

from ml_core import progress
from ml_core.base import clone
from ml_core.cluster.k_means import KMeans
from ml_core.errors import Cancelled, InvalidData, InvalidParameter
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.mixture.gaussian_mixture import GaussianMixture
from ml_core.numerics.column_sums import ColumnSums
from ml_core.parallel import use_mapper, use_threads
from ml_core.solvers.base import answered, together, translated
from ml_core.solvers.sample import Draw
from ml_core.sums import diagnose_chunks, fit_chunks


@dataclass(frozen=True)
class Cuts:
    """Rows cut at the given places."""

    X: np.ndarray
    y: Any
    s: Any
    at: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.at) + 1

    def read(self, i: int) -> tuple[Any, Any, Any]:
        r = slice((0, *self.at)[i], (*self.at, len(self.X))[i])
        return self.X[r], None if self.y is None else self.y[r], None if self.s is None else self.s[r]
OF_ROWS = ("largest_leverage", "largest_cook_distance", "largest_studentized_residual")


def cut(X, y=None, s=None, pieces=5, seed=0):
    """Random cuts, empty pieces among them."""
    at = np.sort(np.random.default_rng(seed).integers(0, len(X) + 1, pieces - 1))
    return Cuts(X, y, s, tuple(at.tolist()))


def elsewhere(function, items, shared):
    """An engine: everything travels as bytes, and nobody has threads."""
    for item in items:
        f, i, args = pickle.loads(pickle.dumps((function, item, shared)))
        with use_threads(1):
            found = f(i, *args)
        yield pickle.loads(pickle.dumps(found))


def state(model):
    return {k: v for k, v in vars(model).items() if k.endswith("_")}


def check_same_state(a, b):
    one, two = state(a), state(b)
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert pickle.dumps(value) == pickle.dumps(two[name]), name


def codes(model):
    return [n.code for n in model.notices_]


def assert_certified(found):
    assert found.certificates
    assert all(c.holds for c in found.certificates), found.certificates
    found.to_json()


def groups(n=600, d=4, k=5, seed=0, offset=0.0):
    r = np.random.default_rng(seed)
    return offset + r.normal(size=(n, d)) + 3 * r.normal(size=(k, d))[r.integers(k, size=n)]


# the pieces


@given(st.lists(st.tuples(st.floats(-1e300, 1e300), st.integers(-3, 3)), min_size=2, max_size=30), st.data())
@settings(max_examples=50, deadline=None)
def test_column_sums_merge_to_those_of_all_rows(rows, data):
    X = np.array(rows, dtype=float)
    s = np.random.default_rng(len(X)).uniform(0.1, 3, len(X))
    k = data.draw(st.integers(1, len(X) - 1))
    whole, merged = ColumnSums.of(X, s), ColumnSums.of(X[:k], s[:k]).merge(ColumnSums.of(X[k:], s[k:]))
    np.testing.assert_array_equal(whole.constant, merged.constant)
    reach = np.abs(X).max(axis=0)
    np.testing.assert_allclose(merged.mean / (reach + 1e-300), whole.mean / (reach + 1e-300), atol=1e-14)
    np.testing.assert_allclose(merged.sd / (reach + 1e-300), whole.sd / (reach + 1e-300), atol=1e-13)


@given(st.integers(1, 60), st.integers(1, 25), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_the_sample_depends_neither_on_cuts_nor_on_order(n, size, seed):
    r = np.random.default_rng(seed)
    X, s = r.integers(0, 4, size=(n, 2)).astype(float), r.integers(1, 5, size=n).astype(float)
    part = Draw(size, seed, whole=False)
    whole, k, order = part(X, s), int(r.integers(1, n + 1)), r.permutation(n)
    for A, w in ((X, s), (X[order] * np.where(X[order] == 0, -1.0, 1.0), s[order])):
        merged = part(A[:k], w[:k]).merge(part(A[k:], w[k:])) if k < n else part(A, w)
        np.testing.assert_array_equal(merged.X, whole.X)
        np.testing.assert_array_equal(merged.s, whole.s)
    distinct = np.unique(X, axis=0)
    assert len(whole.X) == min(size, len(distinct))
    for row, weight in zip(whole.X, whole.s, strict=True):
        assert weight == s[(row == X).all(axis=1)].sum()


def test_the_sample_is_uniform():
    X = np.arange(1000.0)[:, None]
    hits = sum(np.isin(X[:, 0], Draw(100, seed, whole=False)(X, np.ones(1000)).X[:, 0]) for seed in range(200))
    assert abs(hits[:500].sum() - 10000) < 400
    assert hits.min() > 3
    assert hits.max() < 45


# k-means


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
def test_k_means_from_given_centres_is_that_of_memory_and_of_the_peer(offset, weighted):
    X = groups(offset=offset)
    s = np.random.default_rng(1).uniform(0.5, 2, len(X)) if weighted else None
    memory = KMeans(n_clusters=5, init=X[:5]).fit(X, sample_weight=s)
    chunked = fit_chunks(KMeans(n_clusters=5, init=X[:5]), cut(X, None, s))
    np.testing.assert_allclose(chunked.cluster_centers_, memory.cluster_centers_, rtol=1e-12, atol=1e-11)
    np.testing.assert_array_equal(chunked.predict(X), memory.labels_)
    assert chunked.inertia_ == pytest.approx(memory.inertia_, rel=1e-12)
    assert chunked.n_iter_ > 2
    peer = PeerKMeans(5, init=X[:5], n_init=1, tol=0, algorithm="lloyd").fit(X, sample_weight=s)
    np.testing.assert_array_equal(chunked.predict(X), peer.labels_)
    found = diagnose_chunks(chunked, cut(X, None, s, seed=3))
    assert_certified(found)
    inside = memory.diagnostics(X, sample_weight=s)
    assert found.summary["total_inertia"] == pytest.approx(inside.summary["total_inertia"], rel=1e-9)
    np.testing.assert_allclose(
        np.array(found.tables["clusters"].rows), np.array(inside.tables["clusters"].rows), rtol=1e-9
    )


@pytest.mark.parametrize("init", ["kmeans++", "forgy", "random_partition"])
def test_k_means_that_samples_finds_an_optimum_as_good(init, monkeypatch):
    monkeypatch.setattr("ml_core.cluster.k_means.room", lambda d: 100)
    X = groups(900, 3, 4, seed=2)
    memory = KMeans(n_clusters=4).fit(X)
    chunked = fit_chunks(KMeans(n_clusters=4, init=init, n_init=4), cut(X, pieces=7))
    other = fit_chunks(KMeans(n_clusters=4, init=init, n_init=4), cut(X, pieces=2, seed=5))
    assert chunked.inertia_ == pytest.approx(memory.inertia_, rel=1e-9)
    assert chunked.inertias_.shape == (4,)
    np.testing.assert_allclose(chunked.inertias_, other.inertias_, rtol=1e-12)
    trace = chunked.objective_trace_
    assert (np.diff(trace) <= 0).all()
    assert_certified(diagnose_chunks(chunked, cut(X)))


def test_k_means_bits_do_not_depend_on_who_computes():
    X = groups(seed=4)
    model = KMeans(n_clusters=5, init=X[:5])
    with use_threads(3):
        one = fit_chunks(pickle.loads(pickle.dumps(model)), cut(X))
    with use_mapper(elsewhere):
        two = fit_chunks(pickle.loads(pickle.dumps(model)), cut(X))
    check_same_state(one, two)


def test_k_means_fills_empty_clusters():
    X = np.concatenate([groups(100, 2, 1, seed=5), [[1e3, 1e3]], [[-2e3, 5.0]]])
    init = np.array([[0.0, 0.0], [1e6, 0.0], [0.0, 1e6]])
    memory = KMeans(n_clusters=3, init=init).fit(X)
    chunked = fit_chunks(KMeans(n_clusters=3, init=init), cut(X))
    assert chunked.relocated_ == memory.relocated_ > 0
    assert "empty_cluster" in codes(chunked)
    np.testing.assert_array_equal(chunked.predict(X), memory.labels_)
    assert_certified(diagnose_chunks(chunked, cut(X)))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=4, max_size=25), st.integers(1, 4),
       st.integers(0, 5))  # fmt: skip
def test_k_means_of_tied_and_repeated_rows_is_certified(rows, k, seed):
    X = np.array(rows, dtype=float)
    chunks = cut(X, pieces=3, seed=seed)
    model = fit_chunks(KMeans(n_clusters=k, init="forgy", n_init=2), chunks)
    assert "not_converged" not in codes(model)
    assert_certified(diagnose_chunks(model, chunks))
    given = fit_chunks(KMeans(n_clusters=k, init=X[:k]), chunks)
    assert "not_converged" not in codes(given)
    assert len(given.cluster_centers_) == min(k, len(np.unique(X, axis=0)))


def test_k_means_certificates_fail_for_wrong_centres():
    X = groups()
    model = fit_chunks(KMeans(n_clusters=5), cut(X))
    model.cluster_centers_ = model.cluster_centers_ + 1e-3
    held = {c.name: c.holds for c in diagnose_chunks(model, cut(X)).certificates}
    assert not held["centre_is_mean"]
    assert not held["inertia_gap"]


def test_k_means_refusals_exhaustive_and_curve():
    X = groups(12, 2, 3)
    with pytest.raises(InvalidParameter, match="n_samples=12"):
        fit_chunks(KMeans(n_clusters=13), cut(X))
    exact = fit_chunks(KMeans(n_clusters=3, algorithm="exhaustive", curve=4), cut(X, pieces=3))
    memory = KMeans(n_clusters=3, algorithm="exhaustive", curve=4).fit(X)
    assert exact.inertia_ == pytest.approx(memory.inertia_, rel=1e-12)
    np.testing.assert_allclose(exact.inertia_curve_, memory.inertia_curve_, rtol=1e-9)
    with pytest.raises(InvalidData, match="exhaustive"):
        fit_chunks(KMeans(algorithm="exhaustive"), cut(groups()))
    short = fit_chunks(KMeans(n_clusters=5, init=groups()[:5], max_iter=1), cut(groups()))
    assert "not_converged" in codes(short)
    assert short.n_iter_ == 1


def test_k_means_curve_of_a_sample_says_so(monkeypatch):
    monkeypatch.setattr("ml_core.cluster.k_means.room", lambda d: 200)
    X = groups(1000, 3, 4)
    model = fit_chunks(KMeans(n_clusters=4, curve=5, n_init=2), cut(X))
    assert "curve_of_sample" in codes(model)
    assert model.inertia_curve_[3] == pytest.approx(model.inertia_, rel=0.2)


# Gaussian mixtures

KINDS = ["full", "tied", "diagonal", "isotropic", "identity"]


def assert_same_mixture(chunked, memory, X):
    """To 12 digits; log-densities of rows to 1e-10 nats."""
    assert chunked.log_likelihood_ == pytest.approx(memory.log_likelihood_, rel=1e-12)
    np.testing.assert_allclose(chunked.score_samples(X), memory.score_samples(X), atol=1e-10)
    np.testing.assert_allclose(chunked.weights_, memory.weights_, rtol=1e-10)
    np.testing.assert_allclose(chunked.covariances_, memory.covariances_, rtol=1e-9, atol=1e-10)
    assert (chunked.n_iter_, chunked.resets_, codes(chunked)) == (memory.n_iter_, memory.resets_, codes(memory))


def test_generators_run_side_by_side_and_share_their_questions():
    def asks(*questions):
        told = []
        for q in questions:
            told.append((yield lambda x, q=q: Total(q * x)))
        return [t.value for t in told]

    rounds = []

    def answer(bundle):
        rounds.append(len(bundle.parts))
        return bundle(3).merge(bundle(4))

    assert answered(together([asks(1, 2), asks(), asks(10)]), answer) == [[7, 14], [], [70]]
    assert rounds == [2, 1]
    assert answered(together([asks(), asks()])) == [[], []]
    doubled = translated(asks(1, 5), lambda part: lambda x: part(2 * x))
    assert answered(doubled, lambda part: part(1)) == [2, 10]


@dataclass(frozen=True)
class Total:
    value: int

    def merge(self, other):
        return Total(self.value + other.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", ["given", "k_means", "random"])
@pytest.mark.parametrize(("weighted", "offset"), [(False, 0.0), (True, 1e6)])
def test_mixtures_are_those_of_memory(kind, init, weighted, offset):
    X = groups(300, 3, 4, offset=offset)
    s = np.random.default_rng(1).uniform(0.5, 2, len(X)) if weighted else None
    model = GaussianMixture(n_components=4, covariance_type=kind, init=init, n_init=2, tol=1e-7,
                            means_init=X[:4] if init == "given" else None)  # fmt: skip
    memory = clone(model).fit(X, sample_weight=s)
    chunked = fit_chunks(clone(model), cut(X, None, s))
    assert_same_mixture(chunked, memory, X)
    np.testing.assert_allclose(chunked.solution_.trace, memory.solution_.trace, rtol=1e-12)
    np.testing.assert_allclose(chunked.start_log_likelihoods_, memory.start_log_likelihoods_, rtol=1e-11)
    found, inside = diagnose_chunks(chunked, cut(X, None, s, seed=3)), memory.diagnostics(X, sample_weight=s)
    assert_certified(found)
    for name, value in inside.summary.items():
        assert found.summary[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
    for name, table in inside.tables.items():
        np.testing.assert_allclose(np.array(found.tables[name].rows), np.array(table.rows), rtol=1e-7)


@given(st.sampled_from(KINDS), st.lists(st.integers(0, 120), max_size=8), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_mixtures_do_not_depend_on_cuts(kind, at, seed):
    X = groups(120, 2, 3, seed=seed)
    s = np.random.default_rng(seed).integers(0, 4, len(X)).astype(float)
    model = GaussianMixture(n_components=3, covariance_type=kind, init="given", means_init=X[:3], tol=1e-7)
    chunked = fit_chunks(clone(model), Cuts(X, None, s, tuple(sorted(at))))
    repeated = clone(model).fit(np.repeat(X, s.astype(int), axis=0))
    assert chunked.log_likelihood_ == pytest.approx(repeated.log_likelihood_, rel=1e-10)
    assert_same_mixture(chunked, clone(model).fit(X, sample_weight=s), X)


@pytest.mark.parametrize("kind", KINDS)
def test_mixtures_that_sample_their_starts_find_an_optimum_as_good(kind, monkeypatch):
    monkeypatch.setattr("ml_core.mixture.gaussian_mixture.room", lambda d: 100)
    X = groups(900, 3, 4, seed=2)
    for init in ("k_means", "random"):
        model = GaussianMixture(n_components=4, covariance_type=kind, init=init, n_init=3, tol=1e-7, max_iter=2000)
        memory = clone(model).fit(X)
        chunked = fit_chunks(clone(model), cut(X, pieces=7))
        assert chunked.log_likelihood_ >= memory.log_likelihood_ - 1e-4 * len(X)
        assert chunked.log_likelihood_ == pytest.approx(chunked.score_samples(X).sum(), rel=1e-12)
        assert (np.diff(chunked.solution_.trace) >= -1e-12 * abs(chunked.log_likelihood_)).all()
        assert_certified(diagnose_chunks(chunked, cut(X)))
        other = fit_chunks(clone(model), cut(X, pieces=2, seed=5))
        np.testing.assert_allclose(other.start_log_likelihoods_, chunked.start_log_likelihoods_, rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sample", [50, 1000])
def test_bits_of_mixtures_do_not_depend_on_who_computes(kind, sample, monkeypatch):
    monkeypatch.setattr("ml_core.mixture.gaussian_mixture.room", lambda d: sample)
    X = groups(200, 3, 3, seed=4)
    model = GaussianMixture(n_components=3, covariance_type=kind, n_init=2)
    with use_threads(3):
        one = fit_chunks(clone(model), cut(X))
    with use_mapper(elsewhere):
        two = fit_chunks(clone(model), cut(X))
    check_same_state(one, two)


@pytest.mark.parametrize("kind", KINDS)
def test_mixtures_revive_empty_components(kind):
    X = np.random.default_rng(9).normal(size=(80, 2)) + np.repeat([0.0, 12.0], 40)[:, None]
    model = GaussianMixture(n_components=4, covariance_type=kind, init="given", covariances_init=[np.eye(2)] * 4,
                            means_init=[[0.0, 0.0], [12.0, 12.0], [1e6, 1e6], [-1e6, 1e6]])  # fmt: skip
    for seed in range(3):
        chunked = fit_chunks(clone(model), cut(X, seed=seed))
        assert chunked.resets_ >= 2
        assert_same_mixture(chunked, clone(model).fit(X), X)


def test_far_jump_of_a_narrow_component_keeps_its_variance_over_chunks():
    r = np.random.default_rng(7)
    X = np.concatenate([r.normal(0, 1e-3, 50), r.normal(100, 1e-3, 50)])[:, None]
    model = GaussianMixture(init="given", means_init=[[-5e3], [6e3]], covariances_init=[[[1e4]], [[1e4]]], reg_covar=0)
    found = fit_chunks(model, cut(X)).covariances_.ravel()
    np.testing.assert_allclose(found, [X[:50].var(), X[50:].var()], rtol=1e-9)


def test_mixture_floors_refusals_and_wrong_answers():
    X = np.repeat([[1.0, 2.0], [5.0, 2.0]], 6, axis=0)
    floored = fit_chunks(GaussianMixture(n_init=1), cut(X, pieces=3))
    assert {"constant_column", "variance_floor"} <= set(codes(floored))
    assert_certified(diagnose_chunks(floored, cut(X)))
    with pytest.raises(InvalidData, match=r"no bound.*reg_covar"):
        fit_chunks(GaussianMixture(reg_covar=0.0), cut(X))
    with pytest.raises(InvalidParameter, match="at least 13 rows"):
        fit_chunks(GaussianMixture(n_components=13), cut(X))
    with pytest.raises(InvalidParameter, match="means_init of shape"):
        fit_chunks(GaussianMixture(init="given"), cut(X))
    model = fit_chunks(GaussianMixture(n_components=3), cut(groups()))
    model.means_ = model.means_ + 0.05
    held = {c.name: c.holds for c in diagnose_chunks(model, cut(groups())).certificates}
    assert held == {"em_step_loss": True, "em_step_gain": False}


def test_mixtures_with_fewer_distinct_rows_than_a_start_needs(monkeypatch):
    monkeypatch.setattr("ml_core.mixture.gaussian_mixture.room", lambda d: 4)
    X = np.repeat([[1.0, 2.0], [5.0, 3.0]], 20, axis=0)
    for init in ("k_means", "random"):
        model = fit_chunks(GaussianMixture(n_components=3, init=init, n_init=2), cut(X))
        assert np.isfinite(model.score_samples(X)).all()


# logistic regression


def labelled(n=400, d=4, K=2, seed=0, offset=0.0):
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d)) * np.logspace(-2, 2, d) + offset
    U = (X - offset) / np.logspace(-2, 2, d) @ r.normal(size=(d, K)) + r.gumbel(size=(n, K))
    return X, np.array(["ape", "bee", "cat", "dog"])[U.argmax(axis=1)]


def assert_same_regression(chunked, memory, X, digits=1e-9):
    """Coefficients in standard deviations of their columns, relative to the largest."""
    unit = X.std(axis=0) + (X.std(axis=0) == 0)
    one, two = chunked.coef_ * unit, memory.coef_ * unit
    np.testing.assert_allclose(one, two, rtol=0, atol=digits * np.abs(two).max())
    np.testing.assert_allclose(chunked.predict_proba(X), memory.predict_proba(X), atol=digits)
    assert (chunked.separation_, codes(chunked)) == (memory.separation_, codes(memory))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("params", [
    {}, {"alpha": 0.7}, {"fit_intercept": False}, {"alpha": 2.0, "parametrization": "reference"},
    {"class_weight": "balanced"}, {"class_weight": {"ape": 3.0}, "alpha": 1.0},
], ids=str)  # fmt: skip
@pytest.mark.parametrize(("weighted", "offset"), [(False, 0.0), (True, 1e4)])
def test_logistic_regression_is_that_of_memory_and_of_the_peer(K, params, weighted, offset):
    offset *= params.get("fit_intercept", True)  # without an intercept, columns far from 0 are nearly dependent
    X, y = labelled(K=K, offset=offset)
    s = np.random.default_rng(1).integers(0, 4, len(X)).astype(float) if weighted else None
    model = LogisticRegression(**params)
    memory, chunked = clone(model).fit(X, y, sample_weight=s), fit_chunks(clone(model), cut(X, y, s))
    lost = 1e-9 + 1e-15 * offset / X.std(axis=0).min()
    assert_same_regression(chunked, memory, X, lost)
    if not offset and "parametrization" not in params:
        alpha = params.get("alpha", 0.0)
        peer = PeerLogistic(C=1 / alpha if alpha else np.inf, solver="newton-cholesky", tol=1e-12, max_iter=500,
                            fit_intercept=params.get("fit_intercept", True), class_weight=params.get("class_weight"))
        np.testing.assert_allclose(chunked.predict_proba(X), peer.fit(X, y, s).predict_proba(X), atol=1e-7)
    found, inside = diagnose_chunks(chunked, cut(X, y, s, seed=3)), memory.diagnostics(X, y, sample_weight=s)
    assert_certified(found)
    assert [c.name for c in found.certificates] == [c.name for c in inside.certificates]
    for name, value in inside.summary.items():
        if name not in ("iterations", "hessian_condition", *OF_ROWS):
            assert found.summary[name] == pytest.approx(value, rel=100 * lost), name
    assert not set(OF_ROWS) & set(found.summary)
    for a, b in zip(found.tables["coefficients"].rows, inside.tables["coefficients"].rows, strict=True):
        assert (a[:2], a[9]) == (b[:2], b[9])
        if b[3] is not None:
            np.testing.assert_allclose(a[2:8], b[2:8], rtol=1e3 * lost, atol=1e-12)


@given(st.lists(st.integers(0, 80), max_size=8), st.integers(0, 99), st.sampled_from([2, 3]))
@settings(max_examples=25, deadline=None)
def test_logistic_regression_does_not_depend_on_cuts(at, seed, K):
    X, y = labelled(80, 2, K, seed)
    s = np.random.default_rng(seed).integers(0, 4, len(X)).astype(float)
    chunked = fit_chunks(LogisticRegression(alpha=0.1), Cuts(X, y, s, tuple(sorted(at))))
    repeated = LogisticRegression(alpha=0.1).fit(np.repeat(X, s.astype(int), axis=0), np.repeat(y, s.astype(int)))
    assert_same_regression(chunked, repeated, X)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("separated", [False, True])
def test_bits_of_logistic_regression_do_not_depend_on_who_computes(K, separated):
    X, y = labelled(K=K)
    X = np.column_stack([X, y == "ape"]) if separated else X
    with use_threads(3):
        one = fit_chunks(LogisticRegression(), cut(X, y))
    with use_mapper(elsewhere):
        two = fit_chunks(LogisticRegression(), cut(X, y))
    check_same_state(one, two)
    assert (one.separation_ != "none") == separated


def test_bits_of_a_large_chunk_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr("ml_core.solvers.linear_objective.CHUNK_CELLS", 100)
    X, y = labelled(2000)
    found = []
    for n in (1, 3):
        with use_threads(n):
            found.append(fit_chunks(LogisticRegression(alpha=1.0), cut(X, y, pieces=2)))
    check_same_state(*found)
    assert_same_regression(found[0], LogisticRegression(alpha=1.0).fit(X, y), X)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("kind", ["none", "quasi", "complete"])
def test_separation_is_found_over_chunks(K, kind):
    X, y = labelled(300, 3, K, seed=3)
    if kind == "quasi":
        X = np.column_stack([X, (y == "ape") * (np.arange(300) % 2)])
    elif kind == "complete":
        X = np.column_stack([X, (y[:, None] == np.unique(y)) @ np.eye(K)[:, 1:] * 5 + X[:, :1]])
    memory, chunked = LogisticRegression().fit(X, y), fit_chunks(LogisticRegression(), cut(X, y))
    assert chunked.separation_ == memory.separation_ == kind
    assert codes(chunked) == codes(memory) == ([] if kind == "none" else ["separable"])
    U = np.column_stack([np.zeros(len(X)), X @ chunked.separating_direction_.T])
    if kind == "complete":  # between every two classes there is a place for the intercept
        for a, one in enumerate(chunked.classes_):
            for b, two in enumerate(chunked.classes_[:a]):
                gap = U[:, a] - U[:, b]
                assert gap[y == one].min() > gap[y == two].max()
    assert (np.abs(U).max() > 1e-6) == (kind != "none")
    dropped = {"class_weight": {"cat": 0.0}} if K == 3 else {}
    again = fit_chunks(LogisticRegression(**dropped), Cuts(X[np.argsort(y)], np.sort(y), None, (250,)))
    assert again.separation_ == LogisticRegression(**dropped).fit(X, y).separation_
    found = diagnose_chunks(chunked, cut(X, y, seed=2))
    assert found.summary["log_likelihood"] == pytest.approx(memory.diagnostics(X, y).summary["log_likelihood"], abs=0.5)
    assert all(r[9] == (None if kind == "none" else "separable") for r in found.tables["coefficients"].rows)


@pytest.mark.parametrize("K", [2, 3])
def test_separation_in_too_many_columns_for_a_program_is_shown_or_suspected(K, monkeypatch):
    monkeypatch.setattr("ml_core.solvers.separation_sums.MOST_UNKNOWNS", 2)
    monkeypatch.setattr("ml_core.linear.logistic_regression.MOST_UNKNOWNS", 2)
    X, y = labelled(300, 3, K, seed=3)
    apart = np.column_stack([X, (y[:, None] == np.unique(y)) @ np.eye(K)[:, 1:] * 5 + X[:, :1]])
    complete = fit_chunks(LogisticRegression(), cut(apart, y))
    assert (complete.separation_, codes(complete)) == ("complete", ["separable"])
    partly = np.column_stack([X, (y == "ape") * (np.arange(300) % 2)])
    quasi = fit_chunks(LogisticRegression(max_iter=18), cut(partly, y))
    assert (quasi.separation_, codes(quasi)) == ("none", ["not_converged", "separation_suspected"])
    assert codes(fit_chunks(LogisticRegression(), cut(X, y))) == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(0, 2)), min_size=4, max_size=20),
       st.integers(0, 5))  # fmt: skip
def test_separation_of_small_tables_is_that_of_memory(rows, seed):
    table = np.array(rows, dtype=float)
    X, y = table[:, :2], table[:, 2]
    if len(np.unique(y)) < 2:
        y[0] = y[0] + 1
    memory, chunked = LogisticRegression().fit(X, y), fit_chunks(LogisticRegression(), cut(X, y, pieces=3, seed=seed))
    assert chunked.separation_ == memory.separation_
    if memory.separation_ == "none":
        np.testing.assert_allclose(chunked.predict_proba(X), memory.predict_proba(X), atol=1e-8)


def test_logistic_regression_without_a_hessian_other_solvers_and_wrong_answers(monkeypatch):
    X, y = labelled()
    memory = LogisticRegression(alpha=1.0).fit(X, y)
    other = fit_chunks(LogisticRegression(alpha=1.0, solver="sgd"), cut(X, y))
    assert codes(other) == ["solver_changed"]
    np.testing.assert_allclose(other.coef_, memory.coef_, rtol=1e-9)
    short = fit_chunks(LogisticRegression(max_iter=1), cut(X, y))
    assert codes(short) == ["not_converged"]
    assert not diagnose_chunks(short, cut(X, y)).certificates[0].holds
    other.coef_ = other.coef_ * 1.01
    held = {c.name: c.holds for c in diagnose_chunks(other, cut(X, y)).certificates}
    assert not held["gradient_norm"]
    assert not held["duality_gap"]
    with pytest.raises(InvalidParameter, match="the labels are"):
        fit_chunks(LogisticRegression(class_weight={"emu": 1.0}), cut(X, y))
    with pytest.raises(InvalidData, match="class_weight is 0"):
        fit_chunks(LogisticRegression(class_weight={"ape": 0.0, "bee": 0.0}), cut(X, y))
    monkeypatch.setattr("ml_core.linear.logistic_regression.NEWTON_UNKNOWNS", 3)
    wide = fit_chunks(LogisticRegression(alpha=1.0), cut(X, y))
    assert codes(wide) == ["solver_changed"]
    np.testing.assert_allclose(wide.predict_proba(X), memory.predict_proba(X), atol=1e-8)


def test_constant_columns_and_far_units_of_logistic_regression_over_chunks():
    X, y = labelled(200, 3)
    X = np.column_stack([X * [1e-150, 1.0, 1e150], np.full(200, 1e8)])
    memory, chunked = LogisticRegression().fit(X, y), fit_chunks(LogisticRegression(), cut(X, y))
    assert codes(chunked) == codes(memory) == ["constant_column"]
    np.testing.assert_allclose(chunked.coef_, memory.coef_, rtol=1e-9, atol=1e-15)
    assert_certified(diagnose_chunks(chunked, cut(X, y)))


@pytest.mark.parametrize("model", [KMeans(n_clusters=3), GaussianMixture(n_components=3, n_init=2)])
def test_a_listener_sees_passes_and_can_stop_them(model):
    X = groups(200, 3)
    units = set()
    with progress.listen(lambda t: units.add(t.unit)):
        fit_chunks(model, cut(X))
    assert {"chunks", "iterations"} <= units

    def stop(t):
        raise Cancelled

    with progress.listen(stop), pytest.raises(Cancelled):
        fit_chunks(model, cut(X))
    assert not model.__sklearn_is_fitted__()
