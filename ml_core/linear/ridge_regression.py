"""Ridge regression."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost
from ml_core.errors import InvalidParameter, Issue
from ml_core.linear.linear_sums import LinearSums
from ml_core.linear.penalised_squares import Alphas, ChooseAlpha, Folds, PenalisedSquares
from ml_core.params import Intercept, ObjectiveScale, PenalizeBias, Seed, WeightKind
from ml_core.registry import algorithm


@algorithm("ridge_regression")
class RidgeRegression(PenalisedSquares):
    """Least squares with a squared penalty, which shrinks the coefficients and makes them unique.

    min over w, b of  Σᵢ sᵢ (yᵢ - xᵢᵀw - b)² + alpha ‖w‖²; O(n d²). With the singular values σ of the centred table,
    X = U diag(σ) Vᵀ: w = V diag(σ/(σ² + alpha)) Uᵀy, b = ȳ - x̄ᵀw, effective degrees of freedom Σ σ²/(σ² + alpha), one
    more for b. With `penalize_bias` the penalty is alpha (‖w‖² + b²); with `objective_scale` mean the squares are
    divided by Σ s. For noise of variance σₙ² and coefficients drawn from N(0, σₚ² I) the most probable w has
    alpha = σₙ²/σₚ². With alpha = 0 it is the least-squares solution of least ‖w‖, and the notice
    `rank_deficient` says where several fit alike. Weights count rows, or are
    precisions (`weight_kind`): the same w, other criteria and errors of leaving out.

    One decomposition serves every alpha. `choose_alpha` compares `alphas` by the error of leaving one row out, in
    closed form Σ sᵢ (rᵢ/(1 - hᵢ))² with the leverages h, or by generalised cross-validation n RSS/(n - dof)², which
    sums tell alone, or by the mean squared error on each of `folds` parts that the others predict; the path is in the
    diagnostics. Multi-output targets share one alpha. After `update` and `forget` an alpha chosen by leaving out stays,
    one chosen by gcv is chosen anew.

    The table is seen through a triangular root of its scatter alone, so chunks, `update` and `forget` give what one fit
    to the rows gives, with 16 - log₁₀(cond) digits; `forget` loses those of the share of the scatter that is left.

    References
    ----------
    Hoerl, Kennard (1970), Ridge regression: biased estimation for nonorthogonal problems, Technometrics 12(1).
    Golub, Heath, Wahba (1979), Generalized cross-validation as a method for choosing a good ridge parameter.
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 3.4.1.
    """

    largest = SQUARES
    complexity = "O(n d²)"
    tags = ("parametric", "discriminative", "low_capacity", "linear", "closed_form")

    coef_: Annotated[Vector, "(d,) or (q, d) slopes, target units per feature unit"]
    intercept_: Annotated[Any, "number or (q,), value at X = 0"]
    alpha_: Annotated[float, "penalty in use, on the scale of the sum of squares"]
    effective_parameters_: Annotated[float, "Σ σ²/(σ² + alpha), and 1 for an intercept without penalty"]
    center_: Annotated[Vector, "(d,) the point around which predictions are computed"]
    offset_: Annotated[Vector, "(q,) prediction at center_"]
    weights_: Annotated[Matrix, "(d, q) slopes"]
    rss_: Annotated[Vector, "(q,) weighted residual sum of squares"]
    sums_: Annotated[LinearSums, "a triangular root of the scatter of [X, Y]"]
    compared_: Annotated[list[list[float]], "penalty, error by cross-validation, and its standard error"]

    def __init__(
        self,
        *,
        alpha: Annotated[float, Field(ge=0, le=1e90, description="Penalty, squared feature units per weight.")] = 1.0,
        choose_alpha: ChooseAlpha = "given",
        alphas: Alphas = None,
        folds: Folds = 5,
        random_state: Seed = 0,
        objective_scale: ObjectiveScale = "sum",
        weight_kind: WeightKind = "frequency",
        fit_intercept: Intercept = True,
        penalize_bias: PenalizeBias = False,
        noise_variance: Annotated[
            float | None, Field(gt=0, description="σₙ²; with prior_variance it replaces alpha by σₙ²/σₚ².")
        ] = None,
        prior_variance: Annotated[float | None, Field(gt=0, description="σₚ² of each coefficient.")] = None,
    ) -> None:
        self.alpha = alpha
        self.choose_alpha = choose_alpha
        self.alphas = alphas
        self.folds = folds
        self.random_state = random_state
        self.objective_scale = objective_scale
        self.weight_kind = weight_kind
        self.fit_intercept = fit_intercept
        self.penalize_bias = penalize_bias
        self.noise_variance = noise_variance
        self.prior_variance = prior_variance

    def _penalty(self) -> float:
        both = (self.noise_variance, self.prior_variance)
        if (both[0] is None) != (both[1] is None):
            missing = "noise_variance" if both[0] is None else "prior_variance"
            issue = Issue(f"/params/{missing}", "missing", "give both variances or neither")
            raise InvalidParameter(f"{missing} is missing: give both variances or alpha", [issue])
        if both[0] is None or both[1] is None:
            return self.alpha
        return both[0] / both[1] / self._unit()

    def _bias(self) -> int:
        return int(self.fit_intercept and self.penalize_bias)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The triangle, and its singular values."""
        return Cost(flops=2.0 * n * (d + k) ** 2 + 20.0 * min(n, d) * d * d, memory_bytes=24.0 * n * (d + k))
