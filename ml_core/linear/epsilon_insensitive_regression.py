"""Regression that ignores residuals within a tube."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Diagnostics
from ml_core.linear import residual_report
from ml_core.linear.kinked_regression import KinkedRegression
from ml_core.linear.parameters import PenaltyL1, PenaltyL2
from ml_core.losses.epsilon_insensitive import EpsilonInsensitive
from ml_core.numerics.column_moments import column_moments
from ml_core.params import FreeIntercept, ObjectiveScale, WeightKind
from ml_core.registry import algorithm


@algorithm("epsilon_insensitive_regression")
class EpsilonInsensitiveRegression(KinkedRegression):
    """The line with the least sum of what residuals exceed a tube by: linear support vector regression.

    min over w, b of  Σᵢ sᵢ max(0, |yᵢ - xᵢᵀw - b| - epsilon) + ½ alpha_l2 ‖w‖² + alpha_l1 ‖w‖₁. Without penalties a
    linear program, with alpha_l2 > 0 a quadratic one; an interior point solves either in some 20 steps of O(n d²), and
    its dual, max yᵀm - epsilon ‖m‖₁ - ‖Xᵀm‖²/(2 alpha_l2) for |mᵢ| ≤ sᵢ and Σ m = 0, bounds the objective from below.
    epsilon = 0 is least absolute deviations; by default epsilon is a tenth of the standard deviation of y. In a tube
    that holds all rows many lines cost nothing: the minimiser is often not unique, which the notice `not_unique` says
    with the rule of choice. In the terms of support vector regression C = 1/alpha_l2. The weights count rows.

    References
    ----------
    Vapnik (1995), The Nature of Statistical Learning Theory, section 6.1.
    Smola, Schölkopf (2004), A tutorial on support vector regression, Statistics and Computing 14.
    """

    complexity = "O(n d²) a step, some 20 steps"

    epsilon_: Annotated[float, "half width of the tube in use, target units"]

    def __init__(
        self,
        *,
        epsilon: Annotated[
            float | None, Field(ge=0, le=1e90, description="Half width of the tube; a tenth of sd(y) by default.")
        ] = None,
        alpha_l2: PenaltyL2 = 0.0,
        alpha_l1: PenaltyL1 = 0.0,
        objective_scale: ObjectiveScale = "sum",
        fit_intercept: FreeIntercept = True,
        weight_kind: WeightKind = "frequency",
    ) -> None:
        self.epsilon = epsilon
        self.alpha_l2 = alpha_l2
        self.alpha_l1 = alpha_l1
        self.objective_scale = objective_scale
        self.fit_intercept = fit_intercept
        self.weight_kind = weight_kind

    def _set_epsilon(self, y: Vector, s: Vector) -> None:
        if self.epsilon is not None:
            self.epsilon_ = float(self.epsilon)
            return
        _, sd, constant = column_moments(y[:, None], s)
        self.epsilon_ = 0.0 if constant[0] else 0.1 * float(sd[0])

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        D = self._problem(X, y, s)[0]
        out, r = residual_report.report(self, D, X, y, s), y - self._predict(X)
        self._kinks(X, y, s, out)
        loss, size = EpsilonInsensitive(self.epsilon_), float(np.abs(y).max())
        outside = np.flatnonzero(np.abs(r) > self.epsilon_ + 1e-9 * (self.epsilon_ + size))
        out.summary |= {
            "epsilon": self.epsilon_, "rows_outside": len(outside), "excess": float(s @ loss.rho(r)),
            "share_outside": float(s[outside].sum() / s.sum()),
        }  # fmt: skip
        why = "the loss does not follow from a density of the noise alone: no classical errors"
        residual_report.put_coefficients(self, out, D, s, None, why)
        return out
