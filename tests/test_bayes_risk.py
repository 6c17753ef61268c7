"""bayes_risk against closed forms, enumeration of all rules, and the distribution functions."""

from __future__ import annotations

import itertools
from math import log

import numpy as np
import pytest
from scipy.stats import norm

from ml_core.decision.bayes_risk import bayes_risk
from ml_core.errors import InvalidParameter
from ml_core.registry import functions

call = functions()["bayes_risk"]


def normal(mean: float, sd: float = 1.0) -> dict:
    return {"kind": "normal", "mean": mean, "standard_deviation": sd}


def plane(x: float) -> dict:
    return {"kind": "multivariate_normal", "mean": [x, 0.0], "covariance": [[1.0, 0.0], [0.0, 1.0]]}


def holds(out: dict) -> bool:
    return all(c["holds"] for c in out["certificates"])


def test_the_minimum_stands_inside_the_sum() -> None:
    out = call({"posterior": [[0.1, 0.9], [0.8, 0.2]], "marginal": [0.5, 0.5]})
    assert out["result"]["risk"] == pytest.approx(0.15, abs=1e-15)
    assert out["result"]["best_constant_risk"] == pytest.approx(0.45, abs=1e-15)
    assert out["result"]["decisions"] == [1, 0]
    assert holds(out)


def test_asymmetric_loss_prefers_the_rare_class() -> None:
    out = call({"posterior": [[0.8, 0.2]], "loss": [[0.0, 10.0], [1.0, 0.0]]})["result"]
    assert out["decisions"] == [1]
    np.testing.assert_allclose(out["conditional_risks"], [[2.0, 0.8]])


def test_three_decisions() -> None:
    out = call({"posterior": [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]],
                "loss": [[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [5.0, 3.0, 0.0]]})["result"]  # fmt: skip
    np.testing.assert_allclose(out["conditional_risks"], [[1.1, 1.2, 3.4], [1.7, 0.7, 2.5]])
    assert out["decisions"] == [0, 1]


def test_normals_on_the_line() -> None:
    out = call({"densities": [normal(-1.0), normal(1.0)]})
    assert out["result"]["risk"] == pytest.approx(norm.cdf(-1), rel=1e-12)
    assert out["result"]["boundaries"] == pytest.approx([0.0], abs=1e-14)
    assert holds(out)


def test_normals_with_a_dear_miss_and_a_supplied_rule() -> None:
    rule = {"kind": "intervals", "boundaries": [0.0], "decisions": [0, 1]}
    out = call({"densities": [normal(-1.0), normal(1.0)], "loss": [[0.0, 4.0], [1.0, 0.0]], "rule": rule})
    b = -log(4) / 2
    assert out["result"]["boundaries"] == pytest.approx([b], abs=1e-14)
    assert out["result"]["risk"] == pytest.approx(0.5 * (4 * norm.cdf(b - 1) + norm.sf(b + 1)), rel=1e-12)
    assert out["result"]["risk"] == pytest.approx(0.2801663, abs=5e-8)
    assert out["result"]["rule_risk"] == pytest.approx(2.5 * norm.cdf(-1), rel=1e-12)
    assert holds(out)


def test_unequal_variances_have_two_boundaries() -> None:
    out = call({"densities": [normal(0.0, 1.0), normal(0.0, 3.0)]})
    x = np.sqrt(2 * log(3) / (1 - 1 / 9))
    assert out["result"]["boundaries"] == pytest.approx([-x, x], abs=1e-12)
    assert out["result"]["decisions"] == [1, 0, 1]
    want = 0.5 * (2 * norm.sf(x) + 1 - 2 * norm.sf(x / 3))
    assert out["result"]["risk"] == pytest.approx(want, rel=1e-11)


def test_other_named_densities() -> None:
    unit, shifted = {"kind": "uniform", "low": 0.0, "high": 1.0}, {"kind": "uniform", "low": 1.0, "high": 3.0}
    apart = call({"densities": [unit, shifted]})
    assert apart["result"]["risk"] == 0
    overlap = call({"densities": [unit | {"high": 2.0}, shifted]})
    assert overlap["result"]["risk"] == pytest.approx(0.25, rel=1e-12)
    waiting = call({"densities": [{"kind": "exponential", "rate": r} for r in (1.0, 3.0)]})["result"]
    b = log(3) / 2
    assert waiting["boundaries"] == pytest.approx([b], abs=1e-12)
    assert waiting["risk"] == pytest.approx(0.5 * (1 - np.exp(-b) + np.exp(-3 * b)), rel=1e-11)
    laplace = call({"densities": [{"kind": "laplace", "location": -1.0}, {"kind": "laplace", "location": 1.0}]})
    assert laplace["result"]["risk"] == pytest.approx(0.5 * np.exp(-1), rel=1e-11)
    assert holds(apart)
    assert holds(overlap)
    assert holds(laplace)


