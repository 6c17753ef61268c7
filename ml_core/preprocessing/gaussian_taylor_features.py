"""A truncated feature map of the Gaussian kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import gammainc

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Transformer
from ml_core.capabilities import Weighted
from ml_core.certificates import Diagnostics
from ml_core.kernels.stationary import RBFKernel
from ml_core.numerics.monomials import Monomials
from ml_core.preprocessing.fixed_map import EPS, FixedMap, Worst, spread_rows
from ml_core.registry import algorithm
from ml_core.sums import Census, Passes

COARSE = 0.01


@algorithm("gaussian_taylor_features")
class GaussianTaylorFeatures(FixedMap, Weighted, Transformer):
    """The first terms of the Taylor series of the Gaussian kernel, as columns.

    φ_a(x) = exp(-‖x‖²/(2s²)) ∏_j (x_j/s)^a_j / √(a_j!), so that φ(x)·φ(z) → exp(-‖x-z‖²/(2s²)). `total` keeps |a| <
    terms, C(d + terms - 1, d) columns; `each` keeps every a_j < terms, terms^d columns; for one column they agree.
    Each cell is an earlier one times x_j/(s√a_j), so that no factorial overflows. With M terms and all ‖x‖ ≤ R the
    error of φ(x)·φ(z) is at most P(M, R²/s²), the regularised lower incomplete gamma function: the chance that a
    Poisson count of mean R²/s² is M or more. It is attained at x = z. For `each` it is at most Σ_j P(M, R_j²/s²). The
    bound for the training rows is `truncation_bound_`; M of some multiples of R²/s² make it small, so centre and scale
    the columns first.

    References
    ----------
    Cotter, Keshet, Srebro (2011), Explicit approximations of the Gaussian kernel, arXiv 1109.4603.
    """

    complexity = "O(n C(d + terms - 1, d))"
    tags = ("parametric", "direct", "high_capacity", "deterministic", "basis", "kernel")
    largest = SQUARES
    example_params: ClassVar[dict[str, Any]] = {"terms": 6, "scale": 5000.0}

    monomials_: Annotated[Monomials, "the monomials"]
    truncation_bound_: Annotated[float, "no inner product of training rows is farther from the kernel"]

    def __init__(
        self,
        *,
        terms: Annotated[int, Field(ge=1, le=1000, description="Terms M kept: powers 0 … M-1.")] = 10,
        scale: Annotated[float, Field(ge=1e-90, le=1e90, description="Length s of the kernel.")] = 1.0,
        truncation: Annotated[
            Literal["total", "each"], Field(description="Bound the sum of the exponents, or each exponent.")
        ] = "total",
    ) -> None:
        self.terms = terms
        self.scale = scale
        self.truncation = truncation

    def _width(self, d: int) -> int:
        return self.terms**d if self.truncation == "each" else math.comb(d + self.terms - 1, d)

    def _narrower(self) -> tuple[str, str]:
        return "terms", "keep fewer terms, choose fewer columns, or use the Gaussian kernel itself"

    def _fit(self, X: Matrix, s: Vector) -> None:
        self._prepare(X.shape[1])
        self._bound(Reach(self.scale)(X, s).values)

    def _passes(self, census: Census) -> Passes:
        self._prepare(census.width)
        seen: Worst = yield Reach(self.scale)
        self._bound(seen.values)

    def _settle(self, d: int) -> None:
        boxed = self.truncation == "each"
        self.monomials_ = (
            Monomials.boxed(d, self.terms - 1) if boxed else Monomials.graded(d, self.terms - 1, constant=True)
        )

    def _bound(self, reach: Vector) -> None:
        """From the largest ‖x‖²/s² and, behind it, the largest x_j²/s² of each column."""
        tails = gammainc(self.terms, reach[:1] if self.truncation == "total" else reach[1:])
        self.truncation_bound_ = float(min(tails.sum(), 1.0))
        if self.truncation_bound_ > COARSE:
            self._note("coarse_truncation", f"inner products of training rows may be {self.truncation_bound_:.3g} off "
                       f"(‖x‖²/scale² reaches {reach[0]:.3g} with {self.terms} terms)",
                       "centre the columns, raise scale, or keep more terms than ‖x‖²/scale²")  # fmt: skip

    def _map(self, X: Matrix) -> Matrix:
        m, Z = self.monomials_, X / self.scale
        first = np.exp(-0.5 * np.einsum("ij,ij->i", Z, Z))
        return m.of(Z, first, 1.0 / np.sqrt(np.maximum(m.power, 1)))

    def _names(self, inputs: list[str]) -> list[str]:
        return [f"gaussian {name}" for name in self.monomials_.names(inputs)]

    def _errors(self, X: Matrix) -> tuple[float]:
        A = spread_rows(X)
        Z = self._transform(A)
        return (float(np.abs(Z @ Z.T - RBFKernel(self.scale)(A)).max()),)

    def _claims(self, d: int) -> list[tuple[str, float, str]]:
        text = "largest |φ(x)·φ(z) - exp(-‖x-z‖²/(2s²))| over pairs of up to 256 rows, within truncation_bound_"
        return [("kernel_error", self.truncation_bound_ + 64 * (self.terms + d) * EPS, text)]

    def _audit(self, census: Census) -> Passes:
        out: Diagnostics = yield from super()._audit(census)
        out.summary["truncation_bound"] = self.truncation_bound_
        return out


@dataclass(frozen=True)
class Reach:
    """The part whose total is the largest ‖x‖²/s² and, behind it, the largest x_j²/s² of each column."""

    scale: float

    def __call__(self, X: Matrix, s: Vector) -> Worst:
        """Of the rows of X."""
        Z = X / self.scale
        return Worst(len(X), np.concatenate([[np.einsum("ij,ij->i", Z, Z).max()], (Z * Z).max(axis=0)]))
