"""What sums over rows tell of a fitted linear regression: diagnostics of a table that need not be in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Notice, Table
from ml_core.linear import linear_inference
from ml_core.numerics.totals import Total
from ml_core.solvers.least_squares import EPS
from ml_core.statistics import Moments
from ml_core.sums import Passes

if TYPE_CHECKING:
    from ml_core.linear.linear_regression import LinearRegression


@dataclass(frozen=True)
class Fitted(Total):
    """Of [X, Y] the moments; of residuals r the squares (q,), AᵀSr and its rounding (1 + d, q), A = [1, X - center].

    `leverage` is the sum of the leverages, `logs` that of log s, `noise` (q,) the squared rounding of predictions.
    """

    moments: Moments
    rss: Vector
    gradient: Matrix
    square: Vector
    noise: Vector
    leverage: float
    logs: float


@dataclass(frozen=True)
class FittedPart:
    """The part whose total is `Fitted`."""

    model: LinearRegression

    def __call__(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Fitted:
        """Of the rows of X."""
        m, Y = self.model, y.reshape(len(X), -1)
        Z = X - m.center_
        r = Y - Z @ m.weights_ - m.offset_
        A = np.hstack([np.full((len(X), 1), float(m.fit_intercept)), Z])
        size = np.abs(Y) + np.abs(m.offset_) + np.abs(Z) @ np.abs(m.weights_)
        return Fitted(
            Moments.of(np.hstack([X, Y]), s), s @ r**2, A.T @ (s[:, None] * r), s @ A**2, s @ size**2,
            float(s @ linear_inference.mean_variance(m, X)), float(np.log(s).sum()),
        )  # fmt: skip


def audit(m: LinearRegression) -> Passes:
    """Fit statistics, coefficients and certificates from one pass; O(n d²)."""
    t: Fitted = yield FittedPart(m)
    d, q = m.weights_.shape
    mean, scatter = t.moments.mean, np.diag(t.moments.scatter)
    about = scatter if m.fit_intercept else scatter + t.moments.total * mean**2
    logs = t.logs if m.weight_kind == "precision" else 0.0
    outputs = [linear_inference.statistics(m, float(t.rss[k]), float(about[d + k]), logs) for k in range(q)]
    out = Diagnostics(summary={
        "rows": t.moments.rows, "observations": m.n_, "rank": m.rank_, "columns": d + int(m.fit_intercept),
        "degrees_of_freedom": m.df_, "condition_bound": linear_inference.condition_bound(m),
        **(outputs[0] if q == 1 else {}),
    })  # fmt: skip
    out.certificates = _certificates(m, t)
    raw, spread = np.sqrt(scatter + t.moments.total * mean**2), np.sqrt(about[:d])
    out.summary["digits_left"] = linear_inference.digits_left(m, raw, spread, np.sqrt(t.rss))
    out.tables["coefficients"] = linear_inference.coefficients(m, spread)
    out.tables["outputs"] = Table(("output", *outputs[0]), [[k, *o.values()] for k, o in enumerate(outputs)])
    out.tables["solver"] = linear_inference.solver(m)
    if m.aliased_:
        out.tables["aliased_columns"] = Table(("column",), [[j] for j in m.aliased_])
    out.warnings.append(Notice("rows_not_in_memory", "leverages, studentised residuals, Cook's distances, errors "
                               "of leaving one out and singular values take all rows in memory and are not given",
                               "ask for the diagnostics of a sample of the rows"))  # fmt: skip
    return out


def _certificates(m: LinearRegression, t: Fitted) -> list[Certificate]:
    size, length = np.sqrt(t.square), np.sqrt(t.rss)
    slope = np.abs(t.gradient[size > 0]) / size[size > 0, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.where(length > 0, slope / length, 0.0).max(initial=0.0)
        lost = np.minimum(4 * EPS * np.sqrt(t.noise) / length, 1.0)
    slack = np.where(length > 0, lost, 0.0).max(initial=0.0)
    tolerance = 1e-12 * t.moments.rows**0.5 + slack
    if m.solutions_[0].reason != "direct":
        tolerance = max(tolerance, m.tol**0.5)
    return [
        Certificate("normal_equations", float(cosine), float(tolerance),
                    "backward error: largest cosine of residuals and a centred column, 0 at the minimum but for tol"),
        Certificate("leverage_sum_error", abs(t.leverage - m.rank_), 1e-6 * max(m.rank_, 1),
                    "the leverages of the training rows add up to the rank"),
    ]  # fmt: skip
