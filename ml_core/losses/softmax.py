"""The multinomial logistic loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.special import xlogy

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Curvature, Derived, Interval
from ml_core.losses.named import Named
from ml_core.numerics.exponential import softmax_columns

Parametrization = Literal["full", "reference"]


@dataclass(frozen=True)
class Softmax(Named, Derived):
    """ℓ(η, y) = log Σₖ e^uₖ - u_y with scores u = B η, for classes y = 0 … K-1.

    Scores are determined up to a common shift, so q = K - 1 predictors carry them: `full` takes an orthonormal B with
    Bᵀ1 = 0 (scores sum to 0, and ‖W‖ is kept), `reference` B = [0; I] (class 0 has score 0).
    ∂ℓ/∂η = Bᵀ(p - 1_y), ∂²ℓ/∂η² = Bᵀ(diag p - p pᵀ)B.
    """

    name = "softmax"
    curvature_bound = 0.5
    """diag p - ppᵀ ≤ ½ I; the reference's B has norm 1 too."""
    classes: Annotated[int, Field(ge=2, description="K.")]
    parametrization: Parametrization = "full"

    @property
    def domain(self) -> Interval:
        """Class numbers."""
        return Interval(0.0, self.classes - 1.0, whole=True)

    @property
    def width(self) -> int:
        """K - 1."""
        return self.classes - 1

    @property
    def basis(self) -> Matrix:
        """B (K, K - 1); `full` is the Helmert basis."""
        return _basis(self.classes, self.parametrization)

    def value_gradient(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix]:
        """(n,) ℓ and (n, q) gradient; fastest where the rows of ηᵀ are contiguous, as those of the gradient's are."""
        u, codes = self.basis @ eta.T, y.astype(np.int64)
        value = softmax_columns(u, codes, 1.0)
        return value, (self.basis.T @ u).T

    def all(self, eta: Matrix, y: Vector) -> tuple[Vector, Matrix, Curvature]:
        """Also (n, q, q) curvature."""
        B, p, codes = self.basis, self.basis @ eta.T, y.astype(np.int64)
        value = softmax_columns(p, codes, 0.0)
        mean = p.T @ B
        curve = (p.T @ (B[:, :, None] * B[:, None, :]).reshape(len(B), -1)).reshape(-1, self.width, self.width)
        curve -= mean[:, :, None] * mean[:, None, :]
        p[codes, np.arange(len(codes))] -= 1.0
        return value, (B.T @ p).T, curve

    def start(self, y: Vector, s: Vector) -> Vector:
        """Log shares of the classes in the coordinates of η; infinite where a class is absent."""
        with np.errstate(divide="ignore"):
            u = np.log(np.bincount(y.astype(np.int64), s, self.classes))
        return np.asarray(u[1:] - u[0] if self.parametrization == "reference" else u @ self.basis)

    def conjugate(self, u: Matrix, y: Vector) -> Vector:
        """(n,) Σ p log p at the probabilities p with u = Bᵀ(p - 1_y); infinite where there are none."""
        p = np.zeros((len(u), self.classes))
        if self.parametrization == "full":
            p += u @ self.basis.T
        else:
            p[:, 1:], p[:, 0] = u, -u.sum(axis=1)
        p[np.arange(len(u)), y.astype(np.int64)] += 1.0
        inside, p = p.min(axis=1) >= -1e-12, np.maximum(p, 0.0)
        return np.where(inside, xlogy(p, p).sum(axis=1), np.inf)


@cache
def _basis(classes: int, parametrization: Parametrization) -> Matrix:
    """B, read-only."""
    if parametrization == "reference":
        B = np.eye(classes)[:, 1:].copy()
    else:
        B = np.zeros((classes, classes - 1))
        for j in range(1, classes):
            B[:j, j - 1], B[j, j - 1] = 1.0, -float(j)
            B[:, j - 1] /= np.sqrt(j * (j + 1.0))
    B.flags.writeable = False
    return B
