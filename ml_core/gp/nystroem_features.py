"""Features of a kernel by some of the rows."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Transformer
from ml_core.capabilities import Weighted
from ml_core.certificates import Certificate, Diagnostics
from ml_core.gp.expansion import chosen
from ml_core.gp.options import Similarity
from ml_core.gp.sparse import inducing_rows
from ml_core.kernels import Kernel
from ml_core.kernels.weighted import weighted_sums
from ml_core.numerics.memory import ask
from ml_core.numerics.positive import back, factor
from ml_core.registry import algorithm

TINY = float(np.finfo(float).tiny)


@algorithm("nystroem_features")
class NystroemFeatures(Weighted, Transformer):
    """Columns whose inner products are those of a kernel, projected on m of the rows: kernel methods in O(n m) memory.

    φ(x) = L⁻¹k(Z, x), K_ZZ = L Lᵀ, has φ(x)·φ(z) = k(x, Z)K_ZZ⁻¹k(Z, z): exact where x or z is one of the rows Z, and
    what is left of k is positive semidefinite. Z is chosen one by one, each the row of largest k(x, x) - ‖φ(x)‖² given
    those before; fewer than m where nothing is left. Order and repetition of rows change nothing. With every row in Z a
    linear method behind it in a pipeline is its kernel twin: ridge regression becomes kernel ridge regression, logistic
    regression kernel logistic regression, linear machines, components and means those of the kernel, where n² kernel
    values are too many. Any kernel will do. O(n m (d + m)).

    References
    ----------
    Williams, Seeger (2001), Using the Nyström method to speed up kernel machines, NIPS 13.
    Fine, Scheinberg (2001), Efficient SVM training using low-rank kernel representations, JMLR 2.
    """

    largest = SQUARES
    complexity = "O(n m (d + m))"
    tags = ("parametric", "direct", "high_capacity", "basis", "kernel", "extension")

    kernel_: Annotated[Kernel, "kernel in use"]
    rows_: Annotated[Matrix, "(m, d) Z"]
    weights_: Annotated[Matrix, "(m, m) L⁻ᵀ: φ(x) = k(x, Z) L⁻ᵀ"]
    jitter_: Annotated[float, "added to the diagonal of K_ZZ to factor it"]

    def __init__(
        self,
        *,
        kernel: Similarity = None,
        n_components: Annotated[int, Field(ge=1, le=10_000, description="m, the most columns that are made.")] = 300,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The choice of the rows, and the columns."""
        m = float(min(self.n_components, n))
        return Cost(flops=n * m * (2.0 * m + 20.0 * d), memory_bytes=16.0 * n * m + 32.0 * m * m)

    def _fit(self, X: Matrix, s: Vector) -> None:
        m = min(self.n_components, len(X))
        ask(16.0 * len(X) * m, f"{m} columns of {len(X)} rows", "lower n_components")
        distinct = np.unique(X, axis=0)
        self.kernel_ = chosen(self.kernel, distinct)
        Z = distinct[inducing_rows(self.kernel_, distinct, min(m, len(distinct)))]
        L = self.kernel_(Z)
        self.jitter_ = factor(L)
        self.rows_, self.weights_ = Z, np.ascontiguousarray(back(L, np.eye(len(Z))))
        self.n_features_out_ = len(Z)

    def _transform(self, X: Matrix) -> Matrix:
        return weighted_sums(self.kernel_, X, self.rows_, self.weights_)

    def _names(self, inputs: list[str]) -> list[str]:
        return [f"nystroem{i}" for i in range(self.n_features_out_)]

    def _diagnose(self, X: Matrix, s: Vector) -> Diagnostics:
        whole = self.kernel_.diag(X)
        left = whole - np.einsum("ij,ij->i", *(self._transform(X),) * 2)
        F, K = self._transform(self.rows_), self.kernel_(self.rows_)
        size = max(float(whole.max()), float(K.diagonal().max()), TINY)
        out = Diagnostics(summary={
            "rows": len(X), "columns_in": X.shape[1], "columns_out": self.n_features_out_, "jitter": self.jitter_,
            "explained": 1.0 - float(s @ left) / max(float(s @ whole), TINY), "largest_left": float(left.max()) / size,
        })  # fmt: skip
        out.certificates = [
            Certificate("kernel_error", float(np.abs(F @ F.T - K).max()) / size, 1e-8,
                        "largest |φ(x)·φ(z) - k(x,z)| over the rows Z, relative to the largest k(x,x)"),
            Certificate("length_excess", float(-left.min()) / size, 1e-8,
                        "‖φ(x)‖² - k(x,x), largest: at most 0 but for rounding, relative to the largest k(x,x)"),
        ]  # fmt: skip
        return out
