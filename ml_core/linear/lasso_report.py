"""Diagnostics of a lasso, recomputed from its slopes and the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import svdvals

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Notice, Table
from ml_core.linear.lasso_problem import Problem
from ml_core.linear.linear_inference import criteria, mallows
from ml_core.linear.sparse_report import put_entries
from ml_core.solvers.unit_columns import Columns

if TYPE_CHECKING:
    from ml_core.linear.lasso import Lasso

EPS = float(np.finfo(float).eps)
LEAST = 1e-3
TIE = 1e-9
MOST_TERMS = 1000
SHOWN = 50


def report(m: Lasso, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
    """Everything; the path costs about as much as that many fits from a near start."""
    problem = Problem.of(m, X, y, s)
    Z, on, n = problem.Z, np.flatnonzero(m.coef_), m._observations(s)
    r = y - m._predict(X)
    rss, tss = float(s @ r**2), problem.size**2
    free = _freedom(m, Z, on) + m.fit_intercept
    aic, bic = criteria(n, rss, free, _logs(m, s))
    out = Diagnostics(summary={
        "rows": len(X), "observations": n, "alpha": m.alpha_, "alpha_l2": m.alpha_l2_, "alpha_max": m.alpha_max_,
        "support_size": len(on), "effective_parameters": free, "rss": rss, "r2": 1 - rss / tss if tss > 0 else None,
        "adjusted_r2": 1 - rss / tss * (n - 1) / (n - free) if tss > 0 and n > free else None,
        "objective": rss + m.alpha_ * float(m.units_ @ np.abs(m.coef_)) + m.alpha_l2_ * float(m.units_**2 @ m.coef_**2),
        "iterations": m.n_iter_, "aic": aic, "bic": bic,
    })  # fmt: skip
    out.certificates = _certificates(m, problem)
    rows = [[int(j), float(m.coef_[j]), float(m.coef_[j] * Z.length[j] / s.sum() ** 0.5)] for j in on]
    out.tables["support"] = Table(("column", "coefficient", "standardized"), rows)
    out.tables["coefficients"] = _coefficients(m)
    _ties(m, Z, r, tss, out)
    if m.path_length and m.alpha_max_ > 0:
        _path(m, problem, n, _logs(m, s), out)
    if m.compared_:
        alphas, errors, deviation = np.array(m.compared_).T
        out.curves[m.choose_alpha] = {"x": alphas, "error": errors, "standard_error": deviation}
    return out


def reports(m: Lasso, X: Matrix, Y: Matrix, s: Vector) -> Diagnostics:
    """Of several targets: the first's in full, then certificates and statistics of each."""
    each = [report(m._output(k), X, np.ascontiguousarray(Y[:, k]), s) for k in range(Y.shape[1])]
    out = each[0]
    keys = ("rss", "r2", "support_size", "effective_parameters", "objective")
    for k, other in enumerate(each[1:], 1):
        out.certificates += [replace(c, name=f"{c.name}_{k}") for c in other.certificates]
        out.warnings += [n for n in other.warnings if n not in out.warnings]
    out.tables["outputs"] = Table(("output", *keys), [[k, *(e.summary[v] for v in keys)] for k, e in enumerate(each)])
    rows = [[k, *row] for k, e in enumerate(each) for row in e.tables["support"].rows]
    out.tables["support"] = Table(("output", *out.tables["support"].columns), rows)
    return out


def _coefficients(m: Lasso) -> Table:
    """Estimates of a first target; tests that ignore how columns were chosen would say too much of those that stay."""
    terms: list[tuple[str | int, float]] = [("intercept", float(m.intercept_))] if m.fit_intercept else []
    terms += [(j, float(w)) for j, w in enumerate(m.coef_) if w != 0 or len(m.coef_) <= MOST_TERMS]
    reasons = ["left_out" if w == 0 and j != "intercept" else "penalised" for j, w in terms]
    rows: list[list[object]] = [
        [j, w, None, None, None, None, None, why] for (j, w), why in zip(terms, reasons, strict=True)
    ]
    return Table(("term", "estimate", "standard_error", "t", "p", "low", "high", "reason"), rows)


def _logs(m: Lasso, s: Vector) -> float:
    return float(np.log(s).sum()) if m.weight_kind == "precision" else 0.0


