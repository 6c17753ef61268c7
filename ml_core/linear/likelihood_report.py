"""Diagnostics of a penalised likelihood that is linear in its unknowns: certificates, statistics, coefficient table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Notice, Table
from ml_core.solvers.base import Solution, Steps, Totals
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.linear_parts import Frame
from ml_core.solvers.newton import SINGULAR, inverse

EPS = float(np.finfo(float).eps)
LEVEL = 0.95
NOT_IN_MEMORY = Notice("rows_not_in_memory", "leverages, residuals and Cook's distances take all rows in memory and "
                       "are not given", "ask for the diagnostics of a sample of the rows")  # fmt: skip
SETTLED = 1e-9  # a Newton step this small leaves rounding
COLUMNS = ("score", "term", "estimate", "standard_error", "z", "p", "low", "high", "vif", "reason")


@dataclass(frozen=True)
class FactsPart:
    """Σ of gradient, Hessian, weight, rows, loss, residuals s ∂ℓ/∂η (q,) and weight per class (K,), at unknowns v."""

    frame: Frame
    v: Vector
    classes: int

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> Totals:
        """Of rows."""
        problem = self.frame.over(X, y, s)
        _, g, H = problem.second(self.v)
        value, r = problem.loss.value_gradient(problem.predictor(self.v), problem.y)
        shares = np.bincount(problem.y.astype(np.int64), problem.s, self.classes)
        return Totals((g, H, float(problem.s.sum()), len(problem.s), float(problem.s @ value), problem.s @ r, shares))


@dataclass(frozen=True)
class ShiftPart:
    """Σ s ∂²ℓ (q, q) and Σ s ∂ℓ (q,) in the intercept, scores moved by `shift` (q,)."""

    frame: Frame
    v: Vector
    shift: Vector

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> Totals:
        """Of rows."""
        problem = self.frame.over(X, y, s)
        _, r, C = problem.loss.all(problem.predictor(self.v) + self.shift, problem.y)
        weight = problem.s[:, None]
        return Totals(((weight[:, :, None] * C).sum(axis=0), (weight * r).sum(axis=0)))


@dataclass(frozen=True)
class DualPart:
    """Σ s ℓ, Σ s (ℓ - ℓ'η), Σ s ℓ' (x - mean)ᵀ (q, d) and Σ s ℓ' (q,), each with its rounding, at scores + `shift`."""

    frame: Frame
    v: Vector
    shift: Vector

    def __call__(self, X: Matrix, y: Codes, s: Vector) -> Totals:
        """Of rows."""
        problem = self.frame.over(X, y, s)
        eta = problem.predictor(self.v) + self.shift
        value, r = problem.loss.value_gradient(eta, problem.y)
        D, a = problem.X - problem.columns.mean, problem.s[:, None] * r
        size = 8 * EPS * np.abs(a)
        with np.errstate(over="ignore", invalid="ignore"):
            return Totals((float(problem.s @ value), float(problem.s @ (value - (r * eta).sum(axis=1))), a.T @ D,
                           size.T @ np.abs(D), a.sum(axis=0), size.sum(axis=0)))  # fmt: skip


def report(frame: Frame, v: Vector, labels: list[str], separation: str) -> Steps[Diagnostics]:
    """Everything recomputed from the flat unknowns v and sums over the rows, which are asked for."""
    problem = frame.penalty()
    facts: Totals = yield FactsPart(frame, v, len(labels))
    _, g, H = problem.second(v)
    g, H = facts.each[0] + g, facts.each[1] + H
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), np.finfo(float).tiny))
    values, Q = np.linalg.eigh(H * scale[:, None] * scale)
    condition = float(values[-1] / values[0]) if values[0] > 0 else np.inf
    null = Q[:, values <= len(H) * SINGULAR * values[-1]]
    flat = np.asarray(np.abs(null).max(axis=1, initial=0.0) > 1e-6)
    out = Diagnostics()
    out.summary = _summary(frame, facts, len(H) - null.shape[1])
    out.summary["hessian_condition"] = condition
    out.certificates = [*_optimality(frame, v, facts, g, H), *_moments(frame, facts)]
    if frame.alpha > 0:
        out.certificates += yield from _gap(frame, v)
    reason = "separable" if separation != "none" else "penalised" if frame.alpha > 0 else None
    out.tables["coefficients"] = _table(problem, v, H, labels, reason, flat)
    return out


