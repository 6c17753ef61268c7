"""Soft-margin support vector machine with any kernel."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Cost
from ml_core.certificates import Diagnostics
from ml_core.class_weights import ClassWeight
from ml_core.kernels import KernelSpec, LinearKernel, RBFKernel, kernel_of
from ml_core.numerics.column_moments import column_moments
from ml_core.params import MaxIter, Tol
from ml_core.registry import algorithm
from ml_core.solvers.kernel_rows import CACHE_BYTES, KernelRows
from ml_core.svm.class_weights import class_factors
from ml_core.svm.duals import classification
from ml_core.svm.kernel_machines import KernelMachines, kernel_cost
from ml_core.svm.linear_machines import centre_of
from ml_core.svm.machine import Machine, Solving, trained

Penalty = Annotated[
    float, Field(ge=1e-90, le=1e90, description="Price C of a unit of slack; 1/C is the penalty on ½‖w‖².")
]
Multiclass = Annotated[
    Literal["one_vs_one", "one_vs_rest"],
    Field(description="Beyond two classes: a machine per pair, which vote, or per class; the largest score decides."),
]
CacheBytes = Annotated[
    int, Field(ge=1 << 20, description="Memory for kernel rows; more rows than fit are computed again when needed.")
]
Violation = Annotated[
    Tol, Field(description="Largest violation of the optimality conditions, in units of the decision value.")
]
Scaled = Annotated[bool, Field(description="Standardise the columns first: kernel and objective are of z-scores.")]
Steps = Annotated[MaxIter, Field(description="Most steps on pairs of one machine.")]


@algorithm("kernel_svm")
class KernelSVM(KernelMachines):
    """Widest margin in the feature space of a kernel, with slacks.

    min ½‖w‖² + C Σᵢ cᵢsᵢ ξᵢ,  yᵢf(xᵢ) ≥ 1 - ξᵢ, ξ ≥ 0, for f(x) = Σ αᵢyᵢ k(xᵢ, x) + b; s are the rows' weights, c the
    class weights. Dual: max Σα - ½ ΣΣ αᵢαⱼyᵢyⱼkᵢⱼ, 0 ≤ αᵢ ≤ C cᵢsᵢ, Σ αᵢyᵢ = 0. f ≥ 0 is the second class.
    b is not penalised. Other scales: c' Σξ + ‖w‖² has C = c'/2; λ/2 ‖w‖² + Σξ has C = 1/λ. Small C: wide margin.

    Solved by decomposition in bounded memory, ended by the linear system of the free support vectors, so that the
    objective usually holds to rounding. Diagnostics hold primal, dual and gap, the cases α = 0 (yf ≥ 1), free (yf = 1)
    and bound (yf ≤ 1), support vectors with α and slack, and the margin 1/‖w‖. Scores are no probabilities: wrap the
    model in `calibrated` for these. `scale` is off: the objective is that of the columns as given.

    References
    ----------
    Cortes, Vapnik (1995), Support-vector networks, Machine Learning 20.
    Chang, Lin (2011), LIBSVM: a library for support vector machines, ACM TIST 2(3).
    Fan, Chen, Lin (2005), Working set selection using second order information for training SVM, JMLR 6.
    """

    example_params = {"C": 1.0, "kernel": {"kernel": "rbf", "length_scale": None}}  # noqa: RUF012

    center_: Annotated[Vector, "(d,) subtracted from the columns; 0 unless scaled, or far from 0 under a linear kernel"]
    scale_: Annotated[Vector, "(d,) the columns are divided by; 1 unless scaled"]

    def __init__(
        self,
        *,
        C: Penalty = 1.0,
        kernel: Annotated[KernelSpec, Field(description="Similarity of rows.")] = RBFKernel(length_scale=None),  # noqa: B008
        multiclass: Multiclass = "one_vs_one",
        class_weight: ClassWeight = None,
        scale: Scaled = False,
        tol: Violation = 1e-6,
        max_iter: Steps = 10_000_000,
        cache_bytes: CacheBytes = CACHE_BYTES,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.scale = scale
        self.tol = tol
        self.max_iter = max_iter
        self.cache_bytes = cache_bytes

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Kernel values and the row cache."""
        return kernel_cost(n, d, k, self.cache_bytes)

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        self.center_, self.scale_ = self._frame(X, s)
        Z = self._inside(X)
        self.kernel_ = kernel_of(self.kernel).resolved(Z)
        self.class_weight_ = class_factors(self.class_weight, self.classes_, y, s)
        how = Solving(float(self.tol), int(self.max_iter), int(self.cache_bytes))
        self._train_all(Z, y, s * self.class_weight_[y], how)

    def _train(self, pair: tuple[int, int], where: Codes, sign: Vector, weight: Vector, rows: KernelRows, how: Solving,
               gram: Matrix | None) -> Machine:  # fmt: skip
        dual = classification(sign, self.C * weight)
        return trained(pair, where, dual, rows, how, cap=float(self.C), gram=gram)

    def _frame(self, X: Matrix, s: Vector) -> tuple[Vector, Vector]:
        """What is subtracted from the columns, and what they are divided by.

        A linear kernel has the same machine wherever its rows lie: those far from 0 are counted from their centre.
        """
        if self.scale:
            return column_moments(X, s)[:2]
        d, linear = X.shape[1], type(kernel_of(self.kernel)) is LinearKernel
        return centre_of(X) if linear else np.zeros(d), np.ones(d)

    def _keep(self, X: Matrix) -> None:
        super()._keep(X)
        slopes = self._slopes()
        if slopes is not None:
            self.intercept_ = self.intercept_ - slopes @ self.center_

    def _slopes(self) -> Matrix | None:
        slopes = super()._slopes()
        return None if slopes is None else slopes / self.scale_

    def _inside(self, X: Matrix) -> Matrix:
        if self.scale:
            return (X - self.center_) / self.scale_
        return X - self.center_ if self.center_.any() else X

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        return self._report(self._inside(X), y, s * self.class_weight_[y])
