"""Kernels of the inner product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, WithJsonSchema
from scipy.spatial.distance import cdist

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.kernels.base import Kernel, Pull

PSD_TOLERANCE = 1e-10


@dataclass(frozen=True)
class LinearKernel(Kernel):
    """x·z; kernel methods with it are their primal versions."""

    name = "linear"

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        return A @ B.T

    def squared_distances(self, A: Matrix, B: Matrix) -> Matrix:
        """‖a - b‖² by subtraction."""
        return np.asarray(cdist(A, B, "sqeuclidean"))

    def diag(self, A: Matrix) -> Vector:
        """‖x‖²."""
        return np.asarray(np.einsum("ij,ij->i", A, A))


@dataclass(frozen=True)
class PolynomialKernel(Kernel):
    """(x·z + coef0)^degree: all monomials of degree `degree` at most (exactly, where coef0 = 0), in O(d).

    The feature space has C(d + degree, degree) dimensions. Scale the inputs: large inner products overflow.
    """

    name = "polynomial"
    learnable = ("coef0",)
    degree: Annotated[int, Field(ge=1, le=10, description="Power.")] = 3
    coef0: Annotated[float, Field(ge=0, allow_inf_nan=False, description="Adds lower orders; 0: none.")] = 1.0

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        return self._power(A @ B.T)

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        dots = A @ B.T

        def pull(W: Matrix) -> Vector:
            if self.coef0 == 0:
                return np.zeros(0)
            slope = self.degree * (dots + self.coef0) ** (self.degree - 1)
            return np.array([self.coef0 * np.vdot(W, slope)])

        return self._power(dots.copy()), pull

    def diag(self, A: Matrix) -> Vector:
        """(‖x‖² + coef0)^degree."""
        return self._power(np.einsum("ij,ij->i", A, A))

    def _power(self, dots: np.ndarray) -> np.ndarray:
        dots += self.coef0
        values = dots.copy()
        with np.errstate(over="ignore"):
            for _ in range(self.degree - 1):  # a few products cost far less than one power
                values *= dots
        if not np.isfinite(values).all():
            raise InvalidData(f"the polynomial kernel overflows: inner products reach {np.abs(dots).max():.3g} and the "
                              f"degree is {self.degree}; scale the inputs")  # fmt: skip
        return np.asarray(values)


def _semidefinite(value: Any) -> tuple[tuple[float, ...], ...]:
    try:
        A = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise ValueError(f"expected a square matrix of numbers: {e}") from e
    if A.ndim != 2 or A.shape[0] != A.shape[1] or not np.isfinite(A).all() or np.asarray(value).dtype.kind not in "fiu":
        raise ValueError("expected a square matrix of finite numbers")
    if np.abs(A - A.T).max() > 1e-12 * max(np.abs(A).max(), 1e-300):
        raise ValueError("the matrix is not symmetric")
    spectrum = np.linalg.eigvalsh(A)
    if spectrum[0] < -PSD_TOLERANCE * max(spectrum[-1], 0.0):
        raise ValueError(f"the matrix is not positive semidefinite: its least eigenvalue is {spectrum[0]:.6g}")
    return tuple(map(tuple, A.tolist()))


Semidefinite = Annotated[
    Any,
    AfterValidator(_semidefinite),
    WithJsonSchema({"type": "array", "items": {"type": "array", "items": {"type": "number"}}}),
]


@dataclass(frozen=True)
class QuadraticFormKernel(Kernel):
    """xᵀ matrix z, matrix symmetric positive semidefinite (d, d)."""

    name = "quadratic_form"
    matrix: Annotated[Semidefinite, Field(description="Symmetric positive semidefinite matrix (d, d).")]

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        M = self._matrix(A)
        K = A @ M @ B.T
        return 0.5 * (K + K.T) if A is B else K  # the triple product rounds differently on both sides of the diagonal

    def squared_distances(self, A: Matrix, B: Matrix) -> Matrix:
        """(a - b)ᵀ matrix (a - b) by subtraction, along the axes of the matrix."""
        spectrum, axes = np.linalg.eigh(self._matrix(A))
        root, centre = axes * np.sqrt(np.maximum(spectrum, 0.0)), B.mean(axis=0)
        return np.asarray(cdist((A - centre) @ root, (B - centre) @ root, "sqeuclidean"))

    def diag(self, A: Matrix) -> Vector:
        """Quadratic form of each row."""
        return np.asarray(np.einsum("ij,jk,ik->i", A, self._matrix(A), A))

    def _matrix(self, A: Matrix) -> Matrix:
        M = np.array(self.matrix, dtype=np.float64)
        if len(M) != A.shape[1]:
            raise InvalidParameter(f"the kernel's matrix is {len(M)} × {len(M)}, the rows have {A.shape[1]} columns")
        return M
