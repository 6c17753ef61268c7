"""Kernel nearest neighbours: Euclid's under linear and radial kernels, the definition under others, ties, refusals."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from ml_core.errors import InvalidParameter
from ml_core.gp.kernel_nearest_neighbors import KernelNearestNeighbors, KernelNearestNeighborsRegression
from ml_core.kernels import (
    ExponentialKernel,
    Kernel,
    LinearKernel,
    MapKernel,
    MaternKernel,
    PolynomialKernel,
    PrecomputedKernel,
    RationalQuadraticKernel,
    RBFKernel,
    SubsetKernel,
)
from tests.test_kernels import EVERY

EUCLID = [LinearKernel(), RBFKernel(0.8), ExponentialKernel(0.7), MaternKernel(2.0, 1.5), 3.0 * LinearKernel()]


def rows(n: int = 120) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r = np.random.default_rng(0)
    return r.normal(size=(n, 3)), r.integers(0, 3, size=n), r.normal(size=(30, 3))


@pytest.mark.parametrize("k", EUCLID, ids=lambda k: k.name)
def test_linear_and_radial_kernels_give_euclids_neighbours(k: Kernel) -> None:
    X, y, Q = rows()
    m = KernelNearestNeighbors(kernel=k, n_neighbors=7).fit(X, y)
    peer = KNeighborsClassifier(7).fit(X, y)
    assert np.array_equal(m.neighbors(Q)[0], peer.kneighbors(Q)[1])
    np.testing.assert_allclose(m.predict_proba(Q), peer.predict_proba(Q), rtol=1e-12)
    Y = np.column_stack([X[:, 0], X @ [1.0, 2.0, 3.0]])
    for target in (Y, Y[:, 0]):
        reg = KernelNearestNeighborsRegression(kernel=k, n_neighbors=5).fit(X, target)
        np.testing.assert_allclose(reg.predict(Q), KNeighborsRegressor(5).fit(X, target).predict(Q), rtol=1e-12)
        assert all(c.holds for c in reg.diagnostics(X, target).certificates)


@pytest.mark.parametrize("k", EVERY.values(), ids=EVERY)
def test_distances_are_those_of_the_feature_space(k: Kernel) -> None:
    X, y, Q = rows(40)
    D = k.squared_distances(Q, X)
    want = k.diag(Q)[:, None] - 2 * k(Q, X) + k.diag(X)
    np.testing.assert_allclose(D, want, atol=1e-10 * np.abs(want).max())
    assert (D >= 0).all()
    m = KernelNearestNeighbors(kernel=k, n_neighbors=3).fit(X, y)
    np.testing.assert_allclose(m.neighbors(Q)[1] ** 2, np.sort(want, axis=1)[:, :3], atol=1e-9 * np.abs(want).max())
    assert all(c.holds for c in m.diagnostics(X, y).certificates)


def test_far_from_the_origin_the_nearest_is_the_nearest() -> None:
    X = np.array([[1e8, 1.0], [1e8, 2.0], [1e8, 5.0]])
    for k in (LinearKernel(), 2.0 * LinearKernel() + LinearKernel(), RBFKernel(1.0)):
        m = KernelNearestNeighbors(kernel=k, n_neighbors=1).fit(X, ["a", "b", "c"])
        assert m.neighbors(X + np.array([0.0, 0.3]))[0][:, 0].tolist() == [0, 1, 2]
    near = RBFKernel(1.0).squared_distances(np.array([[1e-9]]), np.array([[0.0]]))
    np.testing.assert_allclose(near, 1e-18, rtol=1e-12)


SATURATED = [
    RBFKernel(0.01), RBFKernel(1e6), ExponentialKernel(500.0), ExponentialKernel(1e-30), MaternKernel(0.005, 0.5),
    MaternKernel(0.005, 1.5), MaternKernel(1e9, 1.5), MaternKernel(1e9, 2.5), RationalQuadraticKernel(1e9, 0.5),
    3.0 * RBFKernel(0.01), SubsetKernel((0, 1), MaternKernel(0.005)), MapKernel("powers", RBFKernel(0.01), 1),
]  # fmt: skip


@pytest.mark.parametrize("k", SATURATED, ids=repr)
def test_order_is_euclids_also_where_kernel_values_round_to_equal(k: Kernel) -> None:
    r = np.random.default_rng(0)
    X, Q = r.normal(size=(40, 2)), 3 * r.normal(size=(20, 2))
    m = KernelNearestNeighbors(kernel=k, n_neighbors=3).fit(X, np.arange(40))
    want = np.argsort(((Q[:, None] - X) ** 2).sum(axis=2), axis=1)[:, :3]
    assert np.array_equal(m.neighbors(Q)[0], want)


@pytest.mark.parametrize("k", [RBFKernel(1.0), ExponentialKernel(1.0), *(MaternKernel(1.0, v) for v in (0.5, 1.5, 2.5)),
                               RationalQuadraticKernel(1.0, 0.7)], ids=repr)  # fmt: skip
def test_short_distances_keep_their_digits(k: Kernel) -> None:
    x = np.array([[1e-9], [1e-4], [1.0], [50.0]])
    with mp.workdps(60):
        r = [mp.mpf(float(v)) for v in x[:, 0]]
        of = {
            "rbf": lambda r: mp.exp(-(r**2) / 2),
            "exponential": lambda r: mp.exp(-r),
            "rational_quadratic": lambda r: (1 + r**2 / (2 * mp.mpf(0.7))) ** -mp.mpf(0.7),
            "matern": lambda r: _matern(mp.sqrt(2 * getattr(k, "nu", 0.5)) * r, getattr(k, "nu", 0.5)),
        }[k.name]
        want = [float(2 * (1 - of(v))) for v in r]
    np.testing.assert_allclose(k.squared_distances(x, np.zeros((1, 1)))[:, 0], want, rtol=1e-13)


def _matern(s: mp.mpf, nu: float) -> mp.mpf:
    return mp.exp(-s) * {0.5: 1, 1.5: 1 + s, 2.5: 1 + s + s**2 / 3}[nu]


def test_a_kernel_of_angles_ignores_lengths_and_columns_can_be_chosen() -> None:
    X, y, Q = rows()
    square = PolynomialKernel(2, 0.0)
    m = KernelNearestNeighbors(kernel=square, n_neighbors=1).fit(X, y)
    assert np.array_equal(m.predict(X), m.predict(-X))
    one = KernelNearestNeighbors(kernel=SubsetKernel((1,), RBFKernel(1.0)), n_neighbors=3).fit(X, y)
    peer = KNeighborsClassifier(3).fit(X[:, [1]], y)
    np.testing.assert_allclose(one.predict_proba(Q), peer.predict_proba(Q[:, [1]]), rtol=1e-12)


def test_ties_go_to_the_nearest_then_to_the_first() -> None:
    X = np.array([[0.0], [1.0], [3.0], [4.0]])
    m = KernelNearestNeighbors(kernel=LinearKernel(), n_neighbors=2).fit(X, ["b", "a", "a", "b"])
    assert m.predict([[0.4], [0.6], [0.5]]).tolist() == ["b", "a", "b"]
    assert m.neighbors([[0.5]])[0].tolist() == [[0, 1]]
    same = KernelNearestNeighbors(kernel=LinearKernel(), n_neighbors=1).fit(np.zeros((5, 1)), [3, 1, 2, 1, 2])
    assert same.predict([[1.0]]).tolist() == [3]


def test_votes_by_distance_belong_to_equal_rows_alone() -> None:
    X, y, _ = rows()
    m = KernelNearestNeighbors(kernel=LinearKernel(), n_neighbors=9, weights="distance").fit(X, y)
    assert (m.predict(X) == y).all()
    np.testing.assert_allclose(m.predict_proba(X).max(axis=1), 1.0)
    all_ = KernelNearestNeighborsRegression(kernel=LinearKernel(), n_neighbors=len(X)).fit(X, X[:, 0])
    np.testing.assert_allclose(all_.predict(X), X[:, 0].mean(), rtol=1e-9)


def test_precomputed_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, Q = rows(40)
    k = RBFKernel(1.0)
    at = np.arange(70.0)[:, None]
    numbered = PrecomputedKernel(matrix=k(np.vstack([X, Q])).tolist())
    m = KernelNearestNeighbors(kernel=numbered, n_neighbors=5).fit(at[:40], y)
    direct = KernelNearestNeighbors(kernel=k, n_neighbors=5).fit(X, y)
    np.testing.assert_allclose(m.predict_proba(at[40:]), direct.predict_proba(Q), rtol=1e-12)
    whole = direct.predict_proba(Q)
    monkeypatch.setattr("ml_core.gp.kernel_nearest_neighbors.BLOCK_CELLS", 10)
    np.testing.assert_allclose(direct.predict_proba(Q), whole, rtol=1e-12)


def test_more_neighbours_than_rows_are_refused() -> None:
    X = rows(4)[0]
    with pytest.raises(InvalidParameter, match="n_samples = 4") as refused:
        KernelNearestNeighbors(n_neighbors=5).fit(X, [0, 1, 0, 1])
    assert refused.value.issues[0].pointer == "/params/n_neighbors"
