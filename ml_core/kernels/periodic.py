"""Kernels of repeating patterns, and of noise that no two rows share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidParameter
from ml_core.kernels.base import Kernel, Pull
from ml_core.kernels.distances import median_distance, squared_distances
from ml_core.kernels.stationary import TWO_PI, Length
from ml_core.kernels.traces import weighted_gaps


@dataclass(frozen=True)
class PeriodicKernel(Kernel):
    """exp(-2 Σⱼ sin²(π (xⱼ - zⱼ)/periodⱼ) / lengthⱼ²): the Gaussian kernel of sines and cosines of each column."""

    name = "periodic"
    stationary = True
    bounded = True
    learnable = ("length_scale", "period")
    length_scale: Annotated[Length, Field(description="Length in units of the waves; a list has one per column.")] = 1.0
    period: Annotated[
        Length, Field(description="Period in units of the columns; a list has one each; null: median distance.")
    ] = 1.0

    def _per_column(self, value: Any, d: int, what: str) -> Vector:
        if value is None:
            raise InvalidParameter(f"the {what} of kernel 'periodic' is left to the data: call resolved(X) first")
        if isinstance(value, tuple) and len(value) != d:
            raise InvalidParameter(f"kernel 'periodic' has {len(value)} values of {what}, the rows have {d} columns")
        return np.broadcast_to(np.asarray(value, dtype=np.float64), d)

    def _waves(self, A: Matrix) -> Matrix:
        """(n, 2d) cosines and sines over the length; whole turns are dropped first, exactly."""
        d = A.shape[1]
        period, length = self._per_column(self.period, d, "period"), self._per_column(self.length_scale, d, "length")
        angle = TWO_PI * (np.fmod(A, period) / period)
        return np.hstack([np.cos(angle) / length, np.sin(angle) / length])

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        P = self._waves(A)
        return self._value(P, P if A is B else self._waves(B))

    def _value(self, P: Matrix, Q: Matrix) -> Matrix:
        out = squared_distances(P, Q)
        out *= -0.5
        return np.asarray(np.exp(out, out=out))

    def diag(self, A: Matrix) -> Vector:
        """Ones."""
        return np.ones(len(A))

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        P = self._waves(A)
        Q = P if A is B else self._waves(B)
        K, d = self._value(P, Q), A.shape[1]

        def pull(W: Matrix) -> Vector:
            gaps = weighted_gaps(W, K, P, Q, gram)
            lengths, periods = gaps[:d] + gaps[d:], self._period_pull(W * K, A, B)
            return np.concatenate([_of(lengths, self.length_scale), _of(periods, self.period)])

        return K, pull

    def _period_pull(self, M: Matrix, A: Matrix, B: Matrix) -> Vector:
        """(d,) Σᵢⱼ Mᵢⱼ (2π D/(p l²)) sin(2π D/p), D = a - b."""
        d = A.shape[1]
        period, length = self._per_column(self.period, d, "period"), self._per_column(self.length_scale, d, "length")
        out = np.empty(d)
        for c in range(d):
            turns = (A[:, c, None] - B[:, c]) / period[c]
            out[c] = np.einsum("ij,ij,ij->", M, turns, np.sin(TWO_PI * np.fmod(turns, 1.0))) * TWO_PI / length[c] ** 2
        return out

    def _filled(self, X: Matrix) -> PeriodicKernel:
        """With the median distance where the period is None, and 1 where the length is."""
        period = median_distance(X) if self.period is None else self.period
        return replace(self, period=period, length_scale=1.0 if self.length_scale is None else self.length_scale)


def _of(each: Vector, value: Any) -> Vector:
    """Derivatives per column, or their sum where the columns share the value."""
    return each if isinstance(value, tuple) else np.array([each.sum()])


@dataclass(frozen=True)
class WhiteKernel(Kernel):
    """1 for a row with itself and 0 for any two rows, even equal ones: independent noise of each row."""

    name = "white"
    stationary = True
    bounded = True
    homogeneous = True

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        return np.zeros((len(A), len(B)))

    def diag(self, A: Matrix) -> Vector:
        """Ones."""
        return np.ones(len(A))
