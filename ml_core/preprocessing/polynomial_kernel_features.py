"""The feature map of the polynomial kernel."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import Transformer
from ml_core.capabilities import Weighted
from ml_core.kernels.dot import PolynomialKernel
from ml_core.numerics.monomials import Monomials
from ml_core.preprocessing.fixed_map import EPS, FixedMap, relative, spread_rows
from ml_core.registry import algorithm

LARGEST = 1e300


@algorithm("polynomial_kernel_features")
class PolynomialKernelFeatures(FixedMap, Weighted, Transformer):
    """Columns whose inner products are the polynomial kernel.

    φ(x)·φ(z) = (x·z + coef0)^degree exactly, but for rounding: φ_a(x) = √(p! / (a₁! ⋯ a_d! (p-|a|)!) c^(p-|a|)) x^a
    with p = degree and c = coef0, for all exponents with |a| ≤ p: C(d + p, p) columns, or C(d + p - 1, p) of degree p
    alone where c = 0. For d = p = 2: c, √(2c) x₁, √(2c) x₂, x₁², √2 x₁x₂, x₂². The factors matter: plain monomials give
    another kernel and so another penalised fit. A linear model of these columns is the kernel model of the raw ones, at
    a cost that grows with the width instead of the number of rows. Refused beyond 100,000 columns, before memory is
    used.

    References
    ----------
    Shawe-Taylor, Cristianini (2004), Kernel Methods for Pattern Analysis, section 9.1.
    """

    complexity = "O(n C(d + degree, degree))"
    tags = ("parametric", "direct", "high_capacity", "deterministic", "basis", "kernel")

    monomials_: Annotated[Monomials, "all monomials up to the degree"]
    factors_: Annotated[Vector, "(k,) factor of each column"]

    def __init__(
        self,
        *,
        degree: Annotated[int, Field(ge=1, le=10, description="Power p of the kernel.")] = 2,
        coef0: Annotated[
            float, Field(ge=0, le=1e30, description="Adds lower orders; 0: monomials of the full degree alone.")
        ] = 1.0,
    ) -> None:
        self.degree = degree
        self.coef0 = coef0

    def _width(self, d: int) -> int:
        top = math.comb(d + self.degree - 1, self.degree)
        return math.comb(d + self.degree, self.degree) if self.coef0 > 0 else top

    def _narrower(self) -> tuple[str, str]:
        return "degree", "lower the degree, choose fewer columns, or use the polynomial kernel itself"

    def _settle(self, d: int) -> None:
        m, p = Monomials.graded(d, self.degree, constant=True), self.degree
        count = np.ones(len(m))
        for k in range(1, p + 1):
            at = np.flatnonzero(m.degree == k)
            count[at] = count[m.parent[at]] * (p - k + 1) / m.power[at]
        self.monomials_ = m
        self.factors_ = np.sqrt(count * self.coef0 ** (p - m.degree).astype(np.float64))[self._kept()]

    def _kept(self) -> np.ndarray:
        m = self.monomials_
        return np.flatnonzero(m.degree == self.degree) if self.coef0 == 0 else np.arange(len(m))

    def _map(self, X: Matrix) -> Matrix:
        m = self.monomials_
        Z = m.of(X, np.ones(len(X)), np.ones(len(m)))
        if len(self.factors_) < len(m):
            Z = np.ascontiguousarray(Z[:, self._kept()])
        Z *= self.factors_
        return Z

    def _names(self, inputs: list[str]) -> list[str]:
        every = self.monomials_.names(inputs)
        return [f"{f:.6g} {every[k]}" if f != 1 else every[k]
                for f, k in zip(self.factors_.tolist(), self._kept().tolist(), strict=True)]  # fmt: skip

    def _errors(self, X: Matrix) -> tuple[float]:
        A = spread_rows(X)
        Z = self._transform(A)
        kernel = PolynomialKernel(self.degree, self.coef0)
        size = kernel(np.abs(A))
        told = size < LARGEST
        with np.errstate(over="ignore", invalid="ignore"):
            products = Z @ Z.T
        return (relative(products[told], kernel(A)[told], size[told]),)

    def _claims(self, d: int) -> list[tuple[str, float, str]]:
        text = "φ(x)·φ(z) = (x·z + coef0)^degree of 256 rows, below 1e300, relative to (|x|·|z| + coef0)^degree"
        return [("kernel_error", (8 * self.degree + self.n_features_out_**0.5 + d) * EPS, text)]
