"""Optimisers on chosen problems: first steps by hand, SciPy's minima, and the theorems about their convergence."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from scipy.stats import ortho_group
from sklearn.linear_model import LogisticRegression

from ml_core import progress
from ml_core.errors import Cancelled, Incompatible, InvalidParameter, OverBudget
from ml_core.registry import functions
from ml_core.solvers.conjugate_gradient import conjugate_gradient
from ml_core.solvers.coordinate_search import coordinate_search
from ml_core.solvers.first_order import Draws, descend
from ml_core.solvers.line_search import strong_wolfe
from ml_core.solvers.objectives import MeanLoss, QuadraticForm, Rosenbrock
from ml_core.solvers.updates import Adam, DiagonalLevenbergMarquardt, Momentum, RMSprop, Steepest

CALL = functions()
SQUARE = {"problem": "quadratic", "A": [[1.0]], "b": [0.0]}
SMALL = {"problem": "quadratic", "A": [[4.0, 1.0], [1.0, 3.0]], "b": [1.0, 2.0]}
BEND = {"problem": "rosenbrock"}
DETERMINISTIC = ["gradient_descent", "momentum", "newton_method", "nonlinear_conjugate_gradient", "coordinate_ascent",
                 "adam", "amsgrad", "stochastic_levenberg_marquardt"]  # fmt: skip
RULES = [Steepest(), Momentum(), Momentum(0.8, nesterov=True), RMSprop(), Adam(), Adam(amsgrad=True),
         DiagonalLevenbergMarquardt()]  # fmt: skip


def run(name: str, **arguments: Any) -> Any:
    out = CALL[name](json.loads(json.dumps(arguments)))
    json.dumps(out, allow_nan=False)
    return out


def result(name: str, **arguments: Any) -> Any:
    out = run(name, **arguments)
    assert all(c["holds"] for c in out["certificates"]), out["certificates"]
    assert out["result"]["converged"]
    return out["result"]


def rows(n: int = 60, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d))
    eta = X @ np.arange(1.0, d + 1.0) / d
    return X, eta + 0.3 * r.normal(size=n), (r.random(n) < 1 / (1 + np.exp(-eta))).astype(float)


def of_rows(loss: Any, y: np.ndarray, X: np.ndarray, alpha: float = 0.1, **more: Any) -> dict[str, Any]:
    return {"problem": "mean_loss", "loss": loss, "X": X.tolist(), "y": y.tolist(), "alpha": alpha} | more


def points(name: str, steps: int, **arguments: Any) -> list[float]:
    found = run(name, problem=SQUARE, start=[1.0], max_iter=steps, **arguments)["result"]["points"]
    return [p[0] for p in found]


def test_first_steps_by_hand():
    assert points("momentum", 4, step=0.1, beta=0.9) == pytest.approx([1, 0.9, 0.72, 0.486, 0.2268])
    assert points("adam", 3, step=0.1) == pytest.approx([1, 0.9, 0.8004122, 0.7015863], abs=5e-8)
    assert points("rmsprop", 3, step=0.01) == pytest.approx([1, 0.9683772, 0.9457880, 0.9270531], abs=5e-8)
    assert points("amsgrad", 3, step=0.1)[:2] == pytest.approx([1, 0.9])
    assert points("gradient_descent", 3, step=0.5) == [1.0, 0.5, 0.25, 0.125]
    nesterov = points("momentum", 2, step=0.1, beta=0.5, nesterov=True)
    assert nesterov == pytest.approx([1, 1 - 0.15, 0.85 + 0.5 * (-0.05 - 0.085) - 0.085])
    lm = points("stochastic_levenberg_marquardt", 2, step=0.5, mu=0.25)
    assert lm == pytest.approx([1, 0.6, 0.36])


def test_amsgrad_is_the_formula_and_its_denominators_never_shrink():
    rule, state, w, top, m, v = Adam(amsgrad=True), Adam().begin(1), np.ones(1), 0.0, 0.0, 0.0
    last = np.zeros(1)
    for t, g in enumerate([1.0, 0.1, -2.0, 0.01, 0.001], 1):
        step, state = rule.move(state, np.array([g]), np.zeros(0), 0.1, t)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        top = max(top, v / (1 - 0.999**t))
        assert step[0] == pytest.approx(-0.1 * (m / (1 - 0.9**t)) / (np.sqrt(top) + 1e-8), rel=1e-12)
        assert (state[2] >= last).all()
        last, w = state[2], w + step


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_all_find_the_minimum_of_a_quadratic(name):
    extra = {"step": 0.1} if name in ("adam", "amsgrad", "stochastic_levenberg_marquardt") else {}
    out = result(name, problem=SMALL, tol=1e-6, max_iter=20_000 if extra else 1000, **extra)
    assert out["w"] == pytest.approx([1 / 11, 7 / 11], abs=1e-5)
    assert out["minimum"] == pytest.approx(-0.5 * (1 / 11 + 14 / 11))
    assert out["reason"] == "gradient"


@pytest.mark.parametrize("d", [2, 5, 12])
def test_conjugate_gradients_end_after_d_steps_and_newton_after_one(d):
    r = np.random.default_rng(d)
    Q = ortho_group.rvs(d, random_state=d)
    A = (Q * np.linspace(1, 50, d)) @ Q.T
    problem = {"problem": "quadratic", "A": (0.5 * (A + A.T)).tolist(), "b": r.normal(size=d).tolist()}
    assert result("nonlinear_conjugate_gradient", problem=problem, tol=1e-6)["iterations"] <= d
    assert result("newton_method", problem=problem, tol=1e-6)["iterations"] == 1
    assert result("coordinate_ascent", problem=problem, block=d, tol=1e-6)["iterations"] == 1


def test_known_conjugate_gradient_run():
    out = result("nonlinear_conjugate_gradient", problem=SMALL, tol=1e-12)
    assert out["w"] == pytest.approx([0.0909091, 0.6363636], abs=5e-8)
    assert out["iterations"] == 2


def test_gradient_descent_below_and_above_the_step_bound():
    bound = 2 / ((7 + np.sqrt(5)) / 2)
    assert result("gradient_descent", problem=SMALL)["step_bound"] == pytest.approx(bound)
    low = result("gradient_descent", problem=SMALL, step=0.999 * bound, max_iter=50_000)
    assert (np.diff(low["trace"]) <= 1e-15).all()
    high = run("gradient_descent", problem=SMALL, step=1.2 * bound, max_iter=50_000)
    assert high["result"]["reason"] == "diverged"
    assert {w["code"] for w in high["warnings"]} == {"step_too_large", "not_converged", "certificate_fails"}
    assert np.isfinite(high["result"]["w"]).all()
    assert high["result"]["objective"] <= high["result"]["trace"][0]


def test_the_rate_of_gradient_descent_is_the_predicted_one():
    problem = {"problem": "quadratic", "A": [[1.0, 0.0], [0.0, 10.0]], "b": [1.0, 1.0]}
    out = result("gradient_descent", problem=problem, tol=1e-7)
    assert out["condition"] == pytest.approx(10.0)
    assert out["rate"] == pytest.approx((1 - 1 / 10) ** 2, rel=1e-3)
    assert out["order"] == pytest.approx(1.0, abs=0.02)


def test_newton_converges_quadratically():
    X, _, y = rows()
    out = result("newton_method", problem=of_rows("logistic", y, X, 0.001), tol=1e-10)
    assert out["iterations"] < 12
    assert out["order"] > 1.6


@pytest.mark.parametrize("name", ["newton_method", "nonlinear_conjugate_gradient"])
@pytest.mark.parametrize("start", [[-1.2, 1.0], [0.0, 0.0], [2.0, -3.0]])
def test_the_bent_valley(name, start):
    out = run(name, problem=BEND, start=start, max_iter=10_000, tol=1e-6)
    assert out["result"]["w"] == pytest.approx([1, 1], abs=1e-4)
    assert "not_convex" in {w["code"] for w in out["warnings"]}
    assert all(c["holds"] for c in out["certificates"])


def test_coordinates_creep_along_the_bent_valley():
    out = run("coordinate_ascent", problem=BEND, start=[-1.2, 1.0], max_iter=1000, tol=0.05)["result"]
    assert out["objective"] < 0.05
    assert (np.diff(out["trace"]) <= 0).all()
    assert result("coordinate_ascent", problem=BEND, start=[-1.2, 1.0], block=2)["iterations"] < 40


def test_newton_is_not_drawn_to_a_saddle():
    out = run("newton_method", problem={"problem": "quadratic", "A": [[1.0, 0.0], [0.0, -1.0]], "b": [0.0, 0.0]},
              start=[1.0, 1e-3], max_iter=50)  # fmt: skip
    assert abs(out["result"]["w"][1]) > 1.0
    saddle = run("newton_method", problem={"problem": "quadratic", "A": [[1.0, 0.0], [0.0, -1.0]], "b": [0.0, 0.0]})
    assert "saddle" in {w["code"] for w in saddle["warnings"]}


@pytest.mark.parametrize(
    "loss", ["squared", {"loss": "huber", "delta": 0.5}, "logistic", "squared_hinge", "exponential"], ids=str
)
@pytest.mark.parametrize("name", ["newton_method", "nonlinear_conjugate_gradient", "gradient_descent", "momentum",
                                  "coordinate_ascent"])  # fmt: skip
def test_minima_of_losses_are_those_of_scipy(loss, name):
    X, real, labels = rows()
    kind = loss if isinstance(loss, str) else loss["loss"]
    y = real if kind in ("squared", "huber") else labels if kind == "logistic" else 2 * labels - 1
    extra = {"step": "backtracking"} if name == "gradient_descent" else {}
    extra |= {"step": 0.02} if name == "momentum" and kind == "exponential" else {}
    out = result(name, problem=of_rows(loss, y, X), tol=1e-7, max_iter=5000, **extra)
    objective = CALL_OBJECTIVE(of_rows(loss, y, X))
    want = optimize.minimize(objective.value_gradient, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-9})
    assert out["objective"] == pytest.approx(want.fun, rel=1e-9)
    assert out["w"] == pytest.approx(want.x, abs=1e-5)


def CALL_OBJECTIVE(problem: dict[str, Any]) -> MeanLoss:
    from ml_core.losses.every import loss_of

    X = np.hstack([np.array(problem["X"]), np.ones((len(problem["X"]), 1))])
    return MeanLoss(loss_of(problem["loss"]), X, np.array(problem["y"]), np.ones(len(X)), problem["alpha"], True)


def test_logistic_agrees_with_scikit_learn():
    X, _, y = rows()
    sk = LogisticRegression(C=1 / (0.1 * len(X)), tol=1e-12, max_iter=10_000).fit(X, y)
    for name in ("iteratively_reweighted_least_squares", "newton_method"):
        out = result(name, problem=of_rows("logistic", y, X), tol=1e-10)
        assert out["w"] == pytest.approx([*sk.coef_[0], *sk.intercept_], abs=1e-6)


def test_softmax_of_three_classes():
    X, _, _ = rows()
    y = np.arange(60) % 3.0
    problem = of_rows({"loss": "softmax", "classes": 3}, y, X, 0.2)
    newton = result("newton_method", problem=problem, tol=1e-9)
    other = result("nonlinear_conjugate_gradient", problem=problem, tol=1e-9)
    assert newton["w"] == pytest.approx(other["w"], abs=1e-7)
    assert len(newton["w"]) == 8


@pytest.mark.parametrize("seed", range(3))
def test_slopes_of_the_objectives(seed):
    r = np.random.default_rng(seed)
    X, y, labels = rows(20, 2, seed)
    made = [QuadraticForm(np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, -1.0])), Rosenbrock(4),
            CALL_OBJECTIVE(of_rows("logistic", labels, X)), CALL_OBJECTIVE(of_rows("huber", y, X)),
            CALL_OBJECTIVE(of_rows({"loss": "softmax", "classes": 3}, np.arange(20) % 3.0, X))]  # fmt: skip
    for objective in made:
        w = r.normal(size=objective.size)
        f, g, H = objective.second(w)
        assert objective.value_gradient(w)[0] == f
        for j in range(objective.size):
            h = np.zeros(objective.size)
            h[j] = 1e-6
            (up, gu), (down, gd) = objective.value_gradient(w + h), objective.value_gradient(w - h)
            assert g[j] == pytest.approx((up - down) / 2e-6, abs=1e-6 * max(1, abs(g).max()))
            np.testing.assert_allclose(H[j], (gu - gd) / 2e-6, atol=1e-6 * np.abs(H).max())
        assert (objective.diagonal(w, None) >= 0).all()
        np.testing.assert_allclose(objective.diagonal(w, None), np.abs(np.diag(H)), rtol=1e-10)
        mu, L = objective.range()
        if objective.convex:
            values = np.linalg.eigvalsh(H)
            assert mu - 1e-9 <= values[0]
            assert values[-1] <= L * (1 + 1e-9)


def test_parts_of_the_gradient_average_to_it():
    X, y, _ = rows(12, 2)
    objective = CALL_OBJECTIVE(of_rows("squared", y, X))
    w = np.array([0.3, -1.0, 2.0])
    each = [objective.partial(w, np.array([i])) for i in range(12)]
    np.testing.assert_allclose(np.mean(each, axis=0), objective.value_gradient(w)[1], rtol=1e-10)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_one_loop_serves_every_rule_with_batches(rule):
    X, _, y = rows(200)
    objective = CALL_OBJECTIVE(of_rows("logistic", y, X))
    rate = {"Steepest": 1.0, "Momentum": 0.1, "DiagonalLevenbergMarquardt": 0.1}.get(type(rule).__name__, 0.02)
    draws = Draws(objective.partial, 200, 20, 7)

    def go() -> Any:
        return descend(objective.value_gradient, np.zeros(4), rule, rate=lambda k: rate / (1 + k) ** 0.5, tol=2e-3,
                       max_iter=400, draws=draws, curvature=objective.diagonal)  # fmt: skip

    found, again = go(), go()
    assert found.converged
    np.testing.assert_array_equal(found.w, again.w)
    best = objective.optimum()
    assert best is not None
    assert objective.value_gradient(found.w)[0] - best[1] < 1e-4


def test_a_batch_of_all_rows_is_gradient_descent():
    X, y, _ = rows()
    problem = of_rows("squared", y, X)
    one = run("mini_batch_gradient_descent", problem=problem, batch=60, step=0.3, decay=0.0, average=False, max_iter=20)
    other = run("gradient_descent", problem=problem, step=0.3, max_iter=20)
    assert one["result"]["trace"] == pytest.approx(other["result"]["trace"], rel=1e-10)


def test_stochastic_functions_converge_and_repeat():
    X, _, y = rows(150)
    problem = of_rows("logistic", y, X)
    for name, extra in (("stochastic_gradient_descent", {}), ("mini_batch_gradient_descent", {"batch": 10}),
                        ("stochastic_levenberg_marquardt", {"batch": 10, "decay": 0.5}),
                        ("adam", {"batch": 10, "step": 0.05, "decay": 0.5})):  # fmt: skip
        one = result(name, problem=problem, tol=5e-3, max_iter=2000, random_state=3, **extra)
        assert one == result(name, problem=problem, tol=5e-3, max_iter=2000, random_state=3, **extra)
        other = result(name, problem=problem, tol=5e-3, max_iter=2000, random_state=4, **extra)
        assert one["w"] != other["w"]


def test_levenberg_marquardt_does_not_feel_the_scale_of_columns():
    X, _, y = rows(100)
    big = of_rows("squared", y, X * np.array([1.0, 100.0, 0.01]), alpha=0.0)
    plain = of_rows("squared", y, X, alpha=0.0)
    fixed = {"mu": 1e-12, "step": 0.5, "tol": 1e-13, "max_iter": 10}
    a, b = (run("stochastic_levenberg_marquardt", problem=p, **fixed)["result"]["trace"] for p in (big, plain))
    assert a == pytest.approx(b, rel=1e-6)


def test_coordinates_never_raise_the_objective():
    X, _, y = rows()
    for block, shuffle in ((1, False), (1, True), (2, False), (3, True)):
        out = result("coordinate_ascent", problem=of_rows("logistic", y, X), block=block, shuffle=shuffle)
        assert (np.diff(out["trace"]) <= 1e-14).all()
    single = result("coordinate_ascent", problem=SMALL, max_iter=200, tol=1e-10)
    first = [1 / 4, (2 - 1 / 4) / 3]
    assert single["points"][1] == pytest.approx(first)


def test_line_search_meets_the_strong_wolfe_conditions():
    r = np.random.default_rng(0)
    for trial in range(60):
        objective: Any = Rosenbrock(4) if trial % 2 else CALL_OBJECTIVE(of_rows("logistic", rows()[2], rows()[0]))
        w = r.normal(size=4)
        f, g = objective.value_gradient(w)
        p = -g * r.random(4) * 10.0 ** r.integers(-3, 3)
        found = strong_wolfe(objective.value_gradient, w, f, g, p, first=10.0 ** r.integers(-4, 4))
        assert found is not None
        t, point, value, gradient = found
        assert value <= f + 1e-4 * t * (g @ p) + 1e-12
        assert abs(gradient @ p) <= 0.1 * abs(g @ p)
        np.testing.assert_array_equal(point, w + t * p)
    assert strong_wolfe(objective.value_gradient, w, f, g, g, first=1.0) is None


def test_grid_search_finds_the_nearest_cell():
    out = run("grid_search_optimizer", problem=SMALL, low=[-1, -1], high=[1, 1], points=101)
    assert all(c["holds"] for c in out["certificates"])
    assert out["result"]["w"] == pytest.approx([1 / 11, 7 / 11], abs=0.02)
    assert out["result"]["evaluations"] == 101**2
    edge = run("grid_search_optimizer", problem=SMALL, low=[0.5, -1], high=[1, 1])
    assert edge["result"]["at_edge"] == [0]
    assert [w["code"] for w in edge["warnings"]] == ["at_edge"]
    valley = run("grid_search_optimizer", problem=BEND, low=[-2, -2], high=[2, 2], points=41)["result"]
    assert valley["w"] == pytest.approx([1, 1])
    values = np.array(valley["values"])
    assert values.shape == (41, 41)
    assert values.min() == valley["objective"]
    with pytest.raises(OverBudget):
        CALL["grid_search_optimizer"]({"problem": {"problem": "rosenbrock", "size": 9}, "low": [0.0] * 9,
                                       "high": [1.0] * 9})  # fmt: skip


def test_budgets_return_the_best_so_far():
    X, _, y = rows()
    out = run("gradient_descent", problem=of_rows("logistic", y, X), max_iter=3, tol=1e-12)
    assert (out["result"]["reason"], out["result"]["iterations"]) == ("max_iter", 3)
    assert out["result"]["objective"] == min(out["result"]["trace"])
    begun = time.monotonic()
    late = run("adam", problem=BEND, start=[-1.2, 1.0], max_iter=100_000, tol=1e-14, seconds=0.05)
    assert late["result"]["reason"] in ("time", "gradient")
    assert time.monotonic() - begun < 5
    oscillating = run("momentum", problem=SMALL, step=0.4, beta=0.95, max_iter=20, tol=1e-12)["result"]
    assert oscillating["objective"] == pytest.approx(min(oscillating["trace"]))


@pytest.mark.parametrize("name", ["newton_method", "iteratively_reweighted_least_squares", "coordinate_ascent"])
def test_curvature_methods_stop_in_time_at_the_best_point(name):
    X, _, y = rows()
    out = run(name, problem=of_rows("logistic", y, X), tol=1e-14, seconds=1e-9)
    assert (out["result"]["reason"], out["result"]["converged"]) == ("time", False)
    assert out["result"]["objective"] == min(out["result"]["trace"])
    assert "not_converged" in [w["code"] for w in out["warnings"]]


def test_runs_can_be_cancelled():
    def stop(tick: progress.Tick) -> None:
        if tick.step >= 2:
            raise Cancelled

    objective = Rosenbrock(3)
    start = np.array([-1.2, 1.0, 0.5])
    for solve in (
        lambda: descend(objective.value_gradient, start, Steepest(), rate=1e-4, tol=1e-9, max_iter=100),
        lambda: conjugate_gradient(objective.value_gradient, start, tol=1e-9, max_iter=100),
        lambda: coordinate_search(objective, start, block=1, tol=1e-9, max_iter=100),
    ):
        with progress.listen(stop), pytest.raises(Cancelled):
            solve()


@pytest.mark.parametrize(
    ("name", "arguments", "pointer"),
    [
        ("gradient_descent", {"problem": {"problem": "quadratic", "A": [[1.0, 2.0]], "b": [1.0]}}, "/problem/A"),
        ("gradient_descent", {"problem": {"problem": "quadratic", "A": [[1, 2], [0, 1]], "b": [1, 1]}}, "/problem/A"),
        ("gradient_descent", {"problem": {"problem": "cubic"}}, "/problem"),
        ("gradient_descent", {"problem": SMALL, "start": [1.0]}, "/start"),
        ("gradient_descent", {"problem": SMALL, "step": "best"}, "/step"),
        ("gradient_descent", {"problem": BEND}, "/step"),
        ("gradient_descent", {"problem": of_rows("hinge", np.ones(2), np.ones((2, 1)))}, "/problem/loss"),
        ("gradient_descent", {"problem": of_rows("logistic", np.full(2, 3.0), np.ones((2, 1)))}, "/problem/y"),
        ("gradient_descent", {"problem": of_rows("squared", np.ones(3), np.ones((2, 1)))}, "/problem/y"),
        ("stochastic_gradient_descent", {"problem": SMALL}, "/problem"),
        ("stochastic_gradient_descent", {"problem": of_rows("exponential", np.ones(2), np.ones((2, 1)))}, "/step"),
        ("momentum", {"problem": BEND}, "/step"),
        ("gradient_descent", {"problem": BEND, "start": [1e200, 0.0], "step": 1e-3}, "/start"),
        ("newton_method", {"problem": BEND, "start": [1e200, 0.0]}, "/start"),
        ("adam", {"problem": SMALL, "beta1": 1.0}, "/beta1"),
        ("grid_search_optimizer", {"problem": SMALL, "low": [1.0, 0.0], "high": [0.0, 1.0]}, "/low"),
    ],
)  # fmt: skip
def test_refusals_say_where(name, arguments, pointer):
    with pytest.raises(InvalidParameter) as e:
        CALL[name](arguments)
    assert e.value.issues[0].pointer.startswith(pointer)


def test_newton_needs_a_curvature(monkeypatch):
    monkeypatch.setattr(MeanLoss, "_curvature", lambda self, w, rows: (_ for _ in ()).throw(TypeError("none")))
    X, y, _ = rows(10)
    with pytest.raises(Incompatible, match="newton_method needs curvature"):
        CALL["newton_method"]({"problem": of_rows("squared", y, X)})
