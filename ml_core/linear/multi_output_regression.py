"""Several targets by least squares at once."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Diagnostics, Table
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.parameters import DirectSolver, MinNorm, Rcond
from ml_core.params import Intercept, WeightKind
from ml_core.registry import algorithm


@algorithm("multi_output_regression")
class MultiOutputRegression(LinearRegression):
    """Least squares for several targets, which share one factorization of the columns.

    W~ = X~⁺ Y for X~ = [1, X] (n, d + 1) and Y (n, q): min over W, b of Σᵢ sᵢ ‖yᵢ - Wxᵢ - b‖², which equals q fits of
    one target; O(n d² + n d q). Each target has coefficients, tests and scores of its own; what the targets have in
    common beyond the columns stands in `residual_covariance` = R'SR/(n - rank) and `residual_correlation`. A missing
    value in one target is refused: leave its row out, or fit the targets one by one. All else is linear_regression.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 3.2.4.
    Mardia, Kent, Bibby (1979), Multivariate Analysis, chapter 6.
    """

    complexity = "O(n d² + n d q)"
    tags = ("parametric", "discriminative", "low_capacity", "linear", "closed_form")

    def __init__(
        self,
        *,
        fit_intercept: Intercept = True,
        solver: DirectSolver = "auto",
        rcond: Rcond = None,
        min_norm: MinNorm = "augmented",
        weight_kind: WeightKind = "frequency",
    ) -> None:
        super().__init__(
            fit_intercept=fit_intercept, solver=solver, rcond=rcond, min_norm=min_norm, weight_kind=weight_kind
        )

    def _diagnose(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Diagnostics:
        out, R = super()._diagnose(X, y, s), y.reshape(len(X), -1) - (X - self.center_) @ self.weights_ - self.offset_
        share = [row[out.tables["outputs"].columns.index("r2")] for row in out.tables["outputs"].rows]
        out.summary["outputs"] = R.shape[1]
        out.summary["mean_r2"] = None if None in share else float(np.mean(share))
        if self.df_ > 0:
            C = (R.T * s) @ R / self.df_
            sd = np.sqrt(np.diag(C))
            out.matrices["residual_covariance"] = C
            if (sd > 0).all():
                out.matrices["residual_correlation"] = C / np.outer(sd, sd)
                out.tables["residual_correlations"] = _pairs(C / np.outer(sd, sd))
        return out


def _pairs(C: Matrix) -> Table:
    """The targets whose residuals go together most, first."""
    i, j = np.triu_indices(len(C), 1)
    order = np.argsort(-np.abs(C[i, j]), kind="stable")[:50]
    return Table(("output", "other", "correlation"), [[int(i[k]), int(j[k]), float(C[i[k], j[k]])] for k in order])
