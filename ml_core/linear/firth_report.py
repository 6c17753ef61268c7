"""Firth's logistic regression in standard columns: the fit, and its report from the profile of the likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Notice, Table
from ml_core.linear.likelihood_report import COLUMNS, LEVEL, inflation, sizes, wald
from ml_core.linear.standard_design import StandardDesign
from ml_core.losses.logistic import Logistic
from ml_core.selection.left_out import copies
from ml_core.solvers.base import Solution
from ml_core.solvers.firth import Firth
from ml_core.solvers.newton import inverse

PROFILED = 2e6
ALIASED = 1e-6


@dataclass(frozen=True)
class FirthDesign:
    """The objective over standard columns, aliased ones merged, and the way back to the units of X."""

    columns: StandardDesign
    objective: Firth

    @classmethod
    def of(cls, X: Matrix, y: Vector, s: Vector, intercept: bool) -> FirthDesign:
        """Of rows with targets 0 and 1."""
        columns = StandardDesign.of(X, np.ones(len(X)), s, intercept)
        return cls(columns, Firth(columns.A, y, s))

    def fit(self, tol: float, max_iter: int) -> Solution:
        """From 0."""
        return self.objective.minimise(np.zeros(self.columns.A.shape[1]), tol=tol, max_iter=max_iter)

    def rows(self) -> Matrix:
        """(d + 1, p) what each slope, and last the intercept, is of the unknowns."""
        c = self.columns
        slopes = c.basis / c.scale[:, None]
        first = np.zeros((len(slopes), int(c.intercept)))
        last = np.concatenate([np.ones(int(c.intercept)), -c.mean @ slopes])
        return np.vstack([np.hstack([first, slopes]), last])

    def unpack(self, v: Vector) -> tuple[Vector, float]:
        """Slopes (d,) in the units of X, and the log-odds at the mean of the columns; without intercept 0."""
        return (self.rows() @ v)[:-1], float(v[0]) if self.columns.intercept else 0.0

    def pack(self, w: Vector, b: float) -> Vector:
        """The way back."""
        c = self.columns
        inner = c.basis.T @ (w * c.scale)
        return np.concatenate([[b], inner]) if c.intercept else inner

    def lost(self) -> np.ndarray:
        """(d,) whether other slopes fit as well."""
        return np.asarray(np.square(self.columns.basis).sum(axis=1) < 1 - ALIASED)


def firth_report(design: FirthDesign, w: Vector, b: float, label: str, *, precise: bool) -> Diagnostics:
    """Likelihood with and without the penalty, distance to the optimum, and the table of coefficients.

    The leverage of a row is that of one copy, or of all of a lighter or `precise` one.
    """
    F, v = design.objective, design.pack(w, b)
    f, g = F.value_gradient(v)
    solve = inverse(F.information(v))
    total, loss = float(F.s.sum()), F.loss(v)
    null, nothing = Logistic().start(F.y, F.s), np.zeros((len(F.y), 1))
    least = float(F.s @ Logistic().value(nothing + (null if design.columns.intercept else 0.0), F.y))
    out = Diagnostics(summary={
        "rows": len(F.y), "weight": total, "parameters": len(v), "penalised_log_likelihood": -f,
        "log_likelihood": -loss, "null_log_likelihood": -least, "deviance": 2 * loss, "null_deviance": 2 * least,
        "log_loss": loss / total, "largest_leverage": float((F.leverages(v) / copies(F.s, precise=precise)[1]).max()),
    })  # fmt: skip
    left = max(float(g @ solve(g)), 0.0) ** 0.5
    out.certificates = [
        Certificate("gradient_norm", float(np.abs(g).max()) / total, 1e-8,
                    "largest partial derivative of the objective per unit of weight, for standardised columns"),
        Certificate("distance_to_optimum", left, 1e-6, "√(gᵀI⁻¹g), in standard errors"),
    ]  # fmt: skip
    profiled = len(v) ** 3 * len(F.y) <= PROFILED
    if not profiled:
        out.warnings.append(Notice("wald", "z, p and intervals are by the information, not by the profile of the "
                                   "likelihood, which takes many fits of so large a table", ""))  # fmt: skip
    out.tables["coefficients"] = _table(design, v, label, profiled)
    return out


def _table(design: FirthDesign, v: Vector, label: str, profiled: bool) -> Table:
    rows, H = design.rows(), design.objective.information(v)
    cov = inverse(H)(np.eye(len(v)))
    d, lost, unit = len(rows) - 1, design.lost(), sizes(rows).tolist()
    first = int(design.columns.intercept)
    T = np.zeros((d + first, len(v)))  # standard columns, and last the intercept, of the unknowns
    T[:d, first:], T[d:, :first] = design.columns.basis, 1.0
    vif = [*inflation(T @ H @ T.T, T @ cov @ T.T, 1, bool(first)), np.nan]
    constant = not design.columns.basis.any()
    out: list[list[object]] = []
    for step, j in enumerate([d, *range(d)] if design.columns.intercept else range(d)):
        progress.tick(step, d + 1, "profiles")
        c = rows[j] / unit[j]
        reason = "collinear" if j < d and lost[j] else None
        entry = wald(float(c @ v), float(c @ cov @ c), reason, vif=vif[j], unit=unit[j])
        if reason is None and profiled and not constant:
            z, p, low, high = _profile(design.objective, c, v, entry[1] / unit[j])
            found = np.isfinite(z)
            entry[2:6] = (z, p, unit[j] * low, unit[j] * high) if found else [None] * 4
            entry[-1] = None if found else "the profile of the likelihood was not found"
        out.append([label, "intercept" if j == d else j, *entry])
    return Table(COLUMNS, out)


def _profile(F: Firth, c: Vector, v: Vector, se: float) -> list[float]:
    """Signed root of the likelihood ratio against 0, its p, and the interval by the profile."""
    half = float(ndtri(0.5 + LEVEL / 2))
    best = F.value_gradient(v)[0]
    rise = max(F.held(c, 0.0, v).trace[-1] - best, 0.0)
    z = float(np.sign(c @ v)) * (2 * rise) ** 0.5
    low, high = F.profile(c, v, 0.5 * half**2, half * se)
    return [z, 2 * float(ndtr(-abs(z))), low, high]
