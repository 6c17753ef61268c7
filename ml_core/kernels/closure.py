"""Kernels made of kernels: the operations that keep a Gram matrix positive semidefinite, whatever the points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.kernels.base import Kernel, KernelSpec

_as_tuple = BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)
Terms = Annotated[tuple[KernelSpec, ...], _as_tuple, Field(min_length=1, description="Kernels.")]
Coefficient = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Together(Kernel):
    """What sums and products share: an operation on the values of their terms, entry by entry."""

    combine: ClassVar[np.ufunc]
    terms: tuple[Kernel, ...]

    @property
    def stationary(self) -> bool:  # type: ignore[override]
        """Whether every term is."""
        return all(t.stationary for t in self.terms)

    @property
    def homogeneous(self) -> bool:  # type: ignore[override]
        """Whether every term is."""
        return all(t.homogeneous for t in self.terms)

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        out = self.terms[0]._cross(A, B)
        for term in self.terms[1:]:
            self.combine(out, term._cross(A, B), out=out)
        return out

    def diag(self, A: Matrix) -> Vector:
        """The diagonals of the terms, combined."""
        return np.asarray(self.combine.reduce([t.diag(A) for t in self.terms], axis=0))


@dataclass(frozen=True)
class SumKernel(_Together):
    """k₁ + k₂ + …."""

    name = "sum"
    combine = np.add
    terms: Terms


@dataclass(frozen=True)
class ProductKernel(_Together):
    """k₁ k₂ …, entry by entry."""

    name = "product"
    combine = np.multiply
    terms: Terms


class _OfOne(Kernel):
    """Base of kernels with one `term`, whose flags they share."""

    term: Any

    @property
    def stationary(self) -> bool:  # type: ignore[override]
        """Whether the term is."""
        return bool(self.term.stationary)

    @property
    def homogeneous(self) -> bool:  # type: ignore[override]
        """Whether the term is."""
        return bool(self.term.homogeneous)


@dataclass(frozen=True)
class ScaleKernel(_OfOne):
    """factor · k, factor > 0: a prior variance, or the weight of a term in a sum."""

    name = "scale"
    factor: Annotated[float, Field(gt=0, allow_inf_nan=False, description="Positive factor.")]
    term: KernelSpec

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        out: Matrix = self.term._cross(A, B)
        out *= self.factor
        return out

    def diag(self, A: Matrix) -> Vector:
        """Scaled diagonal."""
        return np.asarray(self.factor * self.term.diag(A))


@dataclass(frozen=True)
class ExpKernel(_OfOne):
    """exp(k): the limit of polynomials of k with non-negative coefficients. Overflows for large k: scale it down."""

    name = "exp"
    term: KernelSpec

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        return self._exp(self.term._cross(A, B))

    def diag(self, A: Matrix) -> Vector:
        """Exponential of the diagonal."""
        return self._exp(self.term.diag(A))

    def _exp(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            out = np.exp(values)
        if not np.isfinite(out).all():
            raise InvalidData(f"exp of a kernel overflows: the inner kernel reaches {values.max():.3g}; scale it down")
        return np.asarray(out)


@dataclass(frozen=True)
class PowerSeriesKernel(_OfOne):
    """Σᵢ coefficients[i] kⁱ with non-negative coefficients; coefficients[0] is a constant kernel."""

    name = "power_series"
    coefficients: Annotated[tuple[Coefficient, ...], _as_tuple, Field(min_length=1, description="c₀, c₁, …, each ≥ 0.")]
    term: KernelSpec

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        return self._series(self.term._cross(A, B))

    def diag(self, A: Matrix) -> Vector:
        """Series of the diagonal."""
        return self._series(self.term.diag(A))

    def _series(self, values: np.ndarray) -> np.ndarray:
        out = np.full_like(values, self.coefficients[-1])
        for c in self.coefficients[-2::-1]:
            out *= values
            out += c
        return out


@dataclass(frozen=True)
class SubsetKernel(_OfOne):
    """k on some columns only; sums and products of these build additive and interaction models. Columns may overlap."""

    name = "subset"
    columns: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], _as_tuple, Field(min_length=1, description="Column numbers, from 0.")
    ]
    term: KernelSpec

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        P = self._of(A)
        return self.term._cross(P, P if A is B else self._of(B))

    def diag(self, A: Matrix) -> Vector:
        """Diagonal on those columns."""
        return np.asarray(self.term.diag(self._of(A)))

    def resolved(self, X: Matrix) -> SubsetKernel:
        """The inner kernel resolved on those columns."""
        return SubsetKernel(self.columns, self.term.resolved(self._of(X)))

    def _of(self, A: Matrix) -> Matrix:
        if max(self.columns) >= A.shape[1]:
            raise InvalidParameter(f"kernel column {max(self.columns)} does not exist; there are {A.shape[1]} columns")
        return np.ascontiguousarray(A[:, list(self.columns)])
