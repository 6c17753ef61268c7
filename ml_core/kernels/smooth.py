"""Radial kernels between the exponential and the Gaussian one: Matérn and rational quadratic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field, WithJsonSchema
from scipy.special import gammainc

from ml_core.arrays import Matrix, Vector
from ml_core.kernels.base import Pull
from ml_core.kernels.distances import fast_squared_distances
from ml_core.kernels.stationary import Lengths, LengthScale
from ml_core.kernels.traces import weighted_gaps
from ml_core.numerics.exponential import decayed

HALVES = [0.5, 1.5, 2.5]
FAR = 1e200


def _half(value: float) -> float:
    if value not in HALVES:
        raise ValueError("expected 0.5, 1.5 or 2.5")
    return value


@dataclass(frozen=True)
class MaternKernel(Lengths):
    """Matérn kernel: with s = √(2 nu) r and r the scaled distance, e^-s times 1, 1 + s, or 1 + s + s²/3.

    Sample paths have 0, 1 or 2 derivatives for nu = 1/2, 3/2, 5/2; nu = 1/2 is the exponential kernel.
    """

    name = "matern"
    length_scale: LengthScale = 1.0
    nu: Annotated[
        float, AfterValidator(_half), WithJsonSchema({"type": "number", "enum": HALVES}),
        Field(description="Smoothness: 0.5, 1.5 or 2.5."),
    ] = 2.5  # fmt: skip

    def _profile(self, r2: Matrix, slope: bool) -> tuple[Matrix, Matrix | None]:
        r2 *= 2.0 * self.nu
        s = np.sqrt(np.minimum(r2, FAR, out=r2), out=r2)
        decay = decayed(s.copy(), -1.0)
        if self.nu == 0.5:
            return decay, np.divide(decay, s, out=np.zeros_like(s), where=s > 0) if slope else None
        if self.nu == 1.5:
            return (1.0 + s) * decay, 3.0 * decay if slope else None
        once = (1.0 + s) * decay
        return once + (s * s / 3.0) * decay, (5.0 / 3.0) * once if slope else None


    def _short(self, r2: Matrix) -> Matrix:
        """By the incomplete gamma function, P(m, s) = 1 - e^-s Σ_{i<m} sⁱ/i!."""
        s = np.sqrt(np.minimum(2.0 * self.nu * r2, FAR))
        short = gammainc(self.nu + 0.5, s)
        return np.asarray(short + (s * s / 6.0) * np.exp(-s) if self.nu == 2.5 else short)


@dataclass(frozen=True)
class RationalQuadraticKernel(Lengths):
    """(1 + r²/(2 alpha))^-alpha: Gaussian kernels of many lengths, mixed; the Gaussian one as alpha grows."""

    name = "rational_quadratic"
    learnable = ("length_scale", "alpha")
    length_scale: LengthScale = 1.0
    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False, description="Small: a wide mixture of lengths.")] = 1.0

    def _profile(self, r2: Matrix, slope: bool) -> tuple[Matrix, Matrix | None]:
        r2 /= 2.0 * self.alpha
        logs = np.log1p(r2)
        return np.exp(-self.alpha * logs), np.exp(-(self.alpha + 1.0) * logs) if slope else None

    def _short(self, r2: Matrix) -> Matrix:
        return np.asarray(-np.expm1(-self.alpha * np.log1p(r2 / (2.0 * self.alpha))))

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        S, T = self._scaled(A, B)
        u = fast_squared_distances(S, T)
        K, G = self._profile(u, True)
        assert G is not None  # noqa: S101 - asked for

        def pull(W: Matrix) -> Vector:
            by_alpha = self.alpha * np.einsum("ij,ij,ij->", W, K, u / (1.0 + u) - np.log1p(u))
            return np.append(self._lengths_pull(weighted_gaps(W, G, S, T, gram)), by_alpha)

        return K, pull
