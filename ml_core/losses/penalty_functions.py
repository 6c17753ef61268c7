"""The usual penalties of coefficients, as functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Vector
from ml_core.certificates import Certificate
from ml_core.losses.arguments import Numbers, bounded, wrong
from ml_core.params import RealVector
from ml_core.penalties import Penalty
from ml_core.registry import Answer, function

Coefficients = Annotated[RealVector, Field(min_length=1, description="(d,) coefficients w.")]
Strength = Annotated[float, Field(ge=0, le=1e50, description="Factor of the penalty.")]
Intercept = Annotated[int | None, Field(ge=0, description="Place of the intercept in w, which is not penalised.")]
Step = Annotated[float, Field(ge=1e-50, le=1e50, description="Step of the proximal operator.")]


@dataclass(frozen=True)
class PenaltyReport:
    """Value, a (sub)gradient, `kinks` (entries where it is one of several), and the proximal operator at w.

    `l1` and `l2` are the penalty as data: Σⱼ l1ⱼ |wⱼ| + ½ l2ⱼ wⱼ².
    """

    value: float
    gradient: Numbers
    kinks: list[int]
    prox: Numbers
    l1: Numbers
    l2: Numbers


def _report(
    w: Vector, l1: Vector | float, l2: Vector | float, intercept: int | None, step: float
) -> Answer[PenaltyReport]:
    if intercept is not None and intercept >= len(w):
        raise wrong("intercept", "range", f"intercept = {intercept}, but w has the places 0 to {len(w) - 1}")
    bounded(w=w, diagonal=l2)
    penalty = Penalty.of(len(w), l1=l1, l2=l2, free=intercept)
    g, kinks = penalty.gradient(w), np.flatnonzero((w == 0) & (penalty.l1 > 0)).tolist()
    prox = penalty.prox(w, step)
    found = PenaltyReport(penalty.value(w), g, kinks, prox, penalty.l1, penalty.l2)
    product = float(g @ w)
    gap = abs(found.value + penalty.conjugate(g) - product) / (1.0 + abs(found.value) + abs(product))
    left = penalty.distance(prox, (prox - w) / step)
    size = 1.0 + float((np.abs(w) / step).max() + (penalty.l2 * np.abs(w)).max())
    return Answer(found, (
        Certificate("fenchel_young_gap", gap, 1e-10, "value + conjugate of the slope - slope · w is 0 exactly for a "
                    "subgradient (relative)"),
        Certificate("prox_optimality", float(left.max()) / size, 1e-10, "distance of (w - prox)/step from the "
                    "subdifferential at prox (relative)"),
    ))  # fmt: skip


@function("l2_penalty", example={"w": [1.0, -2.0, 5.0], "intercept": 2})
def l2_penalty(
    *, w: Coefficients, strength: Strength = 1.0, intercept: Intercept = None, step: Step = 1.0
) -> Answer[PenaltyReport]:
    """Strength · ‖w‖², the intercept left out; slope 2 strength w.

    Ridge: minus the logarithm of a normal prior. The proximal operator shrinks, w / (1 + 2 step strength).

    References
    ----------
    Hoerl, Kennard (1970), Ridge regression, Technometrics 12.
    """
    return _report(w, 0.0, 2.0 * strength, intercept, step)


@function("l1_penalty", example={"w": [1.0, -2.0, 0.0]})
def l1_penalty(
    *, w: Coefficients, strength: Strength = 1.0, intercept: Intercept = None, step: Step = 1.0
) -> Answer[PenaltyReport]:
    """Strength · ‖w‖₁, the intercept left out; slope strength sign(w), 0 at the kinks.

    Lasso: minus the logarithm of a Laplace prior. The proximal operator thresholds at step strength.

    References
    ----------
    Tibshirani (1996), Regression shrinkage and selection via the lasso, JRSS B 58.
    """
    return _report(w, strength, 0.0, intercept, step)


@function("diagonal_penalty", example={"w": [1.0, -2.0], "diagonal": [1.0, 0.5]})
def diagonal_penalty(
    *,
    w: Coefficients,
    diagonal: Annotated[RealVector, Field(description="(d,) non-negative diagonal of D.")],
    strength: Strength = 1.0,
    intercept: Intercept = None,
    step: Step = 1.0,
) -> Answer[PenaltyReport]:
    """Strength · wᵀDw for a diagonal D ≥ 0, the intercept left out; slope 2 strength D w.

    Tikhonov's regularisation: a strength of its own for each coefficient; D = I is the squared L2 norm.

    References
    ----------
    Tikhonov, Arsenin (1977), Solutions of Ill-posed Problems.
    """
    if len(diagonal) != len(w) or (diagonal < 0).any():
        raise wrong("diagonal", "weights", f"diagonal needs {len(w)} non-negative numbers, one for each coefficient")
    return _report(w, 0.0, 2.0 * strength * diagonal, intercept, step)
