"""Figures of the errors of predictions, with their slopes: they are costs to minimise too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Vector
from ml_core.certificates import Certificate
from ml_core.losses.arguments import Predictions, Rows, Targets, Weight, same_shape, weights_of, wrong
from ml_core.params import RealMatrix, RealVector
from ml_core.registry import Answer, function

EXAMPLE = {"prediction": [2.5, 0.0, 2.0, 8.0], "y": [3.0, -0.5, 2.0, 7.0]}
Probabilities = Annotated[
    RealVector | RealMatrix, Field(description="(n,) probabilities of the positive label, or (n, K) of all classes.")
]
Truths = Annotated[RealVector | RealMatrix, Field(description="0 and 1, of the shape of the probabilities.")]
Half = Annotated[bool, Field(description="Return half the sum (and half the slope).")]


@dataclass(frozen=True)
class ErrorReport:
    """The figure and its slope in every prediction; `rows` is what it rests on (the total weight)."""

    value: float
    gradient: Rows
    rows: float


def _squares(
    prediction: np.ndarray, y: np.ndarray, weight: Vector | None, *, power: float, factor: float, mean: bool
) -> Answer[ErrorReport]:
    """(factor · Σ s ‖r‖² [/ Σ s])^power, free of overflow inside."""
    same_shape(prediction, y)
    s = weights_of(weight, len(y))
    r = prediction - y
    unit = float(np.abs(r).max()) or 1.0
    scaled, total = r / unit, float(s.sum())
    row = (scaled * scaled).reshape(len(r), -1).sum(axis=1)
    inside = factor * float(s @ row) / (total if mean else 1.0)
    share = (s / total if mean else s).reshape(-1, *[1] * (r.ndim - 1))
    with np.errstate(over="ignore"):
        value = inside**power * unit ** (2.0 * power)
        outer = power * inside ** (power - 1.0) if inside > 0 else 0.0
        g = outer * 2.0 * factor * share * scaled * unit ** (2.0 * power - 1.0)
    return _answer(value, g, prediction, r, 2.0 * power, total)


def _answer(
    value: float, g: np.ndarray, z: np.ndarray, r: np.ndarray, degree: float, total: float
) -> Answer[ErrorReport]:
    """With Euler's identity: a figure that grows as the errors to some degree is their product with its slope."""
    product = float((g * r).sum())
    size = degree * abs(value) or 1.0
    check = Certificate("euler_error", abs(product - degree * value) / size, 1e-12,
                        "slope · errors = degree · value, as for every homogeneous figure (relative)")  # fmt: skip
    return Answer(ErrorReport(value, g.reshape(z.shape), total), (check,))


@function("mean_squared_error", example=EXAMPLE)
def mean_squared_error(*, prediction: Predictions, y: Targets, sample_weight: Weight = None) -> Answer[ErrorReport]:
    """Σ s (z - y)² / Σ s, of vectors ‖z - y‖²; slope 2 s (z - y) / Σ s.

    In squared units of the target; the mean minimises it. Half of it is another convention, not used here.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 2.4.
    """
    return _squares(prediction, y, sample_weight, power=1.0, factor=1.0, mean=True)


@function("root_mean_squared_error", example=EXAMPLE)
def root_mean_squared_error(
    *, prediction: Predictions, y: Targets, sample_weight: Weight = None
) -> Answer[ErrorReport]:
    """The root of the mean squared error, in units of the target; slope s (z - y) / (Σ s · value), 0 at a perfect fit.

    A norm of the errors, so convex.

    References
    ----------
    Hyndman, Koehler (2006), Another look at measures of forecast accuracy, International Journal of Forecasting 22.
    """
    return _squares(prediction, y, sample_weight, power=0.5, factor=1.0, mean=True)


@function("probability_rmse", example={"prediction": [0.8, 0.3, 0.6], "y": [1.0, 0.0, 1.0]})
def probability_rmse(*, prediction: Probabilities, y: Truths, sample_weight: Weight = None) -> Answer[ErrorReport]:
    """The root of the mean squared distance of probabilities from the truth, √(Σ s ‖y - p‖² / Σ s).

    The root of the Brier score; least in expectation for the true probabilities.

    References
    ----------
    Brier (1950), Verification of forecasts expressed in terms of probability, Monthly Weather Review 78.
    """
    for name, values in (("prediction", prediction), ("y", y)):
        if ((values < 0) | (values > 1)).any():
            outside = values[(values < 0) | (values > 1)][0]
            raise wrong(name, "range", f"{name} holds {outside:g}; give numbers between 0 and 1")
    return _squares(prediction, y, sample_weight, power=0.5, factor=1.0, mean=True)


@function("residual_sum_of_squares", example=EXAMPLE)
def residual_sum_of_squares(
    *, prediction: Predictions, y: Targets, sample_weight: Weight = None, half: Half = False
) -> Answer[ErrorReport]:
    """Σ s (z - y)², or half of it; slope 2 s (z - y), or s (z - y).

    What least squares minimises. Grows with the number of rows, unlike the mean squared error.

    References
    ----------
    Draper, Smith (1998), Applied Regression Analysis, chapter 1.
    """
    return _squares(prediction, y, sample_weight, power=1.0, factor=0.5 if half else 1.0, mean=False)


@function("sum_of_squared_errors", example=EXAMPLE)
def sum_of_squared_errors(
    *, prediction: Predictions, y: Targets, sample_weight: Weight = None, half: Half = True
) -> Answer[ErrorReport]:
    """½ Σ s (z - y)², or without the half: the same figure as the residual sum of squares, halved by default.

    The half makes the slope the weighted error itself, s (z - y).

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, section 1.1.
    """
    return _squares(prediction, y, sample_weight, power=1.0, factor=0.5 if half else 1.0, mean=False)


@function("mean_absolute_error", example=EXAMPLE)
def mean_absolute_error(*, prediction: Predictions, y: Targets, sample_weight: Weight = None) -> Answer[ErrorReport]:
    """Σ s |z - y| / Σ s, summed over the entries of vectors; slope s sign(z - y) / Σ s, 0 at the kinks.

    In units of the target; the median minimises it.

    References
    ----------
    Hyndman, Koehler (2006), Another look at measures of forecast accuracy, International Journal of Forecasting 22.
    """
    same_shape(prediction, y)
    s = weights_of(sample_weight, len(y))
    r, total = prediction - y, float(s.sum())
    value = float(s @ np.abs(r).reshape(len(r), -1).sum(axis=1)) / total
    g = (s / total).reshape(-1, *[1] * (r.ndim - 1)) * np.sign(r)
    return _answer(value, g, prediction, r, 1.0, total)
