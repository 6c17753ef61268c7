"""kernel_svm and its decomposition: certified digits, closed forms, brute force, scikit-learn, theorems."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.svm import SVC

from ml_core import progress
from ml_core.errors import Cancelled, InvalidData, InvalidParameter
from ml_core.kernels import LinearKernel, PolynomialKernel, PrecomputedKernel, RBFKernel
from ml_core.numerics.exponential import gaussian_of_products, gaussian_rows_single
from ml_core.parallel import use_threads
from ml_core.solvers import smo, smo_blocks
from ml_core.solvers.box_dual import BoxDual, dual_value, gap, levels, multipliers
from ml_core.solvers.constrained import Constrained
from ml_core.solvers.free_set import units
from ml_core.solvers.free_step import follow, still_free
from ml_core.solvers.kernel_rows import Centred, KernelRows, RowCache
from ml_core.solvers.smo import solve_box
from ml_core.svm.duals import classification, nu_classification, regression
from ml_core.svm.kernel_svm import KernelSVM as Model
from ml_core.svm.nu_svm import NuSVM
from ml_core.svm.soft_margin_svm import SoftMarginSVM

CANCER = (59.761345371335843505, -0.2353671434905019428,
          (-1.0, -1.8804191917722173489, -2.4440467704762904375, -1.0, -1.4801939268355690234))  # fmt: skip


def cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def cloud(n: int = 300, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.4 * r.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-12])
def test_reference_digits(tol):
    X, y = cancer()
    model = Model(C=1.0, kernel=RBFKernel(length_scale=np.sqrt(15.0)), tol=tol).fit(X, y)
    report = model.diagnostics(X, y)
    loose = 1e-6 if tol > 1e-4 else 1e-10
    assert abs(report.summary["primal"] / CANCER[0] - 1) < loose
    assert abs(report.summary["dual"] / CANCER[0] - 1) < loose
    if tol < 1e-4:
        assert abs(model.intercept_[0] - CANCER[1]) < 1e-6
        np.testing.assert_allclose(model.decision_function(X[:5]), CANCER[2], atol=1e-6)
        assert (report.summary["free"], report.summary["bound"], report.summary["training_errors"]) == (57, 62, 7)
        assert report.summary["misplaced"] == 0
    assert all(c.holds for c in report.certificates)


def test_known_values():
    X = np.array([[2, 2], [4, 4], [4, 0], [0, 0], [2, 0], [0, 2]], dtype=float)
    y = np.array([1, 1, 1, 0, 0, 0])
    model = Model(C=10.0, kernel=LinearKernel(), tol=1e-10).fit(X, y)
    report = model.diagnostics(X, y)
    assert report.summary["margin"] == pytest.approx(0.70710678118654752, abs=1e-9)
    assert report.summary["primal"] == pytest.approx(1.0, abs=1e-9)
    assert report.summary["dual"] == pytest.approx(1.0, abs=1e-9)
    assert model.intercept_[0] == pytest.approx(-3.0, abs=1e-9)
    np.testing.assert_allclose(model.dual_coef_ @ model.support_vectors_, [[1.0, 1.0]], atol=1e-9)


def test_exclusive_or():
    X, y = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=float), np.array([1, 0, 0, 1])
    model = Model(C=10.0, kernel=PolynomialKernel(degree=2), tol=1e-12).fit(X, y)
    np.testing.assert_allclose(np.abs(model.dual_coef_), 0.125, atol=1e-12)
    assert model.diagnostics(X, y).summary["dual"] == pytest.approx(0.25, abs=1e-12)


@pytest.mark.parametrize(("C", "objective", "b"), [(1.0, 2.88888888888889, -1 / 3), (10.0, 26.8888888888889, -1 / 3),
                                                   (0.25, 0.875, -0.25)])  # fmt: skip
def test_overlapping_line(C, objective, b):
    X, y = np.array([[-2.0], [-1], [1], [0], [2]]), np.array([0, 0, 0, 1, 1])
    model = Model(C=C, kernel=LinearKernel(), tol=1e-10).fit(X, y)
    assert model.diagnostics(X, y).summary["primal"] == pytest.approx(objective, abs=1e-9)
    assert model.intercept_[0] == pytest.approx(b, abs=1e-9)
    assert ("intercept_interval" in [n.code for n in model.notices_]) == (C == 0.25)


@pytest.mark.parametrize("seed", range(6))
def test_brute_force(seed):
    r = np.random.default_rng(seed)
    n = 7
    X, cap = r.normal(size=(n, 2)), r.uniform(0.2, 3.0, n)
    sign = np.where(r.permutation(n) % 2 == 0, 1.0, -1.0)
    K = RBFKernel(length_scale=0.8)(X)
    Q = K * np.outer(sign, sign)
    best = min((minimize(lambda a: 0.5 * a @ Q @ a - a.sum(), cap * f, jac=lambda a: Q @ a - 1, method="SLSQP",
                         bounds=[(0, c) for c in cap], constraints={"type": "eq", "fun": lambda a: a @ sign},
                         options={"ftol": 1e-15, "maxiter": 500}) for f in (0, 0.5)), key=lambda s: s.fun)  # fmt: skip
    found = solve_box(classification(sign, cap), KernelRows(RBFKernel(length_scale=0.8), X), tol=1e-12, max_iter=10**6)
    assert found.converged
    assert found.trace[-1] == pytest.approx(-best.fun, rel=1e-7)
    assert found.trace[-1] >= -best.fun - 1e-9


@pytest.mark.parametrize("kernel", [RBFKernel(length_scale=1.5), LinearKernel(), PolynomialKernel(degree=2)])
@pytest.mark.parametrize("C", [0.1, 5.0])
def test_blocks_shrinking_and_one_block_agree(monkeypatch, kernel, C):
    X, sign = cloud(600)
    dual, rows = classification(sign, np.full(600, C)), KernelRows(kernel, X)
    one = solve_box(dual, rows, tol=1e-9, max_iter=10**6)
    monkeypatch.setattr(smo, "DENSE", 10)
    monkeypatch.setattr(smo_blocks, "BLOCK", 32)
    monkeypatch.setattr(smo_blocks, "SHRINK_EVERY", 2)
    for size in (1 << 30, 1 << 19):  # everything held; 109 rows held, so rows are evicted and shrunk
        many = solve_box(dual, rows, tol=1e-9, max_iter=10**6, cache_bytes=size)
        assert many.converged
        assert many.trace[-1] == pytest.approx(one.trace[-1], rel=1e-11)
        f = rows.times(many.beta[0])
        np.testing.assert_allclose(-f + sign, many.v[0], atol=1e-10 * (1 + np.abs(f).max()))
        assert np.all(np.diff(many.trace) >= -1e-9 * many.trace[-1]), "the dual fell"


def test_shrinking_happens(monkeypatch):
    X, sign = cloud(800)
    seen = []
    original = smo_blocks.Blocks._restore

    def spy(self):
        seen.append(len(self.active))
        original(self)

    monkeypatch.setattr(smo_blocks.Blocks, "_restore", spy)
    monkeypatch.setattr(smo, "DENSE", 10)
    monkeypatch.setattr(smo_blocks, "BLOCK", 32)
    monkeypatch.setattr(smo_blocks, "SHRINK_EVERY", 2)
    solve_box(classification(sign, np.full(800, 1.0)), KernelRows(RBFKernel(length_scale=1.5), X), tol=1e-6,
              max_iter=10**6, cache_bytes=1 << 19)  # fmt: skip
    assert min(seen) < 800


@pytest.mark.parametrize("tol", [1e-3, 1e-10])
@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("form", ["labels", "targets", "nu"])
def test_single_precision_rows_reach_the_answer_of_double(monkeypatch, form, C, tol):
    X, sign = cloud(500)
    t = X[:, 0] * X[:, 1] + 0.1 * sign
    dual = {"labels": classification(sign, np.full(500, C)), "targets": regression(t, np.full(500, C), 0.1),
            "nu": nu_classification(sign, np.full(500, C), 0.4)}[form]  # fmt: skip
    rows = KernelRows(RBFKernel(length_scale=1.5), X)
    want = solve_box(dual, rows, tol=tol, max_iter=10**6)
    monkeypatch.setattr(smo, "DENSE", 10)
    monkeypatch.setattr(smo_blocks, "SINGLE", 10)
    monkeypatch.setattr(smo_blocks, "BLOCK", 64)
    monkeypatch.setattr(smo_blocks, "SHRINK_EVERY", 2)
    found = solve_box(dual, rows, tol=tol, max_iter=10**6, cache_bytes=1 << 18)
    v = -dual.c - rows.times(found.beta.sum(axis=0))
    assert found.converged
    assert levels(dual, found.beta, v).violation <= tol
    assert dual_value(dual, found.beta, v) == pytest.approx(
        dual_value(dual, want.beta, want.v), rel=1e-10 if tol < 1e-4 else 1e-6)  # fmt: skip
    np.testing.assert_allclose(found.b, want.b, atol=1e-6 if tol < 1e-4 else 2 * tol)


def test_rows_are_double_where_single_precision_errs_too_much(monkeypatch):
    X, sign = cloud(500)
    held = []
    original = smo_blocks.Blocks._hold
    monkeypatch.setattr(smo, "DENSE", 10)
    monkeypatch.setattr(smo_blocks, "SINGLE", 10)
    monkeypatch.setattr(smo_blocks.Blocks, "_hold", lambda work, rows: held.append(rows) or original(work, rows))
    rows = KernelRows(RBFKernel(length_scale=1.0), X)
    solve_box(classification(sign, np.full(500, 1.0)), rows, tol=1e-4, max_iter=10**6)
    assert [h.centred.P.dtype for h in held] == [np.float32]
    solve_box(classification(sign, np.full(500, 1e6)), rows, tol=1e-4, max_iter=10**6)
    assert held[2] is rows
    assert Centred.of(RBFKernel(length_scale=0.15), X).single() is None


def test_row_cache_sums_and_evicts_the_least_used():
    X, _ = cloud(50)
    rows = KernelRows(RBFKernel(length_scale=1.0), X)
    cache, K = RowCache(rows, 20 * 50 * 8, 20, lambda add, parts: list(map(add, parts))), rows.block(np.arange(50))
    r = np.random.default_rng(0)
    for k in range(40):
        ids, weight = r.choice(50, 15, replace=k % 2 > 0), r.normal(size=15) * (r.random(15) < 0.8)
        np.testing.assert_allclose(cache.weighted(ids, weight), weight @ K[ids], atol=1e-14)
    held = np.flatnonzero(cache.slot >= 0)
    assert len(held) == 20
    cache.shrink(np.arange(0, 50, 2))
    np.testing.assert_allclose(cache.weighted(held, np.ones(20)), K[held][:, ::2].sum(axis=0), atol=1e-14)
    assert cache.computed == 0
    assert cache.capacity == 40


@pytest.mark.parametrize("kernel", [RBFKernel(length_scale=2.0), PolynomialKernel(degree=2)])
def test_bits_do_not_depend_on_threads(kernel):
    X, y = cloud(1500)
    found = []
    for n in (1, 2, 3):
        with use_threads(n):
            model = Model(C=2.0, kernel=kernel, tol=1e-4, cache_bytes=8 << 20).fit(X, y)
            found.append((model.dual_coef_.tobytes(), model.intercept_.tobytes(), model.decision_function(X).tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("far", [0.0, 1e8])
def test_gaussian_rows(far):
    r = np.random.default_rng(0)
    X = r.normal(size=(60, 30)) + far
    kernel = RBFKernel(length_scale=3.0)
    want = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2) / 9)
    rows = KernelRows(kernel, X)
    np.testing.assert_allclose(rows.block(np.arange(60)), want, atol=1e-14)
    np.testing.assert_allclose(rows.square(np.arange(60)), want, atol=1e-14)
    np.testing.assert_allclose(rows.single().block(np.arange(60)), want, atol=1e-5)
    np.testing.assert_allclose(rows.single().times(np.ones(60), np.arange(9)), want.sum(axis=0)[:9], rtol=1e-6)


def test_exponential():
    x = np.concatenate([np.linspace(-760, 0, 4001), -np.logspace(-300, 2, 200)])
    D = x[None].copy()
    gaussian_of_products(D, np.zeros(1), np.zeros(len(x)))
    want = np.exp(x)
    out, single = np.zeros(2 * len(x) + 3, np.float32), x.astype(np.float32)
    nothing = [np.zeros(k, np.float32) for k in (1, len(x))]
    gaussian_rows_single(single[None], *nothing, out, len(x) + 1, 1, np.ones(1, int))
    stored = out[len(x) + 2 : 2 * len(x) + 2]
    high = single > -87
    assert np.abs(stored / np.where(high, np.exp(single.astype(float)), 1) - 1)[high].max() < 1.2e-7
    assert (stored[~high] == 0).all()
    assert (out[: len(x) + 2] == 0).all()
    normal = x > -708
    assert np.abs(D[0] / np.where(normal, want, 1) - 1)[normal].max() < 5e-16
    assert (D[0][~normal] == 0).all()


def test_weights_are_repetitions():
    X, y = cloud(80)
    s = np.random.default_rng(1).integers(1, 4, 80)
    one = Model(C=0.7, kernel=RBFKernel(length_scale=1.0), tol=1e-10).fit(X, y, sample_weight=s.astype(float))
    two = Model(C=0.7, kernel=RBFKernel(length_scale=1.0), tol=1e-10).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-8)


def test_class_weights():
    X, y = cloud(150)
    ours = Model(C=0.5, kernel=RBFKernel(length_scale=1.0), class_weight={"-1.0": 1.0, "1.0": 4.0}, tol=1e-9).fit(X, y)
    peer = SVC(C=0.5, gamma=0.5, class_weight={-1.0: 1.0, 1.0: 4.0}, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-6)
    balanced = Model(C=0.5, kernel=RBFKernel(length_scale=1.0), class_weight="balanced", tol=1e-9).fit(X, y)
    peer = SVC(C=0.5, gamma=0.5, class_weight="balanced", tol=1e-9).fit(X, y)
    np.testing.assert_allclose(balanced.decision_function(X), peer.decision_function(X), atol=1e-6)
    with pytest.raises(InvalidData, match=r"-1\.0"):
        Model(class_weight={"-1.0": 0.0}).fit(X, y)
    with pytest.raises(InvalidParameter, match="names 'x'"):
        Model(class_weight={"x": 2.0}).fit(X, y)


@pytest.mark.parametrize("multiclass", ["one_vs_one", "one_vs_rest"])
def test_several_classes(multiclass):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = Model(kernel=RBFKernel(length_scale=1.0), multiclass=multiclass, tol=1e-9).fit(X, names)
    if multiclass == "one_vs_one":
        peer = SVC(gamma=0.5, tol=1e-9).fit(X, names)
        np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-6)
        assert (model.predict(X) == peer.predict(X)).all()
    else:
        for k, name in enumerate(model.classes_):
            peer = SVC(gamma=0.5, tol=1e-9).fit(X, names == name)
            np.testing.assert_allclose(model.decision_function(X)[:, k], peer.decision_function(X), atol=1e-6)
    report = model.diagnostics(X, names)
    assert len(report.tables["machines"].rows) == 3
    assert all(c.holds for c in report.certificates)


def test_scaling_inside():
    X, y = cloud(120)
    wild = X * np.array([1e6, 1e-5, 1.0, 30.0]) + np.array([1e7, 0, 3, -50])
    one = Model(kernel=RBFKernel(length_scale=1.5), scale=True, tol=1e-9).fit(X, y)
    two = Model(kernel=RBFKernel(length_scale=1.5), scale=True, tol=1e-9).fit(wild, y)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(wild), atol=1e-6)


def test_only_support_vectors_matter():
    X, y = cloud(200)
    model = Model(kernel=RBFKernel(length_scale=1.0), tol=1e-10).fit(X, y)
    again = Model(kernel=RBFKernel(length_scale=1.0), tol=1e-10).fit(X[model.support_], y[model.support_])
    np.testing.assert_allclose(model.decision_function(X), again.decision_function(X), atol=1e-8)


def test_duplicates_and_contradictions():
    X = np.repeat([[0.0, 1.0], [2.0, 1.0], [2.0, 1.0]], 20, axis=0)
    y = np.repeat([0, 1, 0], 20)
    model = Model(kernel=RBFKernel(length_scale=1.0)).fit(X, y)
    report = model.diagnostics(X, y)
    assert all(c.holds for c in report.certificates)
    assert report.summary["training_errors"] == 20


def test_diagnostics_need_the_training_rows():
    X, y = cloud(60)
    model = Model(kernel=RBFKernel(length_scale=1.0)).fit(X, y)
    with pytest.raises(InvalidData, match="training rows"):
        model.diagnostics(X[:50], y[:50])


def test_a_budget_is_told():
    X, y = cloud(200)
    model = Model(kernel=RBFKernel(length_scale=1.0), C=100.0, max_iter=3).fit(X, y)
    assert "not_converged" in [n.code for n in model.notices_]
    report = model.diagnostics(X, y)
    assert report.summary["duality_gap"] > 0
    assert not all(c.holds for c in report.certificates)


def test_progress_tells_the_gap_and_cancels():
    X, y = cloud(200)
    seen = []

    def sink(t):
        seen.append(t.metrics)
        if len(seen) == 2:
            raise Cancelled

    with progress.listen(sink), pytest.raises(Cancelled):
        Model(kernel=RBFKernel(length_scale=1.0)).fit(X, y)
    assert seen[0]["duality_gap"] > seen[0]["dual_objective"] - 1


def test_regression_dual_against_brute_force():
    r = np.random.default_rng(3)
    X, cap = r.normal(size=(6, 1)), np.full(6, 1.5)
    t = np.sin(2 * X[:, 0])
    K = RBFKernel(length_scale=0.7)(X)
    found = solve_box(regression(t, cap, 0.1), KernelRows(RBFKernel(length_scale=0.7), X), tol=1e-12, max_iter=10**6)

    def cost(z):
        b = z[:6] - z[6:]
        return 0.5 * b @ K @ b - b @ t + 0.1 * z.sum()

    best = minimize(cost, np.full(12, 0.2), method="SLSQP", bounds=[(0, 1.5)] * 12, options={"ftol": 1e-15},
                    constraints={"type": "eq", "fun": lambda z: z[:6].sum() - z[6:].sum()})  # fmt: skip
    assert found.trace[-1] == pytest.approx(-best.fun, abs=1e-7)


def test_gap_and_dual_value_by_hand():
    dual = BoxDual(np.array([[-1.0, 1.0]]), np.array([[0.0, -2.0]]), np.array([[2.0, 0.0]]),
                   np.zeros((1, 2), np.int64), np.zeros((1, 2)))  # fmt: skip
    beta = np.array([[0.5, -0.5]])
    v = -(beta @ np.array([[1.0, -1.0], [-1.0, 1.0]]) + dual.c)
    assert dual_value(dual, beta, v) == 0.5
    assert gap(dual, beta, v, np.zeros(1)) == 0.0
    assert levels(dual, beta, v).violation == 0.0


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("multiclass", ["one_vs_one", "one_vs_rest"])
def test_table_of_kernel_values(classes, multiclass):
    X, _ = cloud(160)
    Z, y = cloud(30, seed=5)[0], np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.7, 0.0, 0.7][: classes - 1])
    kernel = RBFKernel(length_scale=1.5)
    ours = Model(C=2.0, kernel=PrecomputedKernel(), multiclass=multiclass).fit(kernel(X), y)
    same = Model(C=2.0, kernel=kernel, multiclass=multiclass).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(kernel(Z, X)), same.decision_function(Z), atol=1e-8)
    np.testing.assert_array_equal(ours.predict(kernel(Z, X)), same.predict(Z))
    report = ours.diagnostics(kernel(X), y)
    assert report.summary["support_vectors"] == same.diagnostics(X, y).summary["support_vectors"]
    assert all(c.holds for c in report.certificates)


@pytest.mark.parametrize("seed", range(6))
def test_one_factor_serves_while_constraints_come(seed):
    r = np.random.default_rng(seed)
    B = r.normal(size=(40, 60))
    K, v, E = B @ B.T, r.normal(size=40), np.ones((40, 1))
    system = Constrained(K.copy(), E)
    for more in (units(np.array([3, 7]), 40), units(np.array([20]), 40)):
        system.add(more)
        E = np.column_stack([E, more])
        whole = np.block([[K, E], [E.T, np.zeros((E.shape[1], E.shape[1]))]])
        expected = np.linalg.solve(whole, np.concatenate([v, np.zeros(E.shape[1])]))[:40]
        np.testing.assert_allclose(system.solve(v), expected, atol=1e-9 * np.abs(expected).max())


def test_a_matrix_without_a_factor_is_told():
    assert not Constrained(-np.eye(3), np.ones((3, 1))).definite


def test_a_step_is_cut_at_the_first_bound():
    beta, lo, hi = np.array([0.2, 0.5, 0.9, 0.0]), np.zeros(4), np.ones(4)
    on = still_free(beta, lo, hi, np.arange(4))
    assert on.tolist() == [0, 1, 2]
    d = np.array([-0.4, 0.1, 0.6])  # less its mean 0.1: -0.5, 0, 0.5
    t, moved, largest = follow(beta, lo, hi, np.zeros(4, dtype=np.int64), 1, on, d, False)
    assert (t, moved, largest) == pytest.approx((0.2, 0.1, 1.0))
    np.testing.assert_allclose(beta, [0.1, 0.5, 1.0, 0.0])
    assert beta[2] == 1.0
    np.testing.assert_allclose(d, [-0.1, 0.0, 0.1])
    free = np.array([0.5, 0.5])
    told = follow(free, np.full(2, -np.inf), np.full(2, np.inf), np.zeros(2, dtype=np.int64), 1, np.arange(2),
                  np.array([1.0, -1.0]), True)  # fmt: skip
    assert told[0] == np.inf
    assert free.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("seed", range(4))
def test_levels_multipliers_and_gap_as_numpy_has_them(seed):
    r = np.random.default_rng(seed)
    lo, hi, group = -r.random((2, 9)), r.random((2, 9)), r.integers(0, 2, (2, 9))
    group[0, :2] = 0, 1
    beta, v = np.clip(r.normal(size=(2, 9)), lo, hi), r.normal(size=(2, 9))
    dual = BoxDual(np.zeros((2, 9)), lo, hi, group, np.zeros((2, 9)), groups=2)
    found, (b, count) = levels(dual, beta, v), multipliers(dual, beta, v)
    for g in range(2):
        own = group == g
        high, low = v[own & (beta < hi)].max(initial=-np.inf), v[own & (beta > lo)].min(initial=np.inf)
        assert (found.high[g], found.low[g]) == (high, low)
        free = own & (beta < hi) & (beta > lo)
        assert count[g] == free.sum()
        assert b[g] == pytest.approx(v[free].mean() if free.any() else 0.5 * (high + low))
    u = v - b[group]
    assert gap(dual, beta, v, b) == pytest.approx(float((np.maximum(hi * u, lo * u) - beta * u).sum()))


def test_a_nu_too_small_for_the_digits_says_that_it_did_not_converge() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=60) > 0).astype(int)
    model = NuSVM(nu=1e-9).fit(X, y)
    failed = [c.name for c in model.diagnostics(X, y).certificates if not c.holds]
    assert ("not_converged" in [w.code for w in model.notices_]) or not failed


@pytest.mark.parametrize("C", [1e-300, 1e300])
def test_prices_whose_squares_do_not_fit_a_double_are_refused(C: float) -> None:
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    with pytest.raises(InvalidParameter, match="C"):
        Model(C=C).fit(X, [0, 1, 0, 1])


@pytest.mark.parametrize("shift", [1e4, 1e6, 1e8])
def test_a_linear_kernel_far_from_the_origin_keeps_its_digits(shift: float) -> None:
    r = np.random.default_rng(0)
    near = np.round(r.normal(size=(60, 3)) * 2**10) / 2**10
    y = (near[:, 0] + near[:, 1] / 2 + 0.5 * r.normal(size=60) > 0).astype(int)
    one, two = Model(kernel=LinearKernel()).fit(near, y), Model(kernel=LinearKernel()).fit(near + shift, y)
    np.testing.assert_allclose(two.decision_function(near + shift), one.decision_function(near), atol=1e-6)
    report = two.diagnostics(near + shift, y)
    assert all(c.holds for c in report.certificates), report.certificates


def test_a_class_without_weight_is_named() -> None:
    """SVM-7."""
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.repeat(["no", "yes"], 10)
    with pytest.raises(InvalidData, match="every row of 'yes' has weight 0") as refused:
        Model().fit(X, y, sample_weight=np.repeat([1.0, 0.0], 10))
    assert refused.value.issues[0].pointer == "/weights"


SLAB = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [3.0, 3.0], [4.0, 3.0], [3.0, 4.0]])


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("scale", [False, True])
def test_slopes_and_intercept_of_a_linear_kernel_are_of_the_columns_given(shift, scale):
    X, y = SLAB * np.array([1.0, 5.0]) + shift, np.repeat([-1.0, 1.0], 3)
    model = Model(C=1e6, kernel=LinearKernel(), scale=scale).fit(X, y)
    w = model.diagnostics(X, y).matrices["coef"]
    f = (X - shift) @ w[0] + (model.intercept_[0] + shift * w[0].sum())
    np.testing.assert_allclose(f, model.decision_function(X), atol=1e-9 if shift else 1e-12)


@pytest.mark.parametrize("C", [1e3, 1e6, 1e12])
def test_rounding_is_no_slack_that_a_large_price_makes_an_objective_of(C):
    X, y = SLAB + np.array([0.1, 0.7]), np.repeat([-1.0, 1.0], 3)
    model = Model(C=C, kernel=LinearKernel()).fit(X, y)
    found = model.diagnostics(X, y).summary
    np.testing.assert_allclose([found["primal"], found["dual"]], 0.16, rtol=1e-13)
    assert found["total_slack"] == 0.0
    np.testing.assert_allclose(model.intercept_, -1.4 - 0.4 * 0.8, rtol=1e-13)


@pytest.mark.parametrize("rows", [30, 200])
def test_columns_of_very_different_units_keep_the_digits_of_a_linear_machine(rows):
    r = np.random.default_rng(9)
    X = r.normal(size=(rows, 2))
    y = np.where(X[:, 0] + X[:, 1] / 2 + 0.5 * r.normal(size=rows) > 0, 1.0, -1.0)
    X *= [1.0, 1e4]
    for model in (Model(kernel=LinearKernel(), tol=1e-12), SoftMarginSVM(tol=1e-12)):
        found = model.fit(X, y).diagnostics(X, y).summary
        assert found["converged"] == 1
        assert abs(found["duality_gap"]) < 1e-13 * found["primal"]
        assert found["largest_violation"] < 1e-13
