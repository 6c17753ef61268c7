"""What regressions with other losses than squares say of themselves: coefficients with asymptotic errors, residuals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import pinvh
from scipy.special import ndtr, ndtri

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Diagnostics, Table
from ml_core.linear.conditioning import aliased, condition, singular_values
from ml_core.linear.standard_design import StandardDesign

if TYPE_CHECKING:
    from ml_core.linear.residual_regression import ResidualRegression

LEVEL = 0.95
TOP = 20
CURVE = 2000
ALIASED = "not estimable: the column is a combination of others"


def counts(m: ResidualRegression, s: Vector) -> Vector:
    """(n,) what a row counts for in degrees of freedom: its weight, or 1 on average where weights are precisions."""
    return s if m.weight_kind == "frequency" else s * (len(s) / s.sum())


def report(m: ResidualRegression, D: StandardDesign, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
    """Statistics that every loss has: squares and absolute values of residuals, R², the largest, conditioning."""
    r, n = y - m._predict(X), float(counts(m, s).sum())
    mean = float(s @ y / s.sum()) if m.fit_intercept else 0.0
    rss, tss, free = float(s @ r**2), float(s @ (y - mean) ** 2), n - m.rank_
    r2 = 1 - rss / tss if tss > 0 else None
    out = Diagnostics(summary={
        "rows": len(X), "observations": n, "rank": m.rank_, "columns": X.shape[1] + int(m.fit_intercept),
        "condition_number": condition(singular_values(X, s, m.fit_intercept), D.rank == X.shape[1]),
        "degrees_of_freedom": free, "rss": rss, "tss": tss, "r2": r2,
        "adjusted_r2": None if r2 is None or free <= 0 else 1 - (1 - r2) * (n - m.fit_intercept) / free,
        "mean_absolute_residual": float(s @ np.abs(r) / s.sum()), "largest_residual": float(np.abs(r).max()),
        "iterations": m.n_iter_, "converged": int(m.converged_), "unique": int(m.unique_),
    })  # fmt: skip
    order = np.argsort(-np.abs(r), kind="stable")[:TOP]
    if lost := aliased(D, s):
        out.tables["aliased_columns"] = Table(("column",), [[j] for j in lost])
    f = y - r
    out.tables["largest_residuals"] = Table(
        ("row", "target", "fitted", "residual"), [[int(i), float(y[i]), float(f[i]), float(r[i])] for i in order]
    )
    at = np.arange(0, len(r), max(1, len(r) // CURVE))
    out.curves["residuals"] = {"x": f[at], "y": r[at]}
    out.traces["objective"] = list(m.trace_)
    return out


def put_coefficients(
    m: ResidualRegression, out: Diagnostics, D: StandardDesign, s: Vector, factor: float | None,
    reason: str | None = None,
) -> None:  # fmt: skip
    """The table, and Cov(b, w) = `factor` (A~ᵀSA~)⁻¹ in the units of the table; without a factor errors are null."""
    b = float(m.intercept_)
    terms: list[Any] = ["intercept", *range(len(m.coef_))][0 if m.fit_intercept else 1 :]
    values = [b, *m.coef_.tolist()]
    C = None if factor is None else _covariance(D, counts(m, s), factor)
    lost = 1 - (D.basis**2).sum(axis=1) > 1e-8
    rows: list[list[Any]] = []
    for term in terms:
        j = 0 if term == "intercept" else term + 1
        why = ALIASED if (lost.any() if j == 0 else lost[j - 1]) and D.rank < len(lost) else reason
        if C is None or why:
            rows.append([term, values[j], None, None, None, None, None, why])
            continue
        se = float(np.sqrt(max(C[j, j], 0.0)))
        z = values[j] / se if se > 0 else None
        half = se * float(ndtri(0.5 + LEVEL / 2))
        p = None if z is None else 2 * float(ndtr(-abs(z)))
        why = None if se > 0 else "the fit is exact"
        rows.append([term, values[j], se, z, p, values[j] - half, values[j] + half, why])
    names = ("term", "estimate", "standard_error", "z", "p", "low", "high", "reason")
    out.tables["coefficients"] = Table(names, rows)
    if C is not None:
        out.matrices["coefficient_covariance"] = C if m.fit_intercept else C[1:, 1:]


def _covariance(D: StandardDesign, c: Vector, factor: float) -> Matrix:
    """(1 + d, 1 + d), the intercept first (a row of zeros without one)."""
    first = int(D.intercept)
    G = pinvh((D.A.T * c) @ D.A, check_finite=False)
    T = np.zeros((1 + len(D.scale), D.A.shape[1]))
    T[1:, first:] = D.basis / D.scale[:, None]
    if first:
        T[0] = -D.mean @ T[1:]
        T[0, 0] += 1.0
    return np.asarray(factor * T @ G @ T.T)
