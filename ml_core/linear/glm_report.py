"""Diagnostics of a generalised linear model, recomputed from its coefficients and sums over the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.linear.glm_families import Family
from ml_core.linear.glm_parts import Begin, Exposed, FitPart
from ml_core.linear.likelihood_report import inflation, sizes, wald
from ml_core.linear.likelihood_rows import Fitted, put_rows
from ml_core.selection.left_out import copies
from ml_core.solvers.base import Steps, Totals
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.linear_parts import Frame
from ml_core.solvers.newton import SINGULAR, inverse

if TYPE_CHECKING:
    from ml_core.linear.generalized_linear_model import GeneralizedLinearModel

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Figures:
    """What the rows say of a fit: Fisher's information and the dispersion, which is 1 where the family fixes it."""

    sums: Totals
    information: Matrix
    parameters: int
    freedom: float
    dispersion: float
    pearson: float
    condition: float
    log_likelihood: float


def figures(
    frame: Frame, family: Family, exposed: Exposed, v: Vector, begin: Begin, precise: bool
) -> Steps[Figures]:
    """One pass over the rows, few more of `precise` gamma. Dispersion: Pearson's χ² over weight less parameters."""
    constant = float(frame.loss.start(np.array([begin.mean]), np.ones(1))[0])
    sums: Totals = yield FitPart(frame, family, exposed, v, constant)
    H = sums.each[2] + frame.penalty().second(v)[2]
    scale = _unit_diagonal(H)
    values = np.linalg.eigvalsh(H * scale[:, None] * scale)
    parameters = int((values > len(H) * SINGULAR * values[-1]).sum())
    freedom = begin.weight - parameters
    pearson = sums.each[4] / freedom if freedom > 0 else np.nan
    condition = float(values[-1] / values[0]) if values[0] > 0 else np.inf
    summed, plain, dispersion = sums.each[5], sums.each[9], pearson if family.free_dispersion else 1.0
    if precise:
        c = begin.columns
        ll = yield from family.precise_likelihood(summed, plain, begin.logs, c.rows, c.total)
    else:
        ll = family.log_likelihood(summed, begin.weight, dispersion)
    return Figures(sums, H, parameters, freedom, dispersion, pearson, condition, ll)


def _unit_diagonal(H: Matrix) -> Vector:
    """(D,) factors of rows and columns that make the diagonal 1; 1 where it is 0, as of a constant column."""
    size = np.sqrt(np.maximum(np.diag(H), 0.0))
    return np.divide(1.0, size, out=np.ones(len(H)), where=size > 0)


def report(
    frame: Frame, family: Family, v: Vector, begin: Begin, found: Figures, terms: list[int], reason: str | None
) -> Diagnostics:
    """Summary, certificates, coefficient table. `terms` are the columns of the features, `reason` why errors lack."""
    problem = frame.penalty()
    g, H = found.sums.each[0] + problem.second(v)[1], found.sums.each[1] + problem.second(v)[2]
    out = Diagnostics(summary=_summary(family, begin, found))
    left = max(float(g @ inverse(H)(g)), 0.0) ** 0.5
    rounding = 8 * EPS * float((np.abs(frame.columns.mean) / frame.columns.scale).max(initial=0.0))
    size = max(found.sums.each[7], np.finfo(float).tiny)
    unit, lost = 1.0, 0.0
    if family.link == "identity":  # the dispersion is in squared units of the targets
        mean = size / begin.weight**0.5 / begin.columns.total**0.5
        unit = max(found.dispersion, 0.0) ** 0.5 if found.freedom > 0 else 0.0
        unit = max(unit, EPS * mean, np.finfo(float).tiny)
        lost = 16 * EPS * mean / unit
    out.certificates = [
        Certificate("gradient_norm", float(np.abs(g).max(initial=0.0)) / size, 1e-8 + rounding,
                    "largest partial derivative of the objective, for standardised columns, relative to Σ s|y|"),
        Certificate("distance_to_optimum", left / unit, 1e-6 + (rounding + lost) * begin.weight**0.5,
                    "Newton decrement √(gᵀH⁻¹g): distance to the optimum in standard errors"),
    ]  # fmt: skip
    if frame.fit_intercept and not family.relative and not problem.penalize_bias:
        out.certificates.append(
            Certificate("moment_match", abs(found.sums.each[6]) / size, 1e-8 + rounding,
                        "fitted means and targets have the same sum, relative to Σ s|y|"))  # fmt: skip
    out.tables["coefficients"] = _table(problem, v, found, terms, reason, family.free_dispersion)
    return out


