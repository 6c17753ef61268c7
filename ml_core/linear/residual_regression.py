"""What linear regressions with other losses than squares share."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Regressor
from ml_core.capabilities import Weighted
from ml_core.linear.standard_design import StandardDesign


class ResidualRegression(Weighted, Regressor):
    """f(x) = offset + (x - center)ᵀw for a loss of the residual; needs fit_intercept and weight_kind as parameters."""

    largest = SQUARES
    tags: ClassVar[tuple[str, ...]] = ("parametric", "direct", "low_capacity", "linear", "robust")

    fit_intercept: bool
    weight_kind: Literal["frequency", "precision"]

    coef_: Annotated[Vector, "(d,) slopes, target units per feature unit"]
    intercept_: Annotated[float, "value at X = 0"]
    center_: Annotated[Vector, "(d,) the point around which predictions are computed"]
    offset_: Annotated[float, "prediction at center_"]
    rank_: Annotated[int, "rank of [1, X]"]
    unique_: Annotated[bool, "whether no other coefficients reach the same objective"]
    n_iter_: Annotated[int, "steps of the solver"]
    converged_: Annotated[bool, "whether its stopping rule was met"]
    trace_: Annotated[list[float], "objective by step, in the solver's units"]

    def _keep(self, D: StandardDesign, w: Vector) -> None:
        self.coef_, self.offset_ = D.unpack(w)
        self.center_, self.rank_ = D.mean, D.rank + int(D.intercept)
        self.intercept_ = self.offset_ - float(self.center_ @ self.coef_)

    def _remark(self, D: StandardDesign, penalised: bool) -> None:
        d = len(self.coef_)
        if D.rank < d and not penalised:
            self._note("rank_deficient", f"the columns have rank {D.rank} of {d}: constant ones have the slope 0, of "
                       "slopes that fit alike the shortest in standard units were taken",
                       "drop redundant columns, or add a penalty; predictions are unaffected")  # fmt: skip
        if not self.converged_:
            self._note_short(f"the solver stopped after {self.n_iter_} steps; the certificates tell how far "
                             "it is from the minimum", "standardise the columns, or allow more steps")  # fmt: skip

    def _predict(self, X: Matrix) -> Vector:
        return np.asarray((X - self.center_) @ self.coef_ + self.offset_)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Some thirty weighted Gram matrices."""
        return Cost(flops=60.0 * n * (d + 1) ** 2 + 600.0 * n, memory_bytes=8.0 * n * (2 * d + 40))
