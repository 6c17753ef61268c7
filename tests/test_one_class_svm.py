"""one_class_svm: the square of SVM-5, libsvm's objective and decision values, shares, weights, tables of values."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import svm

from ml_core.errors import InvalidParameter
from ml_core.kernels import PrecomputedKernel, RBFKernel
from ml_core.svm.one_class_svm import OneClassSVM

KERNEL = RBFKernel(length_scale=float(np.sqrt(0.5)))  # gamma 1


def cloud(n: int, seed: int = 0) -> np.ndarray:
    r = np.random.default_rng(seed)
    return np.vstack([r.normal(size=(n - n // 10, 3)), r.uniform(-6, 6, size=(n // 10, 3))])


def test_corners_of_a_square_lie_inside():
    X = np.array([[0.0, 0.0], [0, 1], [1, 0], [1, 1]])
    model = OneClassSVM(nu=0.01, kernel=KERNEL).fit(X)
    assert model.labels_.tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(model.decision_function(X), 0.0, atol=1e-9)
    assert model.predict([[0.5, 0.5], [9.0, 9.0]]).tolist() == [1, 0]
    report = model.diagnostics(X)
    assert report.summary["outside"] == 0
    assert all(c.holds for c in report.certificates)


@pytest.mark.parametrize("n", [60, 1500])
@pytest.mark.parametrize("nu", [0.05, 0.3, 0.9])
def test_same_objective_as_libsvm(n, nu):
    X = cloud(n)
    ours, peer = OneClassSVM(nu=nu, kernel=KERNEL, tol=1e-9).fit(X), svm.OneClassSVM(nu=nu, gamma=1.0, tol=1e-9).fit(X)
    report = ours.diagnostics(X)
    beta = peer.dual_coef_[0]
    theirs = -0.5 * beta @ KERNEL(peer.support_vectors_) @ beta
    assert report.summary["dual"] == pytest.approx(theirs, rel=1e-7)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-4 * n * nu)
    assert report.summary["share_outside"] <= nu <= report.summary["share_of_support_vectors"] + 1e-12
    assert all(c.holds for c in report.certificates), [c for c in report.certificates if not c.holds]


def test_weights_are_repetitions():
    X = cloud(80)
    s = np.random.default_rng(1).integers(0, 4, len(X))
    weighted = OneClassSVM(nu=0.2, kernel=KERNEL, tol=1e-10).fit(X, sample_weight=s)
    repeated = OneClassSVM(nu=0.2, kernel=KERNEL, tol=1e-10).fit(np.repeat(X, s, axis=0))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-8)


def test_all_rows_on_the_bound():
    X = cloud(50)
    model = OneClassSVM(nu=1.0, kernel=KERNEL).fit(X)
    np.testing.assert_allclose(model.dual_coef_, 1.0, atol=1e-12)
    assert model.diagnostics(X).certificates[0].holds


def test_equal_rows():
    model = OneClassSVM(nu=0.5, kernel=KERNEL).fit(np.ones((7, 2)))
    assert model.labels_.tolist() == [1] * 7
    assert model.predict([[3.0, 3.0]]).tolist() == [0]


def test_table_of_values():
    X, Z = cloud(70), cloud(20, 3)
    ours = OneClassSVM(nu=0.2, kernel=PrecomputedKernel(), tol=1e-9).fit(KERNEL(X))
    same = OneClassSVM(nu=0.2, kernel=KERNEL, tol=1e-9).fit(X)
    np.testing.assert_allclose(ours.decision_function(KERNEL(Z, X)), same.decision_function(Z), atol=1e-8)


@pytest.mark.parametrize("nu", [0.0, 1.5, -0.1])
def test_nu_is_a_share(nu):
    with pytest.raises(InvalidParameter, match="nu"):
        OneClassSVM(nu=nu).fit(cloud(20))
