"""Diagnostics of a logistic fit with an l1 penalty, recomputed from its slopes and the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.linear.likelihood_report import COLUMNS, wald
from ml_core.solvers.prox_newton import Sparse, State, prox_newton

GAP = 1e-8
LEAST = 1e-3
SHOWN = 20


def sparse_report(
    problem: Sparse, w: Vector, b: float, label: str, path_length: int, unit: float = 1.0
) -> Diagnostics:
    """Likelihood, duality gap, each column's condition, the slopes and, if asked for, the path of penalties.

    `b` is the log-odds at `problem.centre`.
    Likelihoods count a weight of `unit` as one row; penalties and the objective stay on the scale of the weights.
    """
    at = problem.at(w, b + float(problem.beyond @ w))
    total = float(problem.s.sum())
    loss = at.value - problem.penalty.value(w)
    constant = problem.loss.start(problem.y, problem.s) if problem.fit_intercept else np.zeros(1)
    null = float(problem.s @ problem.loss.value(np.tile(constant, (len(problem.y), 1)), problem.y))
    spread = np.sqrt(np.maximum(problem.s @ np.square(problem.X - problem.mean) / total, np.finfo(float).tiny))
    off = problem.penalty.distance(w, at.pull)
    out = Diagnostics(summary={
        "rows": len(problem.y), "weight": total / unit, "nonzero": int((w != 0).sum()), "objective": at.value,
        "log_likelihood": -loss / unit, "null_log_likelihood": -null / unit, "deviance": 2 * loss / unit,
        "null_deviance": 2 * null / unit,
        "log_loss": loss / total, "alpha_max": problem.alpha_max(),
    })  # fmt: skip
    out.certificates = [
        Certificate("duality_gap", (at.value - at.dual) / max(abs(at.value), np.finfo(float).tiny), GAP,
                    "objective minus a lower bound of its minimum, relative to the objective"),
        Certificate("optimality", float((off / spread).max(initial=0.0)) / total, 1e-6,
                    "largest violation of a column's condition |pull| ≤ alpha, per unit of weight and deviation"),
    ]  # fmt: skip
    bias = b - float(problem.centre @ w)
    terms: list[tuple[str | int, float]] = [("intercept", bias)] if problem.fit_intercept else []
    terms += [(j, float(w[j])) for j in range(len(w))]
    out.tables["coefficients"] = Table(COLUMNS, [[label, t, *wald(v, np.nan, "penalised")] for t, v in terms])
    if path_length:
        _path(problem, path_length, unit, out)
    return out


def _path(problem: Sparse, length: int, unit: float, out: Diagnostics) -> None:
    """Fits from alpha_max to a thousandth of it, each from the last; AIC and BIC count the slopes that are not 0."""
    alphas = problem.alpha_max() * np.geomspace(1.0, LEAST, length)
    total, rows, slopes = float(problem.s.sum()) / unit, [], []
    at: State | None = None
    for i, alpha in enumerate(alphas.tolist()):
        progress.tick(i, length, "penalties")
        here = replace(problem, alpha=alpha)
        _, at = prox_newton(here, tol=1e-9, max_iter=100, start=at)
        on = np.flatnonzero(at.w)
        k, deviance = len(on) + problem.fit_intercept, 2 * (at.value - here.penalty.value(at.w)) / unit
        rows.append((len(on), deviance, deviance + 2 * k, deviance + k * float(np.log(total))))
        slopes.append(at.w)
    names = ("support_size", "deviance", "aic", "bic")
    out.curves["path"] = {"x": alphas} | dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    put_entries(out, alphas, np.array(slopes), SHOWN)


def put_entries(out: Diagnostics, alphas: Vector, slopes: Matrix, shown: int) -> None:
    """Which column entered when, and the slopes (a, ≤ shown) of the first: of slopes (a, d) by falling penalty (a,)."""
    ever = np.flatnonzero(slopes.any(axis=0))
    first = (slopes[:, ever] != 0).argmax(axis=0)
    order = np.argsort(first, kind="stable")
    pairs = zip(ever[order].tolist(), alphas[first[order]].tolist(), strict=True)
    table = [[place, j, alpha] for place, (j, alpha) in enumerate(pairs, 1)]
    out.tables["entry_order"] = Table(("order", "column", "alpha"), table)
    out.matrices["path_coefficients"] = slopes[:, ever[order][:shown]]
