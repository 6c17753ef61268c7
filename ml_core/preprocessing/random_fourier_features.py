"""Random features of the Gaussian kernel."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix
from ml_core.base import SQUARES, Cost, Transformer
from ml_core.capabilities import Weighted
from ml_core.kernels.stationary import RBFKernel
from ml_core.params import Seed
from ml_core.preprocessing.fixed_map import SAMPLE, FixedMap, spread_rows
from ml_core.registry import algorithm
from ml_core.rng import generator

DOUBT = 1e-9


@algorithm("random_fourier_features")
class RandomFourierFeatures(FixedMap, Weighted, Transformer):
    """Waves of random frequencies whose inner products estimate the Gaussian kernel: kernel methods in O(n) memory.

    φ(x) = √(1/m) (cos ω₁·x, sin ω₁·x, …, sin ω_m·x) with ω drawn from N(0, I/scale²) has φ(x)·φ(z) = exp(-‖x-z‖²/(2
    scale²)) on average and φ(x)·φ(x) = 1. An inner product is the mean of m cosines, so it is off by more than ε with
    probability 2e^(-mε²/2) at most. A linear method behind it in a pipeline (ridge, logistic regression, a linear
    machine) approximates its kernel twin where that one's n² kernel values are too many.

    References
    ----------
    Rahimi, Recht (2007), Random features for large-scale kernel machines, NIPS.
    """

    complexity = "O(n d m)"
    tags = ("parametric", "direct", "high_capacity", "stochastic", "basis", "kernel", "extension")
    largest = SQUARES
    example_params: ClassVar[dict[str, Any]] = {"frequencies": 20, "scale": 5000.0}

    frequencies_: Annotated[Matrix, "(m, d) ω, radians per unit of the columns"]

    def __init__(
        self,
        *,
        frequencies: Annotated[int, Field(ge=1, le=50_000, description="m: twice as many columns are made.")] = 250,
        scale: Annotated[float, Field(ge=1e-90, le=1e90, description="Length of the kernel.")] = 1.0,
        random_state: Seed = 0,
    ) -> None:
        self.frequencies = frequencies
        self.scale = scale
        self.random_state = random_state

    def _width(self, d: int) -> int:
        return 2 * self.frequencies

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The angles, n·d·m products, and a wave for each cell of the output."""
        flops = 2.0 * n * d * self.frequencies + 40.0 * n * 2 * self.frequencies
        return Cost(flops=flops, memory_bytes=24.0 * n * self.frequencies)

    def _narrower(self) -> tuple[str, str]:
        return "frequencies", "draw fewer frequencies"

    def _settle(self, d: int) -> None:
        self.frequencies_ = generator(self.random_state).standard_normal((self.frequencies, d)) / self.scale

    def _map(self, X: Matrix) -> Matrix:
        angle = X @ self.frequencies_.T
        out = np.empty((len(X), 2 * self.frequencies))
        np.cos(angle, out=out[:, ::2])
        np.sin(angle, out=out[:, 1::2])
        out *= self.frequencies**-0.5
        return out

    def _names(self, inputs: list[str]) -> list[str]:
        return [f"{wave}{i}" for i in range(self.frequencies) for wave in ("cos", "sin")]

    def _errors(self, X: Matrix) -> tuple[float, float]:
        A = spread_rows(X)
        Z = self._transform(A)
        off = np.abs(Z @ Z.T - RBFKernel(self.scale)(A))
        return float(off.max()), float(off.diagonal().max())

    def _claims(self, d: int) -> list[tuple[str, float, str]]:
        most = float(np.sqrt(2.0 * np.log(SAMPLE**2 / DOUBT) / self.frequencies))
        return [
            ("kernel_error", most, "largest |φ(x)·φ(z) - k(x,z)| over pairs of up to 256 rows, within what Hoeffding's "
             "inequality gives all of them but for a chance of 1e-9"),
            ("length_error", 1e-12, "largest |φ(x)·φ(x) - 1|"),
        ]  # fmt: skip
