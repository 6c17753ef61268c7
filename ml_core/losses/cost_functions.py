"""Costs of many rows: losses brought together by their mean, their largest or a weighted sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate
from ml_core.losses.arguments import Numbers, Rows, bounded, weights_of, wrong
from ml_core.losses.base import Subdifferentiable
from ml_core.losses.every import LossSpec, loss_of
from ml_core.params import RealMatrix, RealVector
from ml_core.registry import Answer, function

EXAMPLE = {"loss": {"loss": "absolute"}, "prediction": [2.5, 0.0, 8.0], "y": [3.0, -0.5, 2.0]}
Loss = Annotated[LossSpec, Field(description="The loss of a row, by name or with parameters.")]
Optional = Annotated[RealVector | RealMatrix | None, Field(description="As for the loss; none with `losses`.")]
Losses = Annotated[RealVector | None, Field(description="(n,) losses as numbers, in the place of the other three.")]


@dataclass(frozen=True)
class CostReport:
    """The cost, its slope in each prediction, and its slope in each loss (`shares`); `losses` are those of the rows.

    Where several rows have the largest loss, the first carries the slope and `largest` names all of them.
    """

    value: float
    gradient: Rows | None
    shares: Numbers
    losses: Numbers
    largest: list[int]
    convex: bool | None


def _cost(
    loss: Any, prediction: Any, y: Any, losses: Vector | None, join: Callable[[Vector], tuple[float, Vector]]
) -> Answer[CostReport]:
    """The cost `join` makes of the losses: its value and its slope in each of them."""
    if losses is not None:
        bounded(losses=losses)
        if not losses.size or any(v is not None for v in (loss, prediction, y)):
            raise wrong("losses", "one_of", "give losses (at least one), or loss with prediction and y; not both")
        value, share = join(losses)
        return Answer(CostReport(value, None, share, losses, _largest(losses), None), _euler(value, share, losses))
    if loss is None or prediction is None or y is None:
        raise wrong("loss", "missing", "give loss, prediction and y, or losses")
    chosen = loss_of(loss)
    eta = _predictions(chosen, prediction, y)
    each = chosen.value(eta, y)
    value, share = join(each)
    g = share[:, None] * chosen.gradient(eta, y) + 0.0 if isinstance(chosen, Subdifferentiable) else None
    slope = None if g is None else g.reshape(prediction.shape)
    report = CostReport(value, slope, share, each, _largest(each), bool(chosen.convex))
    return Answer(report, _euler(value, share, each))


def _predictions(loss: Any, prediction: np.ndarray, y: np.ndarray) -> Matrix:
    bounded(prediction=prediction, y=y)
    eta = prediction[:, None] if prediction.ndim == 1 else prediction
    if eta.shape[1] != loss.width or not len(eta):
        raise wrong("prediction", "shape", f"this loss takes {loss.width} predictions a row, and at least one row; got "
                    f"the shape {prediction.shape}")  # fmt: skip
    if not y.size or len(y) != len(eta) or (y.ndim == 2 and y.shape != eta.shape):
        raise wrong("y", "length", f"y has the shape {y.shape}, predictions have {prediction.shape}")
    bad = np.flatnonzero(~np.atleast_1d(loss.domain.contains(y).reshape(len(y), -1).all(axis=1)))
    if len(bad):
        raise wrong("y", "domain", f"y[{bad[0]}] = {y[bad[0]]} is no target of this loss (from {loss.domain.low:g} to "
                    f"{loss.domain.high:g})")  # fmt: skip
    return np.asarray(eta)


def _largest(losses: Vector) -> list[int]:
    return [int(i) for i in np.flatnonzero(losses == losses.max())]


def _euler(value: float, share: Vector, losses: Vector) -> tuple[Certificate, ...]:
    """Each cost is linear along its losses: f(2ℓ) = 2 f(ℓ), so the value is Σ share · loss."""
    size = float(np.abs(share) @ np.abs(losses)) or 1.0
    return (Certificate("euler_error", abs(value - float(share @ losses)) / size, 1e-12,
                        "the cost is the sum of the losses times its slopes in them (relative)"),)  # fmt: skip


@function("mean_cost", example=EXAMPLE)
def mean_cost(
    *, loss: Loss | None = None, prediction: Optional = None, y: Optional = None, losses: Losses = None
) -> Answer[CostReport]:
    """The mean of the losses, 1/n Σ ℓ: the empirical risk; slope ℓ'/n.

    Convex where the loss is.

    References
    ----------
    Vapnik (1995), The Nature of Statistical Learning Theory, chapter 1.
    """
    return _cost(loss, prediction, y, losses, lambda v: (float(v.mean()), np.full(len(v), 1.0 / len(v))))


@function("max_cost", example=EXAMPLE)
def max_cost(
    *, loss: Loss | None = None, prediction: Optional = None, y: Optional = None, losses: Losses = None
) -> Answer[CostReport]:
    """The largest loss; slope that of the first row that attains it, a subgradient.

    Convex where the loss is, never smooth where rows tie. With the absolute loss its best constant is the midrange.

    References
    ----------
    Boyd, Vandenberghe (2004), Convex Optimization, section 6.1.
    """

    def join(v: Vector) -> tuple[float, Vector]:
        share = np.zeros(len(v))
        share[v.argmax()] = 1.0
        return float(v.max()), share

    return _cost(loss, prediction, y, losses, join)


@function("weighted_sum_cost", example=EXAMPLE | {"weights": [1.0, 2.0, 0.5]})
def weighted_sum_cost(
    *,
    loss: Loss | None = None,
    prediction: Optional = None,
    y: Optional = None,
    losses: Losses = None,
    weights: Annotated[RealVector, Field(description="(n,) non-negative weights of the rows.")],
) -> Answer[CostReport]:
    """Σ weight · loss: rows that matter more count more; slope weight · ℓ'.

    Equal weights of 1/n give the mean. Whole weights are repetitions of the row.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 2.4.
    """
    rows = losses if losses is not None else y
    s = weights_of(weights, len(weights) if rows is None else len(rows))
    return _cost(loss, prediction, y, losses, lambda v: (float(s @ v), s))


