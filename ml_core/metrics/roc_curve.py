"""The receiver operating characteristic of a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field, WithJsonSchema

from ml_core.arrays import Vector
from ml_core.certificates import Certificate, Notice
from ml_core.errors import InvalidParameter, Issue
from ml_core.labels import distinct, key
from ml_core.params import Label, RealVector
from ml_core.registry import Answer, function
from ml_core.validation import WEIGHTS

EPS = float(np.finfo(float).eps)
Thresholds = Annotated[
    np.ndarray, WithJsonSchema({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}})
]
Rates = Annotated[
    np.ndarray | None, WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]})
]


@dataclass(frozen=True)
class RocCurve:
    """Points (false, true positive rate) of the rules "positive when score ≥ threshold", strictest first.

    The first threshold is infinite (nothing is positive; null in JSON). Rates and areas that need a class that is
    absent are null. `operating_threshold` costs least: `operating_cost` = c_FN · missed + c_FP · false alarms.
    """

    false_positive_rate: Rates
    true_positive_rate: Rates
    thresholds: Thresholds
    auc: float | None
    average_precision: float | None
    positives: float
    negatives: float
    operating_threshold: float | None
    operating_cost: float
    operating_false_positive_rate: float | None
    operating_true_positive_rate: float | None


@function("roc_curve", example={"y": [1, 1, 0, 1, 0, 0], "scores": [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]})
def roc_curve(
    *,
    y: Annotated[list[Label | None], Field(min_length=1, description="True labels, at most two kinds.")],
    scores: Annotated[RealVector, Field(description="One score a row; larger means more likely positive.")],
    positive: Annotated[Label | None, Field(description="The positive label; default the last of their order.")] = None,
    sample_weight: Annotated[RealVector | None, Field(description="Non-negative weights; default 1.")] = None,
    cost_false_negative: Annotated[float, Field(ge=0, description="Cost of a missed positive.")] = 1.0,
    cost_false_positive: Annotated[float, Field(ge=0, description="Cost of a false alarm.")] = 1.0,
) -> Answer[RocCurve]:
    """True against false positive rate over all thresholds, the area below, and the threshold of least cost.

    Equal scores form one point. AUC = P(score⁺ > score⁻) + ½ P(score⁺ = score⁻), from exact counts when unweighted: 1
    ranks perfectly, ½ not at all. The operating point minimises c_FN · FNR · P + c_FP · FPR · N, strictest first.
    O(n log n).

    References
    ----------
    Fawcett (2006), An introduction to ROC analysis, Pattern Recognition Letters 27.
    """
    hit, s = _checked(y, scores, positive, sample_weight)
    tp, fp, thresholds = _counts(hit, scores, s)
    P, N = float(tp[-1]), float(fp[-1])
    cost = cost_false_negative * (P - tp) + cost_false_positive * fp
    best = int(np.argmin(cost))
    tpr, fpr = (tp / P if P else None), (fp / N if N else None)
    auc = _area(tp, fp) if P and N else None
    value = RocCurve(
        fpr, tpr, thresholds, auc, _average_precision(tp, fp) if P else None, P, N,
        float(thresholds[best]) if best else None, float(cost[best]),
        None if fpr is None else float(fpr[best]), None if tpr is None else float(tpr[best]),
    )  # fmt: skip
    if auc is None:
        only = "positive" if P else "negative"
        note = Notice("one_class", f"every row is {only}: the area and the rates of the other class do not exist",
                      "give rows of both classes")  # fmt: skip
        return Answer(value, (), (note,))
    return Answer(value, (_rank_check(auc, hit, scores, s),))


def _checked(y: list[Any], scores: Vector, positive: Any, weight: Vector | None) -> tuple[np.ndarray, Vector]:
    """Whether each row is positive, and its weight."""
    if len(scores) != len(y):
        raise InvalidParameter(f"scores has {len(scores)} entries, y has {len(y)}",
                               [Issue("/scores", "length", f"expected {len(y)}")])  # fmt: skip
    s = np.ones(len(y)) if weight is None else weight
    if len(s) != len(y) or (s < 0).any() or not s.any():
        raise InvalidParameter("sample_weight needs one non-negative number a row, not all 0",
                               [Issue("/sample_weight", "weights", f"expected {len(y)} weights ≥ 0")])  # fmt: skip
    if s.max() > WEIGHTS[1] or s[s > 0].min() < WEIGHTS[0]:
        raise InvalidParameter(f"positive sample_weight must lie between {WEIGHTS[0]:g} and {WEIGHTS[1]:g}",
                               [Issue("/sample_weight", "range", "multiply all weights by a constant")])  # fmt: skip
    kinds = distinct([*y, positive] if positive is not None else y)
    if len(kinds) > 2:
        message = f"y and positive name {len(kinds)} labels; map them to two, one against the rest"
        raise InvalidParameter(message, [Issue("/y", "too_many_classes", message)])
    top = key(kinds[-1] if positive is None else positive)
    return np.array([key(t) == top for t in y]), s


def _counts(hit: np.ndarray, scores: Vector, s: Vector) -> tuple[Vector, Vector, Vector]:
    """Cumulated weight of true and false positives after each distinct score, descending, with 0 in front."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    tp = np.cumsum(np.where(hit, s, 0.0)[order])[last]
    fp = np.cumsum(np.where(hit, 0.0, s)[order])[last]
    return np.append(0.0, tp), np.append(0.0, fp), np.append(np.inf, ranked[last])


def _area(tp: Vector, fp: Vector) -> float:
    """Trapezoids; whole counts are summed as integers, so that the one rounding is the final division."""
    if (tp == np.floor(tp)).all() and (fp == np.floor(fp)).all() and tp[-1] * fp[-1] < 2**61:
        a, b = tp.astype(np.int64), fp.astype(np.int64)
        return int(np.sum(np.diff(b) * (a[1:] + a[:-1]))) / int(2 * a[-1] * b[-1])
    return float(np.sum(np.diff(fp) * (tp[1:] + tp[:-1])) / (2 * tp[-1] * fp[-1]))


def _average_precision(tp: Vector, fp: Vector) -> float:
    """Σ precision · gain of recall over the thresholds; a constant score gives the share of positives."""
    seen = tp[1:] + fp[1:]
    precision = np.divide(tp[1:], seen, out=np.zeros_like(seen), where=seen > 0)
    return float(np.sum(np.diff(tp) * precision) / tp[-1])


def _rank_check(auc: float, hit: np.ndarray, scores: Vector, s: Vector) -> Certificate:
    """The area against the Mann-Whitney statistic, summed over distinct scores."""
    values, at = np.unique(scores, return_inverse=True)
    p, q = np.bincount(at, s * hit, len(values)), np.bincount(at, s * ~hit, len(values))
    below = np.cumsum(q) - 0.5 * q
    other = float(p @ below / (p.sum() * q.sum()))
    return Certificate("rank_statistic_difference", abs(auc - other), 64 * EPS * len(hit) ** 0.5,
                       "the area equals the Mann-Whitney probability computed from ranks")  # fmt: skip
