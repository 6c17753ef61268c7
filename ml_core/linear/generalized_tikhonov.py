"""Generalized Tikhonov regularization."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost
from ml_core.errors import InvalidParameter, Issue
from ml_core.linear.linear_sums import LinearSums
from ml_core.linear.penalised_squares import Alphas, ChooseAlpha, Folds, PenalisedSquares
from ml_core.params import FreeIntercept, ObjectiveScale, RealMatrix, RealVector, Seed, WeightKind
from ml_core.registry import algorithm


@algorithm("generalized_tikhonov")
class GeneralizedTikhonov(PenalisedSquares):
    """Least squares with a squared penalty of its own for each coefficient, or for combinations of them.

    min over w, b of  Σᵢ sᵢ (yᵢ - xᵢᵀw - b)² + alpha Σⱼ Dⱼ (L w)ⱼ²; O((n + m) d²). D ≥ 0 are `penalties`, L is the
    `operator`: the identity, differences of neighbouring coefficients (which ask for a smooth w), or a matrix (m, d).
    The bias is never penalised. Solved as the stacked least squares [X; √(alpha D) L] w = [y; 0], by the generalized
    singular value decomposition of the two blocks, which serves every alpha. Where penalties are 0 the system may stay
    singular: the notice `rank_deficient` tells, and the shortest w in units of the columns is taken. D = 1 is ridge
    regression. `choose_alpha`, weights, chunks, `update` and `forget` are those of ridge_regression.

    References
    ----------
    Tikhonov, Arsenin (1977), Solutions of Ill-Posed Problems.
    Hansen (1998), Rank-Deficient and Discrete Ill-Posed Problems, SIAM, chapters 2 and 7.
    """

    largest = SQUARES
    complexity = "O((n + m) d²)"
    tags = ("parametric", "discriminative", "low_capacity", "linear", "closed_form")

    coef_: Annotated[Vector, "(d,) or (q, d) slopes, target units per feature unit"]
    intercept_: Annotated[Any, "number or (q,), value at X = 0"]
    alpha_: Annotated[float, "penalty in use, on the scale of the sum of squares"]
    effective_parameters_: Annotated[float, "trace of the hat matrix"]
    center_: Annotated[Vector, "(d,) the point around which predictions are computed"]
    offset_: Annotated[Vector, "(q,) prediction at center_"]
    weights_: Annotated[Matrix, "(d, q) slopes"]
    rss_: Annotated[Vector, "(q,) weighted residual sum of squares"]
    sums_: Annotated[LinearSums, "a triangular root of the scatter of [X, Y]"]
    compared_: Annotated[list[list[float]], "penalty, error by cross-validation, and its standard error"]

    def __init__(
        self,
        *,
        alpha: Annotated[float, Field(ge=0, le=1e90, description="Strength of the penalty.")] = 1.0,
        penalties: Annotated[
            RealVector | None, Field(description="D ≥ 0, one for each row of the operator; all 1 by default.")
        ] = None,
        operator: Annotated[
            Literal["identity", "first_difference", "second_difference"] | RealMatrix,
            Field(description="L: which combinations of the coefficients are penalised."),
        ] = "identity",
        choose_alpha: ChooseAlpha = "given",
        alphas: Alphas = None,
        folds: Folds = 5,
        random_state: Seed = 0,
        objective_scale: ObjectiveScale = "sum",
        weight_kind: WeightKind = "frequency",
        fit_intercept: FreeIntercept = True,
    ) -> None:
        self.alpha = alpha
        self.penalties = penalties
        self.operator = operator
        self.choose_alpha = choose_alpha
        self.alphas = alphas
        self.folds = folds
        self.random_state = random_state
        self.objective_scale = objective_scale
        self.weight_kind = weight_kind
        self.fit_intercept = fit_intercept

    def _root(self) -> Matrix:
        d = self.sums_.columns
        order = {"identity": 0, "first_difference": 1, "second_difference": 2}
        if isinstance(self.operator, str):
            L = np.diff(np.eye(d), n=order[self.operator], axis=0)
            if not len(L):
                text = f"operator {self.operator} needs more than {order[self.operator]} columns, there are {d}"
                raise InvalidParameter(text, [Issue("/params/operator", "too_few_columns", text)])
        else:
            L = np.asarray(self.operator, dtype=float)
        if L.shape[1] != d:
            text = f"operator has {L.shape[1]} columns, the table has {d}"
            raise InvalidParameter(text, [Issue("/params/operator", "wrong_width", text)])
        if self.penalties is None:
            return L
        D = np.asarray(self.penalties, dtype=float)
        if len(D) != len(L):
            text = f"penalties has {len(D)} entries, the operator has {len(L)} rows"
            raise InvalidParameter(text, [Issue("/params/penalties", "wrong_length", text)])
        if (D < 0).any():
            at = int(np.flatnonzero(D < 0)[0])
            text = f"penalties[{at}] is {D[at]:g}; penalties are 0 or more"
            raise InvalidParameter(text, [Issue(f"/params/penalties/{at}", "negative", text)])
        return np.asarray(np.sqrt(D)[:, None] * L)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The triangle, and two decompositions of the stacked system."""
        return Cost(flops=2.0 * n * (d + k) ** 2 + 60.0 * d * d * d, memory_bytes=24.0 * n * (d + k) + 64.0 * d * d)
