"""k_means against exact optima, scikit-learn, brute force, and its own theorems."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans as Peer
from sklearn.datasets import load_digits, load_iris

from ml_core import bundle, parallel, progress
from ml_core.cluster.k_means import KMeans
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.rng import generator
from ml_core.solvers import k_means_search
from ml_core.solvers.centres import nearest, plus_plus, squared_distances
from ml_core.solvers.lloyd import lloyd

INITS = ("kmeans++", "forgy", "random_partition")


def groups(n=300, d=4, k=5, seed=0):
    r = np.random.default_rng(seed)
    return r.normal(size=(n, d)) + 3 * r.normal(size=(k, d))[r.integers(k, size=n)]


def codes(model):
    return [n.code for n in model.notices_]


def assert_certified(model, X, **kw):
    found = model.diagnostics(X, **kw).certificates
    assert len(found) == 4
    assert all(c.holds for c in found), found


def test_iris_reaches_the_exact_optimum():
    X = load_iris().data
    model = KMeans(n_clusters=3).fit(X)
    assert model.inertia_ == pytest.approx(float(Fraction(46443499, 589000)), rel=1e-13)
    assert sorted(np.bincount(model.labels_)) == [38, 50, 62]
    assert model.inertias_.shape == (10,)
    assert model.inertia_ == model.inertias_.min()
    assert_certified(model, X)


def test_digits_within_one_percent_of_the_best_of_a_hundred():
    X = load_digits().data
    model = KMeans(n_clusters=10).fit(X)
    assert 1165134.2177 * (1 - 1e-9) <= model.inertia_ <= 1.01 * 1165134.2177
    assert_certified(model, X)


@pytest.mark.parametrize("seed", range(5))
def test_equals_the_peer_from_the_same_start(seed):
    X = groups(seed=seed)
    s = np.random.default_rng(seed).uniform(0.5, 2, len(X))
    start = X[:5]
    ours = KMeans(n_clusters=5, init=start).fit(X, sample_weight=s)
    peer = Peer(5, init=start, n_init=1, tol=0, algorithm="lloyd").fit(X, sample_weight=s)
    np.testing.assert_array_equal(ours.labels_, peer.labels_)
    np.testing.assert_allclose(ours.cluster_centers_, peer.cluster_centers_, rtol=1e-10, atol=1e-12)
    assert ours.inertia_ == pytest.approx(peer.inertia_, rel=1e-11)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 8, 9, 17])
@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_bounds_change_nothing(k, d):
    """A plain numpy alternation takes the same path."""
    X = groups(400, d, 6, seed=k)
    X -= X.mean(axis=0)
    C = X[:k].copy()
    found = lloyd(X, np.ones(len(X)), C)
    z = None
    for _ in range(500):
        new = ((X[:, None] - C) ** 2).sum(axis=2).argmin(axis=1)
        if z is not None and (new == z).all():
            break
        z = new
        C = np.stack([X[z == c].mean(axis=0) for c in range(k)])
    np.testing.assert_array_equal(found.labels, z)
    np.testing.assert_allclose(found.centres, C, atol=1e-12)
    assert found.converged
    assert found.inertia == pytest.approx(((X - C[z]) ** 2).sum(), rel=1e-12)


def test_distances_match_numpy():
    X, C = groups(37, 7), groups(11, 7, seed=3)
    D = ((X[:, None] - C) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared_distances(X, C), D, rtol=1e-13)
    np.testing.assert_array_equal(nearest(X, C)[0], D.argmin(axis=1))
    model = KMeans(n_clusters=3).fit(X)
    own = ((X - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
    np.testing.assert_allclose(model.transform(X).min(axis=1) ** 2, own, rtol=1e-12)


def test_duplicates_lower_the_number_of_clusters():
    """KM-1."""
    X = np.repeat([[1.0, 1], [2, 2], [9, 9]], 2, axis=0)
    for init in (*INITS, X[[0, 1, 2, 4]]):
        model = KMeans(n_clusters=4, init=init).fit(X)
        assert model.inertia_ == 0
        assert sorted(set(model.labels_)) == [0, 1, 2]
        assert len(np.unique(model.cluster_centers_, axis=0)) == len(model.cluster_centers_) == 3
        assert "fewer_distinct_rows" in codes(model)
        assert_certified(model, X)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_close_pairs_keep_their_digits(offset):
    """KM-3: float32 input, inertia 4.0013276e-8, where the expanded square gives 0."""
    X = np.array([-1.0001, -0.9999, 0.9999, 1.0001], dtype=np.float32)[:, None].astype(float) + offset
    model = KMeans(n_clusters=2).fit(X)
    exact = sum((Fraction(a) - Fraction(b)) ** 2 / 2 for a, b in [(X[0, 0], X[1, 0]), (X[2, 0], X[3, 0])])
    assert model.inertia_ == pytest.approx(float(exact), rel=1e-12 if offset == 0 else 1e-5)
    if offset == 0:
        assert model.inertia_ == pytest.approx(4.0013276e-8, rel=1e-7)


def test_empty_cluster_receives_the_farthest_row():
    """KM-5."""
    X = np.array([0.0, 1, 2, 10, 11, 12])[:, None]
    model = KMeans(n_clusters=3, init=[[0.0], [1.0], [100.0]]).fit(X)
    assert model.inertia_ == pytest.approx(2.5)
    assert model.relocated_ >= 1
    assert "empty_cluster" in codes(model)
    assert KMeans(n_clusters=3, algorithm="exhaustive").fit(X).inertia_ == pytest.approx(2.5)


def test_more_clusters_than_rows_is_refused():
    """KM-7."""
    with pytest.raises(InvalidParameter, match="n_samples=3"):
        KMeans(n_clusters=4).fit(np.eye(3))
    assert KMeans(n_clusters=3).fit(np.eye(3)).inertia_ == 0


def test_tied_rows_stay():
    """The row at 1 is as near to 0.5 as to 1.5 (catalogue: a tied row keeps its cluster)."""
    X = np.array([[0.0], [1.0], [1.5]])
    lower = lloyd(X, np.ones(3), np.array([[0.5], [1.5]]))
    np.testing.assert_array_equal(lower.labels, [0, 0, 1])
    upper = lloyd(X, np.ones(3), np.array([[1.5], [0.5]]))
    np.testing.assert_array_equal(upper.labels, [1, 0, 0])
    middle = np.array([[-1.0], [1.0], [3.0], [0.0], [2.0]])
    kept = KMeans(n_clusters=2, init=[[0.0], [2.5]]).fit(middle)
    assert_certified(kept, middle)
    assert kept.inertia_ == pytest.approx(2.5)


@pytest.mark.parametrize("seed", range(6))
def test_exhaustive_equals_brute_force_and_bounds_lloyd(seed):
    r = np.random.default_rng(seed)
    X, s = r.normal(size=(7, 2)), r.uniform(0.2, 3, 7)
    best = np.inf
    for code in range(3**7):
        z = np.array([code // 3**i % 3 for i in range(7)])
        J = 0.0
        for c in range(3):
            m = z == c
            if m.any():
                J += s[m] @ ((X[m] - s[m] @ X[m] / s[m].sum()) ** 2).sum(axis=1)
        best = min(best, J)
    exact = KMeans(n_clusters=3, algorithm="exhaustive").fit(X, sample_weight=s)
    assert exact.inertia_ == pytest.approx(best, rel=1e-12)
    assert KMeans(n_clusters=3).fit(X, sample_weight=s).inertia_ >= best * (1 - 1e-12)
    with pytest.raises(InvalidData, match="at most 12"):
        KMeans(n_clusters=2, algorithm="exhaustive").fit(r.normal(size=(13, 1)))


def test_optimal_objective_never_rises_with_k_and_ends_at_zero():
    """PT34."""
    X = np.random.default_rng(8).normal(size=(9, 2))
    J = [KMeans(n_clusters=k, algorithm="exhaustive").fit(X).inertia_ for k in range(1, 10)]
    assert (np.diff(J) <= 1e-12).all()
    assert J[-1] == pytest.approx(0, abs=1e-24)
    assert J[0] == pytest.approx(((X - X.mean(axis=0)) ** 2).sum())
    reported = KMeans(n_clusters=2, curve=12).fit(X)
    assert reported.inertia_curve_.shape == (9,)
    assert (np.diff(reported.inertia_curve_) <= 1e-12).all()
    assert (reported.inertia_curve_ >= np.array(J) - 1e-12).all()
    assert len(reported.diagnostics(X).curves["inertia_over_k"]["x"]) == 9


def test_plus_plus_keeps_its_bound():
    """PT34: E J ≤ 8 (ln k + 2) J_opt, by simulation."""
    X = np.random.default_rng(3).normal(size=(10, 2))
    best = KMeans(n_clusters=3, algorithm="exhaustive").fit(X).inertia_
    J = [nearest(X, plus_plus(X, np.ones(10), 3, generator(i)))[1].sum() for i in range(200)]
    assert np.mean(J) <= 8 * (np.log(3) + 2) * best


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.sampled_from(INITS), st.floats(1e-3, 1e3))
def test_theorems_on_random_tables(seed, k, init, scale):
    X = np.round(scale * np.random.default_rng(seed).normal(size=(40, 3)), 3 if seed % 2 else 12)
    model = KMeans(n_clusters=k, init=init, n_init=2, random_state=seed).fit(X)
    assert_certified(model, X)
    total = ((X - X.mean(axis=0)) ** 2).sum()
    assert (np.diff(model.objective_trace_) <= 1e-12 * total).all()
    assert len(set(model.labels_)) == len(model.cluster_centers_)


def test_weights_are_repetitions_and_scale_only_the_objective():
    X, s = groups(60), np.random.default_rng(5).integers(0, 4, 60)
    kw = {"n_clusters": 4, "init": X[:4]}
    weighted, repeated = KMeans(**kw).fit(X, sample_weight=s), KMeans(**kw).fit(np.repeat(X, s, axis=0))
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, rtol=1e-12, atol=1e-12)
    assert weighted.inertia_ == pytest.approx(repeated.inertia_)
    triple = KMeans(**kw).fit(X, sample_weight=3 * s)
    assert triple.inertia_ == pytest.approx(3 * weighted.inertia_)
    assert_certified(weighted, X, sample_weight=s)


@pytest.mark.parametrize("init", INITS)
def test_bits_do_not_depend_on_threads(init, monkeypatch):
    monkeypatch.setattr("ml_core.solvers.centres.PARALLEL_WORK", 0.0)
    monkeypatch.setattr("ml_core.solvers.k_means_search.SPREAD_WORK", 0.0)
    X = groups(9000, 3, 4)
    found = []
    for n in (1, 2, 3):
        with parallel.use_threads(n):
            found.append(KMeans(n_clusters=4, init=init, n_init=3, max_iter=20).fit(X))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].cluster_centers_, other.cluster_centers_)
        np.testing.assert_array_equal(found[0].labels_, other.labels_)
        np.testing.assert_array_equal(found[0].inertias_, other.inertias_)


def test_numbers_follow_the_centres_whatever_the_seed_and_row_order():
    X = np.concatenate([groups(50, 2, 1, seed=i) / 10 + 20 * i for i in range(3)])
    a = KMeans(n_clusters=3, random_state=1).fit(X)
    b = KMeans(n_clusters=3, random_state=9).fit(X[::-1])
    np.testing.assert_array_equal(a.labels_, b.labels_[::-1])
    np.testing.assert_array_equal(a.labels_, np.repeat([0, 1, 2], 50))


def test_random_parts_are_never_empty_and_forgy_takes_distinct_rows():
    X = np.repeat(np.arange(4.0), 25)[:, None]
    for seed in range(20):
        rng = generator(seed)
        assert len(np.unique(k_means_search.start(X, np.ones(100), 4, "forgy", rng))) == 4
        assert np.isfinite(k_means_search.start(X[:5], np.ones(5), 5, "random_partition", rng)).all()


def test_stopping_early_is_a_notice_and_every_iteration_ticks():
    X, seen = groups(500, 2, 2), []
    with progress.listen(seen.append):
        model = KMeans(n_clusters=9, n_init=1, max_iter=2).fit(X)
    assert "not_converged" in codes(model)
    assert [t.step for t in seen] == [1, 2]
    assert model.inertia_ == pytest.approx(-model.score(X), rel=1e-12)
    loose = KMeans(n_clusters=9, n_init=1, tol=1e-2).fit(X)
    tight = KMeans(n_clusters=9, n_init=1).fit(X)
    assert loose.n_iter_ < tight.n_iter_
    assert loose.inertia_ >= tight.inertia_


def test_transform_names_and_stored_model(tmp_path):
    X = groups(30, 3)
    model = KMeans(n_clusters=2, init=X[:2].tolist(), curve=2).fit(X)
    np.testing.assert_array_equal(model.get_feature_names_out(), ["cluster0", "cluster1"])
    bundle.save_bundle(model, tmp_path / "m")
    back = bundle.load_bundle(tmp_path / "m")
    fixed = X.copy()
    fixed.flags.writeable = False
    np.testing.assert_array_equal(back.transform(fixed), model.transform(X))
    np.testing.assert_array_equal(back.predict(X), model.labels_)


def test_hostile_input():
    with pytest.raises(InvalidParameter, match="init must hold"):
        KMeans(n_clusters=2, init=[[0.0, 1.0]]).fit(np.eye(2))
    with pytest.raises(InvalidParameter):
        KMeans(init="best").fit(np.eye(9))
    with pytest.raises(InvalidData):
        KMeans(n_clusters=1).fit([[np.nan]])
    far = KMeans(n_clusters=2).fit(1e8 + np.array([[0.0], [1], [10], [11]]))
    assert far.inertia_ == pytest.approx(1.0, rel=1e-6)
    same = KMeans(n_clusters=3).fit(np.full((5, 2), 0.1))
    assert same.cluster_centers_.shape == (1, 2)
    tiny = KMeans(n_clusters=2).fit(1e-120 * np.array([[0.0], [1], [10], [11]]))
    np.testing.assert_array_equal(tiny.labels_, [0, 0, 1, 1])
