"""Huber's regression."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics
from ml_core.linear import residual_report, robust_report
from ml_core.linear.parameters import PenaltyL2
from ml_core.linear.residual_regression import ResidualRegression
from ml_core.linear.robust_scale import check_width, scaled_fit
from ml_core.linear.standard_design import StandardDesign
from ml_core.losses.huber import Huber
from ml_core.params import FreeIntercept, MaxIter, ObjectiveScale, WeightKind
from ml_core.registry import algorithm

EPS = float(np.finfo(float).eps)
LEAST = 1e-6
"""Share of the objective at w = 0 below which a gap is measured by it."""


@algorithm("huber_regression")
class HuberRegression(ResidualRegression):
    """Least squares for small residuals, absolute values for large ones, so that an outlier pulls with bounded force.

    min over w, b of  Σᵢ sᵢ L(yᵢ - xᵢᵀw - b) + ½ alpha ‖w‖² with L(r) = ½ r² for |r| ≤ δ, δ(|r| - ½ δ) beyond. Convex;
    reweighted least squares with weights min(1, δ/|r|), then Newton's method, which is exact once the rows within δ
    are found; O(n d²) a step. `scale` says how δ = delta · scale comes about: `mad`, the median of |r| over 0.6745 of
    the fit itself, found in turn; `joint`, the minimiser of Σ s (σ + 2 σ L(r/σ)) over σ too; `none`, δ = delta in
    target units. A large delta is least squares, a small one least absolute deviations.

    Fenchel's dual, max yᵀm - Σ mᵢ²/(2sᵢ) - ‖Xᵀm‖²/(2 alpha) for |mᵢ| ≤ sᵢδ, bounds the objective at the scale in use.
    Standard errors are Huber's asymptotic ones (k² Σ sψ²/(n - p) / (mean ψ')² (XᵀSX)⁻¹) for errors of one symmetric
    density, given without a penalty. `weight_kind` changes these alone: weights count rows, or are relative precisions.

    References
    ----------
    Huber (1964), Robust estimation of a location parameter, Annals of Mathematical Statistics 35.
    Huber, Ronchetti (2009), Robust Statistics, 2nd ed., section 7.6.
    Owen (2007), A robust hybrid of lasso and ridge regression, Contemporary Mathematics 443.
    """

    complexity = "O(n d²) a step, some ten steps"

    scale_: Annotated[float, "scale in use, target units; 1 without one"]
    delta_: Annotated[float, "δ, the residual from which on the loss is linear, target units"]

    def __init__(
        self,
        *,
        delta: Annotated[float, Field(gt=0, le=1e90, description="δ in units of the scale.")] = 1.345,
        scale: Annotated[
            Literal["mad", "joint", "none"],
            Field(description="Scale of the residuals: their median size, jointly optimal, or target units."),
        ] = "mad",
        alpha: PenaltyL2 = 0.0,
        objective_scale: ObjectiveScale = "sum",
        fit_intercept: FreeIntercept = True,
        weight_kind: WeightKind = "frequency",
        max_iter: Annotated[MaxIter, Field(description="Most steps for one scale.")] = 500,
    ) -> None:
        self.delta = delta
        self.scale = scale
        self.alpha = alpha
        self.objective_scale = objective_scale
        self.fit_intercept = fit_intercept
        self.weight_kind = weight_kind
        self.max_iter = max_iter

    def _design(self, X: Matrix, y: Vector, s: Vector) -> tuple[StandardDesign, Vector]:
        D = StandardDesign.of(X, y, s, self.fit_intercept, merge=self.alpha == 0)
        times = float(s.sum()) if self.objective_scale == "mean" else 1.0
        return D, D.penalty(self.alpha * times)

    def _fit(self, X: Matrix, y: Vector, s: Vector) -> None:
        D, mu = self._design(X, y, s)
        check_width("delta", self.delta, D.size if self.scale == "none" else 1.0)
        width = self.delta / D.size if self.scale == "none" else float(self.delta)
        start = robust_report.least_absolute(D, s)
        found = scaled_fit(D.A, D.t, s, Huber, mu, start, width=width, scale=self.scale, max_iter=self.max_iter)
        self._keep(D, found.w)
        self.n_iter_, self.converged_, self.trace_ = max(1, found.n_iter), found.converged, found.trace
        self.scale_ = 1.0 if self.scale == "none" else found.scale * D.size
        self.delta_ = float(self.delta) * self.scale_
        r = y - self._predict(X)
        within = np.abs(r) <= self.delta_
        self.unique_ = self.alpha > 0 or bool(np.linalg.matrix_rank(D.A[within]) == D.A.shape[1])
        self._remark(D, self.alpha > 0)
        if found.scale == 0.0:
            self._note("scale_is_zero", "so many rows lie on one line that the scale of the rest is 0; this is "
                       "the line of least absolute deviations", "give delta in target units")  # fmt: skip
        elif not self.unique_:
            self._note("not_unique", "the rows within delta do not determine the coefficients: others reach the same "
                       "objective", "raise delta, or set alpha above 0")  # fmt: skip

    def _diagnose(self, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
        D, mu = self._design(X, y, s)
        out, r = residual_report.report(self, D, X, y, s), y - self._predict(X)
        out.summary |= {"scale": self.scale_, "delta": self.delta_}
        if self.delta_ == 0:
            robust_report.exact(self, D, X, y, s, out)
            return out
        loss = Huber(self.delta_ / D.size)
        robust_report.weights(self, out, X, r, s, loss.omega(-r / D.size))
        w = D.pack(self.coef_, self.offset_)
        robust_report.stationary(out, D, s, loss, mu, w)
        value = float(s @ loss.rho(-D.t + D.A @ w) + 0.5 * mu @ w**2)
        low = _dual(D, s, loss, mu, w)
        out.summary["objective"] = value * D.size**2
        size = value + LEAST * float(s @ loss.rho(-D.t))
        rounding = s * (np.abs(D.A) @ np.abs(w) + np.abs(D.t)) @ (np.abs(D.A) @ np.abs(w))
        slack = 16 * EPS * float(rounding) / (size or 1.0)
        if slack < 1:  # otherwise rounding of residuals exceeds the objective, and the bound tells nothing
            out.certificates.append(Certificate("duality_gap", (value - low) / (size or 1.0), 1e-8 + slack,
                                                "objective above its dual bound, relative"))  # fmt: skip
        if self.scale != "none":
            robust_report.scale_repeats(self, out, D, s, w, float(self.delta))
        robust_report.inference(self, out, D, s, r / D.size, loss, self.alpha > 0)
        return out


def _dual(D: StandardDesign, s: Vector, loss: Huber, mu: Vector, w: Vector) -> float:
    """The dual objective at m = sψ(r), charged for what rounding leaves of Aᵀm = μw."""
    m = s * loss.psi(D.t - D.A @ w)
    g, held = m @ D.A, mu > 0
    quadratic = float((g[held] ** 2 / mu[held]).sum())
    return float(D.t @ m - 0.5 * (m**2 / s).sum() - 0.5 * quadratic - np.abs(g[~held]) @ np.abs(w[~held]))