def _freedom(m: Lasso, Z: Columns, on: np.ndarray) -> float:
    """The rank of the columns with weight; with a squared penalty the trace of their hat matrix.

    Source: Zou, Hastie, Tibshirani (2007), On the degrees of freedom of the lasso, Annals of Statistics 35(5).
    """
    if not len(on):
        return 0.0
    at = Z.take(on)
    G = Z.gram[np.ix_(at, at)]
    if m.alpha_l2_ == 0:
        size = svdvals(G)
        return float((size > len(on) * EPS * size[0]).sum())
    mu = m.alpha_l2_ * (m.units_[on] / Z.length[on]) ** 2
    return float(np.trace(np.linalg.solve(G + np.diag(mu), G)))


def _certificates(m: Lasso, problem: Problem) -> list[Certificate]:
    """The duality gap and the largest violation of the conditions of the minimum, both relative."""
    gap, off = problem.state(m.coef_, m.alpha_)
    weight = np.abs(m.coef_) * problem.Z.length / (problem.size or 1.0)
    noise = 16 * float((problem.Z.sure * (1 + weight)).max(initial=0.0))
    return [
        Certificate("duality_gap", 2 * gap.gap, max(m.tol, 1e-12 + noise),
                    "objective above its dual bound, as a share of Σ s(y - ȳ)²"),
        Certificate("optimality", float(off.max(initial=0.0)), max(m.tol**0.5, 1e-12 + noise),
                    "largest violation of |2xⱼᵀSr - 2 alpha_l2 wⱼ| ≤ alpha (equal where wⱼ ≠ 0), as a cosine"),
    ]  # fmt: skip


def _ties(m: Lasso, Z: Columns, r: Vector, tss: float, out: Diagnostics) -> None:
    """Note where columns at their bound depend on each other: then other slopes have the same objective."""
    if tss == 0 or m.alpha_l2_ > 0 or m.alpha_ >= m.alpha_max_:
        return
    pull = 2 * np.abs(Z.correlations(r)) * Z.length
    at = np.flatnonzero((Z.length > 0) & (pull >= m.alpha_ * m.units_ * (1 - TIE)))
    if not 1 < len(at) <= 2 * len(r):
        return
    where = Z.take(at)
    size = svdvals(Z.gram[np.ix_(where, where)])
    rank = int((size > len(at) * 64 * EPS * size[0]).sum())
    if rank < len(at):
        out.warnings.append(Notice(
            "not_unique", f"{len(at)} columns are at their bound and only {rank} of them are independent: other slopes "
            "reach the same objective and predictions", "drop duplicates, or set alpha_l2 above 0"))  # fmt: skip


def _path(m: Lasso, problem: Problem, n: float, logs: float, out: Diagnostics) -> None:
    """Fits from alpha_max down to a thousandth of it, each from the last: curves, and which column entered when."""
    Z = problem.Z
    alphas = m.alpha_max_ * np.geomspace(1.0, LEAST, m.path_length)
    rows, slopes = [], []
    for i, (_, w) in enumerate(problem.path(alphas, m.tol, m.max_iter)):
        progress.tick(i, len(alphas), "penalties")
        on = np.flatnonzero(w)
        r = Z.residual(problem.t, w * problem.lengths())
        rss = float(Z.s @ r**2)
        both = criteria(n, rss, len(on) + m.fit_intercept, logs)
        rows.append((len(on), rss, float(np.abs(w * m.units_).sum()), *both))
        slopes.append(w)
    names = ("support_size", "rss", "l1_norm", "aic", "bic")
    curve: dict[str, Any] = {"x": alphas} | dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    least, rest = rows[-1][1], n - rows[-1][0] - m.fit_intercept
    out.summary["mallows_cp"] = None
    if least > 0 and rest > 0:
        curve["mallows_cp"] = [mallows(v, k + m.fit_intercept, least / rest, n) for k, v, *_ in rows]
        rss, free = (float(out.summary[name] or 0) for name in ("rss", "effective_parameters"))
        out.summary["mallows_cp"] = mallows(rss, free, least / rest, n)
    out.curves["path"] = curve
    put_entries(out, alphas, np.array(slopes), SHOWN)
