"""Kernels made of kernels: the operations that keep a Gram matrix positive semidefinite, whatever the points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field

from ml_core import naming
from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData, placed
from ml_core.kernels.base import Kernel, KernelSpec, Pull
from ml_core.params import Column

_as_tuple = BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)
Terms = Annotated[tuple[KernelSpec, ...], _as_tuple, Field(min_length=1, description="Kernels.")]
MODERATE = 1e100
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

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether every term is."""
        return all(t.bounded for t in self.terms)

    def squared_distances(self, A: Matrix, B: Matrix) -> Matrix:
        """Those of the terms, added."""
        return np.asarray(sum(t.squared_distances(A, B) for t in self.terms))

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        parts = [t.traced(A, None if gram else B) for t in self.terms]
        K = np.add(parts[0][0], parts[1][0]) if len(parts) > 1 else parts[0][0].copy()
        for values, _ in parts[2:]:
            K += values
        return K, lambda W: np.concatenate([pull(W) for _, pull in parts])


@dataclass(frozen=True)
class ProductKernel(_Together):
    """k₁ k₂ …, entry by entry."""

    name = "product"
    combine = np.multiply
    terms: Terms

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        parts = [t.traced(A, None if gram else B) for t in self.terms]
        K = parts[0][0].copy()
        for values, _ in parts[1:]:
            K *= values

        def pull(W: Matrix) -> Vector:
            return np.concatenate([own(self._without(parts, i) * W) for i, (_, own) in enumerate(parts)])

        return K, pull

    @staticmethod
    def _without(parts: list[tuple[Matrix, Pull]], i: int) -> Matrix | float:
        """The product of the other terms."""
        out: Matrix | float = 1.0
        for j, (values, _) in enumerate(parts):
            out = out if j == i else values * out
        return out


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
    learnable = ("factor",)
    factor: Annotated[float, Field(gt=0, allow_inf_nan=False, description="Positive factor.")]
    term: KernelSpec

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        out: Matrix = self.term._cross(A, B)
        out *= self.factor
        return out

    def against(self, B: Matrix) -> Callable[[Matrix], Matrix]:
        """That of the term, scaled."""
        values = self.term.against(B)
        return lambda A: self._finite(lambda: np.multiply(values(A), self.factor))

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        inner, pull = self.term.traced(A, None if gram else B)
        c = self.factor
        return c * inner, lambda W: c * np.concatenate([[np.vdot(W, inner)], pull(W)])

    def squared_distances(self, A: Matrix, B: Matrix) -> Matrix:
        """That of the term, scaled."""
        return np.asarray(self.factor * self.term.squared_distances(A, B))

    def ranks(self, A: Matrix, B: Matrix) -> Matrix:
        """Those of the term."""
        return np.asarray(self.term.ranks(A, B))

    def distances_of(self, ranks: Matrix) -> Matrix:
        """Those of the term, scaled."""
        return np.asarray(self.factor * self.term.distances_of(ranks))

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether the term is, and the factor is moderate."""
        return bool(self.term.bounded) and self.factor < MODERATE

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

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        inner, pull = self.term.traced(A, None if gram else B)
        K = self._exp(inner)
        return K, lambda W: pull(W * K)

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
    learnable = ("coefficients",)
    coefficients: Annotated[tuple[Coefficient, ...], _as_tuple, Field(min_length=1, description="c₀, c₁, …, each ≥ 0.")]
    term: KernelSpec

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        return self._series(self.term._cross(A, B))

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        inner, pull = self.term.traced(A, None if gram else B)

        def series(W: Matrix) -> Vector:
            powers = [np.vdot(W, inner**i) * c for i, c in enumerate(self.coefficients) if c > 0]
            slope = sum((i * c * inner ** (i - 1) for i, c in enumerate(self.coefficients) if i), np.zeros_like(inner))
            return np.concatenate([powers, pull(W * slope)])

        return self._series(inner), series

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
        tuple[Column, ...],
        _as_tuple,
        Field(min_length=1, description="Names of columns (of a category: all it became), or numbers from 0."),
    ]
    term: KernelSpec

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        P = self._of(A)
        return self.term._cross(P, P if A is B else self._of(B))

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        values, pull = self.term.traced(self._of(A), None if gram else self._of(B))
        return values.copy(), pull

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether the term is."""
        return bool(self.term.bounded)

    def squared_distances(self, A: Matrix, B: Matrix) -> Matrix:
        """That of the term, on those columns."""
        return np.asarray(self.term.squared_distances(self._of(A), self._of(B)))

    def ranks(self, A: Matrix, B: Matrix) -> Matrix:
        """Those of the term, on those columns."""
        return np.asarray(self.term.ranks(self._of(A), self._of(B)))

    def distances_of(self, ranks: Matrix) -> Matrix:
        """Those of the term."""
        return np.asarray(self.term.distances_of(ranks))

    def diag(self, A: Matrix) -> Vector:
        """Diagonal on those columns."""
        return np.asarray(self.term.diag(self._of(A)))

    def located(self, width: int) -> SubsetKernel:
        """With the numbers of its columns; the inner kernel's are among these."""
        at = self._places(width)
        with naming.use(naming.only(at)), placed("/term"):
            return SubsetKernel(tuple(at), self.term.located(len(at)))

    def _filled(self, X: Matrix) -> SubsetKernel:
        return SubsetKernel(self.columns, self.term._filled(self._of(X)))

    def _places(self, width: int) -> list[int]:
        at = []
        for i, column in enumerate(self.columns):
            with placed(f"/columns/{i}"):
                at += naming.places(column, width, "columns")
        return at

    def _of(self, A: Matrix) -> Matrix:
        return np.ascontiguousarray(A[:, self._places(A.shape[1])])
