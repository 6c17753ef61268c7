"""crammer_singer_svm and lifted_svm: closed forms, scikit-learn, theorems."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_iris
from sklearn.svm import LinearSVC

from ml_core.progress import listen
from ml_core.svm.crammer_singer_svm import CrammerSingerSVM as Model
from ml_core.svm.hard_margin_svm import HardMarginSVM
from ml_core.svm.lifted_svm import LiftedSVM

X8 = np.array([[1, 0], [2, 1], [0, 1], [1, 2], [-1, -1], [-2, -1], [0.5, -1], [1.2, 1.1]])
Y8 = np.array([0, 0, 1, 1, 2, 2, 0, 1])


def objective(M, Z, y, C):
    F = Z @ M.T
    rows = np.arange(len(Z))
    ahead = F + 1.0
    ahead[rows, y] -= 1.0
    return 0.5 * (M * M).sum() + C * (ahead.max(axis=1) - F[rows, y]).sum()


def test_known_values():
    model = Model(C=1.0, fit_intercept=False, tol=1e-10).fit(X8, Y8)
    want = [[0.83333333, -0.55555556], [-0.33333333, 0.77777778], [-0.5, -0.22222222]]
    np.testing.assert_allclose(model.coef_, want, atol=1e-7)
    report = model.diagnostics(X8, Y8)
    assert report.summary["primal"] == pytest.approx(1.94259259259, abs=1e-8)
    assert report.summary["dual"] == pytest.approx(1.94259259259, abs=1e-8)
    assert report.summary["total_slack"] == pytest.approx(0.93333333, abs=1e-7)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-12)
    cases = [report.summary[case] for case in ("zero", "free", "bound")]
    assert cases == [3, 4, 1]  # margins above 1: rows 0, 3 and 5; below: row 7
    assert report.summary["largest_violation"] <= 1e-10
    assert all(c.holds for c in report.certificates)


@pytest.mark.parametrize("C", [0.01, 0.5])
def test_against_liblinear(C):
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    Z = np.column_stack([X, np.ones(len(X))])
    model = Model(C=C, tol=1e-8).fit(X, y)
    peer = LinearSVC(C=C, multi_class="crammer_singer", tol=1e-10, max_iter=200_000, random_state=0).fit(X, y)
    theirs = np.column_stack([peer.coef_, peer.intercept_])
    ours = np.column_stack([model.coef_, model.intercept_])
    assert objective(ours, Z, y, C) <= objective(theirs, Z, y, C) * (1 + 1e-9)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    report = model.diagnostics(X, y)
    assert all(c.holds for c in report.certificates), report.certificates
    assert report.summary["duality_gap"] < 1e-6 * report.summary["primal"]


def test_two_classes_are_the_binary_machine_without_intercept():
    X, y = X8[Y8 < 2], Y8[Y8 < 2]
    sign = 2.0 * y - 1
    model = Model(C=0.7, fit_intercept=False, tol=1e-10).fit(X, y)
    w = model.coef_[1] - model.coef_[0]

    def dual(a):
        v = (a * sign) @ X
        return 0.5 * v @ v - a.sum()

    best = minimize(dual, np.full(len(X), 0.1), bounds=[(0, 1.4)] * len(X), options={"ftol": 1e-15, "gtol": 1e-12})
    np.testing.assert_allclose(w, (best.x * sign) @ X, atol=1e-4)
    assert model.diagnostics(X, y).summary["primal"] == pytest.approx(-0.5 * best.fun, rel=1e-6)


def test_weights_are_repetitions():
    s = np.array([1, 2, 1, 3, 1, 1, 2, 1])
    one = Model(tol=1e-10).fit(X8, Y8, sample_weight=s.astype(float))
    two = Model(tol=1e-10).fit(np.repeat(X8, s, axis=0), np.repeat(Y8, s))
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-7)


def test_budget_and_progress():
    X, y = load_iris(return_X_y=True)
    seen = []
    with listen(lambda t: seen.append(t.metrics["duality_gap"])):
        model = Model(C=1e4, max_iter=3).fit(X, y)
    assert seen
    assert [n.code for n in model.notices_] == ["not_converged"]


def ring(n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(0)
    angle, radius = r.uniform(0, 2 * np.pi, n), np.where(np.arange(n) % 2, r.uniform(0, 1.5, n), r.uniform(2.5, 4, n))
    return np.column_stack([1 + radius * np.cos(angle), -2 + radius * np.sin(angle)]), np.arange(n) % 2


@pytest.mark.parametrize("lift", ["parabolic", "axis_aligned_quadric", "quadric", "polynomial"])
def test_lifts_separate_a_ring(lift):
    X, y = ring()
    model = LiftedSVM(lift=lift, C=1e4, degree=2).fit(X, y)
    report = model.diagnostics(X, y)
    assert model.score(X, y) == 1
    assert all(c.holds for c in report.certificates), report.certificates
    if lift == "parabolic":
        assert model.boundary_ == "sphere"
        np.testing.assert_allclose(report.matrices["sphere_centre"], [1, -2], atol=0.4)
        assert 1.5 < report.summary["sphere_radius"] < 2.5


def test_lifting_never_narrows_the_margin():
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    plain = HardMarginSVM().fit(X, y)
    for lift in ("parabolic", "axis_aligned_quadric", "quadric"):
        lifted = LiftedSVM(lift=lift, C=1e6).fit(X, y)
        assert np.linalg.norm(lifted.coef_) <= np.linalg.norm(plain.coef_) * (1 + 1e-8)


def test_cubic_cuts_a_line_into_four():
    x = np.array([-3.0, -2.5, -1.0, -0.5, 0.5, 1.0, 2.5, 3.0])
    y = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    model = LiftedSVM(lift="polynomial", degree=3, C=1e6).fit(x[:, None], y)
    assert model.score(x[:, None], y) == 1


def test_scaled_columns_have_no_unit_and_coefficients_are_in_those_given() -> None:
    r = np.random.default_rng(5)
    y = np.arange(90) % 3
    X = r.normal(size=(90, 4)) + y[:, None] * [1.0, -0.5, 0.0, 0.3]
    far = np.column_stack([X * [1.0, 4e3, 1e-4, 1.0] + [0.0, 4e4, 1.0, -7.0], np.full(90, 3.0)])
    one, two = Model(scale=True, tol=1e-7).fit(X, y), Model(scale=True, tol=1e-7).fit(far, y)
    np.testing.assert_allclose(two.decision_function(far), one.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(far @ two.coef_.T + two.intercept_, two.decision_function(far), atol=1e-9)
    assert all(c.holds for c in two.diagnostics(far, y).certificates)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(one.decision_function(X), Model(tol=1e-7).fit(Z, y).decision_function(Z), atol=1e-5)


def test_a_lift_of_scaled_columns_has_no_unit() -> None:
    r = np.random.default_rng(6)
    X = r.normal(size=(80, 2))
    y = (np.square(X).sum(axis=1) > 1.2).astype(int)
    far = X * [4e3, 1e-3] + [4e4, 7.0]
    one, two = (LiftedSVM(lift="parabolic", scale=True, C=10.0).fit(Z, y) for Z in (X, far))
    np.testing.assert_allclose(two.decision_function(far), one.decision_function(X), atol=1e-4)
    assert all(c.holds for c in two.diagnostics(far, y).certificates)
