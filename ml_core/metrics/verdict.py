"""Whether a fit follows its rows too closely or hardly at all, from errors of training and of held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

import numpy as np

from ml_core.arrays import Vector

SHARE = 0.1  # of what a constant misses: a smaller difference is no verdict


@dataclass(frozen=True)
class Verdict:
    """`code`, and in `message` the figures that it rests on."""

    code: Literal["over_fitting", "under_fitting", "fitting"]
    message: str


def verdict(train: Mapping[str, Any], held: Mapping[str, Any], constant: float | None = None) -> Verdict | None:
    """Compare figures of `metrics` of the training rows and of held-out rows; None where they do not suffice.

    Errors are mean squares or shares of wrong labels, as parts of the error of the best constant: 1 - r2 tells it of a
    regression, `constant` is the share of rows outside the largest class. over_fitting: held-out rows miss more than a
    tenth of it above the training rows, and more than two standard errors (of a share, √(p (1 - p)/n) with p drawn to
    a half by one row of each kind; of mean squares of normal residuals, √(2/n) of themselves). under_fitting: training
    rows alone miss more than nine tenths of it. O(1).

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, sections 7.2 and 7.10.
    """
    found = _shares(train, held, constant)
    if found is None:
        return None
    (seen, seen_error), (unseen, unseen_error) = found
    told = f"training rows miss {seen:.1%} of what the best constant misses, held-out rows {unseen:.1%}"
    if unseen - seen > max(SHARE, 2 * sqrt(seen_error**2 + unseen_error**2)):
        return Verdict("over_fitting", f"{told}: fewer columns, a stronger penalty or more rows may help")
    if seen > 1 - SHARE:
        return Verdict("under_fitting", f"{told}: the model is too simple, or the columns tell little of the target")
    return Verdict("fitting", f"{told}: no more than chance or a tenth apart")


def _shares(train: Mapping[str, Any], held: Mapping[str, Any], constant: float | None) -> Any:
    """(error, its standard error) of both, in errors of the best constant."""
    if unit := _mean_square_of_the_constant(train, held):
        squares = [(of["mean_squared_error"], of["rows"]) for of in (train, held)]
        return [(e / unit, sqrt(2 / n) * e / unit) for e, n in squares]
    wrong, other = train.get("error_rate"), held.get("error_rate")
    if not constant or wrong is None or other is None:
        return None
    out = []
    for e, n in ((wrong, train["rows"]), (other, held["rows"])):
        p = (e * n + 1) / (n + 2)
        out.append((e / constant, sqrt(p * (1 - p) / n) / constant))
    return out


def _mean_square_of_the_constant(*figures: Mapping[str, Any]) -> float | None:
    """From the rows whose 1 - r2 has the most digits; None unless both have mean squares."""
    if any(of.get("mean_squared_error") is None for of in figures):
        return None
    told = [(of["r2"], of["mean_squared_error"]) for of in figures if of.get("r2") is not None]
    r2, square = min(told, default=(1.0, 0.0))
    return square / (1 - r2) if r2 < 1 else None


def outside_largest(y: Any, weights: Any = None) -> float:
    """Share of the weight of labels y (n,) outside the most frequent one."""
    s = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
    return float(1 - max(weight_of_labels(y, s).values()) / s.sum())


def weight_of_labels(y: Any, weights: Vector) -> dict[Any, float]:
    """The weight of each label of y (n,)."""
    labels, found = np.unique(np.asarray(y), return_inverse=True)
    return dict(zip(labels.tolist(), np.bincount(found, weights).tolist(), strict=True))


def silence(held: Mapping[str, Any] | None) -> str:
    """Why there is no verdict."""
    if held is None:
        return "no rows were held out: ask for a validation"
    return "the error of the best constant is 0 or unknown: targets do not vary, all is exact, or squares overflow"