def put_run(out: Diagnostics, found: Solution) -> None:
    """The objective by iteration; the solver that gave the answer, its iterations and why it ended."""
    out.traces["objective"] = list(found.trace)
    out.tables["solver"] = Table(("solver", "iterations", "stopped_by"), [[found.solver, found.n_iter, found.reason]])


def _summary(frame: Frame, facts: Totals, unknowns: int) -> dict[str, float | int | None]:
    """Log-likelihood and what follows from it; weights count as repetitions."""
    _, _, n, rows, loss, _, shares = facts.each
    ll, codes = -loss, np.arange(len(shares), dtype=np.float64)
    constant = frame.loss.start(codes, shares) if frame.fit_intercept else np.zeros(frame.loss.width)
    null = -np.inf
    if np.isfinite(constant).all():
        null = -float(shares @ frame.loss.value(np.tile(constant, (len(shares), 1)), codes))
    return {
        "rows": rows, "weight": n, "parameters": unknowns, "log_likelihood": ll, "null_log_likelihood": null,
        "deviance": -2 * ll, "null_deviance": -2 * null, "pseudo_r2": 1 - ll / null if null else None,
        "aic": -2 * ll + 2 * unknowns, "bic": -2 * ll + unknowns * float(np.log(n)), "log_loss": -ll / n,
    }  # fmt: skip


def _optimality(frame: Frame, v: Vector, facts: Totals, g: Vector, H: Matrix) -> list[Certificate]:
    n, rows = facts.each[2:4]
    left = (max(float(g @ inverse(H)(g)), 0.0) * rows / n) ** 0.5
    rounding, problem = _rounding(frame), frame.penalty()
    pulled = 0.0
    if problem.bias is not None:  # the slope of the penalty on the value at 0, a difference of large numbers
        u = np.abs(problem.bias)
        pulled = 8 * EPS * float((np.outer(u, u @ np.abs(v.reshape(problem.shape)))).max()) / n
    return [
        Certificate("gradient_norm", float(np.abs(g).max()) / n, 1e-8 + rounding + pulled,
                    "largest partial derivative of the objective per unit of weight, for standardised columns"),
        Certificate("distance_to_optimum", left, 1e-6 + rounding * rows ** 0.5,
                    "Newton decrement √(gᵀH⁻¹g): distance to the optimum in standard errors, at a mean weight of 1"),
    ]  # fmt: skip


def _rounding(frame: Frame) -> float:
    """What coefficients in the units of X lose in a score: columns far from 0 cost digits."""
    return 8 * EPS * float((np.abs(frame.columns.mean) / frame.columns.scale).max())


def _moments(frame: Frame, facts: Totals) -> list[Certificate]:
    if not frame.fit_intercept or frame.penalty().penalize_bias:
        return []
    off = float(np.abs(facts.each[5]).max() / facts.each[2])
    return [Certificate("moment_match", off, 1e-8 + _rounding(frame),
                        "mean predicted probabilities equal the shares of the classes")]  # fmt: skip


