"""Kernel ridge regression."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.linalg.lapack import dpocon

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost, Regressor
from ml_core.capabilities import MultiOutput, Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.gp.expansion import Expansion, chosen
from ml_core.gp.landmarks import Approximation, Landmarked, Landmarks
from ml_core.gp.options import Similarity
from ml_core.gp.task import coefficients
from ml_core.kernels import Kernel
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.numerics.positive import factor, invert, solve
from ml_core.numerics.refined import refined
from ml_core.registry import algorithm

MOST_LEFT_OUT = 5000
GAP = 1e-9
EPS = float(np.finfo(float).eps)
ROUNDING = 16 * EPS
TINY = float(np.finfo(float).tiny)


@algorithm("kernel_ridge_regression")
class KernelRidgeRegression(Landmarked, MultiOutput, Weighted, Regressor):
    """Ridge regression in the feature space of a kernel.

    min over f, b of  Σᵢ sᵢ (yᵢ - f(xᵢ) - b)² + alpha ‖f‖², f = Σᵢ aᵢ k(xᵢ, ·): (K + alpha S⁻¹)a = y - b with
    Σ aᵢ = 0 where the intercept is free (the same as centring K and y); with a `penalised` intercept the kernel is
    k + 1. O(n³/3) by Cholesky, 8n² bytes; of 1000 rows and more whose alpha bounds the condition, the factor is in
    single precision and the solution refined to double. With the linear kernel it is ridge regression; with alpha =
    s2/τ² it is the mean of a Gaussian process. Left out, row i has the residual aᵢ/[(K + alpha S⁻¹)⁻¹]ᵢᵢ (b taken
    out). Integer weights repeat rows.

    References
    ----------
    Saunders, Gammerman, Vovk (1998), Ridge regression learning algorithm in dual variables, ICML.
    Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, sections 5.4.2 and 6.2.
    """

    queue = "long"
    matrices, noun = 3.0, "kernel ridge regression"
    remedy = "raise alpha: where it is small beside the kernel's values, rounding decides the weights"
    largest = SQUARES
    complexity = "O(n³ + n² d)"
    tags = ("non_parametric", "direct", "high_capacity", "kernel", "closed_form")

    expansion_: Annotated[Expansion, "f: rows, dual weights and intercept"]
    dual_coef_: Annotated[Matrix | Vector, "(n,) or (n, q) dual weights a; of the landmarks where these stand in"]
    intercept_: Annotated[float | Vector, "b"]
    kernel_: Annotated[Kernel, "kernel in use"]
    jitter_: Annotated[float, "added to the diagonal to factor it"]

    def __init__(
        self,
        *,
        kernel: Similarity = None,
        alpha: Annotated[float, Field(ge=0, le=1e90, description="Penalty on ‖f‖²; 0 interpolates.")] = 1.0,
        intercept: Annotated[
            Literal["free", "penalised", "none"], Field(description="b unpenalised, as a feature 1, or 0.")
        ] = "free",
        approximation: Approximation = "none",
        n_landmarks: Landmarks = 300,
    ) -> None:
        self.kernel = kernel
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.alpha = alpha
        self.intercept = intercept

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """n²d for the kernel, n³/3 for its factor; two matrices."""
        if self._approximates(n):
            return self._cost_through(n, d, k)
        return Cost(flops=float(n) ** 3 + 20.0 * n * n * d, memory_bytes=3.0 * 8.0 * n * n + 1e6)

    def _fit(self, X: Matrix, y: Vector | Matrix, s: Vector) -> None:
        if self._landmarks_stand_in(X, s):
            return self._fit_landmarks(X, y, s)
        self.kernel_ = chosen(self.kernel, X)
        Y = y.reshape(len(X), -1)
        progress.tick(0, 2, "steps")
        C = self._system(X, s)
        progress.tick(1, 2, "steps")
        a, b = self._weights(C, Y, s)
        if self.intercept == "penalised":
            b = a.sum(axis=0)
        self.expansion_ = Expansion(self.kernel_, X, a, b)
        one = y.ndim == 1
        self.dual_coef_, self.intercept_ = (a[:, 0].copy(), float(b[0])) if one else (a, b)
        self._note_findings(X, s)

    def _fit_landmarks(self, X: Matrix, y: Vector | Matrix, s: Vector) -> None:
        """Ridge regression on the features: the dual weights are those of the landmarks."""
        twin = self._taught(self._linear_twin(), X, y, s)
        self.expansion_ = self._expanded(np.atleast_2d(twin.coef_).T, np.atleast_1d(twin.intercept_))
        self.kernel_, self.jitter_, self.intercept_ = self.expansion_.kernel, 0.0, twin.intercept_
        a = self.expansion_.weights
        self.dual_coef_ = a[:, 0].copy() if y.ndim == 1 else a

    def _linear_twin(self) -> RidgeRegression:
        free, penalised = self.intercept != "none", self.intercept == "penalised"
        return RidgeRegression(alpha=self.alpha, fit_intercept=free, penalize_bias=penalised)

    def _system(self, X: Matrix, s: Vector) -> Matrix:
        """(n, n) K + alpha S⁻¹, with 1 added to every entry where the intercept is penalised."""
        C = self.kernel_(X)
        if self.intercept == "penalised":
            C += 1.0
        C[np.diag_indices_from(C)] += self.alpha / s
        return C

    def _basis(self, n: int) -> Matrix:
        return np.ones((n, 1 if self.intercept == "free" else 0))

    def _weights(self, C: Matrix, Y: Matrix, s: Vector) -> tuple[Matrix, Vector]:
        """a (n, q) and b (q,); the lower triangle of C is overwritten."""
        H, q = self._basis(len(Y)), Y.shape[1]
        right = np.hstack([Y, H])
        found, self.jitter_ = refined(C, right, self.alpha / float(s.max())), 0.0
        if found is None:
            self.jitter_ = factor(C)
        both = solve(C, right) if found is None else found
        beta = coefficients(H, both[:, :q], both[:, q:])[1] if H.shape[1] else np.zeros((0, q))
        return both[:, :q] - both[:, q:] @ beta, H[0] @ beta

    def _lost(self, X: Matrix, s: Vector) -> bool:
        """Whether alpha S⁻¹ vanishes in the rounding of the kernel's diagonal."""
        return self.alpha <= EPS * float((s * self.kernel_.diag(X)).max()) and self.jitter_ == 0.0

    def _note_findings(self, X: Matrix, s: Vector) -> None:
        if self.alpha == 0:
            self._note("not_regularised", "alpha is 0: the function passes through every target it can, noise and all",
                       "set alpha > 0")  # fmt: skip
        elif self._lost(X, s):
            self._note("alpha_below_rounding", f"alpha {self.alpha:.3g} vanishes in the rounding of the kernel's "
                       "values: the function passes through every target it can, as at 0", "raise alpha")  # fmt: skip
        if self.jitter_ > 0:
            self._note("jitter", f"{self.jitter_:.3g} was added to the diagonal to factor it: rows repeat, or the "
                       "kernel is too smooth for them", "raise alpha")  # fmt: skip

    def _predict(self, X: Matrix) -> Vector | Matrix:
        f = self.expansion_.at(X)
        return f[:, 0] if self.dual_coef_.ndim == 1 else f

    def _diagnose(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Diagnostics:
        return self._twin_diagnosed(X, y, s) or self._diagnosed(X, y, s)

    def _diagnosed(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Diagnostics:
        a, Y = self.expansion_.weights, y.reshape(len(X), -1)
        b = np.zeros(a.shape[1]) if self.intercept == "penalised" else self.expansion_.offset
        C = self._system(X, s)
        C[np.diag_indices_from(C)] += self.jitter_
        off = np.abs(Y - b - C @ a)
        size = np.abs(C).sum(axis=1).max()
        total = size * np.abs(a).max(axis=0) + np.abs(Y).max(axis=0) + np.abs(b)
        out = Diagnostics(summary={"rows": len(X), "observations": float(s.sum()), "alpha": self.alpha,
                                   "jitter": self.jitter_})  # fmt: skip
        out.certificates.append(Certificate(
            "solve_backward_error", float((off.max(axis=0) / np.maximum(total, TINY)).max()), 1e-13,
            "y - b - (K + alpha S⁻¹)a, largest entry relative to ‖K + alpha S⁻¹‖‖a‖ + ‖y‖ + |b|"))  # fmt: skip
        ridge = (self.alpha / s + self.jitter_)[:, None]
        r = Y - b - (C @ a - ridge * a)
        norm = np.einsum("ij,ij->j", a, C @ a - ridge * a)
        terms = 0.0 if self._lost(X, s) else float((np.abs(Y) + np.abs(b)).max())
        rss, tss = s @ r**2, s @ (Y - (s @ Y / s.sum() if self.intercept != "none" else 0.0)) ** 2
        out.certificates.append(self._gap(a, Y - b, r, norm, ridge, terms))
        rows = [[k, float(v), float(t), 1 - float(v / t) if t > 0 else None, float(max(m, 0.0)) ** 0.5]
                for k, (v, t, m) in enumerate(zip(rss, tss, norm, strict=True))]  # fmt: skip
        out.tables["outputs"] = Table(("output", "rss", "tss", "r2", "function_norm"), rows)
        out.summary |= {"rss": float(rss.sum()), "r2": rows[0][3]}
        if len(X) <= MOST_LEFT_OUT:
            self._left_out_report(C, Y, s, float(size), out)
        return out

    def _gap(self, a: Matrix, t: Matrix, r: Matrix, norm: Vector, ridge: Matrix, size: float) -> Certificate:
        """½ rᵀD⁻¹r + ½ aᵀKa against aᵀt - ½ aᵀ(K + D)a, D = alpha S⁻¹: objective and dual over alpha; all outputs.

        `size` bounds the terms of r, whose rounding counts as no gap; 0 where alpha is none.
        """
        if size == 0.0:
            largest = float(np.abs(r).max() / max(np.abs(t).max(), TINY))
            return Certificate("interpolation_error", largest, 1e-2, "largest residual over the largest target")
        primal = 0.5 * float((r**2 / ridge).sum() + norm.sum())
        dual = float(np.vdot(a, t)) - 0.5 * float(norm.sum() + (ridge * a**2).sum())
        rounding = a.shape[1] * float(((ROUNDING * size) ** 2 / ridge).sum()) / GAP
        return Certificate("relative_gap", (primal - dual) / max(abs(primal), rounding, TINY), GAP,
                           "objective less dual objective, relative: the distance to the minimum at most")  # fmt: skip

    def _left_out_report(self, C: Matrix, Y: Matrix, s: Vector, size: float, out: Diagnostics) -> None:
        n = len(Y)
        alpha, precision, condition = self._precision(C, Y, size)
        r = alpha / _told(precision)[:, None]
        mse = np.nansum(s[:, None] * r**2, axis=0)
        known = float(s @ np.isfinite(r[:, 0]))
        h = 1.0 - (self.alpha / s) * precision
        out.summary |= {
            "leave_one_out_mse": float(mse.mean()) / known if known else None, "effective_parameters": float(h.sum()),
            "condition": condition, "generalised_cross_validation": _gcv(alpha, precision, n),
        }  # fmt: skip
        out.curves["leave_one_out"] = {"x": np.arange(n), "y": (Y - r)[:, 0], "leverage": h}

    def _precision(self, C: Matrix, Y: Matrix, size: float) -> tuple[Matrix, Vector, float]:
        """Dual weights, the diagonal of the precision of the targets, and the condition of C, which is overwritten."""
        factor(C)
        reciprocal = float(dpocon(C.T, size, uplo="U")[0])
        H, q = self._basis(len(Y)), Y.shape[1]
        both = solve(C, np.hstack([Y, H]))
        _, beta, E = coefficients(H, both[:, :q], both[:, q:])
        a = both[:, :q] - (both[:, q:] @ beta if H.shape[1] else 0.0)
        invert(C)
        return a, C.diagonal() - np.einsum("ij,ij->i", E, E), 1.0 / max(reciprocal, TINY)

    def left_out(self, X: Matrix, y: Vector | Matrix, s: Vector | None = None) -> Vector | Matrix:
        """(n,) or (n, q) prediction of each training row by a fit of all others; NaN where only such a fit can tell."""
        s = np.ones(len(X)) if s is None else s
        if self.twin_ is not None:
            found = self.twin_.left_out(self._projected(X), y, s)  # type: ignore[attr-defined]
            return self._without_landmarks(X, found)
        Y = y.reshape(len(X), -1)
        a, precision, _ = self._precision(self._system(X, s), Y, 1.0)
        f = Y - a / _told(precision)[:, None]
        return f[:, 0] if y.ndim == 1 else f


def _told(precision: Vector) -> Vector:
    """The precisions; NaN where only the row itself tells its target."""
    return np.where(precision > 1e-12 * np.abs(precision).max(), precision, np.nan)


def _gcv(a: Matrix, precision: Vector, n: int) -> float:
    """n ‖r‖²/tr(I - H)² with r = D a and I - H = D P: where D is constant, of dual weights and precisions alone."""
    return float(n * (a**2).sum() / max(float(precision.sum()) ** 2, TINY))
