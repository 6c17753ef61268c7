"""support_vector_regression, its nu form and nu_svm: scikit-learn, identities between the forms, reported failures."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVR, NuSVC, NuSVR

from ml_core.errors import InvalidParameter
from ml_core.kernels import LinearKernel, RBFKernel
from ml_core.svm.kernel_svm import KernelSVM
from ml_core.svm.nu_svm import NuSVM
from ml_core.svm.support_vector_regression import NuSupportVectorRegression, SupportVectorRegression

KERNEL = RBFKernel(length_scale=1.0)


def waves(n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(5)
    X = r.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * r.normal(size=n)


@pytest.mark.parametrize(("C", "epsilon"), [(0.5, 0.1), (10.0, 0.3), (3.0, 0.0)])
def test_against_libsvm(C, epsilon):
    X, y = waves()
    ours = SupportVectorRegression(C=C, epsilon=epsilon, kernel=KERNEL, scale_target=False, tol=1e-8).fit(X, y)
    peer = SVR(C=C, epsilon=epsilon, gamma=0.5, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), atol=2e-5)
    report = ours.diagnostics(X, y)
    assert all(c.holds for c in report.certificates), report.certificates
    assert report.summary["duality_gap"] < 1e-9 * report.summary["primal"]


def test_linear_kernel_takes_any_unit():
    X, y = waves()
    one = SupportVectorRegression(kernel=LinearKernel(), scale_target=False).fit(X, y)
    peer = SVR(kernel="linear", tol=1e-9).fit(X, y)
    np.testing.assert_allclose(one.predict(X), peer.predict(X), atol=1e-5)
    wild = X * np.array([1.0, 1e4])
    two = SupportVectorRegression(kernel=LinearKernel()).fit(wild, y)
    assert not two.notices_


def test_large_targets_are_not_constant():
    X, y = np.arange(1.0, 11)[:, None], 1e5 + 1e4 * np.arange(1.0, 11)
    model = SupportVectorRegression(kernel=LinearKernel()).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 0.1 * y.std()
    flat = SupportVectorRegression(epsilon=1e6, scale_target=False).fit(X, y)
    assert [n.code for n in flat.notices_] == ["constant_predictions"]
    assert np.ptp(flat.predict(X)) == 0
    for each in (model, flat):
        assert all(c.holds for c in each.diagnostics(X, y).certificates)


def test_units_of_the_target_do_not_matter():
    X, y = waves()
    one = SupportVectorRegression(kernel=KERNEL).fit(X, y)
    two = SupportVectorRegression(kernel=KERNEL).fit(X, 7e4 * y + 3e6)
    np.testing.assert_allclose(7e4 * one.predict(X) + 3e6, two.predict(X), rtol=1e-6)


def test_weights_are_repetitions():
    X, y = waves(60)
    s = np.random.default_rng(0).integers(1, 4, 60)
    for Model in (SupportVectorRegression, NuSupportVectorRegression):
        one = Model(kernel=KERNEL).fit(X, y, sample_weight=s.astype(float))
        two = Model(kernel=KERNEL).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
        np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-6)


@pytest.mark.parametrize("nu", [0.2, 0.5, 0.9])
def test_nu_regression(nu):
    X, y = waves()
    ours = NuSupportVectorRegression(nu=nu, C=2.0, kernel=KERNEL, scale_target=False, tol=1e-8).fit(X, y)
    peer = NuSVR(nu=nu, C=2.0 , gamma=0.5, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), atol=1e-4)
    same = SupportVectorRegression(C=2.0, epsilon=ours.epsilon_, kernel=KERNEL, scale_target=False, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), same.predict(X), atol=1e-6)
    outside = np.mean(np.abs(y - ours.predict(X)) > ours.epsilon_ + 1e-8)
    assert outside <= nu <= len(ours.support_) / len(X) + 1e-12


@pytest.mark.parametrize(("nu", "kernel"), [(0.3, KERNEL), (0.7, KERNEL)])
def test_nu_classification(nu, kernel):
    X, t = waves(120)
    y = np.where(t + 0.5 * np.random.default_rng(1).normal(size=120) > 0, "up", "down")
    ours = NuSVM(nu=nu, kernel=kernel, tol=1e-9).fit(X, y)
    peer = NuSVC(nu=nu, kernel="rbf" if kernel is KERNEL else "linear", gamma=0.5, tol=1e-9)
    theirs = peer.fit(X, y).decision_function(X)
    np.testing.assert_allclose(ours.decision_function(X), theirs, atol=2e-3)  # its single precision over ρ
    same = KernelSVM(C=float(ours.prices_[0]), kernel=kernel, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), same.decision_function(X), atol=1e-5)
    report = ours.diagnostics(X, y)
    assert all(c.holds for c in report.certificates), report.certificates
    inside = np.mean(np.where(y == "up", 1, -1) * ours.decision_function(X) < 1 - 1e-7)
    assert inside <= nu <= len(ours.support_) / len(X) + 1e-12


@pytest.mark.parametrize("seed", [1, 2, 10, 13])
def test_nu_classification_with_weights_counts_rows_at_their_bound(seed):
    r = np.random.default_rng(seed)
    X = r.normal(size=(300, 3))
    y, w = (X[:, 0] + r.normal(size=300) > 0).astype(int), r.integers(1, 8, 300).astype(float)
    ours = NuSVM(nu=0.5, kernel=RBFKernel(1.0)).fit(X, y, w)
    report = ours.diagnostics(X, y, w)
    assert all(c.holds for c in report.certificates), report.certificates
    inside = np.where(y == 1, 1, -1) * ours.decision_function(X) < 1 - 1e-7
    machine = ours.machines_[0]
    assert set(machine.rows[np.abs(machine.beta) == machine.cap * w[machine.rows]]) == set(np.flatnonzero(inside))


def test_infeasible_nu_says_what_is_possible():
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.raises(InvalidParameter, match=r"at most 0\.2"):
        NuSVM(nu=0.5).fit(X, np.repeat([0, 1], [90, 10]))
    NuSVM(nu=0.2).fit(X, np.repeat([0, 1], [90, 10]))


def test_nu_classification_with_a_linear_kernel():
    X, t = waves(120)
    y = np.where(t + 0.5 * np.random.default_rng(1).normal(size=120) > 0, "up", "down")
    ours = NuSVM(nu=0.8, kernel=LinearKernel(), tol=1e-9).fit(X, y)
    peer = NuSVC(nu=0.8, kernel="linear", tol=1e-9).fit(X, y)
    w = ours.dual_coef_[0] @ ours.support_vectors_ / ours.prices_[0]  # ρ is not unique here, w ρ is
    np.testing.assert_allclose(w, peer.coef_[0] / np.abs(peer.dual_coef_).max(), rtol=1e-5)


def test_nu_too_small_for_overlapping_classes():
    X, _ = waves(120)
    y = np.random.default_rng(1).permutation(np.arange(120) % 2)
    with pytest.raises(InvalidParameter, match="too small"):
        NuSVM(nu=0.05, kernel=LinearKernel()).fit(X, y)


@pytest.mark.parametrize("nu", [0.5, 1.0])
def test_where_the_means_of_the_classes_coincide_no_nu_is_advised(nu: float) -> None:
    with pytest.raises(InvalidParameter, match="for any nu") as refused:
        NuSVM(nu=nu).fit(np.ones((20, 2)), np.arange(20) % 2)
    assert "raise nu" not in str(refused.value)


@pytest.mark.parametrize(("unit", "shift"), [(1e4, 0.0), (1.0, 1e6), (1.0, 1e9)])
def test_linear_kernel_keeps_its_digits_in_large_and_far_columns(unit, shift):
    r = np.random.default_rng(2)
    X = r.normal(size=(80, 2))
    y = X @ [1.0, 2.0] + 0.3 * r.normal(size=80)
    Z = np.column_stack([X[:, 0], X[:, 1] * unit + shift])
    for C in (1.0, 1e6):
        model = SupportVectorRegression(kernel=LinearKernel(), C=C, epsilon=0.2).fit(Z, y)
        report = model.diagnostics(Z, y)
        assert abs(report.summary["duality_gap"]) < 1e-12 * report.summary["primal"]
        assert all(c.holds for c in report.certificates)
        np.testing.assert_allclose(report.matrices["coef"] * [1.0, unit], [1.0, 2.0], atol=0.1)
    if unit == 1.0:  # the machine of the columns where they were
        near = SupportVectorRegression(kernel=LinearKernel(), C=C, epsilon=0.2).fit(X, y)
        np.testing.assert_allclose(model.predict(Z), near.predict(X), atol=1e-15 * shift)
