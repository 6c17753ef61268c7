"""roc_curve against exact counts, scikit-learn, brute force over pairs and its theorems."""

from __future__ import annotations

import csv
from fractions import Fraction

import numpy as np
import pytest
from sklearn import metrics

from ml_core.errors import InvalidParameter
from ml_core.metrics.roc_curve import roc_curve
from ml_core.registry import functions
from tests.conftest import DATA

call = functions()["roc_curve"]


@pytest.mark.parametrize(
    ("y", "scores", "auc"),
    [([1, 1, 0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], 8 / 9), ([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8], 0.875),
     ([0, 1], [0, 1], 1.0), ([1, 0], [0, 1], 0.0), ([1, 0, 1, 0], [2, 2, 2, 2], 0.5)],
)  # fmt: skip
def test_known_areas(y: list[int], scores: list[float], auc: float) -> None:
    answer = roc_curve(y=y, scores=np.array(scores, float))
    assert answer.value.auc == auc
    assert all(c.holds for c in answer.certificates)


def test_default_balance_is_the_exact_fraction() -> None:
    with (DATA / "default.csv").open() as f:
        rows = list(csv.DictReader(f))
    out = roc_curve(y=[r["default"] for r in rows], scores=np.array([float(r["balance"]) for r in rows])).value
    assert out.auc == float(Fraction(339072, 357679))
    assert (out.positives, out.negatives) == (333, 9667)


@pytest.mark.parametrize("y", [["a", "a"], [0, 0], [True, True]])
def test_one_class_has_no_area(y: list) -> None:
    out = call({"y": y, "scores": [1.0, 2.0]})
    assert out["result"]["auc"] is None
    assert out["warnings"][0]["code"] == "one_class"
    assert out["result"]["false_positive_rate"] is None
    absent = call({"y": [0, 0], "scores": [1.0, 2.0], "positive": 1})["result"]
    assert absent["true_positive_rate"] is None
    assert absent["average_precision"] is None


def test_constant_score() -> None:
    out = roc_curve(y=[1, 0, 0, 0], scores=np.ones(4)).value
    assert (out.auc, out.average_precision) == (0.5, 0.25)


def test_infinite_threshold_is_null_in_json() -> None:
    out = call(call.example)["result"]
    assert out["thresholds"][0] is None
    assert None not in out["thresholds"][1:]
    assert {"type": "null"} in call.output_schema()["properties"]["thresholds"]["items"]["anyOf"]


def tied(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    y = r.integers(0, 2, n)
    return y, np.round(r.normal(size=n) + y, 1), r.random(n)


@pytest.mark.parametrize("seed", range(3))
def test_same_curve_as_scikit_learn(seed: int) -> None:
    y, scores, s = tied(seed)
    for weight in (None, s):
        out = roc_curve(y=y.tolist(), scores=scores, sample_weight=weight)
        fpr, tpr, thresholds = metrics.roc_curve(y, scores, sample_weight=weight, drop_intermediate=False)
        np.testing.assert_allclose(out.value.false_positive_rate, fpr, atol=1e-14)
        np.testing.assert_allclose(out.value.true_positive_rate, tpr, atol=1e-14)
        np.testing.assert_array_equal(out.value.thresholds, thresholds)
        assert out.value.auc == pytest.approx(metrics.roc_auc_score(y, scores, sample_weight=weight), abs=1e-13)
        want = metrics.average_precision_score(y, scores, sample_weight=weight)
        assert out.value.average_precision == pytest.approx(want, abs=1e-13)
        assert all(c.holds for c in out.certificates)


def test_area_is_the_pair_probability_and_flips_with_the_score() -> None:
    y, scores, _ = tied(5, 60)
    a, b = scores[y == 1][:, None], scores[y == 0][None]
    want = np.mean((a > b) + 0.5 * (a == b))
    area = roc_curve(y=y.tolist(), scores=scores).value.auc
    assert area == pytest.approx(want, abs=1e-15)
    assert roc_curve(y=y.tolist(), scores=-scores).value.auc == pytest.approx(1 - want, abs=1e-15)
    assert roc_curve(y=y.tolist(), scores=np.exp(scores)).value.auc == area


def test_whole_weights_repeat_rows() -> None:
    y, scores, _ = tied(6, 50)
    k = np.random.default_rng(0).integers(1, 4, 50)
    one = roc_curve(y=y.tolist(), scores=scores, sample_weight=k.astype(float)).value
    two = roc_curve(y=np.repeat(y, k).tolist(), scores=np.repeat(scores, k)).value
    assert one.auc == two.auc
    np.testing.assert_array_equal(one.true_positive_rate, two.true_positive_rate)


@pytest.mark.parametrize("costs", [(1.0, 1.0), (10.0, 1.0), (1.0, 10.0), (0.0, 1.0)])
def test_operating_point_is_the_cheapest_of_all(costs: tuple[float, float]) -> None:
    y, scores, _ = tied(7)
    out = roc_curve(y=y.tolist(), scores=scores, cost_false_negative=costs[0], cost_false_positive=costs[1]).value
    tries = [np.inf, *np.unique(scores)]
    price = [costs[0] * ((y == 1) & (scores < t)).sum() + costs[1] * ((y == 0) & (scores >= t)).sum() for t in tries]
    assert out.operating_cost == min(price)
    t = np.inf if out.operating_threshold is None else out.operating_threshold
    assert price[tries.index(t)] == min(price)


@pytest.mark.parametrize(
    "bad",
    [{"scores": [1.0]}, {"y": [0, 1, 2]}, {"scores": [1.0, float("nan"), 2.0]}, {"sample_weight": [1.0, -1.0, 1.0]},
     {"sample_weight": [0.0, 0.0, 0.0]}, {"y": []}, {"y": [0, "a", "b"]}, {"positive": 7}, {"y": ["a", 1, True]}],
)  # fmt: skip
def test_refuses(bad: dict) -> None:
    with pytest.raises(InvalidParameter) as e:
        call({"y": [0, 1, 1], "scores": [1.0, 2.0, 3.0]} | bad)
    assert e.value.issues
