"""Support vector regression: a tube around the targets, in the feature space of a kernel."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Cost, Regressor
from ml_core.capabilities import Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.errors import InvalidData
from ml_core.kernels import Kernel, LinearKernel, kernel_of
from ml_core.kernels.precomputed import needs_all_rows
from ml_core.kernels.weighted import weighted_sums
from ml_core.numerics.column_moments import column_moments
from ml_core.numerics.stable import slacks
from ml_core.solvers.box_dual import BoxDual
from ml_core.solvers.box_interior_point import solve_low_rank
from ml_core.solvers.kernel_rows import KernelRows
from ml_core.solvers.smo import solve_box
from ml_core.svm.kernel_machines import kernel_cost
from ml_core.svm.machine import LOW_RANK
from ml_core.svm.report import EPS, MOST_ROWS

ScaleTarget = Annotated[
    bool, Field(description="Measure the target in its standard deviations, epsilon and slack with it.")
]


class KernelRegression(Weighted, Regressor):
    """f(x) = b + Σ βᵢ k(xᵢ, x) within a tube; a subclass states the program and the tube's half width."""

    queue = "long"
    complexity = "O(n² d) and more; prediction O(support vectors · d) per row"
    tags = ("non_parametric", "direct", "high_capacity", "kernel", "maximum_margin")
    largest = SQUARES
    min_rows = 2

    kernel_: Kernel
    support_: Annotated[Codes, "(m,) support vectors among the rows of positive weight"]
    support_vectors_: Annotated[Matrix, "(m, d)"]
    dual_coef_: Annotated[Vector, "(m,) β, in units of C"]
    intercept_: Annotated[float, "b, target units"]
    coef_: Annotated[Vector | None, "(d,) slopes where the kernel is linear and its solver tells them"] = None
    origin_: Annotated[Vector, "(d,) where scores of these slopes are counted from"]
    offset_: Annotated[float, "the prediction at origin_, target units"]
    epsilon_: Annotated[float, "half width of the tube, target units"]
    target_scale_: Annotated[float, "target units per unit of the program"]
    n_iter_: Annotated[int, "steps of the solver"]
    n_rows_: int
    dual_trace_: Vector
    gap_trace_: Vector

    C: float
    kernel: object
    scale_target: bool
    tol: float
    max_iter: int
    cache_bytes: int

    @abstractmethod
    def _program(self, t: Vector, s: Vector) -> BoxDual:
        """The dual for targets in the program's units."""

    @abstractmethod
    def _tube(self, b: Vector) -> tuple[float, float]:
        """Intercept and half width of the tube, in the program's units, from the multipliers."""

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Kernel values and the row cache."""
        return kernel_cost(n, d, k, self.cache_bytes)

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        mean, sd, constant = (v[0] for v in column_moments(y[:, None], s))
        self.target_scale_, middle = (float(sd), float(mean)) if self.scale_target else (1.0, 0.0)
        t = (y - middle) / self.target_scale_
        self.kernel_ = kernel_of(self.kernel).resolved(X)
        dual, unit = self._program(t, s), 1.0 if self.scale_target else float(sd)
        if dual.groups == 1 and type(self.kernel_) is LinearKernel and X.shape[1] <= LOW_RANK:
            found = solve_low_rank(dual, X, tol=float(self.tol), unit=unit)
        else:
            found = solve_box(dual, KernelRows(self.kernel_, X), tol=float(self.tol), max_iter=int(self.max_iter),
                              unit=unit, cache_bytes=int(self.cache_bytes))  # fmt: skip
        beta = found.beta.sum(axis=0)
        self.support_ = np.arange(len(X)) if needs_all_rows(self.kernel_) else np.flatnonzero(beta)
        self.support_vectors_, self.dual_coef_ = X[self.support_], beta[self.support_]
        b, width = self._tube(found.b)
        self.intercept_, self.epsilon_ = middle + self.target_scale_ * b, self.target_scale_ * width
        self.coef_ = None
        if found.plane is not None:
            self.coef_, self.origin_ = self.target_scale_ * found.plane.w, found.plane.centre
            self.offset_ = middle + self.target_scale_ * self._tube(np.array([found.plane.b]))[0]
            self.intercept_ = self.offset_ - float(self.coef_ @ self.origin_)
        self.n_iter_, self.n_rows_ = max(1, found.n_iter), len(X)
        self.dual_trace_, self.gap_trace_ = np.array(found.trace), np.array(found.gaps)
        if not found.converged:
            self._note_short(f"stopped after {found.n_iter} steps; the duality gap is in the diagnostics",
                             "standardise the columns, raise max_iter or lower C")  # fmt: skip
        if not beta.any() and not constant:
            self._note("constant_predictions", "every target lies within the tube, so all predictions are equal",
                       "lower epsilon, which is in target units unless scale_target is on")  # fmt: skip

    def _predict(self, X: Matrix) -> Vector:
        if self.coef_ is not None:
            return np.asarray((X - self.origin_) @ self.coef_ + self.offset_)
        weight = self.dual_coef_ * self.target_scale_
        return weighted_sums(self.kernel_, X, self.support_vectors_, weight) + self.intercept_

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        S = self.support_vectors_
        if len(X) != self.n_rows_ or np.abs(X[self.support_] - S).max(initial=0.0) > 1e-9 * np.abs(X).max():
            raise InvalidData("the certificate of a support vector machine is about its training rows; give these, in "
                              "their order")  # fmt: skip
        unit, cap = self.target_scale_, self.C * s
        f, beta, eps = self._predict(X), np.zeros(len(X)), self.epsilon_ / unit
        beta[self.support_] = self.dual_coef_
        base = self.intercept_ if self.coef_ is None else self.offset_
        t, g = (y - base) / unit, (f - base) / unit
        terms = eps + float(np.abs(beta).sum() + np.abs(t).max())
        slack = slacks(np.abs(t - g) - eps, np.abs(beta) < cap, terms)
        square = max(0.0, float(beta @ g))
        primal = 0.5 * square + float(cap @ slack)
        dual = float(beta @ t - eps * np.abs(beta).sum()) - 0.5 * square
        size = float(np.abs(t).max()) + 1.0
        allowed = float(self.tol * size * cap.sum() + 256 * EPS * size * (cap.sum() + np.abs(beta).sum() * size))
        out = Diagnostics(summary={
            "primal": primal, "dual": dual, "duality_gap": primal - dual,
            "support_vectors": int(np.count_nonzero(beta)),
            "bound": int(np.sum(np.abs(beta) >= cap)), "epsilon": self.epsilon_, "intercept": self.intercept_,
            "steps": self.n_iter_, "root_mean_square_error": float(np.sqrt(np.average((y - f) ** 2, weights=s))),
        })  # fmt: skip
        out.certificates = [
            Certificate("duality_gap", primal - dual, allowed, "primal less dual objective, in the program's units"),
            Certificate("bounds", float(np.max(np.abs(beta) - cap)) / float(cap.max()), 1e-12, "|β| ≤ C s, relative"),
            Certificate("balance", abs(float(beta.sum())) / float(cap.sum()), 1e-11, "Σβ = 0, relative to Σ bounds"),
        ]
        if self.coef_ is not None:
            out.matrices["coef"] = self.coef_
        on = self.support_[np.argsort(-np.abs(self.dual_coef_), kind="stable")][:MOST_ROWS]
        out.tables["support_vectors"] = Table(
            ("row", "beta", "residual", "slack"),
            [[int(i), float(beta[i]), float(y[i] - f[i]), float(unit * slack[i])] for i in on])  # fmt: skip
        out.traces["dual_objective"], out.traces["duality_gap"] = self.dual_trace_, self.gap_trace_
        return out
