"""Least squares with a weight for each row."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Diagnostics
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.parameters import DirectSolver, MinNorm, Rcond
from ml_core.params import Intercept
from ml_core.registry import algorithm


@algorithm("weighted_least_squares")
class WeightedLeastSquares(LinearRegression):
    """Least squares where rows count as much as their weights say.

    min over w, b of  Σᵢ sᵢ (yᵢ - xᵢᵀw - b)²: w~ = (X~ᵀSX~)⁺X~ᵀSy, computed as least squares of √S X~ and √S y; O(n d²).
    The weights are the request's sample weights, ≥ 0 and not all 0; a row of weight 0 is as good as absent, also in the
    degrees of freedom. `precision` weights (the default here) state Var(yᵢ) = σ²/sᵢ: σ² = Σ s r²/(rows - rank), and a
    common factor of all weights changes no standard error. `frequency` weights repeat rows: n = Σ s. The coefficients
    are those of repeated rows in either case. All else, predictive distribution included, is linear_regression's; for a
    predicted row the noise is that of a row of weight 1.

    References
    ----------
    Aitken (1935), On least squares and linear combination of observations, Proc. Royal Society of Edinburgh 55.
    Greene (2012), Econometric Analysis, 7th ed., section 9.6.
    """

    complexity = "O(n d²)"
    tags = ("parametric", "discriminative", "low_capacity", "linear", "closed_form")

    def __init__(
        self,
        *,
        fit_intercept: Intercept = True,
        weight_kind: Annotated[
            Literal["precision", "frequency"],
            Field(description="Weights state precisions of the noise (n = rows) or repeat rows (n = sum)."),
        ] = "precision",
        solver: DirectSolver = "auto",
        rcond: Rcond = None,
        min_norm: MinNorm = "augmented",
    ) -> None:
        super().__init__(
            fit_intercept=fit_intercept, solver=solver, rcond=rcond, min_norm=min_norm, weight_kind=weight_kind
        )

    def _fit(self, X: Matrix, y: Vector | Matrix, s: Vector) -> None:
        super()._fit(X, y, s)
        if (s == s[0]).all():
            self._note("equal_weights", "all rows have the same weight, so this is ordinary least squares",
                       "give a column of weights, or use linear_regression")  # fmt: skip

    def _diagnose(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Diagnostics:
        out, share = super()._diagnose(X, y, s), s / s.sum()
        out.summary |= {
            "weight_sum": float(s.sum()), "smallest_weight": float(s.min()), "largest_weight": float(s.max()),
            "effective_rows": float(1.0 / np.sum(share**2)),
        }  # fmt: skip
        return out
