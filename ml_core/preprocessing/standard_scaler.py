"""Standardisation of columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import Transformer
from ml_core.capabilities import Inverts, Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.errors import InvalidData, Issue
from ml_core.naming import listed
from ml_core.numerics.column_moments import LEAST, REACH, degrees, deviation
from ml_core.numerics.column_sums import ColumnSums
from ml_core.registry import algorithm
from ml_core.sums import Additive, Census, Passes

EPS = float(np.finfo(float).eps)


@algorithm("standard_scaler")
class StandardScaler(Additive, Weighted, Inverts, Transformer):
    """Columns to mean 0 and standard deviation 1.

    z = (x - mean) / sd, with sd² = Σᵢ sᵢ(xᵢ - mean)² / (Σᵢ sᵢ - ddof); O(n d). With ddof = 1 the weights are counts of
    repeated rows, and their sum must exceed 1. A constant column keeps sd = 1 and is reported. The statistics come from
    the rows given to `fit` alone and are summed in two passes over deviations measured in their own largest, so that
    neither an offset nor a unit costs digits; chunks, merged, keep 13 of them, and `forget` all but those of the share
    of the variance that is left.

    References
    ----------
    Chan, Golub, LeVeque (1983), Algorithms for computing the sample variance, The American Statistician 37(3).
    """

    complexity = "O(n d)"
    tags = ("parametric", "direct", "low_capacity")
    largest = REACH

    sums_: Annotated[ColumnSums, "of the rows seen"]
    mean_: Annotated[Vector, "(d,) subtracted from the columns, in their units"]
    scale_: Annotated[Vector, "(d,) divisors of the columns, in their units"]

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

    def _sums(self, X: Matrix, s: Vector) -> ColumnSums:
        return ColumnSums.of(X, s)

    def _solve(self, sums: ColumnSums) -> None:
        self.sums_, mean, constant = sums, sums.mean, sums.constant
        if self.with_std and not constant.all():
            degrees(sums.total, self.ddof)
        sd = deviation(sums.sd, constant, sums.total, self.ddof)
        if constant.any():
            self._note("constant_column", f"columns {listed(np.flatnonzero(constant))} are constant; their scale is 1",
                       "drop them, they carry no information")  # fmt: skip
        self.n_features_out_ = len(mean)
        self.mean_ = mean if self.with_mean else np.zeros_like(mean)
        self.scale_ = sd if self.with_std else np.ones_like(sd)

    def _transform(self, X: Matrix) -> Matrix:
        with np.errstate(over="ignore", invalid="ignore"):
            Z = X - self.mean_
            Z /= self.scale_
            return Z if math.isfinite(Z.sum()) else self._representable(Z, X)

    def _representable(self, Z: Matrix, X: Matrix) -> Matrix:
        """Z, or InvalidData where a cell of X is too far from the fitted rows for a float."""
        far = np.argwhere(~np.isfinite(Z))
        if len(far):
            i, j = far[0]
            raise InvalidData(f"row {i}, column {j} is {X[i, j]:g}, beyond what its scale {self.scale_[j]:g} can carry",
                              [Issue(f"/rows/{i}/{j}", "overflow", "too far from the fitted rows")])  # fmt: skip
        return Z

    def _inverse_transform(self, X: Matrix) -> Matrix:
        with np.errstate(over="ignore", invalid="ignore"):
            A = X * self.scale_
            A += self.mean_
            return A if math.isfinite(A.sum()) else self._representable(A, X)

    def _names(self, inputs: list[str]) -> list[str]:
        return inputs

    def _audit(self, census: Census) -> Passes:
        """The moments of the scaled columns; they are 0 and 1 but for rounding, relative to the largest |x|."""
        seen: Scaled = yield Scaling(self)
        z, varies = seen.sums, ~seen.sums.constant
        spread = np.maximum(seen.top / self.scale_, np.maximum(1.0, LEAST / EPS / self.scale_))
        out = Diagnostics(summary={
            "rows": z.rows, "columns": census.width, "constant_columns": int((~varies).sum()),
            "largest_offset_in_scales": float((np.abs(self.mean_) / self.scale_).max()),
        })  # fmt: skip
        if self.with_mean:
            out.certificates.append(Certificate(
                "largest_scaled_mean", float((np.abs(z.mean) / spread).max()), EPS * (16 + z.rows ** 0.5),
                "the scaled columns have mean 0, relative to the largest |x| in scales"))  # fmt: skip
        if self.with_std and varies.any():
            var = deviation(z.sd, z.constant, z.total, self.ddof) ** 2
            out.certificates.append(Certificate("largest_variance_error",
                float((np.abs(var - 1) / spread)[varies].max()), 1e-12,
                "the scaled columns have variance 1, relative to the largest |x| in scales"))  # fmt: skip
        out.certificates.append(Certificate("round_trip_error", float((seen.back / spread).max()), 8 * EPS,
            "inverse_transform(transform(X)) gives X back, relative to the larger of |x| and the scale"))  # fmt: skip
        rows = [[j, float(m), float(c), bool(not v)]
                for j, (m, c, v) in enumerate(zip(self.mean_, self.scale_, varies, strict=True))]  # fmt: skip
        out.tables["columns"] = Table(("column", "mean", "scale", "constant"), rows)
        return out


@dataclass(frozen=True)
class Scaled:
    """Sums of scaled columns; per column (d,) the largest |x| and the largest relative error of the way back."""

    sums: ColumnSums
    top: Vector
    back: Vector

    def merge(self, other: Scaled) -> Scaled:
        """Of both sets of rows."""
        return Scaled(
            self.sums.merge(other.sums), np.maximum(self.top, other.top), np.maximum(self.back, other.back)
        )


@dataclass(frozen=True)
class Scaling:
    """The part whose total is `Scaled`."""

    model: StandardScaler

    def __call__(self, X: Matrix, s: Vector) -> Scaled:
        """Of the rows of X."""
        Z = self.model._transform(X)
        back = np.abs(self.model._inverse_transform(Z) - X) / np.maximum(np.abs(X), self.model.scale_)
        return Scaled(ColumnSums.of(Z, s), np.abs(X).max(axis=0), back.max(axis=0))
