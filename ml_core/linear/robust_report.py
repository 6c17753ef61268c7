"""Diagnostics that Huber's and Tukey's regression share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.linear import residual_report
from ml_core.linear.conditioning import weighted_condition
from ml_core.linear.robust_scale import joint, mad
from ml_core.linear.standard_design import StandardDesign
from ml_core.solvers.interior_point import Kinked, interior_point
from ml_core.solvers.optimal_face import settle

if TYPE_CHECKING:
    from ml_core.linear.residual_regression import ResidualRegression

SHOWN = 200
TINY = 1e-9


def least_absolute(D: StandardDesign, s: Vector) -> Vector:
    """(p,) the standard unknowns of least absolute deviations."""
    p = D.A.shape[1]
    if not p:
        return np.zeros(0)
    weight, whole = s / s.mean(), D.rank + D.intercept == p
    P = Kinked(D.A, D.t, weight, weight, np.zeros(len(D.t)), np.full(p, 0.0 if whole else TINY))
    return settle(P, interior_point(P), s).w


def weights(m: ResidualRegression, out: Diagnostics, X: Matrix, r: Vector, s: Vector, omega: Vector) -> None:
    """The rows whose weight is below 1, smallest first, and the condition number of the rows so weighted."""
    out.summary["weighted_condition_number"] = weighted_condition(X, s * omega, m.fit_intercept)
    less = np.flatnonzero(omega < 1 - 1e-12)
    order = less[np.argsort(omega[less], kind="stable")][:SHOWN]
    out.tables["outlier_weights"] = Table(
        ("row", "residual", "weight"), [[int(i), float(r[i]), float(omega[i])] for i in order]
    )
    out.summary["rows_downweighted"] = int((omega < 0.5).sum())
    out.summary["rows_rejected"] = int((omega == 0).sum())
    out.summary["mean_weight"] = float(s @ omega / s.sum())


def stationary(out: Diagnostics, D: StandardDesign, s: Vector, loss: Any, mu: Vector, w: Vector) -> None:
    """The slope of the objective, each column relative to the size of its terms."""
    psi = s * loss.psi(D.A @ w - D.t)
    noise = 4e-16 * (s @ np.abs(D.A) + mu) * (1 + float(np.abs(D.t).max(initial=0.0)))
    size = np.abs(psi) @ np.abs(D.A) + np.abs(mu * w) + noise
    off = np.abs(psi @ D.A + mu * w) / np.where(size > 0, size, 1.0)
    scale = 1e-16 * (np.abs(D.A) @ np.abs(w) + np.abs(D.t))
    lost = (s * scale) @ np.abs(D.A) / np.where(size > 0, size, 1.0)
    text = "slope of the objective per standardised column, relative to its terms"
    slack = 1e-8 + 64 * float(lost.max(initial=0.0))
    out.certificates.append(Certificate("gradient", float(off.max(initial=0.0)), slack, text))


def scale_repeats(m: Any, out: Diagnostics, D: StandardDesign, s: Vector, w: Vector, width: float) -> None:
    """Whether the scale in use is that of the residuals it leads to."""
    r, size = D.t - D.A @ w, m.scale_ / D.size
    new = joint(r, s, width, size)[0] if m.scale == "joint" else mad(r, s)
    off = abs(new - size) / size
    out.certificates.append(Certificate("scale", off, 1e-6, "change of the scale by one more turn, relative"))


def exact(m: ResidualRegression, D: StandardDesign, X: Matrix, y: Vector, s: Vector, out: Diagnostics) -> None:
    """Of a fit whose scale is 0: at least half the weight, of a joint scale 1 - 1/delta², lies on the line."""
    least = 1 - float(m.delta) ** -2 if m.scale == "joint" else 0.5  # type: ignore[attr-defined]
    r = np.abs(y - m._predict(X))
    on = float(s[r <= 1e-9 * (np.abs(y).max() + D.size)].sum() / s.sum())
    out.certificates.append(Certificate("share_on_the_line", on, least - 1e-9, "weight of rows on the line", True))
    residual_report.put_coefficients(m, out, D, s, None, "the scale is 0")


def inference(
    m: ResidualRegression, out: Diagnostics, D: StandardDesign, s: Vector, r: Vector, loss: Any, penalised: bool
) -> None:
    """Huber's asymptotic covariance k² [Σ sψ²/(n - p)] / [Σ sψ'/n]² (XᵀSX)⁻¹, k = 1 + p/n var ψ' / (mean ψ')².

    Residuals r (n,) and the loss are in the standard units of D.
    """
    c = residual_report.counts(m, s)
    n, p, bend = float(c.sum()), m.rank_, loss.bend(r)
    mean, factor = float(c @ bend) / n, None
    why = "penalised estimates are biased: classical errors have no meaning" if penalised else ""
    if n <= p:
        why = why or "no residual degrees of freedom"
    elif not mean > 0:
        why = why or "the loss does not curve at these residuals"
    if not why:
        k = 1 + p / n * (float(c @ (bend - mean) ** 2) / n) / mean**2
        factor = D.size**2 * k**2 * (float(c @ loss.psi(r) ** 2) / (n - p)) / mean**2
    residual_report.put_coefficients(m, out, D, s, factor, why)
