"""Diagnostics of a penalised likelihood that is linear in its unknowns: certificates, statistics, coefficient table."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.newton import SINGULAR, inverse

EPS = float(np.finfo(float).eps)
LEVEL = 0.95
COLUMNS = ("score", "term", "estimate", "standard_error", "z", "p_value", "lower", "upper", "reason")


def report(problem: LinearObjective, v: Vector, labels: list[str], separation: str) -> Diagnostics:
    """Everything recomputed from the flat unknowns v and the rows of `problem`."""
    _, g, H = problem.second(v)
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), np.finfo(float).tiny))
    values, Q = np.linalg.eigh(H * scale[:, None] * scale)
    condition = float(values[-1] / values[0]) if values[0] > 0 else np.inf
    null = Q[:, values <= len(H) * SINGULAR * values[-1]]
    flat = np.asarray(np.abs(null).max(axis=1, initial=0.0) > 1e-6)
    out = Diagnostics()
    out.summary = _summary(problem, v, len(H) - null.shape[1])
    out.summary["hessian_condition"] = condition
    out.certificates = [*_optimality(problem, g, H), *_moments(problem, v)]
    if problem.alpha > 0:
        with np.errstate(over="ignore", invalid="ignore"):
            out.certificates += _gap(problem, v)
    reason = "separable" if separation != "none" else "penalised" if problem.alpha > 0 else None
    out.tables["coefficients"] = _table(problem, v, H, labels, reason, flat)
    return out


def _summary(problem: LinearObjective, v: Vector, unknowns: int) -> dict[str, float | int | None]:
    """Log-likelihood and what follows from it; weights count as repetitions."""
    s = problem.s
    n = float(s.sum())
    ll = -float(s @ problem.loss.value(problem.predictor(v), problem.y))
    constant = problem.loss.start(problem.y, s) if problem.fit_intercept else np.zeros(problem.shape[1])
    null = -np.inf
    if np.isfinite(constant).all():
        null = -float(s @ problem.loss.value(np.tile(constant, (len(s), 1)), problem.y))
    return {
        "rows": len(s), "weight": n, "parameters": unknowns, "log_likelihood": ll, "null_log_likelihood": null,
        "deviance": -2 * ll, "null_deviance": -2 * null, "pseudo_r2": 1 - ll / null if null else None,
        "aic": -2 * ll + 2 * unknowns, "bic": -2 * ll + unknowns * float(np.log(n)), "log_loss": -ll / n,
    }  # fmt: skip


def _optimality(problem: LinearObjective, g: Vector, H: Matrix) -> list[Certificate]:
    n = float(problem.s.sum())
    left = (max(float(g @ inverse(H)(g)), 0.0) * len(problem.s) / n) ** 0.5
    rounding = _rounding(problem)
    return [
        Certificate("gradient_norm", float(np.abs(g).max()) / n, 1e-8 + rounding,
                    "largest partial derivative of the objective per unit of weight, for standardised columns"),
        Certificate("distance_to_optimum", left, 1e-6 + rounding * len(problem.s) ** 0.5,
                    "Newton decrement √(gᵀH⁻¹g): distance to the optimum in standard errors, at a mean weight of 1"),
    ]  # fmt: skip


def _rounding(problem: LinearObjective) -> float:
    """What coefficients in the units of X lose in a score: columns far from 0 cost digits."""
    return 8 * EPS * float((np.abs(problem.columns.mean) / problem.columns.scale).max())


def _moments(problem: LinearObjective, v: Vector) -> list[Certificate]:
    if not problem.fit_intercept:
        return []
    r = problem.loss.gradient(problem.predictor(v), problem.y)
    off = float(np.abs(problem.s @ r).max() / problem.s.sum())
    return [Certificate("moment_match", off, 1e-8 + _rounding(problem),
                        "mean predicted probabilities equal the shares of the classes")]  # fmt: skip


def _gap(problem: LinearObjective, v: Vector) -> list[Certificate]:
    """Primal minus a dual value: with a = s ℓ'(η) and Σ a = 0, D = Σ s(ℓ - ℓ'η) - ‖Xᵀa‖²/(2 alpha) bounds f from below.

    The intercept is refitted first (few Newton steps in q unknowns), so that Σ a = 0 holds to rounding. No bound where
    alpha is so weak, in the units of X, that rounding in ‖Xᵀa‖²/(2 alpha) exceeds the objective.
    """
    s, y, loss = problem.s[:, None], problem.y, problem.loss
    eta = problem.predictor(v)
    shift = np.zeros(eta.shape[1])
    for _ in range(20 if problem.fit_intercept else 0):
        _, r, C = loss.all(eta + shift, y)
        shift -= np.linalg.lstsq((s[:, :, None] * C).sum(axis=0), (s * r).sum(axis=0), rcond=None)[0]
    eta = eta + shift
    value, r = loss.value_gradient(eta, y)
    slopes = problem.unpack(v)[0]
    primal = float(problem.s @ value) + 0.5 * problem.alpha * float((slopes**2).sum())
    D = problem.X - problem.columns.mean
    centred = (s * r).T @ D
    dual = float(problem.s @ (value - (r * eta).sum(axis=1))) - 0.5 * float((centred**2).sum()) / problem.alpha
    lost = 8 * EPS * (s * np.abs(r)).T @ np.abs(D)
    slack = float((lost * (np.abs(centred) + lost)).sum()) / problem.alpha
    size = max(1.0, abs(primal))
    if not slack < size:
        return []
    return [Certificate("duality_gap", (primal - dual) / size, 1e-8 + slack / size,
                        "objective minus a lower bound of its minimum, relative to the objective")]  # fmt: skip


def _table(
    problem: LinearObjective, v: Vector, H: Matrix, labels: list[str], reason: str | None, flat: np.ndarray
) -> Table:
    """Wald table of every score; the intercept first. Standard errors are those of the maximum likelihood estimate."""
    D, q = problem.shape
    K = len(labels)
    M = np.kron(problem.to_raw(), np.eye(q))
    root = None
    if reason is None:
        with np.errstate(over="ignore", invalid="ignore"):
            root = M @ inverse(H)(np.eye(len(H))) @ M.T
    basis = np.ones((1, 1)) if K == 2 else problem.loss.basis  # type: ignore[attr-defined]
    raw = (M @ v).reshape(D, q) @ basis.T
    lost = flat.reshape(D, q).max(axis=1)
    rows: list[list[object]] = []
    for c in range(len(basis)):
        for j in ([D - 1, *range(D - 1)] if problem.fit_intercept else range(D)):
            term: str | int = "intercept" if problem.fit_intercept and j == D - 1 else j
            variance = np.nan
            if root is not None:
                at = slice(j * q, (j + 1) * q)
                variance = float(basis[c] @ root[at, at] @ basis[c])
            why = reason or ("collinear" if lost[j] else None if np.isfinite(variance) else "overflow")
            rows.append([labels[1] if K == 2 else labels[c], term, *_wald(float(raw[j, c]), variance, why)])
    return Table(COLUMNS, rows)


def _wald(estimate: float, variance: float, reason: str | None) -> list[object]:
    """Estimate, standard error, z, two-sided p, interval, and why they are missing."""
    if reason is None and variance <= 0:
        reason = "reference"
    if reason is not None:
        return [estimate, None, None, None, None, None, reason]
    se = float(np.sqrt(variance))
    z = estimate / se
    half = float(ndtri(0.5 + LEVEL / 2)) * se
    return [estimate, se, z, 2 * float(ndtr(-abs(z))), estimate - half, estimate + half, None]