def test_a_certain_prior_has_no_risk() -> None:
    assert call({"densities": [normal(-1.0), normal(1.0)], "prior": [1.0, 0.0]})["result"]["risk"] == 0


def test_more_dimensions_by_monte_carlo() -> None:
    args = {"densities": [plane(-1.0), plane(1.0)], "random_state": 3}
    args["rule"] = {"kind": "linear", "weights": [[0.0, 0.0], [1.0, 1.0]], "intercepts": [0.0, 0.0]}
    out = call(args)
    got = out["result"]
    assert abs(got["risk"] - norm.cdf(-1)) < 4 * got["standard_error"]
    assert got["standard_error"] < 5e-4
    assert abs(got["rule_risk"] - norm.cdf(-1 / np.sqrt(2))) < 4 * got["rule_standard_error"]
    assert call(args) == out
    assert call(args | {"random_state": 4})["result"]["risk"] != got["risk"]
    assert holds(out)


@pytest.mark.parametrize("seed", range(4))
def test_no_rule_on_a_finite_problem_does_better(seed: int) -> None:
    r = np.random.default_rng(seed)
    like, prior, L = r.dirichlet(np.ones(4), size=3), r.dirichlet(np.ones(3)), r.random((3, 3))
    out = bayes_risk(likelihood=like, prior=prior, loss=L)
    risks = [sum(prior[y] * like[y, x] * L[z[x], y] for x in range(4) for y in range(3))
             for z in itertools.product(range(3), repeat=4)]  # fmt: skip
    assert out.value.risk == pytest.approx(min(risks), abs=1e-15)
    given = call({"likelihood": like, "prior": prior, "loss": L, "rule": {"kind": "table", "decisions": [2, 0, 1, 1]}})
    want = sum(prior[y] * like[y, x] * L[z, y] for x, z in enumerate([2, 0, 1, 1]) for y in range(3))
    assert given["result"]["rule_risk"] == pytest.approx(want, abs=1e-15)
    assert len(given["result"]["rule_conditional_risks"]) == 4


def test_concave_in_the_prior() -> None:
    risk = [call({"densities": [normal(0.0), normal(1.5)], "prior": [p, 1 - p]})["result"]["risk"]
            for p in (0.2, 0.5, 0.8)]  # fmt: skip
    assert risk[1] >= (risk[0] + risk[2]) / 2


def test_ties_are_told_and_go_to_the_positive_class() -> None:
    out = call({"posterior": [[0.5, 0.5]]})
    assert out["result"]["decisions"] == [1]
    assert out["warnings"][0]["code"] == "tie"


def test_impossible_value_of_x_costs_nothing() -> None:
    out = call({"likelihood": [[1.0, 0.0], [1.0, 0.0]]})["result"]
    assert out["risk"] == 0.5
    assert out["conditional_risks"][1] == [0.5, 0.5]


@pytest.mark.parametrize(
    "bad",
    [{}, {"posterior": [[0.5, 0.4]]}, {"posterior": [[1.5, -0.5]]}, {"posterior": [[0.5, 0.5]], "loss": [[0.0]]},
     {"posterior": [[0.5, 0.5]], "marginal": [0.5, 0.5]}, {"posterior": [[0.5, 0.5]], "likelihood": [[1.0]]},
     {"densities": [normal(0.0), plane(1.0)]}, {"densities": [normal(0.0)], "prior": [0.5]},
     {"densities": [{"kind": "normal", "mean": 0.0, "standard_deviation": 0.0}]}, {"densities": [{"kind": "cauchy"}]},
     {"densities": [{"kind": "multivariate_normal", "mean": [0.0, 0.0], "covariance": [[1.0, 2.0], [2.0, 1.0]]}]},
     {"densities": [{"kind": "uniform", "low": 1.0, "high": 1.0}]},
     {"posterior": [[0.5, 0.5]], "rule": {"kind": "table", "decisions": [2]}},
     {"posterior": [[0.5, 0.5]], "rule": {"kind": "table", "decisions": [0, 1]}},
     {"densities": [normal(0.0), normal(1.0)], "rule": {"kind": "table", "decisions": [0]}},
     {"densities": [normal(0.0), normal(1.0)], "rule": {"kind": "intervals", "boundaries": [1.0], "decisions": [0]}},
     {"densities": [plane(0.0), plane(1.0)], "rule": {"kind": "linear", "weights": [[1.0]], "intercepts": [0.0]}},
     {"posterior": [[0.5, 0.5], [1.0]]}],
)  # fmt: skip
def test_refuses(bad: dict) -> None:
    with pytest.raises(InvalidParameter) as e:
        call(bad)
    assert e.value.issues
