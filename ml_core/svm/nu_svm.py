"""Support vector machine whose share of margin errors is set instead of their price."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Cost
from ml_core.certificates import Certificate, Diagnostics
from ml_core.class_weights import ClassWeight
from ml_core.kernels import KernelSpec, RBFKernel, kernel_of
from ml_core.registry import algorithm
from ml_core.solvers.kernel_rows import CACHE_BYTES, KernelRows
from ml_core.svm.class_weights import class_factors
from ml_core.svm.duals import nu_classification
from ml_core.svm.kernel_machines import KernelMachines, kernel_cost
from ml_core.svm.kernel_svm import CacheBytes, Multiclass, Steps, Violation
from ml_core.svm.machine import Machine, Solving, trained

Nu = Annotated[
    float, Field(gt=0, le=1, description="Bounds the share of margin errors from above, of support vectors from below.")
]


@algorithm("nu_svm")
class NuSVM(KernelMachines):
    """Widest margin in the feature space of a kernel, with a set share of margin errors.

    min ½‖w‖² - nu ρ Σ s + Σ sᵢ ξᵢ,  yᵢf(xᵢ) ≥ ρ - ξᵢ, ξ, ρ ≥ 0; f, b and α are then divided by ρ, so that free support
    vectors have yf = 1: the answer is that of `kernel_svm` with C = 1/ρ, and is certified as such. At most a share nu
    of the weight lies inside the margin or beyond, at least that share belongs to support vectors. nu can be at most
    twice the share of the lighter class; more is refused with that number.

    References
    ----------
    Schölkopf, Smola, Williamson, Bartlett (2000), New support vector algorithms, Neural Computation 12.
    """

    example_params = {"nu": 0.3}  # noqa: RUF012 - annotated ClassVar in the base

    prices_: Annotated[Vector, "(machines,) C = 1/ρ of each machine"]

    def __init__(
        self,
        *,
        nu: Nu = 0.5,
        kernel: Annotated[KernelSpec, Field(description="Similarity of rows.")] = RBFKernel(length_scale=None),  # noqa: B008
        multiclass: Multiclass = "one_vs_one",
        class_weight: ClassWeight = None,
        tol: Violation = 1e-6,
        max_iter: Steps = 10_000_000,
        cache_bytes: CacheBytes = CACHE_BYTES,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cache_bytes = cache_bytes

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Kernel values and the row cache."""
        return kernel_cost(n, d, k, self.cache_bytes)

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        self.kernel_ = kernel_of(self.kernel).resolved(X)
        self.class_weight_ = class_factors(self.class_weight, self.classes_, y, s)
        how = Solving(float(self.tol), int(self.max_iter), int(self.cache_bytes))
        self._train_all(X, y, s * self.class_weight_[y], how)
        self.prices_ = np.array([m.cap for m in self.machines_])

    def _train(self, pair: tuple[int, int], where: Codes, sign: Vector, weight: Vector, rows: KernelRows, how: Solving,
               gram: Matrix | None) -> Machine:  # fmt: skip
        return trained(pair, where, nu_classification(sign, weight, float(self.nu)), rows, how, cap=1.0, gram=gram)

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        w = s * self.class_weight_[y]
        out, found = self._report(X, y, w), self._evidence(X, y, w)
        off = max(abs(float(e.alpha.sum() / e.cap.sum()) - self.nu) for e in found)
        out.certificates.append(Certificate("nu", off, 1e-9, "Σ α is nu times the sum of the bounds"))
        return out
