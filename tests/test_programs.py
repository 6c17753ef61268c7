"""Linear and quadratic programs and Lagrange multipliers: SciPy's optima, closed forms, brute force, and proofs."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from ml_core import progress
from ml_core.errors import Cancelled, InvalidParameter
from ml_core.registry import functions

CALL = functions()


def run(name: str, **arguments: Any) -> Any:
    out = CALL[name](json.loads(json.dumps(arguments)))
    json.dumps(out, allow_nan=False)
    assert all(c["holds"] for c in out["certificates"]), out["certificates"]
    return out


def result(name: str, **arguments: Any) -> Any:
    return run(name, **arguments)["result"]


def codes(out: Any) -> set[str]:
    return {w["code"] for w in out["warnings"]}


def drawn(seed: int, d: int = 4, m: int = 8, e: int = 1) -> dict[str, Any]:
    """Constraints that a known point meets."""
    r = np.random.default_rng(seed)
    x = r.normal(size=d)
    G, A = r.normal(size=(m, d)), r.normal(size=(e, d))
    return {"G": G.tolist(), "h": (G @ x + r.random(m)).tolist(), "A": A.tolist(), "b": (A @ x).tolist(),
            "low": [-5.0, None, -5.0, -5.0], "high": [5.0, 5.0, None, 5.0]}  # fmt: skip


def curved(seed: int, d: int = 4, rank: int = 4) -> np.ndarray:
    B = np.random.default_rng(100 + seed).normal(size=(rank, d))
    return B.T @ B


def test_linear_program_by_hand():
    out = result("linear_programming", c=[3, 5], G=[[1, 0], [0, 2], [3, 2]], h=[4, 12, 18], low=[0, 0], maximise=True)
    assert out["x"] == pytest.approx([2, 6])
    assert out["objective"] == pytest.approx(36)
    assert out["dual_objective"] == pytest.approx(36)
    assert out["inequality_multipliers"] == pytest.approx([0, 1.5, 1])
    assert out["active"] == [1, 2]


@pytest.mark.parametrize("seed", range(8))
def test_linear_optima_lie_in_a_corner(seed):
    given = drawn(seed)
    c = np.random.default_rng(seed + 50).normal(size=4)
    given |= {"low": [-5.0] * 4, "high": [5.0] * 4}
    out = result("linear_programming", c=c.tolist(), **given)
    rows = np.vstack([given["G"], -np.eye(4), np.eye(4)])
    limits = np.concatenate([given["h"], np.full(8, 5.0)])
    A, b = np.array(given["A"]), np.array(given["b"])
    best = np.inf
    for at in combinations(range(len(rows)), 3):
        M = np.vstack([A, rows[list(at)]])
        if abs(np.linalg.det(M)) > 1e-9:
            x = np.linalg.solve(M, np.concatenate([b, limits[list(at)]]))
            if (rows @ x <= limits + 1e-9).all():
                best = min(best, float(c @ x))
    assert out["objective"] == pytest.approx(best, rel=1e-8, abs=1e-8)
    multipliers = np.array(out["inequality_multipliers"])
    want = -optimize.linprog(c, given["G"], given["h"], given["A"], given["b"], bounds=[(-5, 5)] * 4).ineqlin.marginals
    assert multipliers == pytest.approx(want, abs=1e-8)


def test_multipliers_are_the_price_of_a_limit():
    given = drawn(3)
    c = [1.0, -1.0, 0.5, 2.0]
    P = curved(3)
    for name, objective in (("linear_programming", {"c": c}), ("quadratic_programming", {"P": P.tolist(), "q": c})):
        out = result(name, **objective, **given)
        for j in out["active"]:
            h = list(given["h"])
            h[j] += 1e-4
            change = result(name, **objective, **(given | {"h": h}))["objective"] - out["objective"]
            assert change == pytest.approx(-1e-4 * out["inequality_multipliers"][j], rel=1e-2, abs=1e-9)


def test_infeasible_programs_are_proved_so():
    for given in ({"G": [[1.0, 1.0], [-1.0, -1.0]], "h": [1.0, -2.0]},
                  {"A": [[1.0, 1.0]], "b": [3.0], "high": [1.0, 1.0]},
                  {"A": [[1.0, 0.0], [1.0, 0.0]], "b": [0.0, 1.0]}):  # fmt: skip
        out = run("linear_programming", c=[1.0, 0.0], **given)
        assert out["result"]["status"] == "infeasible"
        assert {c["name"] for c in out["certificates"]} == {"farkas_combination", "farkas_value"}
        assert codes(out) == {"infeasible"}
        same = run("quadratic_programming", P=[[1.0, 0.0], [0.0, 1.0]], q=[0.0, 0.0], **given)
        assert same["result"]["status"] == "infeasible"
        assert same["result"]["farkas"] is not None


def test_unbounded_programs_show_a_ray():
    out = run("linear_programming", c=[-1.0, 0.0], G=[[-1.0, 0.0]], h=[0.0], low=[0.0, 0.0])
    assert out["result"]["status"] == "unbounded"
    assert out["result"]["ray"][0] > 0
    assert {c["name"] for c in out["certificates"]} == {"ray_feasibility", "ray_slope"}
    quadratic = run("quadratic_programming", P=[[1.0, 0.0], [0.0, 0.0]], q=[0.0, -1.0], low=[0.0, 0.0])
    assert quadratic["result"]["status"] == "unbounded"
    assert quadratic["result"]["ray"] == pytest.approx([0, 1])
    closed = run("quadratic_programming", P=[[1.0, 0.0], [0.0, 0.0]], q=[0.0, -1.0], high=[None, 3.0])
    assert closed["result"]["x"] == pytest.approx([0, 3])
    assert "not_strictly_convex" in codes(closed)


def test_quadratic_program_by_hand():
    out = result("quadratic_programming", P=[[1, 0], [0, 1]], q=[0, 0], A=[[1, 1]], b=[1])
    assert out["x"] == pytest.approx([0.5, 0.5])
    assert out["equality_multipliers"] == pytest.approx([-0.5])
    assert out["objective"] == pytest.approx(0.25)
    bound = result("quadratic_programming", P=[[2, 0], [0, 2]], q=[-2, -5], G=[[1, 2]], h=[3], low=[0, 0])
    assert bound["x"] == pytest.approx([0.4, 1.3])
    assert bound["inequality_multipliers"] == pytest.approx([1.2])


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("seed", range(6))
def test_quadratic_optima_are_those_of_scipy(seed, rank):
    given, P = drawn(seed), curved(seed, rank=rank)
    q = np.random.default_rng(seed + 9).normal(size=4)
    given |= {"low": [-5.0] * 4, "high": [5.0] * 4}
    out = result("quadratic_programming", P=P.tolist(), q=q.tolist(), **given)
    assert out["status"] == "optimal"
    want = optimize.minimize(
        lambda x: 0.5 * x @ P @ x + q @ x, np.zeros(4), jac=lambda x: P @ x + q, bounds=[(-5, 5)] * 4, method="SLSQP",
        constraints=[{"type": "ineq", "fun": lambda x: np.array(given["h"]) - np.array(given["G"]) @ x},
                     {"type": "eq", "fun": lambda x: np.array(given["A"]) @ x - np.array(given["b"])}],
        options={"ftol": 1e-13, "maxiter": 1000},
    )  # fmt: skip
    assert out["objective"] == pytest.approx(want.fun, rel=1e-6, abs=1e-6)
    assert abs(out["gap"]) <= 1e-9 * (1 + abs(out["objective"]))


@pytest.mark.parametrize("seed", range(4))
def test_weak_duality_for_any_multipliers(seed):
    given, P = drawn(seed), curved(seed)
    q = np.ones(4)
    out = result("quadratic_programming", P=P.tolist(), q=q.tolist(), **given)
    r = np.random.default_rng(seed)
    for _ in range(20):
        z, nu = r.random(8), r.normal(size=1)
        pull = q + np.array(given["G"]).T @ z + np.array(given["A"]).T @ nu
        x = np.linalg.solve(P, -pull)
        dual = 0.5 * x @ P @ x + pull @ x - z @ given["h"] - nu @ given["b"]
        assert dual <= out["objective"] + 1e-9


def test_nonnegative_least_squares():
    r = np.random.default_rng(2)
    X, y = r.normal(size=(30, 6)), r.normal(size=30)
    out = result("quadratic_programming", P=(X.T @ X).tolist(), q=(-X.T @ y).tolist(), low=[0.0] * 6)
    assert out["x"] == pytest.approx(optimize.nnls(X, y)[0], abs=1e-9)


def test_units_of_a_program_do_not_matter():
    given, P = drawn(1), curved(1)
    q = np.ones(4)
    out = result("quadratic_programming", P=P.tolist(), q=q.tolist(), **given)
    for unit in (1e-6, 1e6):
        same = result("quadratic_programming", P=(unit * P).tolist(), q=(unit * q).tolist(), **given)
        assert same["x"] == pytest.approx(out["x"], abs=1e-6)


def test_no_strictly_feasible_point_is_told():
    out = run("quadratic_programming", P=[[1.0]], q=[1.0], G=[[1.0], [-1.0]], h=[2.0, -2.0])
    assert out["result"]["x"] == pytest.approx([2.0])
    assert "no_slater" in codes(out)
    assert "slater" in codes(run("quadratic_programming", P=[[1.0]], q=[1.0], G=[[1.0]], h=[2.0]))


def test_budgets_and_cancel():
    given = {"P": curved(0).tolist(), "q": [1.0] * 4} | drawn(0)
    out = CALL["quadratic_programming"](given | {"max_iter": 1, "tol": 1e-12})
    assert out["result"]["status"] == "max_iter"
    assert "x" in out["result"]
    lp = CALL["linear_programming"]({"c": [1.0] * 4, "max_iter": 0} | drawn(0))
    assert lp["result"]["status"] in ("max_iter", "optimal")

    def stop(tick: progress.Tick) -> None:
        raise Cancelled

    with progress.listen(stop), pytest.raises(Cancelled):
        CALL["quadratic_programming"](given)


@pytest.mark.parametrize("seed", range(5))
def test_lagrange_is_the_equality_constrained_minimum(seed):
    r = np.random.default_rng(seed)
    P, q, A, b = curved(seed), r.normal(size=4), r.normal(size=(2, 4)), r.normal(size=2)
    out = result("lagrange_multipliers", P=P.tolist(), q=q.tolist(), A=A.tolist(), b=b.tolist())
    same = result("quadratic_programming", P=P.tolist(), q=q.tolist(), A=A.tolist(), b=b.tolist())
    assert out["x"] == pytest.approx(same["x"], abs=1e-7)
    assert out["multipliers"] == pytest.approx(same["equality_multipliers"], abs=1e-6)
    assert out["kind"] == "minimum"
    minus = result("lagrange_multipliers", P=P.tolist(), q=q.tolist(), A=A.tolist(), b=b.tolist(), sign="minus")
    assert minus["multipliers"] == pytest.approx([-v for v in out["multipliers"]])


def test_kinds_of_stationary_points():
    def kind(P: list[list[float]], A: list[list[float]]) -> str:
        return str(result("lagrange_multipliers", P=P, A=A, b=[1.0] * len(A))["kind"])

    assert kind([[1.0, 0.0], [0.0, -1.0]], [[0.0, 1.0]]) == "minimum"
    assert kind([[1.0, 0.0], [0.0, -1.0]], [[1.0, 0.0]]) == "maximum"
    assert kind([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]], [[0.0, 0.0, 1.0]]) == "saddle"
    assert kind([[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0]]) == "degenerate"
    assert kind([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]) == "only_point"
    known = result("lagrange_multipliers", P=[[1.0, 0.0], [0.0, 1.0]], A=[[1.0, 1.0]], b=[1.0])
    assert known["x"] == pytest.approx([0.5, 0.5])
    assert known["multipliers"] == pytest.approx([-0.5])
    twice = run("lagrange_multipliers", P=[[1.0, 0.0], [0.0, 1.0]], A=[[1.0, 1.0], [2.0, 2.0]], b=[1.0, 2.0])
    assert "dependent_constraints" in codes(twice)


def test_point_and_plane():
    out = result("point_to_hyperplane", point=[3.0, 4.0], normal=[1.0, 1.0], offset=1.0)
    assert out["nearest"] == pytest.approx([0, 1])
    assert out["distance"] == pytest.approx(np.sqrt(18))
    assert out["multiplier"] == pytest.approx(3.0)
    other = result("point_to_hyperplane", point=[0.0, 0.0], normal=[3.0, 4.0], offset=10.0)
    assert other["signed_distance"] == pytest.approx(-2.0)
    same = result("lagrange_multipliers", P=[[1.0, 0.0], [0.0, 1.0]], A=[[3.0, 4.0]], b=[10.0])
    assert same["x"] == pytest.approx(other["nearest"])
    assert same["multipliers"] == pytest.approx([other["multiplier"]])
    far = result("point_to_hyperplane", point=[1.0, 1.0], normal=[1e-200, 1e-200], offset=0.0)
    assert far["distance"] == pytest.approx(np.sqrt(2))


@pytest.mark.parametrize(
    ("name", "arguments", "pointer"),
    [
        ("linear_programming", {"c": [1.0], "G": [[1.0]]}, "/h"),
        ("linear_programming", {"c": [1.0], "h": [1.0]}, "/G"),
        ("linear_programming", {"c": [1.0], "G": [[1.0, 2.0]], "h": [1.0]}, "/G"),
        ("linear_programming", {"c": [1.0], "low": [0.0, 0.0]}, "/low"),
        ("linear_programming", {"c": [1.0], "low": [2.0], "high": [1.0]}, "/low"),
        ("linear_programming", {"c": []}, "/c"),
        ("quadratic_programming", {"P": [[1.0, 0.0]], "q": [1.0]}, "/P"),
        ("quadratic_programming", {"P": [[1.0, 1.0], [0.0, 1.0]], "q": [1.0, 1.0]}, "/P"),
        ("quadratic_programming", {"P": [[-1.0]], "q": [1.0]}, "/P"),
        ("lagrange_multipliers", {"P": [[1.0]], "A": [[1.0], [1.0]], "b": [0.0, 1.0]}, "/b"),
        ("lagrange_multipliers", {"P": [[0.0, 0.0], [0.0, 0.0]], "q": [1.0, 0.0], "A": [[0.0, 1.0]], "b": [1.0]}, "/P"),
        ("lagrange_multipliers", {"P": [[1.0]], "A": [[1.0, 2.0]], "b": [0.0]}, "/A"),
        ("point_to_hyperplane", {"point": [1.0], "normal": [0.0]}, "/normal"),
    ],
)  # fmt: skip
def test_refusals_say_where(name, arguments, pointer):
    with pytest.raises(InvalidParameter) as e:
        CALL[name](arguments)
    assert e.value.issues[0].pointer.startswith(pointer)


@pytest.mark.parametrize("limit", [0.0, 3.0])
def test_an_optimum_at_zero_has_its_certificates(limit):
    given = {"P": [[2.0, 0.0], [0.0, 2.0]], "q": [2.0, 5.0], "G": [[1.0, 2.0]], "h": [limit], "low": [0.0, 0.0]}
    out = run("quadratic_programming", **given)
    np.testing.assert_allclose(out["result"]["x"], [0.0, 0.0], atol=1e-10)
    assert all(c["holds"] for c in out["certificates"])


def test_linear_programs_do_not_know_the_unit_of_their_objective_nor_of_their_budget():
    given = {"c": [-1e-40, -2e-40], "G": [[1.0, 1.0], [1.0, -1.0]], "h": [4.0, 2.0], "low": [0.0, 0.0]}
    out = run("linear_programming", **given, max_iter=2**60)
    np.testing.assert_allclose(out["result"]["inequality_multipliers"], [2e-40, 0.0], rtol=1e-9)
    assert all(c["holds"] for c in out["certificates"])
