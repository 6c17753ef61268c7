"""penalized_logistic_regression and softmax_regression: known minima, scikit-learn, optimality and their twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression as Peer

from ml_core import progress
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.linear.penalized_logistic_regression import PenalizedLogisticRegression as Model
from ml_core.linear.softmax_regression import SoftmaxRegression
from ml_core.losses.logistic import Logistic
from ml_core.solvers.prox_newton import Sparse, prox_newton
from ml_core.sums import fit_chunks


def drawn(n: int = 150, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d)) * np.geomspace(0.5, 2, d)
    return X, (X[:, 0] - X[:, 1] + 0.5 * r.normal(size=n) > 0.2).astype(int)


def test_known_minima_of_both_penalties() -> None:
    x, y = np.repeat([[0.0], [1.0]], 4, axis=0), [0, 0, 0, 1, 0, 1, 1, 1]
    model = Model().fit(x, y)
    np.testing.assert_allclose([model.intercept_[0], model.coef_[0, 0]], [-0.33436, 0.66872], atol=5e-6)
    apart = Model().fit([[-1.0], [1.0]], [0, 1])
    assert apart.coef_[0, 0] == pytest.approx(0.6748316, abs=1e-7)
    assert apart.intercept_[0] == pytest.approx(0, abs=1e-12)
    # l1, separable x = ±1: the derivative 2 σ(-w) of the loss meets alpha, so w = log(2/alpha - 1)
    sparse = Model(penalty="l1", alpha=0.5).fit([[-1.0], [1.0]], [0, 1])
    assert sparse.coef_[0, 0] == pytest.approx(np.log(3), rel=1e-9)
    assert Model(penalty="l1", alpha=1.0).fit([[-1.0], [1.0]], [0, 1]).coef_[0, 0] == 0


def test_l2_is_logistic_regression() -> None:
    X, y = drawn()
    one, two = Model(alpha=2.0).fit(X, y), LogisticRegression(alpha=2.0).fit(X, y)
    np.testing.assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize("alpha", [0.3, 3.0, 20.0])
def test_l1_against_scikit_learn(alpha: float) -> None:
    X, y = drawn()
    s = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    model = Model(penalty="l1", alpha=alpha).fit(X, y, s)
    peer = Peer(l1_ratio=1, C=1 / alpha, solver="saga", tol=1e-13, max_iter=200_000).fit(X, y, s)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=2e-6)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=2e-6)
    assert ((model.coef_ == 0) == (np.abs(peer.coef_) < 1e-7)).all()
    out = model.diagnostics(X, y, s)
    assert all(c.holds for c in out.certificates)
    assert out.summary["nonzero"] == (model.coef_ != 0).sum()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_l1_conditions_and_bound(fit_intercept: bool) -> None:
    X, y = drawn()
    model = Model(penalty="l1", alpha=4.0, fit_intercept=fit_intercept, class_weight={0: 2.0, 1: 1.0}).fit(X, y)
    s = np.where(y == 0, 2.0, 1.0)
    pull = X.T @ (s * (model.predict_proba(X)[:, 1] - y))
    w = model.coef_[0]
    np.testing.assert_allclose(pull[w != 0], -4.0 * np.sign(w[w != 0]), rtol=1e-6)
    assert (np.abs(pull[w == 0]) <= 4.0 + 1e-6).all()
    if fit_intercept:
        assert s @ (model.predict_proba(X)[:, 1] - y) == pytest.approx(0, abs=1e-8)
    problem = Sparse.of(X, y.astype(float), s, Logistic(), 4.0, fit_intercept)
    r = np.random.default_rng(0)
    for _ in range(20):  # any point's lower bound is below any point's objective
        here, there = (problem.at(r.normal(size=8), float(r.normal())) for _ in range(2))
        assert here.dual <= there.value + 1e-9


def test_l1_minimum_by_a_smooth_program_in_parts() -> None:
    X, y = drawn(60, 4, 3)
    alpha, t = 2.0, 2 * y - 1

    def f(v: np.ndarray) -> float:
        w = v[:4] - v[4:8]
        return float(np.logaddexp(0, -t * (X @ w + v[8])).sum() + alpha * v[:8].sum())

    best = minimize(f, np.zeros(9), bounds=[(0, None)] * 8 + [(None, None)], tol=1e-14, options={"maxfun": 10**6})
    model = Model(penalty="l1", alpha=alpha).fit(X, y)
    assert model.diagnostics(X, y).summary["objective"] == pytest.approx(best.fun, rel=1e-8)
    assert model.diagnostics(X, y).summary["objective"] <= best.fun + 1e-9


def test_no_column_from_alpha_max_on() -> None:
    X, y = drawn()
    top = float(Model(penalty="l1").fit(X, y).diagnostics(X, y).summary["alpha_max"])  # type: ignore[arg-type]
    assert not Model(penalty="l1", alpha=top * 1.000001).fit(X, y).coef_.any()
    assert (Model(penalty="l1", alpha=top * 0.999).fit(X, y).coef_ != 0).sum() == 1


def test_l1_offsets_order_repetition_and_constant_columns() -> None:
    X, y = drawn()
    s = np.random.default_rng(2).integers(0, 3, len(y)).astype(float)
    one = Model(penalty="l1", alpha=1.0).fit(X, y, s)
    moved = np.column_stack([X[:, ::-1] + 1e6, np.full(len(X), 7.0)])
    two = Model(penalty="l1", alpha=1.0).fit(moved, y, s)
    np.testing.assert_allclose(two.coef_[0, :8][::-1], one.coef_[0], atol=1e-6)
    assert two.coef_[0, 8] == 0
    times = s.astype(int)
    three = Model(penalty="l1", alpha=1.0).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(three.coef_, one.coef_, atol=1e-7)


def test_l1_of_three_classes_and_of_chunks_is_refused_with_what_to_do() -> None:
    X, y = drawn()
    with pytest.raises(InvalidParameter, match="one_vs_rest"):
        Model(penalty="l1").fit(X, np.arange(len(y)) % 3)

    class One:
        def __len__(self) -> int:
            return 1

        def read(self, i: int) -> tuple[Any, Any, Any]:
            return X, y, None

    with pytest.raises(InvalidData, match="l2"):
        fit_chunks(Model(penalty="l1"), One())
    with pytest.raises(InvalidData, match="fits in memory"):
        fit_chunks(Model(penalty="firth"), One())
    np.testing.assert_allclose(fit_chunks(Model(), One()).coef_, Model().fit(X, y).coef_, rtol=1e-9)


def test_budget_and_cancel() -> None:
    X, y = drawn()
    short = Model(penalty="l1", alpha=0.1, max_iter=1).fit(X, y)
    assert [n.code for n in short.notices_] == ["not_converged"]
    assert not all(c.holds for c in short.diagnostics(X, y).certificates)

    def stop(event: Any) -> None:
        raise KeyboardInterrupt

    with progress.listen(stop), pytest.raises(KeyboardInterrupt):
        prox_newton(Sparse.of(X, y.astype(float), np.ones(len(y)), Logistic(), 1.0, True), tol=1e-10, max_iter=50)


def test_softmax_regression_is_the_same_model_under_its_own_name() -> None:
    X, _ = drawn()
    y = np.array(["a", "b", "c"])[np.arange(len(X)) % 3]
    one, two = SoftmaxRegression(alpha=1.0).fit(X, y), LogisticRegression(alpha=1.0).fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    reference = SoftmaxRegression(parametrization="reference").fit(X, y)
    np.testing.assert_allclose(reference.predict_proba(X), SoftmaxRegression().fit(X, y).predict_proba(X), atol=1e-9)
    constant = SoftmaxRegression(parametrization="reference").fit(np.zeros((10, 1)), [0] * 2 + [1] * 3 + [2] * 5)
    np.testing.assert_allclose(constant.intercept_, [0, 0.4054651, 0.9162907], atol=1e-7)


@pytest.mark.parametrize("l1_ratio", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("alpha", [0.5, 8.0])
def test_elastic_net_against_scikit_learn(alpha: float, l1_ratio: float) -> None:
    X, y = drawn()
    model = Model(penalty="l1", alpha=alpha * l1_ratio, alpha_l2=alpha * (1 - l1_ratio)).fit(X, y)
    peer = Peer(l1_ratio=l1_ratio, C=1 / alpha, solver="saga", tol=1e-13, max_iter=200_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=2e-6)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=2e-6)
    assert all(c.holds for c in model.diagnostics(X, y).certificates)


def test_the_gap_of_the_elastic_net_bounds_the_distance_to_the_minimum() -> None:
    X, y = drawn()
    problem = Sparse.of(X, 1.0 * y, np.ones(len(y)), Logistic(), 1.0, True, 2.0)
    _, best = prox_newton(problem, tol=1e-12, max_iter=100)
    assert abs(best.value - best.dual) < 1e-10 * best.value
    for seed in range(20):
        w = best.w + 0.3 * np.random.default_rng(seed).normal(size=len(best.w))
        away = problem.at(w, best.b)
        assert away.dual <= best.value + 1e-9
        assert away.value >= best.value


def test_a_squared_penalty_shares_weight_among_twins() -> None:
    X, y = drawn(d=2)
    Z = np.column_stack([X, X[:, 0]])
    w = Model(penalty="l1", alpha=0.5, alpha_l2=1.0).fit(Z, y).coef_[0]
    assert w[0] == pytest.approx(w[2], rel=1e-7)
    assert w[0] != 0


def test_the_path_starts_empty_and_its_points_are_fits() -> None:
    X, y = drawn()
    model = Model(penalty="l1", alpha=1.0, path_length=15).fit(X, y)
    out = model.diagnostics(X, y)
    curve, order = out.curves["path"], out.tables["entry_order"].rows
    assert curve["support_size"][0] == 0
    assert curve["support_size"][-1] == 8
    assert (np.diff(curve["deviance"]) <= 0).all()
    assert [r[0] for r in order] == list(range(1, 9))
    middle = Model(penalty="l1", alpha=float(curve["x"][7])).fit(X, y)
    columns = [r[1] for r in order]
    np.testing.assert_allclose(out.matrices["path_coefficients"][7], middle.coef_[0, columns], atol=1e-5)
    assert "path" not in Model(penalty="l1").fit(X, y).diagnostics(X, y).curves


def test_a_squared_penalty_stands_beside_l1_only() -> None:
    X, y = drawn()
    with pytest.raises(InvalidParameter, match="alpha_l2 stands beside the penalty l1"):
        Model(alpha_l2=1.0).fit(X, y)


@pytest.mark.parametrize("shift", [0.0, 1e4, 1e8])
def test_l1_of_graded_far_and_huge_columns_closes_its_gap(shift: float) -> None:
    r = np.random.default_rng(0)
    X, units = r.normal(size=(40, 3)), np.array([1e6, 1.0, 1e-6])
    y = (X @ [1.0, 2, 3] + r.normal(size=40) > 0).astype(int)
    plain = Model(penalty="l1", alpha=0.5).fit(X * units, y)
    for A in ((X + shift) * units, X * 1e40):
        model = Model(penalty="l1", alpha=0.5).fit(A, y)
        assert all(c.holds for c in model.diagnostics(A, y).certificates)
        assert not model.notices_
        if A.max() < 1e20:
            np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-6)
