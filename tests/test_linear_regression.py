"""Least squares: solvers, ranks, known values, and the cases where others fail silently."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ml_core.bundle import load_bundle, save_bundle
from ml_core.certificates import plain
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.linear.linear_regression import LinearRegression
from ml_core.solvers.normal_equations import solve_normal
from tests.least_squares import KNOWN_X, KNOWN_Y, holds, problem, solution

DIRECT = ("auto", "qr", "svd", "normal_equations", "newton")


def test_known_values():
    m = LinearRegression().fit(KNOWN_X, KNOWN_Y)
    d = m.diagnostics(KNOWN_X, KNOWN_Y)
    want = {"rss": 2.7, "r2": 0.6914286, "adjusted_r2": 0.5371429, "sigma2_mle": 0.675, "sigma2_unbiased": 1.35,
            "log_likelihood": -4.8896690, "condition_number": 7.4687397, "leave_one_out_mse": 2.2165533,
            "gradient_step_bound": 0.2395122}  # fmt: skip
    assert m.coef_ == pytest.approx([1.1], abs=1e-15)
    assert m.intercept_ == pytest.approx(0, abs=1e-15)
    for name, value in want.items():
        assert d.summary[name] == pytest.approx(value, abs=6e-8), name
    assert np.diag(d.matrices["hat"]) == pytest.approx([0.7, 0.3, 0.3, 0.7], abs=1e-15)


def test_lin1_collinear_columns_are_flagged_and_predict_right():
    X, y = np.arange(1, 7.0)[:, None] + [0, 2], np.array([1.0, 3, 2, 5, 4, 6])
    m = LinearRegression().fit(X, y)
    np.testing.assert_allclose(
        [m.intercept_, *m.coef_], [-0.161904761904762, 0.604761904761905, 0.280952380952381], rtol=1e-12
    )
    assert m.rank_ == 2
    assert m.predict([[7.0, 9.0]]) == pytest.approx([6.6], abs=1e-12)
    d = m.diagnostics(X, y)
    assert [w.code for w in d.warnings if w.code != "undefined"] == ["rank_deficient"]
    assert all(row[3] is None and "not estimable" in row[-1] for row in d.tables["coefficients"].rows)
    assert len(d.tables["aliased_columns"].rows) == 1
    assert holds(m, X, y)


def test_lin5_epoch_seconds():
    X, y = 1.7e9 + 60 * np.arange(5.0)[:, None], np.array([1.0, 2, 3, 4, 6])
    m = LinearRegression().fit(X, y)
    assert m.coef_[0] == 0.02
    assert m.intercept_ == -33999999.2
    assert solution(m)[1][1] == pytest.approx(0.0019245008973, abs=1e-13)
    assert m.predict([[1.7e9 + 300]]) == pytest.approx([6.8], abs=1e-12)
    assert [n.code for n in m.notices_] == ["ill_conditioned"]


def test_lin9_least_norm_solutions():
    X, y = np.array([[1.0, 2], [2, 4], [3, 6]]), np.array([1.0, 2, 4])
    m = LinearRegression(min_norm="centered").fit(X, y)
    np.testing.assert_allclose([m.intercept_, *m.coef_], [-2 / 3, 0.3, 0.6], rtol=1e-13)
    w = np.linalg.pinv(np.column_stack([np.ones(3), X])) @ y
    m = LinearRegression().fit(X, y)
    np.testing.assert_allclose([m.intercept_, *m.coef_], w, rtol=1e-12)
    m = LinearRegression(fit_intercept=False).fit([[1.0, 1.0]], [2.0])
    np.testing.assert_allclose(m.coef_, [1, 1], rtol=1e-14)


def test_weighted_known_value():
    m = LinearRegression().fit(KNOWN_X, KNOWN_Y, [1, 1, 1, 3])
    np.testing.assert_allclose([m.coef_[0], m.intercept_], [1.25, -0.25], rtol=1e-14)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("solver", DIRECT)
@pytest.mark.parametrize("weighted", [True, False])
def test_solvers_agree_with_lapack(solver, intercept, weighted):
    X, y = problem(6, n=50)
    s = np.random.default_rng(1).random(50) + 0.1 if weighted else np.ones(50)
    A = np.column_stack([np.ones(50), X])[:, 0 if intercept else 1 :]
    want = np.linalg.lstsq(np.sqrt(s)[:, None] * A, np.sqrt(s) * y, rcond=None)[0]
    m = LinearRegression(solver=solver, fit_intercept=intercept).fit(X, y, s)
    np.testing.assert_allclose(solution(m)[0], want, rtol=1e-9)
    assert holds(m, X, y, s)


@pytest.mark.parametrize("shape", [(40, 10, 6), (8, 30, 8), (8, 30, 5), (20, 20, 20)])
@pytest.mark.parametrize("min_norm", ["augmented", "centered"])
@pytest.mark.parametrize("solver", ["auto", "svd"])
def test_least_norm_agrees_with_the_pseudo_inverse(shape, min_norm, solver):
    n, d, rank = shape
    r = np.random.default_rng(n + d)
    X, y = r.normal(size=(n, rank)) @ r.normal(size=(rank, d)), r.normal(size=n)
    m = LinearRegression(min_norm=min_norm, solver=solver).fit(X, y)
    if min_norm == "augmented":
        want = np.linalg.pinv(np.column_stack([np.ones(n), X]), rcond=1e-12) @ y
    else:
        w = np.linalg.pinv(X - X.mean(axis=0), rcond=1e-12) @ (y - y.mean())
        want = np.concatenate([[y.mean() - X.mean(axis=0) @ w], w])
    np.testing.assert_allclose(solution(m)[0], want, atol=1e-9 * np.abs(want).max())
    assert holds(m, X, y)
    assert m.notices_[0].code == "rank_deficient"


def test_gradient_descent_converges_exactly_below_the_bound():
    below = LinearRegression(solver="gradient_descent", step=0.23, max_iter=20000).fit(KNOWN_X, KNOWN_Y)
    above = LinearRegression(solver="gradient_descent", step=0.25, max_iter=20000).fit(KNOWN_X, KNOWN_Y)
    assert below.solutions_[0].converged
    assert below.coef_ == pytest.approx([1.1], abs=1e-8)
    assert (np.diff(below.solutions_[0].trace) <= 1e-14).all()
    assert above.solutions_[0].reason == "diverged"
    assert above.notices_[-1].code == "not_converged"
    assert np.isfinite(above.coef_).all()
    assert not holds(above, KNOWN_X, KNOWN_Y)


def test_gradient_descent_of_a_wide_problem_ends_in_the_least_norm():
    r = np.random.default_rng(0)
    X, y = r.normal(size=(6, 15)), r.normal(size=6)
    m = LinearRegression(solver="gradient_descent", max_iter=5000).fit(X, y)
    np.testing.assert_allclose(m.predict(X), y, atol=1e-7)
    np.testing.assert_allclose(solution(m)[0], np.linalg.pinv(np.column_stack([np.ones(6), X])) @ y, atol=1e-7)


def test_newton_needs_one_step_and_sgd_comes_close():
    newton = LinearRegression(solver="newton").fit(KNOWN_X, KNOWN_Y)
    assert newton.n_iter_ == 1
    assert newton.coef_ == pytest.approx([1.1], abs=1e-12)
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = X @ [1.0, -2, 0.5] + 1 + 0.1 * np.random.default_rng(1).normal(size=300)
    one, two = (LinearRegression(solver="sgd", max_iter=200, tol=1e-4).fit(X, y) for _ in range(2))
    assert one.coef_ == pytest.approx(LinearRegression().fit(X, y).coef_, abs=2e-3)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert LinearRegression(solver="sgd", step=50.0).fit(X, y).solutions_[0].reason == "diverged"


def test_several_outputs_equal_separate_fits():
    X, y = problem(7)
    Y = np.column_stack([y, y**2, X[:, 0]])
    m = LinearRegression().fit(X, Y)
    assert m.coef_.shape == (3, 4)
    for k in range(3):
        one = LinearRegression().fit(X, Y[:, k])
        np.testing.assert_allclose(m.coef_[k], one.coef_, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(m.predict(X)[:, k], one.predict(X), rtol=1e-12, atol=1e-12)
    assert len(m.diagnostics(X, Y).tables["outputs"].rows) == 3
    assert len(m.posterior(X[:2]).to_json()) == 2
    Y[3, 1] = np.nan
    with pytest.raises(InvalidData, match="row 3"):
        LinearRegression().fit(X, Y)


def test_several_outputs_take_iterative_solvers_too():
    X, y = problem(7, d=2)
    m = LinearRegression(solver="newton").fit(X, np.column_stack([y, -y]))
    np.testing.assert_allclose(m.coef_[0], -m.coef_[1], rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("weighted", [True, False])
def test_fast_path_agrees_with_the_precise_one(offset, weighted):
    X, y = problem(8, n=3000, d=6, offset=offset)
    s = np.random.default_rng(5).integers(1, 4, 3000).astype(float) if weighted else None
    fast, slow = LinearRegression().fit(X, y, s), LinearRegression(solver="qr").fit(X, y, s)
    assert (fast.solver_, slow.solver_) == ("normal_equations", "qr")
    np.testing.assert_allclose(fast.coef_, slow.coef_, rtol=1e-12)
    np.testing.assert_allclose(fast.predict(X), slow.predict(X), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(fast.deviations_, slow.deviations_, rtol=1e-8)
    np.testing.assert_allclose(fast.rss_, slow.rss_, rtol=1e-12)
    assert holds(fast, X, y, s)


def test_ill_conditioned_problems_leave_the_fast_path():
    x = np.linspace(0, 1, 2000)
    X = np.stack([x**k for k in range(1, 12)], axis=1)
    y = 1 + X.sum(axis=1)
    assert solve_normal(X, y[:, None], np.ones(len(X)), intercept=True) is None
    m = LinearRegression().fit(X, y)
    assert m.solver_ == "qr"
    np.testing.assert_allclose(m.coef_, 1, atol=1e-6)
    told = LinearRegression(solver="normal_equations").fit(X, y)
    assert told.notices_[0].code == "normal_equations_unsafe"


@pytest.mark.parametrize("factor", [1e-300, 1e-150, 1.0, 1e150, 1e300])
@pytest.mark.parametrize("n", [12, 3000])
def test_scales_of_the_columns_do_not_matter(factor, n):
    X, y = problem(9, n=n, d=2)
    m = LinearRegression().fit(X * [factor, 1.0], y)
    np.testing.assert_allclose(
        m.predict(X * [factor, 1.0]), LinearRegression().fit(X, y).predict(X), rtol=1e-9, atol=1e-9
    )
    assert m.rank_ == 3


@pytest.mark.parametrize("constant", [0.0, 5.0, 0.1])
def test_a_constant_column_is_flagged_not_dropped_silently(constant):
    X, y = problem(10, d=2)
    m = LinearRegression().fit(np.column_stack([X, np.full(40, constant)]), y)
    assert m.rank_ == 3
    assert m.aliased_ == [2]
    assert np.isfinite(m.coef_).all()
    np.testing.assert_allclose(m.predict(np.column_stack([X, np.full(40, constant)])),
                               LinearRegression().fit(X, y).predict(X), rtol=1e-10)  # fmt: skip


def test_degenerate_inputs_have_defined_answers():
    one = LinearRegression().fit([[3.0, 4.0]], [7.0])
    assert one.predict([[3.0, 4.0]]) == pytest.approx([7.0])
    assert [n.code for n in one.notices_] == ["rank_deficient", "no_degrees_of_freedom"]
    assert one.posterior([[3.0, 4.0]]).to_json()[0]["scale"] is None
    d = one.diagnostics([[3.0, 4.0]], [7.0])
    assert json.dumps(d.to_json(), allow_nan=False)
    flat = LinearRegression().fit(np.zeros((4, 1)), np.full(4, 2.0))
    assert flat.predict([[1.0]]) == pytest.approx([2.0])
    assert flat.diagnostics(np.zeros((4, 1)), np.full(4, 2.0)).summary["r2"] is None
    nothing = LinearRegression(fit_intercept=False).fit(np.zeros((4, 1)), np.ones(4))
    assert (nothing.rank_, nothing.coef_.tolist()) == (0, [0.0])
    assert json.dumps(plain(nothing.diagnostics(np.zeros((4, 1)), np.ones(4)).to_json()), allow_nan=False)


@pytest.mark.parametrize(
    "params", [{"solver": "magic"}, {"rcond": 0.0}, {"step": -1.0}, {"max_iter": 0}, {"rcond": "x"}]
)
def test_wrong_parameters_are_named(params):
    with pytest.raises(InvalidParameter, match=next(iter(params))):
        LinearRegression(**params).fit(KNOWN_X, KNOWN_Y)


def test_rcond_decides_the_rank():
    X, y = problem(11, d=2)
    X = np.column_stack([X, X[:, 0] + 1e-6 * np.random.default_rng(0).normal(size=40)])
    assert LinearRegression().fit(X, y).rank_ == 4
    for solver in ("qr", "svd"):
        assert LinearRegression(solver=solver, rcond=1e-4).fit(X, y).rank_ == 3


def test_a_bundle_predicts_the_same_bits(tmp_path):
    X, y = problem(12)
    m = LinearRegression().fit(X, y)
    save_bundle(m, tmp_path / "m.zip")
    again = load_bundle(tmp_path / "m.zip")
    np.testing.assert_array_equal(again.predict(X), m.predict(X))
    assert again.posterior(X[:1]).to_json() == m.posterior(X[:1]).to_json()
