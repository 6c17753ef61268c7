"""Kernel k-means: its linear twin, every partition of few rows, rings, weights, and certificates."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ml_core.cluster.k_means import KMeans
from ml_core.cluster.kernel_k_means import KernelKMeans, spectral_bound
from ml_core.errors import InvalidParameter, OverBudget
from ml_core.kernels import LinearKernel, RBFKernel
from ml_core.solvers.kernel_lloyd import alternate
from ml_core.solvers.lloyd import lloyd
from tests.rows import data


def certified(m: KernelKMeans, X: np.ndarray, s: np.ndarray | None = None) -> None:
    report = m.diagnostics(X, None, s).to_json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.mark.parametrize("seed", range(5))
def test_linear_kernel_is_k_means_from_the_same_start(seed: int) -> None:
    r = np.random.default_rng(seed)
    X, s = r.normal(size=(60, 2)), r.uniform(0.5, 2.0, size=60)
    start = r.integers(0, 4, size=60)
    means = np.array([np.average(X[start == c], axis=0, weights=s[start == c]) for c in range(4)])
    ours = alternate(X @ X.T, s, start, max_iter=300)
    theirs = lloyd(X, s, means, max_iter=300, tol=0.0)
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    np.testing.assert_allclose(ours.inertia, theirs.inertia, rtol=1e-10)
    assert (np.diff(ours.trace) <= 1e-9).all()


def test_linear_kernel_finds_the_groups_of_k_means() -> None:
    X, _ = data.blobs()
    m = KernelKMeans(kernel=LinearKernel(), n_clusters=3).fit(X)
    twin = KMeans(n_clusters=3).fit(X)
    assert same(m.labels_, twin.labels_)
    np.testing.assert_allclose(m.inertia_, twin.inertia_, rtol=1e-9)
    assert same(m.predict(X + 0.1), twin.predict(X + 0.1))
    certified(m, X)


def test_few_rows_reach_the_best_of_every_partition() -> None:
    X = np.random.default_rng(1).normal(size=(8, 2))
    K, best = RBFKernel(1.0)(X), np.inf
    for labels in product(range(3), repeat=8):
        z = np.array(labels)
        if len(set(labels)) == 3:
            best = min(best, sum(K.diagonal()[z == c].sum() - K[np.ix_(z == c, z == c)].mean() * (z == c).sum()
                                 for c in range(3)))  # fmt: skip
    m = KernelKMeans(kernel=RBFKernel(1.0), n_clusters=3, n_init=50).fit(X)
    np.testing.assert_allclose(m.inertia_, best, rtol=1e-10)
    assert spectral_bound(K, np.ones(8), 3) <= best
    certified(m, X)


def test_rings_part_by_a_gaussian_kernel() -> None:
    t = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    X = np.vstack([np.column_stack([np.cos(t), np.sin(t)]), 6 * np.column_stack([np.cos(3 * t), np.sin(3 * t)])])
    truth = np.repeat([0, 1], 60)
    m = KernelKMeans(kernel=RBFKernel(2.0), n_clusters=2, n_init=30).fit(X)
    found = KernelKMeans(kernel=LinearKernel(), n_clusters=2).fit(X)
    certified(m, X)
    assert not same(found.labels_, truth)
    assert np.array_equal(m.labels_[:60], np.full(60, m.labels_[0]))


@pytest.mark.parametrize("init", ["kmeans++", "random_partition"])
def test_weights_repeat_rows(init: str) -> None:
    X, _ = data.blobs()
    s = np.random.default_rng(4).integers(1, 4, size=len(X))
    one = KernelKMeans(kernel=RBFKernel(2.0), n_clusters=3, init=init).fit(X, sample_weight=s.astype(float))
    two = KernelKMeans(kernel=RBFKernel(2.0), n_clusters=3, init=init).fit(np.repeat(X, s, axis=0))
    np.testing.assert_allclose(one.inertia_, two.inertia_, rtol=1e-9)
    certified(one, X, s.astype(float))


def test_equal_rows_and_refusals() -> None:
    m = KernelKMeans(n_clusters=3).fit([[0.0], [0.0], [1.0], [1.0]])
    assert m.labels_.tolist() == [0, 0, 1, 1]
    assert [n.code for n in m.notices_] == ["fewer_distinct_rows"]
    with pytest.raises(InvalidParameter, match="n_clusters"):
        KernelKMeans(n_clusters=3).fit([[0.0], [1.0]])
    with pytest.raises(OverBudget):
        KernelKMeans(n_clusters=2).fit(np.zeros((400_000, 1)))
