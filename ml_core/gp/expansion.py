"""A function that is a weighted sum of kernels at training rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.kernels import Kernel, KernelSpec, RBFKernel, kernel_of
from ml_core.kernels.weighted import weighted_sums
from ml_core.numerics.memory import ask


@portable
@dataclass(frozen=True)
class Expansion:
    """f(z) = Σᵢ weightsᵢ k(rowsᵢ, z) + offset: rows (r, d), weights (r, q), offset (q,)."""

    kernel: Kernel
    rows: Matrix
    weights: Matrix
    offset: Vector

    def at(self, X: Matrix) -> Matrix:
        """(n, q) values; O(n r d)."""
        return np.asarray(weighted_sums(self.kernel, X, self.rows, self.weights) + self.offset)


def chosen(spec: KernelSpec | None, X: Matrix) -> Kernel:
    """The kernel of a parameter, null being the Gaussian one, with everything filled in from the rows."""
    own = RBFKernel(None) if spec is None else kernel_of(spec)
    return own.resolved(X)


def ask_for(n: int, matrices: float, owner: str) -> None:
    """OverBudget where so many (n, n) matrices are more than is granted."""
    advice = ("set approximation where the method takes it; or fewer rows, or nystroem_features or "
              "random_fourier_features before the linear twin in a pipeline")  # fmt: skip
    ask(8.0 * matrices * n * n, f"{owner} on {n} rows", advice)
