"""All monomials of the columns up to a degree."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix
from ml_core.base import Transformer
from ml_core.capabilities import Inverts, Weighted
from ml_core.numerics.monomials import Monomials
from ml_core.preprocessing.fixed_map import EPS, FixedMap, relative, spread_rows
from ml_core.registry import algorithm

CELLS = 2_000_000


@algorithm("polynomial_features")
class PolynomialFeatures(FixedMap, Weighted, Inverts, Transformer):
    """All products of columns, up to a total degree.

    z_a = x₁^a₁ ⋯ x_d^a_d for all exponents with |a| ≤ degree: C(d + degree, degree) columns with the constant, one less
    without; by degree, then lexicographic (a, b, a², a b, b²). `interaction_only` has no square or higher power:
    Σ C(d, k) columns. O(1) operations a cell, each monomial is a product of an earlier one and a column. The width
    grows like d^degree / degree!, so it is stated, and refused beyond 100,000 columns, before memory is used. Powers of
    columns far from 0 or of different units are ill-conditioned: scale first. `inverse_transform` reads the columns of
    degree 1.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 2nd ed., section 5.1.
    """

    complexity = "O(n C(d + degree, degree))"
    tags = ("parametric", "direct", "high_capacity", "deterministic", "basis")

    monomials_: Annotated[Monomials, "the monomials, each by an earlier one and a column"]

    def __init__(
        self,
        *,
        degree: Annotated[int, Field(ge=1, le=10, description="Largest total degree.")] = 2,
        include_bias: Annotated[
            bool, Field(description="Also the constant 1; models with an intercept have it already.")
        ] = False,
        interaction_only: Annotated[bool, Field(description="Only products of different columns.")] = False,
    ) -> None:
        self.degree = degree
        self.include_bias = include_bias
        self.interaction_only = interaction_only

    def _width(self, d: int) -> int:
        own = sum(math.comb(d, k) for k in range(self.degree + 1))
        every = own if self.interaction_only else math.comb(d + self.degree, self.degree)
        return every - (not self.include_bias)

    def _narrower(self) -> tuple[str, str]:
        return "degree", "lower the degree, choose fewer columns, or use a polynomial kernel"

    def _settle(self, d: int) -> None:
        self.monomials_ = Monomials.graded(
            d, self.degree, constant=self.include_bias, distinct=self.interaction_only
        )

    def _map(self, X: Matrix) -> Matrix:
        return self.monomials_.of(X, np.ones(len(X)), np.ones(len(self.monomials_)))

    def _inverse_transform(self, X: Matrix) -> Matrix:
        return np.ascontiguousarray(X[:, self.monomials_.degree == 1])

    def _names(self, inputs: list[str]) -> list[str]:
        return self.monomials_.names(inputs)

    def _errors(self, X: Matrix) -> tuple[float, float]:
        d = X.shape[1]
        A = spread_rows(X, max(1, CELLS // (self.n_features_out_ * d)))
        Z, want = self._transform(A), np.ones((len(A), self.n_features_out_))
        for x, e in zip(A.T, self.monomials_.exponents(d).T, strict=True):
            want *= x[:, None] ** e
        return relative(Z, want, np.abs(want)), relative(self._inverse_transform(Z), A, np.abs(A))

    def _claims(self, d: int) -> list[tuple[str, float, str]]:
        return [
            ("power_error", 8 * self.degree * EPS, "columns are the products of the powers taken one by one, relative"),
            ("round_trip_error", 0.0, "inverse_transform(transform(X)) is X"),
        ]
