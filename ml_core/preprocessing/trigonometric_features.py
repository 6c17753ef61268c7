"""Cosines and sines of the columns."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix
from ml_core.base import Transformer
from ml_core.capabilities import Weighted
from ml_core.preprocessing.fixed_map import EPS, FixedMap, spread_rows
from ml_core.registry import algorithm

PAIRS = 2_000_000


@algorithm("trigonometric_features")
class TrigonometricFeatures(FixedMap, Weighted, Transformer):
    """Cosine and sine of every column at equally spaced frequencies.

    For l = 0 … L and θ_l = 2π l / L: cos(θ_l x_j) and sin(θ_l x_j) of every column j, 2 d (L + 1) columns, O(n d L).
    φ(x)·φ(z) = Σ_j Σ_l cos(θ_l (x_j - z_j)); (2π/L) φ·φ tends to the trigonometric kernel as L grows. A model of these
    columns has period L in each raw column: scale them to a fraction of it, or to the period of what is measured. The
    constant cos(0) = 1 and sin(0) = 0 are among the columns. Beyond 1e12 an angle would be rounding and is refused in
    fitting.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 2nd ed., section 5.1.
    """

    complexity = "O(n d L)"
    tags = ("parametric", "direct", "high_capacity", "deterministic", "basis", "kernel")
    largest = 1e12

    def __init__(
        self,
        *,
        frequencies: Annotated[int, Field(ge=1, description="Highest frequency number L; L is also the period.")] = 5,
    ) -> None:
        self.frequencies = frequencies

    def _width(self, d: int) -> int:
        return 2 * d * (self.frequencies + 1)

    def _narrower(self) -> tuple[str, str]:
        return "frequencies", "take fewer frequencies or columns"

    def _map(self, X: Matrix) -> Matrix:
        angles = self._angles(X)
        out = np.empty((*angles.shape, 2))
        np.cos(angles, out=out[..., 0])
        np.sin(angles, out=out[..., 1])
        return out.reshape(len(X), -1)

    def _angles(self, D: Matrix) -> np.ndarray:
        """(n, d, L + 1) θ_l times the columns."""
        return np.asarray(D[:, :, None] * (2 * np.pi / self.frequencies * np.arange(self.frequencies + 1)))

    def _names(self, inputs: list[str]) -> list[str]:
        L = self.frequencies
        return [f"{f}(2π·{k}/{L}·{name})" for name in inputs for k in range(L + 1) for f in ("cos", "sin")]

    def _errors(self, X: Matrix) -> tuple[float, float]:
        A = spread_rows(X, max(2, int((PAIRS / self.n_features_out_) ** 0.5)))
        Z, terms = self._transform(A), self.n_features_out_ / 2
        top = 1.0 + 2 * np.pi * np.abs(A).max()
        want = np.stack([np.cos(self._angles(a - A)).sum(axis=(1, 2)) for a in A])
        length = np.abs((Z * Z).sum(axis=1) - terms).max()
        return float(length / terms), float(np.abs(Z @ Z.T - want).max() / terms / top)

    def _claims(self, d: int) -> list[tuple[str, float, str]]:
        few = (8 + self.n_features_out_**0.5) * EPS
        return [
            ("length_error", few, "‖φ(x)‖² = d (L + 1), relative"),
            ("kernel_error", few, "φ(x)·φ(z) is the sum of the cosines of the differences, relative to d (L + 1) and "
             "the largest angle"),
        ]  # fmt: skip
