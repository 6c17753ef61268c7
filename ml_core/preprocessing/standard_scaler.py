"""Standardisation of columns."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import Transformer
from ml_core.capabilities import Inverts, Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.registry import algorithm

EPS = float(np.finfo(float).eps)


@algorithm("standard_scaler")
class StandardScaler(Weighted, Inverts, Transformer):
    """Columns to mean 0 and standard deviation 1.

    z = (x - mean) / sd, with sd² = Σᵢ sᵢ(xᵢ - mean)² / (Σᵢ sᵢ - ddof); O(n d). A constant column keeps sd = 1 and is
    reported. The statistics come from the rows given to `fit` alone and are summed in two passes, so a large offset
    costs no digits.

    References
    ----------
    Chan, Golub, LeVeque (1983), Algorithms for computing the sample variance, The American Statistician 37(3).
    """

    complexity = "O(n d)"
    tags = ("parametric",)

    mean_: Vector
    scale_: Vector

    def __init__(
        self,
        *,
        with_mean: Annotated[bool, Field(description="Subtract the mean.")] = True,
        with_std: Annotated[bool, Field(description="Divide by the standard deviation.")] = True,
        ddof: Annotated[Literal[0, 1], Field(description="Divisor n - ddof of the variance.")] = 0,
    ) -> None:
        self.with_mean = with_mean
        self.with_std = with_std
        self.ddof = ddof

    def _fit(self, X: Matrix, s: Vector) -> None:
        total = s.sum()
        shift = X[0]
        mean = shift + (s @ (X - shift)) / total
        sd = np.sqrt(s @ (X - mean) ** 2 / max(total - self.ddof, EPS))
        constant = np.ptp(X, axis=0) == 0
        if constant.any():
            self._note("constant_column", f"columns {np.flatnonzero(constant).tolist()} are constant; their scale is 1",
                       "drop them, they carry no information")  # fmt: skip
        mean[constant] = X[0, constant]
        sd[constant] = 1.0
        self.n_features_out_ = X.shape[1]
        self.mean_ = mean if self.with_mean else np.zeros_like(mean)
        self.scale_ = sd if self.with_std else np.ones_like(sd)

    def _transform(self, X: Matrix) -> Matrix:
        return (X - self.mean_) / self.scale_

    def _inverse_transform(self, X: Matrix) -> Matrix:
        return X * self.scale_ + self.mean_

    def _names(self, inputs: list[str]) -> list[str]:
        return inputs

    def _diagnose(self, X: Matrix, s: Vector) -> Diagnostics:
        Z = self._transform(X)
        varies = np.ptp(X, axis=0) > 0
        mean = (s @ Z) / s.sum()
        var = s @ (Z - mean) ** 2 / max(s.sum() - self.ddof, EPS)
        out = Diagnostics(summary={"columns": X.shape[1], "constant_columns": int((~varies).sum())})
        spread = np.abs(X).max(axis=0) / self.scale_
        if self.with_mean:
            out.certificates.append(Certificate("largest_scaled_mean", float(np.abs(mean).max()),
                float(8 * EPS * max(1.0, spread.max())), "the scaled columns have mean 0"))  # fmt: skip
        if self.with_std and varies.any():
            off = float(np.abs(var[varies] - 1).max())
            out.certificates.append(Certificate("largest_variance_error", off, float(1e-12 + 64 * EPS * spread.max()),
                "the scaled columns have variance 1"))  # fmt: skip
        inverse = float(
            np.max(np.abs(self._inverse_transform(Z) - X) / np.maximum(np.abs(X), self.scale_), initial=0.0)
        )
        out.certificates.append(Certificate("round_trip_error", inverse, float(8 * EPS * max(1.0, spread.max())),
            "inverse_transform(transform(X)) gives X back, relative to the larger of |x| and the scale"))  # fmt: skip
        rows = [[j, float(m), float(c)] for j, (m, c) in enumerate(zip(self.mean_, self.scale_, strict=True))]
        out.tables["columns"] = Table(("column", "mean", "scale"), rows)
        return out
