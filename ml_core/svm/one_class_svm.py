"""One-class support vector machine: where rows like the training rows lie."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Clusterer, Cost
from ml_core.capabilities import Scores, Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.errors import InvalidData
from ml_core.kernels import Kernel, KernelSpec, RBFKernel, kernel_of
from ml_core.kernels.precomputed import needs_all_rows
from ml_core.kernels.weighted import weighted_sums
from ml_core.registry import algorithm
from ml_core.solvers.box_dual import levels
from ml_core.solvers.kernel_rows import CACHE_BYTES, KernelRows
from ml_core.solvers.smo import solve_box
from ml_core.svm.duals import one_class
from ml_core.svm.kernel_machines import kernel_cost
from ml_core.svm.kernel_svm import CacheBytes, Steps, Violation
from ml_core.svm.report import EPS, MOST_ROWS


@algorithm("one_class_svm")
class OneClassSVM(Weighted, Scores, Clusterer):
    """The half-space of the feature space, farthest from the origin, that holds most rows: 1 inside, 0 outside.

    min over w, ρ of  ½‖w‖² - nu ρ Σ s + Σ sᵢ ξᵢ,  w·φ(xᵢ) ≥ ρ - ξᵢ, ξ ≥ 0. Decision value f(x) = Σ αᵢ k(xᵢ, x) - ρ; a
    row is inside where f ≥ 0 up to `tol` and rounding, so that rows on the boundary are inside. Dual:
    min ½ αᵀKα, 0 ≤ αᵢ ≤ sᵢ, Σα = nu Σ s. At most a share nu of the weight is outside, at least that share belongs to
    support vectors. Solved as `kernel_svm`; primal, dual, gap and both shares are in the diagnostics.

    References
    ----------
    Schölkopf, Platt, Shawe-Taylor, Smola, Williamson (2001), Estimating the support of a high-dimensional
    distribution, Neural Computation 13.
    """

    queue = "long"
    complexity = "O(n² d) and more; prediction O(support vectors · d) per row"
    tags = ("non_parametric", "direct", "high_capacity", "kernel", "maximum_margin")
    largest = SQUARES
    example_params = {"nu": 0.1}  # noqa: RUF012 - annotated ClassVar in the base

    kernel_: Kernel
    support_: Annotated[Codes, "(m,) support vectors among the rows of positive weight"]
    support_vectors_: Annotated[Matrix, "(m, d)"]
    dual_coef_: Annotated[Vector, "(m,) α"]
    offset_: Annotated[float, "ρ, in units of Σ α k"]
    margin_: Annotated[float, "decision values from -margin_ on count as inside: tol and rounding"]
    n_iter_: Annotated[int, "steps on pairs"]
    n_rows_: int
    dual_trace_: Vector
    gap_trace_: Vector

    def __init__(
        self,
        *,
        nu: Annotated[
            float, Field(gt=0, le=1, description="Bounds the share of rows outside from above, of support vectors from "
                                                 "below.")
        ] = 0.1,
        kernel: Annotated[KernelSpec, Field(description="Similarity of rows.")] = RBFKernel(length_scale=None),  # noqa: B008
        tol: Violation = 1e-6,
        max_iter: Steps = 10_000_000,
        cache_bytes: CacheBytes = CACHE_BYTES,
    ) -> None:  # fmt: skip
        self.nu = nu
        self.kernel = kernel
        self.tol = tol
        self.max_iter = max_iter
        self.cache_bytes = cache_bytes

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Kernel values and the row cache."""
        return kernel_cost(n, d, k, self.cache_bytes)

    def _fit(self, X: Matrix, s: Vector) -> None:
        self.kernel_ = kernel_of(self.kernel).resolved(X)
        rows = KernelRows(self.kernel_, X)
        unit = max(float(rows.diag.max()), np.finfo(float).tiny)
        found = solve_box(one_class(s, float(self.nu)), rows, tol=float(self.tol), max_iter=int(self.max_iter),
                          unit=unit, cache_bytes=int(self.cache_bytes))  # fmt: skip
        alpha = found.beta[0]
        self.support_ = np.arange(len(X)) if needs_all_rows(self.kernel_) else np.flatnonzero(alpha)
        self.support_vectors_, self.dual_coef_ = X[self.support_], alpha[self.support_]
        self.offset_ = -float(found.b[0])
        self.margin_ = float(self.tol) * unit + 256 * EPS * unit * float(alpha.sum())
        self.n_iter_, self.n_rows_ = max(1, found.n_iter), len(X)
        self.dual_trace_, self.gap_trace_ = np.array(found.trace), np.array(found.gaps)
        if not found.converged:
            self._note_short(f"stopped after {found.n_iter} steps; the duality gap is in the diagnostics",
                             "raise max_iter or tol")  # fmt: skip

    def _scores(self, X: Matrix) -> Vector:
        return weighted_sums(self.kernel_, X, self.support_vectors_, self.dual_coef_) - self.offset_

    def _decide(self, X: Matrix) -> Codes:
        return (self._scores(X) >= -self.margin_).astype(np.int64)

    def _diagnose(self, X: Matrix, s: Vector) -> Diagnostics:
        S = self.support_vectors_
        if len(X) != self.n_rows_ or np.abs(X[self.support_] - S).max(initial=0.0) > 1e-9 * np.abs(X).max():
            raise InvalidData("the certificate of a support vector machine is about its training rows; give these, in "
                              "their order")  # fmt: skip
        f, alpha, total = self._scores(X), np.zeros(len(X)), float(s.sum())
        alpha[self.support_] = self.dual_coef_
        square, slack = max(0.0, float(alpha @ (f + self.offset_))), np.maximum(0.0, -f)
        primal, dual = 0.5 * square - self.nu * self.offset_ * total + float(s @ slack), -0.5 * square
        inside = f >= -self.margin_
        worst = levels(one_class(s, float(self.nu)), alpha[None], -f[None]).violation
        out = Diagnostics(summary={
            "primal": primal, "dual": dual, "duality_gap": primal - dual, "largest_violation": max(0.0, worst),
            "support_vectors": int(np.count_nonzero(alpha)), "bound": int(np.sum(alpha >= s)),
            "outside": int(np.sum(~inside)), "share_outside": float(s[~inside].sum()) / total,
            "share_of_support_vectors": float(s[alpha > 0].sum()) / total, "offset": self.offset_,
            "steps": self.n_iter_,
        })  # fmt: skip
        out.certificates = [
            Certificate("duality_gap", primal - dual, self.margin_ * total, "primal less dual objective"),
            Certificate("kkt_violation", max(0.0, worst), 2 * self.margin_, "largest violation m - M, in units of f"),
            Certificate("bounds", float(np.max(alpha - s) / s.max()), 4 * EPS, "0 ≤ α ≤ s, relative"),
            Certificate("nu", abs(float(alpha.sum()) / total - self.nu), 1e-10, "Σ α is nu times Σ s"),
            Certificate("share_outside", max(0.0, float(s[~inside].sum()) / total - self.nu), 1e-12,
                        "at most a share nu lies outside: the excess"),
        ]  # fmt: skip
        on = np.flatnonzero(alpha)
        on = on[np.argsort(f[on], kind="stable")][:MOST_ROWS]
        out.tables["support_vectors"] = Table(
            ("row", "alpha", "decision_value", "slack"),
            [[int(i), float(alpha[i]), float(f[i]), float(slack[i])] for i in on])  # fmt: skip
        out.traces["dual_objective"], out.traces["duality_gap"] = self.dual_trace_, self.gap_trace_
        return out
