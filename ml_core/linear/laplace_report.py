"""What a posterior by Laplace's method adds to the report of a penalised likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.solvers.base import Steps, Totals
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.linear_parts import Frame

if TYPE_CHECKING:
    from ml_core.linear.bayesian_logistic_regression import BayesianLogisticRegression

LEVEL = 0.95
UNTOLD = 1e-6
"""Share of the slopes that the rows determine below which they tell of none."""
LOG_2PI = float(np.log(2 * np.pi))
COLUMNS = ("score", "term", "mean", "standard_deviation", "low", "high", "prior_standard_deviation")


@dataclass(frozen=True)
class PrecisionPart:
    """The Hessian of the loss over rows, and the loss, at unknowns v."""

    frame: Frame
    v: Vector

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> Totals:
        """Of rows."""
        f, _, H = self.frame.over(X, y, s).second(self.v)
        return Totals((H, f))


def put_posterior(out: Diagnostics, m: BayesianLogisticRegression, frame: Frame) -> Steps[None]:
    """Evidence, effective parameters, the table of the posterior, and the precision recomputed from the rows."""
    problem = frame.penalty()
    v = problem.pack(*m._independent())
    H, loss = (yield PrecisionPart(frame, v)).each
    penalty, _, curvature = problem.second(v)
    H = H + curvature
    T = _between(m, frame)
    R = (T @ m.root_.reshape(len(T), -1)).reshape(m.root_.shape)
    off = float(np.abs(R.T @ H @ R - np.eye(len(R))).max())
    q, d = problem.shape[1], len(frame.columns.scale)
    told, size = determined(problem, R), float(np.square(problem.unpack(v)[0]).sum())
    out.summary["alpha"] = m.alpha_
    out.summary["effective_parameters"] = told + q * m.fit_intercept
    if m.hyperparameters == "evidence" and told > UNTOLD * d * q:
        text = "alpha ‖w‖²/γ - 1, γ slopes that the rows determine: 0 where the evidence is largest, by MacKay's rule"
        out.certificates.append(Certificate("evidence_fixed_point", abs(m.alpha_ * size / told - 1), 1e-6, text))
    out.summary["log_evidence"] = None
    if m.alpha_ > 0:
        logdet = -2.0 * float(np.linalg.slogdet(R)[1]) + 2.0 * q * float(np.log(frame.columns.scale).sum())
        prior = 0.5 * q * d * (np.log(m.alpha_) - LOG_2PI)
        out.summary["log_evidence"] = float(-loss - penalty + prior + 0.5 * len(R) * LOG_2PI - 0.5 * logdet)
    text = "largest entry of RᵀHR - I, for the covariance R Rᵀ and the precision H recomputed from the rows"
    out.certificates.append(Certificate("posterior_precision", off, 1e-6, text))
    out.tables["coefficients"] = _table(m)


def determined(problem: LinearObjective, R: Matrix) -> float:
    """γ = k - alpha tr C of k slopes with covariance C = R Rᵀ in standard units: how many the rows determine."""
    d, q = len(problem.columns.scale), problem.shape[1]
    return d * q - float((problem.l2[:d, None] * np.square(R).sum(axis=1).reshape(-1, q)[:d]).sum())


def _between(m: BayesianLogisticRegression, frame: Frame) -> Matrix:
    """(D, D) from the fitted standard unknowns to those of the frame's columns."""
    d = len(m.scale_)
    T = np.eye(d + m.fit_intercept)
    T[np.arange(d), np.arange(d)] = frame.columns.scale / m.scale_
    if m.fit_intercept:
        T[d, :d] = (frame.columns.mean - m.center_) / m.scale_
    return T


def _table(m: BayesianLogisticRegression) -> Table:
    mean, roots = m.coefficient_roots()
    sd = np.sqrt(np.square(roots).sum(axis=2))
    half = float(ndtri(0.5 + LEVEL / 2)) * sd
    labels = [m.classes_[1]] if len(mean) == 1 else m.classes_
    d = len(m.scale_)
    before = None if m.alpha_ == 0 else m.alpha_**-0.5
    rows: list[list[object]] = []
    for c, label in enumerate(labels):
        for j in ([d, *range(d)] if m.fit_intercept else range(d)):
            prior = None if j == d or before is None else before * float(np.linalg.norm(m._basis()[c]))
            rows.append([str(label), "intercept" if j == d else j, float(mean[c, j]), float(sd[c, j]),
                         float(mean[c, j] - half[c, j]), float(mean[c, j] + half[c, j]), prior])  # fmt: skip
    return Table(COLUMNS, rows)