def put_model_rows(out: Diagnostics, m: GeneralizedLinearModel, X: Matrix, y: Vector, s: Vector) -> None:
    """Leverages, residuals and Cook's distances of rows in memory."""
    _, target, weight = m._exposed(X.shape[1])(X, y, s)
    parameters, family = float(out.summary["parameters"] or 0), m._family()
    each = copies(s, precise=False)[1] if m.weight_kind == "frequency" else m._copy(family, float(s.sum()), len(s))
    f = Fitted(family, target, m._eta(X), weight / each, m.dispersion_, parameters)
    put_rows(out, f, lambda some: standard(m, X[some]), m.spread_)


def standard(m: GeneralizedLinearModel, X: Matrix) -> Matrix:
    """(n, d + 1) rows in the units of spread_, 1 last."""
    return np.hstack([(X - m.center_) / m.scale_, np.ones((len(X), 1))])


def _summary(family: Family, begin: Begin, found: Figures) -> dict[str, float | int | None]:
    deviance, null = found.sums.each[3], found.sums.each[8]
    total, ll = begin.weight, found.log_likelihood
    k = found.parameters
    return {
        "rows": begin.columns.rows, "weight": total, "exposure": begin.columns.total, "parameters": found.parameters,
        "deviance": deviance, "null_deviance": null, "explained_deviance": 1 - deviance / null if null > 0 else None,
        "pearson_chi2": found.sums.each[4], "pearson_dispersion": found.pearson, "dispersion": found.dispersion,
        "degrees_of_freedom": found.freedom, "log_likelihood": ll, "aic": 2 * k - 2 * ll,
        "bic": k * float(np.log(total)) - 2 * ll, "information_condition": found.condition,
    }  # fmt: skip


def _table(
    problem: LinearObjective, v: Vector, found: Figures, terms: list[int], reason: str | None, estimated: bool
) -> Table:
    """z with a known dispersion, t with an estimated one, by Fisher's information; the intercept first."""
    D, H = problem.shape[0], found.information
    scale = _unit_diagonal(H)
    values, Q = np.linalg.eigh(H * scale[:, None] * scale)
    flat = np.abs(Q[:, values <= len(H) * SINGULAR * values[-1]]).max(axis=1, initial=0.0) > 1e-6
    unit = sizes(problem.to_raw)
    M = problem.to_raw / unit[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        C = inverse(H)(np.eye(D))
        cov = M @ C @ M.T * found.dispersion
    vif = inflation(H, C, 1, problem.fit_intercept)
    raw = M @ v
    if found.freedom <= 0:
        reason = reason or "no_degrees_of_freedom"
    rows: list[list[object]] = []
    for j in [D - 1, *range(D - 1)] if problem.fit_intercept else range(D):
        name = "intercept" if problem.fit_intercept and j == D - 1 else terms[j]
        why = reason or ("collinear" if flat[j] else None if np.isfinite(cov[j, j]) else "overflow")
        rows.append([name, *wald(float(raw[j]), float(cov[j, j]), why,
                                 found.freedom if estimated else np.inf, vif[j], float(unit[j]))])  # fmt: skip
    ratio = "t" if estimated else "z"
    return Table(("term", "estimate", "standard_error", ratio, "p", "low", "high", "vif", "reason"), rows)
