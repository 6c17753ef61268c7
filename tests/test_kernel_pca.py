"""Kernel principal components: the linear twin, scikit-learn, known values, weights, and certificates."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import KernelPCA as Peer

from ml_core.decomposition.kernel_pca import KernelPCA
from ml_core.decomposition.principal_component_analysis import PrincipalComponentAnalysis
from ml_core.errors import InvalidParameter, OverBudget
from ml_core.kernels import LinearKernel, PolynomialKernel, RBFKernel


def rows(n: int = 40) -> np.ndarray:
    r = np.random.default_rng(0)
    return r.normal(size=(n, 3)) @ r.normal(size=(3, 3)) + 5.0


def certified(m: KernelPCA, X: np.ndarray, s: np.ndarray | None = None) -> None:
    report = m.diagnostics(X, None, s).to_json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]


def test_four_points() -> None:
    X = np.array([[3.0, 1], [1, 3], [-3, -1], [-1, -3]])
    m = KernelPCA(kernel=LinearKernel()).fit(X)
    np.testing.assert_allclose(m.eigenvalues_, [8.0, 2.0])
    np.testing.assert_allclose(np.abs(m.transform(X)[:, 0]), 2.828427, atol=1e-6)
    certified(m, X)


@pytest.mark.parametrize("weighted", [False, True])
def test_linear_kernel_is_principal_component_analysis(weighted: bool) -> None:
    X = rows()
    s = np.random.default_rng(1).integers(1, 4, size=len(X)).astype(float) if weighted else np.ones(len(X))
    m = KernelPCA(kernel=LinearKernel()).fit(X, sample_weight=s)
    twin = PrincipalComponentAnalysis().fit(X, sample_weight=s)
    np.testing.assert_allclose(m.eigenvalues_, twin.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(m.explained_variance_ratio_, twin.explained_variance_ratio_, rtol=1e-9)
    ours, theirs = m.transform(X + 0.1), twin.transform(X + 0.1)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-8)
    certified(m, X, s)


@pytest.mark.parametrize("k", [3, 12])
def test_coordinates_are_scikit_learns(k: int) -> None:
    X, Q = rows(), rows(60)[40:]
    m = KernelPCA(kernel=RBFKernel(3.0), n_components=k).fit(X)
    peer = Peer(k, kernel="rbf", gamma=1 / 18.0).fit(X)
    np.testing.assert_allclose(m.eigenvalues_, peer.eigenvalues_ / len(X), rtol=1e-9)
    np.testing.assert_allclose(np.abs(m.transform(Q)), np.abs(peer.transform(Q)), atol=1e-7)
    certified(m, X)


def test_weights_repeat_rows() -> None:
    X = rows(20)
    s = np.random.default_rng(4).integers(1, 4, size=20)
    one = KernelPCA(kernel=PolynomialKernel(2, 1.0), n_components=4).fit(X, sample_weight=s.astype(float))
    two = KernelPCA(kernel=PolynomialKernel(2, 1.0), n_components=4).fit(np.repeat(X, s, axis=0))
    np.testing.assert_allclose(one.eigenvalues_, two.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(one.transform(X), two.transform(X), rtol=1e-6, atol=1e-6)
    certified(one, X, s.astype(float))


def test_number_of_directions() -> None:
    X = rows()
    m = KernelPCA(kernel=LinearKernel(), n_components=0.8).fit(X)
    share = np.cumsum(KernelPCA(kernel=LinearKernel()).fit(X).explained_variance_ratio_)
    assert m.n_features_out_ == int(np.argmax(share >= 0.8)) + 1
    few = KernelPCA(kernel=LinearKernel(), n_components=5).fit(X)
    assert few.n_features_out_ == 3
    assert [n.code for n in few.notices_] == ["rank_deficient"]
    none = KernelPCA().fit(np.ones((5, 2)))
    assert none.transform(np.ones((2, 2))).shape == (2, 0)
    for bad in (41, 1.5):
        with pytest.raises(InvalidParameter):
            KernelPCA(n_components=bad).fit(X)
    with pytest.raises(OverBudget):
        KernelPCA().fit(np.zeros((400_000, 1)))
