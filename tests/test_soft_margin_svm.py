"""soft_margin_svm and hard_margin_svm: closed forms, certified digits, scikit-learn, hostile columns, theorems."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.svm import SVC, LinearSVC

from ml_core.errors import Cancelled, InvalidData
from ml_core.progress import listen
from ml_core.solvers.box_interior_point import solve_low_rank
from ml_core.solvers.common_point import common_point
from ml_core.svm.duals import classification
from ml_core.svm.hard_margin_svm import HardMarginSVM
from ml_core.svm.kernel_svm import KernelSVM
from ml_core.svm.soft_margin_svm import SoftMarginSVM

HARD = (0.74805792653687541958, -1.4505610434449026566, 0.81755576928882099195,
        (-1.5445478085738946965, -1.2928934496978996835, -1.5067612927975448355, -1.2585595089671046322,
         -1.6013234871007960104))  # fmt: skip
SOLVERS = ["interior_point", "decomposition", "dual_coordinate_descent"]


def overlapping(n: int = 200, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d)) + 2.0
    return X, np.where(X @ np.arange(1.0, d + 1) + 3.0 * r.normal(size=n) > 2.0 * d * (d + 1) / 2, "yes", "no")


def objective(X, sign, w, b, C, s=1.0, power=1):
    return 0.5 * w @ w + C * np.sum(s * np.maximum(0, 1 - sign * (X @ w + b)) ** power)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("C", "w", "b", "best"), [(1.0, 2 / 3, -1 / 3, 26 / 9), (10.0, 2 / 3, -1 / 3, 242 / 9),
                                                   (0.25, 0.5, -0.25, 0.875)])  # fmt: skip
def test_overlapping_line(solver, C, w, b, best):
    X, y = np.array([[-2.0], [-1], [1], [0], [2]]), np.array([0, 0, 0, 1, 1])
    model = SoftMarginSVM(C=C, solver=solver, tol=1e-9).fit(X, y)
    report = model.diagnostics(X, y)
    exact = solver != "dual_coordinate_descent"
    assert report.summary["primal"] == pytest.approx(best, abs=1e-9 if exact else 1e-5)
    assert model.coef_[0, 0] == pytest.approx(w, abs=1e-9 if exact else 1e-5)
    if C > 0.3 or exact:
        assert model.intercept_[0] == pytest.approx(b, abs=1e-9 if exact else 1e-5)


@pytest.mark.parametrize("solver", ["interior_point", "decomposition"])
def test_known_values(solver):
    X = np.array([[2, 2], [4, 4], [4, 0], [0, 0], [2, 0], [0, 2]], dtype=float)
    model = SoftMarginSVM(C=10.0, solver=solver).fit(X, np.array([1, 1, 1, 0, 0, 0]))
    np.testing.assert_allclose(model.coef_, [[1.0, 1.0]], atol=1e-9)
    np.testing.assert_allclose(model.intercept_, [-3.0], atol=1e-9)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("d", [2, 30])
def test_all_solvers_agree(C, d):
    X, y = overlapping(150, d)
    sign = np.where(y == "yes", 1.0, -1.0)
    values = []
    for solver in SOLVERS[:2]:
        model = SoftMarginSVM(C=C, solver=solver, tol=1e-8).fit(X, y)
        report = model.diagnostics(X, y)
        assert all(c.holds for c in report.certificates), (solver, report.certificates)
        values.append(objective(X, sign, model.coef_[0], model.intercept_[0], C))
        assert report.summary["primal"] == pytest.approx(values[-1], rel=1e-10)
    np.testing.assert_allclose(values, values[0], rtol=1e-9)
    peer = SVC(C=C, kernel="linear", tol=1e-9).fit(X, y)
    assert values[0] <= objective(X, sign, peer.coef_[0], peer.intercept_[0], C) * (1 + 1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_coordinate_descent(loss):
    X, y = overlapping(150, 6)
    power, sign = 1 + (loss == "squared_hinge"), np.where(y == "yes", 1.0, -1.0)
    exact = SoftMarginSVM(C=0.1, loss=loss).fit(X, y)
    descent = SoftMarginSVM(C=0.1, loss=loss, solver="dual_coordinate_descent", tol=1e-5).fit(X, y)
    best = objective(X, sign, exact.coef_[0], exact.intercept_[0], 0.1, power=power)
    found = objective(X, sign, descent.coef_[0], descent.intercept_[0], 0.1, power=power)
    assert best <= found <= best * (1 + 1e-5)
    report = descent.diagnostics(X, y)
    assert -1e-9 <= report.summary["duality_gap"] <= 1e-3 * best


def test_squared_hinge_against_liblinear():
    X, y = overlapping(200, 6)
    X = X - X.mean(axis=0)
    sign = np.where(y == "yes", 1.0, -1.0)
    model = SoftMarginSVM(C=0.5, loss="squared_hinge").fit(X, y)
    report = model.diagnostics(X, y)
    assert all(c.holds for c in report.certificates), report.certificates
    assert report.summary["duality_gap"] <= 1e-8 * report.summary["primal"]
    peer = LinearSVC(C=0.5, dual=False, tol=1e-10, intercept_scaling=1e4, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-4)
    ours = objective(X, sign, model.coef_[0], model.intercept_[0], 0.5, power=2)
    assert ours <= objective(X, sign, peer.coef_[0], peer.intercept_[0], 0.5, power=2) * (1 + 1e-12)


@pytest.mark.parametrize("factor", [1e-4, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("Model", [SoftMarginSVM, lambda: KernelSVM(kernel={"kernel": "linear"})])
def test_unscaled_column_never_hangs(factor, Model):
    r = np.random.default_rng(0)
    X = r.normal(size=(200, 2))
    y = (X[:, 0] + X[:, 1] / 2 + 0.5 * r.normal(size=200) > 0).astype(int)
    X = X * np.array([1.0, factor])
    Model().fit(X[:20], np.arange(20) % 2)
    started = time.process_time()
    model = Model().fit(X, y)
    assert time.process_time() - started < 2.0
    assert not model.notices_
    report = model.diagnostics(X, y)
    assert report.summary["duality_gap"] < 1e-5 * report.summary["primal"]


def test_offset_columns_move_only_the_intercept():
    X, y = overlapping(120, 3)
    one, two = SoftMarginSVM().fit(X, y), SoftMarginSVM().fit(X + np.array([1e5, -300, 0]), y)
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-6)


def test_weights_and_classes():
    X, y = overlapping(90, 3)
    s = np.random.default_rng(1).integers(1, 4, 90)
    one = SoftMarginSVM(C=0.2).fit(X, y, sample_weight=s.astype(float))
    two = SoftMarginSVM(C=0.2).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-8)
    three = SoftMarginSVM(C=0.2, class_weight={"no": 3.0}).fit(X, y)
    peer = SVC(C=0.2, kernel="linear", class_weight={"no": 3.0}, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(three.coef_, peer.coef_, atol=1e-5)


@pytest.mark.parametrize("multiclass", ["one_vs_one", "one_vs_rest"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_several_classes(multiclass, loss):
    X, y = load_iris(return_X_y=True)
    model = SoftMarginSVM(multiclass=multiclass, loss=loss).fit(X, y)
    assert model.score(X, y) > 0.93
    report = model.diagnostics(X, y)
    assert all(c.holds for c in report.certificates), report.certificates
    if multiclass == "one_vs_one" and loss == "hinge":
        assert (model.predict(X) == SVC(kernel="linear", tol=1e-9).fit(X, y).predict(X)).all()


def test_cancel_within():
    X, y = overlapping(100, 4)

    def stop(t):
        raise Cancelled

    for solver in SOLVERS:
        with listen(stop), pytest.raises(Cancelled):
            SoftMarginSVM(solver=solver).fit(X, y)


def test_interior_point_in_two_groups_and_degenerate_rows():
    X = np.repeat(np.random.default_rng(0).normal(size=(6, 2)), 5, axis=0)
    sign = np.tile([1.0, 1, -1, -1, 1], 6)
    found = solve_low_rank(classification(sign, np.full(30, 0.5)), X, tol=1e-6)
    assert found.violation < 1e-6
    assert abs(found.beta.sum()) < 1e-12


def test_hard_margin_reference():
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    model = HardMarginSVM().fit(X, y)
    report = model.diagnostics(X, y)
    assert report.summary["dual"] == pytest.approx(HARD[0], rel=1e-10)
    assert report.summary["primal"] == pytest.approx(HARD[0], rel=1e-10)
    assert model.intercept_[0] == pytest.approx(HARD[1], abs=1e-9)
    assert report.summary["margin"] == pytest.approx(HARD[2], rel=1e-10)
    np.testing.assert_allclose(model.decision_function(X[:5]), HARD[3], atol=1e-9)
    assert len(model.support_) == 3
    assert all(c.holds for c in report.certificates)


def test_hard_margin_by_hand():
    X = np.array([[0, 0], [1, 0], [0, 1], [3, 3], [4, 3], [3, 4]], dtype=float)
    model = HardMarginSVM().fit(X, ["-", "-", "-", "+", "+", "+"][::-1])
    np.testing.assert_allclose(np.abs(model.coef_), [[0.4, 0.4]], atol=1e-10)
    np.testing.assert_allclose(np.abs(model.intercept_), 1.4, atol=1e-10)
    np.testing.assert_allclose(np.sort(np.abs(model.dual_coef_[0])), [0.08, 0.08, 0.16], atol=1e-9)
    signed = HardMarginSVM().fit(X, [0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose([*signed.coef_[0], signed.intercept_[0]], [0.4, 0.4, -1.4], atol=1e-10)
    report = signed.diagnostics(X, [0, 0, 0, 1, 1, 1])
    assert report.summary["margin"] == pytest.approx(1.767766952966, abs=1e-11)
    two = HardMarginSVM().fit([[-1.0], [1.0]], [0, 1])
    assert (two.coef_[0, 0], two.intercept_[0]) == pytest.approx((1.0, 0.0), abs=1e-10)
    np.testing.assert_allclose(np.abs(two.dual_coef_), 0.5, atol=1e-10)


def test_hard_margin_moves_with_the_rows():
    r = np.random.default_rng(2)
    X = np.vstack([r.normal(size=(30, 3)), r.normal(size=(30, 3)) + 6])
    y, (Q, _) = np.repeat([0, 1], 30), np.linalg.qr(r.normal(size=(3, 3)))
    one, two = HardMarginSVM().fit(X, y), HardMarginSVM().fit(X @ Q + 50, y)
    np.testing.assert_allclose(np.linalg.norm(one.coef_), np.linalg.norm(two.coef_), rtol=1e-8)
    lifted = HardMarginSVM().fit(np.hstack([X, X**2]), y)
    assert np.linalg.norm(lifted.coef_) <= np.linalg.norm(one.coef_) * (1 + 1e-9)


def test_inseparable_is_refused_with_a_proof():
    X = np.array([[0.0, 0], [1, 1], [0, 1], [1, 0]])
    with pytest.raises(InvalidData, match="no hyperplane separates") as refused:
        HardMarginSVM().fit(X, [0, 0, 1, 1])
    assert {i.code for i in refused.value.issues} == {"not_separable"}
    a, b = common_point(X[:2], X[2:])
    np.testing.assert_allclose(a @ X[:2], b @ X[2:], atol=1e-12)
    np.testing.assert_allclose([a.sum(), b.sum()], 1, atol=1e-12)
    assert common_point(X[:2], X[2:] + np.array([0, 3])) is None


def test_hard_margin_is_the_limit_of_soft_ones():
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    np.testing.assert_allclose(SoftMarginSVM(C=1e6).fit(X, y).coef_, HardMarginSVM().fit(X, y).coef_, rtol=1e-7)


@pytest.mark.parametrize("shift", [1e5, 1e7, 1e8])
@pytest.mark.parametrize("solver", ["interior_point", "decomposition"])
def test_rows_far_from_the_origin_have_the_machine_of_the_same_rows_near_it(shift: float, solver: str) -> None:
    rng = np.random.default_rng(0)
    near = np.round(rng.normal(size=(60, 3)) * 2**10) / 2**10
    y = (near[:, 0] + near[:, 1] / 2 + 0.5 * rng.normal(size=60) > 0).astype(int)
    expected = SoftMarginSVM().fit(near, y)
    found = SoftMarginSVM(solver=solver).fit(near + shift, y)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)
    report = found.diagnostics(near + shift, y)
    assert all(c.holds for c in report.certificates), report.certificates
    assert report.summary["duality_gap"] <= 1e-8 * report.summary["primal"]
    np.testing.assert_allclose(found.decision_function(near + shift), expected.decision_function(near), atol=1e-6)


@pytest.mark.parametrize("unit", [1e4, 1e5, 1e6])
def test_columns_of_large_numbers_do_not_lose_the_machine(unit: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + X[:, 1] / 2 + 0.5 * rng.normal(size=60) > 0).astype(int)
    small, large = SoftMarginSVM(C=1e6).fit(X, y), SoftMarginSVM().fit(X * unit, y)
    assert large.score(X * unit, y) == pytest.approx(small.score(X, y), abs=0.02)
    report = large.diagnostics(X * unit, y)
    assert report.summary["primal"] == pytest.approx(report.summary["dual"], rel=1e-8)
    assert all(c.holds for c in report.certificates), report.certificates
    np.testing.assert_allclose(large.coef_ * unit, SoftMarginSVM(C=unit**2).fit(X, y).coef_, rtol=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_descent_far_from_the_origin_is_certified(loss: str) -> None:
    X, y = overlapping(150, 3)
    model = SoftMarginSVM(C=0.1, loss=loss, solver="dual_coordinate_descent").fit(X + 1e6, y)  # type: ignore[arg-type]
    report = model.diagnostics(X + 1e6, y)
    assert all(c.holds for c in report.certificates), report.certificates
    assert not report.warnings
    np.testing.assert_allclose(model.coef_, SoftMarginSVM(C=0.1, loss=loss).fit(X, y).coef_, atol=1e-5)  # type: ignore[arg-type]


def test_auto_converges_on_overlapping_classes_beyond_three_hundred_columns() -> None:
    """Coordinate descent took 80,000 rounds here and had not ended."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1300, 305))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)
    model = SoftMarginSVM().fit(X, y)
    assert model.notices_ == []
    assert all(c.holds for c in model.diagnostics(X, y).certificates)
