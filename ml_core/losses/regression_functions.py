"""The losses of residuals as functions of predictions and targets."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.losses.absolute import Absolute
from ml_core.losses.arguments import Prediction, Predictions, Target, Targets, Weight, same_shape, weights_of
from ml_core.losses.epsilon_insensitive import EpsilonInsensitive
from ml_core.losses.huber import Huber
from ml_core.losses.norm import Norm
from ml_core.losses.report import LossReport, report
from ml_core.losses.squared import Squared
from ml_core.losses.squared_length import SquaredLength
from ml_core.losses.tukey import Tukey
from ml_core.params import RealMatrix
from ml_core.registry import Answer, function

ROWS = {"prediction": [2.5, 0.0, 8.0], "y": [3.0, -0.5, 2.0]}
VECTORS = {"prediction": [[3.0, 4.0], [1.0, 1.0]], "y": [[0.0, 0.0], [1.0, 2.0]]}
Vectors = Annotated[RealMatrix, Field(description="(n, q) predicted vectors z.")]
VectorTargets = Annotated[RealMatrix, Field(description="(n, q) target vectors.")]


def _of(
    loss: Any, prediction: np.ndarray, y: np.ndarray, sample_weight: Any, factor: float = 1.0
) -> Answer[LossReport]:
    same_shape(prediction, y)
    eta = prediction.reshape(len(prediction), -1)
    return report(loss, eta, y, weights_of(sample_weight, len(eta)), factor=factor)


@function("squared_error", example=ROWS)
def squared_error(*, prediction: Predictions, y: Targets, sample_weight: Weight = None) -> Answer[LossReport]:
    """(z - y)², of vectors ‖z - y‖²; slope 2(z - y).

    Minus the log-likelihood of a normal target, up to scale. The best constant is the mean; outliers count by their
    square. O(n q).

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 2.4.
    """
    same_shape(prediction, y)
    if prediction.ndim == 2:
        return _of(SquaredLength(prediction.shape[1]), prediction, y, sample_weight, 2.0)
    return _of(Squared(), prediction, y, sample_weight, 2.0)


@function("absolute_error", example=ROWS)
def absolute_error(*, prediction: Prediction, y: Target, sample_weight: Weight = None) -> Answer[LossReport]:
    """|z - y|; slope sign(z - y), 0 at the kink.

    Minus the log-likelihood of a Laplace target, up to scale. The best constant is the median. O(n).

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 10.6.
    """
    return _of(Absolute(), prediction, y, sample_weight)


@function("huber_loss", example=ROWS)
def huber_loss(
    *,
    prediction: Prediction,
    y: Target,
    delta: Annotated[float, Field(ge=1e-100, le=1e100, description="Residual where it turns linear.")] = 1.345,
    sample_weight: Weight = None,
) -> Answer[LossReport]:
    """Half the square up to delta, delta (|r| - ½ delta) beyond; slope clipped to ±delta.

    Convex and once differentiable; half the squared error as delta grows, delta times the absolute error as it shrinks.

    References
    ----------
    Huber (1964), Robust estimation of a location parameter, Annals of Mathematical Statistics 35.
    """
    return _of(Huber(delta), prediction, y, sample_weight)


@function("tukey_loss", example=ROWS)
def tukey_loss(
    *,
    prediction: Prediction,
    y: Target,
    c: Annotated[float, Field(ge=1e-100, le=1e100, description="Residual from which on the loss is constant.")] = 4.685,
    sample_weight: Weight = None,
) -> Answer[LossReport]:
    """c²/6 (1 - (1 - (r/c)²)³) up to c, c²/6 beyond; slope r (1 - (r/c)²)² up to c, 0 beyond.

    Tukey's biweight: bounded, differentiable, not convex. The best constant is the deepest minimum that a search finds.

    References
    ----------
    Beaton, Tukey (1974), The fitting of power series, meaning polynomials, illustrated on band-spectroscopic data,
    Technometrics 16.
    """
    return _of(Tukey(c), prediction, y, sample_weight)


@function("epsilon_insensitive_loss", example=ROWS)
def epsilon_insensitive_loss(
    *,
    prediction: Prediction,
    y: Target,
    epsilon: Annotated[float, Field(ge=0, description="Residual up to which nothing is lost.")] = 0.1,
    sample_weight: Weight = None,
) -> Answer[LossReport]:
    """max(0, |z - y| - epsilon); slope the sign beyond epsilon, else 0.

    The loss of support vector regression; epsilon = 0 is the absolute error. Convex.

    References
    ----------
    Vapnik (1995), The Nature of Statistical Learning Theory, chapter 6.
    """
    return _of(EpsilonInsensitive(epsilon), prediction, y, sample_weight)


@function("l1_norm_loss", example=VECTORS)
def l1_norm_loss(*, prediction: Vectors, y: VectorTargets, sample_weight: Weight = None) -> Answer[LossReport]:
    """‖z - y‖₁, the sum of the absolute residuals of each row; slope their signs.

    The best constant is the median of each entry.

    References
    ----------
    Boyd, Vandenberghe (2004), Convex Optimization, section 6.1.
    """
    return p_norm_loss(prediction=prediction, y=y, p=1.0, sample_weight=sample_weight)


@function("l2_norm_loss", example=VECTORS)
def l2_norm_loss(*, prediction: Vectors, y: VectorTargets, sample_weight: Weight = None) -> Answer[LossReport]:
    """‖z - y‖₂, the length of the residual of each row (not squared); slope the residual over its length, 0 at 0.

    The best constant is the geometric median.

    References
    ----------
    Boyd, Vandenberghe (2004), Convex Optimization, section 6.1.
    """
    return p_norm_loss(prediction=prediction, y=y, p=2.0, sample_weight=sample_weight)


@function("p_norm_loss", example=VECTORS | {"p": 3.0})
def p_norm_loss(
    *,
    prediction: Vectors,
    y: VectorTargets,
    p: Annotated[float, Field(ge=1, description="Power.")] | Literal["inf"] = 2.0,
    sample_weight: Weight = None,
) -> Answer[LossReport]:
    """‖z - y‖_p of each row, p from 1 to "inf" (the largest residual); slope sign(r) (|r|/‖r‖_p)^(p-1).

    Convex for every p ≥ 1. O(n q); the best constant O(n² q).

    References
    ----------
    Boyd, Vandenberghe (2004), Convex Optimization, section 6.1 and appendix A.1.
    """
    same_shape(prediction, y)
    return _of(Norm(p, prediction.shape[1]), prediction, y, sample_weight)
