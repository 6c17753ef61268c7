"""Regression with an insensitive tube of a given width, or of a width that a share of the rows decides."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ml_core.arrays import Vector
from ml_core.kernels import KernelSpec, RBFKernel
from ml_core.registry import algorithm
from ml_core.solvers.box_dual import BoxDual
from ml_core.solvers.kernel_rows import CACHE_BYTES
from ml_core.svm.duals import nu_regression, regression
from ml_core.svm.kernel_regression import KernelRegression, ScaleTarget
from ml_core.svm.kernel_svm import CacheBytes, Penalty, Steps, Violation
from ml_core.svm.nu_svm import Nu

Similarity = Annotated[KernelSpec, Field(description="Similarity of rows.")]
RBF = RBFKernel(length_scale=None)


@algorithm("support_vector_regression")
class SupportVectorRegression(KernelRegression):
    """Flattest function in the feature space of a kernel that keeps targets within a tube, with slacks.

    min ½‖w‖² + C Σᵢ sᵢ max(0, |tᵢ - f(xᵢ)| - epsilon), f(x) = b + Σ βᵢ k(xᵢ, x), b free. Dual:
    max βᵀt - epsilon Σ|β| - ½ βᵀKβ, |βᵢ| ≤ C sᵢ, Σβ = 0. By default t is the target less its mean in its standard
    deviations, so that C and epsilon mean the same for any unit; otherwise t is the target. Rows within the tube have
    β = 0. Solved as `kernel_svm`, with a duality gap in the diagnostics.

    References
    ----------
    Drucker, Burges, Kaufman, Smola, Vapnik (1997), Support vector regression machines, NIPS.
    Smola, Schölkopf (2004), A tutorial on support vector regression, Statistics and Computing 14.
    """

    def __init__(
        self,
        *,
        C: Penalty = 1.0,
        epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False, description="Half width of the tube.")] = 0.1,
        kernel: Similarity = RBF,
        scale_target: ScaleTarget = True,
        tol: Violation = 1e-6,
        max_iter: Steps = 10_000_000,
        cache_bytes: CacheBytes = CACHE_BYTES,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.scale_target = scale_target
        self.tol = tol
        self.max_iter = max_iter
        self.cache_bytes = cache_bytes

    def _program(self, t: Vector, s: Vector) -> BoxDual:
        return regression(t, self.C * s, float(self.epsilon))

    def _tube(self, b: Vector) -> tuple[float, float]:
        return float(b[0]), float(self.epsilon)


@algorithm("nu_support_vector_regression")
class NuSupportVectorRegression(KernelRegression):
    """Support vector regression whose tube is as wide as a share of the rows outside of it decides.

    min ½‖w‖² + C (nu epsilon Σ s + Σᵢ sᵢ max(0, |tᵢ - f(xᵢ)| - epsilon)) over w, b and epsilon ≥ 0. At most a share nu
    of the weight lies outside the tube, at least that share belongs to support vectors. The answer is that of
    `support_vector_regression` with the width found, and is certified as such.

    References
    ----------
    Schölkopf, Smola, Williamson, Bartlett (2000), New support vector algorithms, Neural Computation 12.
    """

    def __init__(
        self,
        *,
        nu: Nu = 0.5,
        C: Penalty = 1.0,
        kernel: Similarity = RBF,
        scale_target: ScaleTarget = True,
        tol: Violation = 1e-6,
        max_iter: Steps = 10_000_000,
        cache_bytes: CacheBytes = CACHE_BYTES,
    ) -> None:
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.scale_target = scale_target
        self.tol = tol
        self.max_iter = max_iter
        self.cache_bytes = cache_bytes

    def _program(self, t: Vector, s: Vector) -> BoxDual:
        return nu_regression(t, self.C * s, float(self.nu))

    def _tube(self, b: Vector) -> tuple[float, float]:
        return 0.5 * float(b[0] + b[1]), max(0.0, 0.5 * float(b[0] - b[1]))