def _gap(frame: Frame, v: Vector) -> Steps[list[Certificate]]:
    """Primal minus a dual value: with a = s ℓ'(η) and Σ a = 0, D = Σ s(ℓ - ℓ'η) - ‖Xᵀa‖²/(2 alpha) bounds f from below.

    The intercept is refitted first (few Newton steps in q unknowns), so that Σ a = 0 holds to rounding. No bound where
    alpha is so weak, in the units of X, that rounding in ‖Xᵀa‖²/(2 alpha) exceeds the objective. A penalised bias is
    one more column of ones, and Σ a is free.
    """
    shift, problem = np.zeros(frame.loss.width), frame.penalty()
    for _ in range(20 if frame.fit_intercept and not problem.penalize_bias else 0):
        C, r = (yield ShiftPart(frame, v, shift)).each
        step = np.linalg.lstsq(C, r, rcond=None)[0]
        shift = shift - step
        if np.abs(step).max() <= SETTLED:
            break
    loss, below, centred, lost, total, unsure = (yield DualPart(frame, v, shift)).each
    (slopes, bias), alpha, mean = problem.unpack(v), frame.alpha, frame.columns.mean
    if problem.penalize_bias:
        slopes, centred = np.column_stack([slopes, bias]), np.column_stack([centred + np.outer(total, mean), total])
        lost = np.column_stack([lost + np.outer(unsure + EPS * np.abs(total), np.abs(mean)), unsure])
    with np.errstate(over="ignore", invalid="ignore"):
        primal = loss + 0.5 * alpha * float((slopes**2).sum())
        dual = below - 0.5 * float((centred**2).sum()) / alpha
        slack = float((lost * (np.abs(centred) + lost)).sum()) / alpha
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
    unit = sizes(problem.to_raw)
    M = np.kron(problem.to_raw / unit[:, None], np.eye(q))
    root, vif = None, [np.nan] * D
    if reason is None:
        with np.errstate(over="ignore", invalid="ignore"):
            C = inverse(H)(np.eye(len(H)))
            root = M @ C @ M.T
        vif = inflation(H, C, q, problem.fit_intercept)
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
            rows.append([labels[1] if K == 2 else labels[c], term,
                         *wald(float(raw[j, c]), variance, why, vif=vif[j], unit=float(unit[j]))])  # fmt: skip
    return Table(COLUMNS, rows)


def inflation(H: Matrix, C: Matrix, q: int, intercept: bool) -> list[float]:
    """(D,) how much the other columns widen a slope's squared error, NaN of the intercept, which is the last term.

    Of information H and covariance C (D q, D q), q scores per column: det(Cⱼⱼ Sⱼⱼ)^(1/q), S the information once the
    intercept is fitted. One score in least squares: 1/(1 - Rⱼ²). Source: Fox, Monette (1992), Generalized collinearity
    diagnostics, JASA 87.
    """
    d = len(H) // q - intercept
    at = [slice(j * q, (j + 1) * q) for j in range(d)]
    if intercept:
        H = H[:-q, :-q] - H[:-q, -q:] @ inverse(H[-q:, -q:])(H[-q:, :-q])
    with np.errstate(over="ignore", invalid="ignore"):
        logs = [np.linalg.slogdet(C[i, i])[1] + np.linalg.slogdet(H[i, i])[1] for i in at]
        each = [float(np.exp(v / q)) for v in logs]
    return [*each, *[np.nan] * intercept]


def sizes(M: Matrix) -> Vector:
    """(D,) the largest entry of each row, 1 for a row of zeros: units in which squares neither overflow nor vanish."""
    top = np.abs(M).max(axis=1, initial=0.0)
    return np.where(top > 0, top, 1.0)


def wald(
    estimate: float, variance: float, reason: str | None, freedom: float = np.inf, vif: float = np.nan,
    unit: float = 1.0,
) -> list[Any]:  # fmt: skip
    """Estimate, standard error, z (t of `freedom` degrees), two-sided p, interval, VIF, and why they are missing.

    `estimate` and `variance` are in units of `unit`.
    """
    if reason is None and variance <= 0:
        reason = "reference"
    if reason is not None:
        return [unit * estimate, None, None, None, None, None, None, reason]
    se = float(np.sqrt(variance))
    z = estimate / se
    normal = freedom == np.inf
    half = float(ndtri(0.5 + LEVEL / 2) if normal else stdtrit(freedom, 0.5 + LEVEL / 2)) * se
    p = 2 * float(ndtr(-abs(z)) if normal else stdtr(freedom, -abs(z)))
    low, high = unit * (estimate - half), unit * (estimate + half)
    return [unit * estimate, unit * se, z, p, low, high, vif if np.isfinite(vif) else None, None]
