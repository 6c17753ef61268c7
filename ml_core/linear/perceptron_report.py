"""What a perceptron tells of its run: mistakes and their bound, separability, and certificates from the rows given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.linear import linear_decisions
from ml_core.linear.linear_decisions import Decisions
from ml_core.numerics.column_moments import column_moments
from ml_core.solvers.perceptron import Run, widest_margin, wrong_share
from ml_core.solvers.separation import MOST_UNKNOWNS, Margins, apart

if TYPE_CHECKING:
    from ml_core.linear.perceptron import Perceptron

MOST_CELLS = 5_000_000


def remark(m: Perceptron, runs: list[Run], X: Matrix, signs: list[Vector]) -> None:
    """Say of boundaries that did not separate whether any could."""
    names, positive = m.classes_.tolist(), m._positive()
    open_ = [q for q, r in enumerate(runs) if not r.converged]
    kinds = {q: _separable(m, X, signs[q], runs[q].pocket) for q in open_}
    for kind, code, text, advice in (
        ("complete", "not_converged", "can be separated, but were not within max_epochs", "raise max_epochs"),
        ("none", "not_separable", "cannot be separated by a plane, so the corrections would never end; "
         "the answer has the fewest wrong rows of all epochs" if m.answer == "pocket" else
         "cannot be separated by a plane, so the corrections would never end",
         "add features, or use logistic regression or a support vector machine"),
        ("unknown", "not_converged", "were not separated within max_epochs; whether they can be was not found out, "
         "the table is too large for the time", "raise max_epochs, or use logistic regression"),
    ):  # fmt: skip
        found = [q for q in open_ if kinds[q] == kind]
        if found:
            which = "the classes" if len(runs) == 1 else "a class and the rest (" + ", ".join(
                repr(names[positive[q]]) for q in found) + ")"  # fmt: skip
            if code == "not_converged":
                m._note_short(f"{which} {text}", advice)
            else:
                m._note(code, f"{which} {text}", advice)


def _separable(m: Perceptron, X: Matrix, t: Vector, w: Vector) -> str:
    """complete, none (also where rows are left on every separating plane), or unknown."""
    if X.shape[1] + 1 > MOST_UNKNOWNS or X.size > MOST_CELLS:
        return "unknown"
    if m.fit_intercept:
        mean, sd, _ = column_moments(X, np.ones(len(X)))
        Z = np.column_stack([(X - mean) / sd, np.ones(len(X))])
        hint = np.append(w[:-1] * sd, w[-1] + mean @ w[:-1])
    else:
        unit = np.abs(X).max(axis=0)
        unit[unit == 0] = 1.0
        Z, hint = X / unit, w[:-1] * unit
    top = np.abs(hint).max()
    found = apart(Margins(Z, (t > 0).astype(np.int64), 2), (hint / top if top > 0 else hint)[:, None])
    if found is None:
        return "unknown" if progress.late() else "none"
    return "complete"


def report(m: Perceptron, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
    """Boundaries, mistakes, bounds and certificates."""
    K = len(m.classes_)
    t = Decisions(len(X), linear_decisions.confusion(y, m._decide(X), s, K), None)
    out = linear_decisions.outline(m, t)
    X, y, s = m._counted(X, y, s)
    updated = len(m.before_) > 0
    rows: list[list[Any]] = []
    off, excess = 0.0, []
    for q, k in enumerate(m._positive()):
        sign = 2.0 * (y == k) - 1.0
        W = np.append(m.coef_[q], m.intercept_[q])
        wrong = wrong_share(X, sign, s, W, float(m.fit_intercept))
        off = max(off, abs(wrong - m.errors_[q]))
        radius, gap = _bound(m, X, sign, q) if not updated else (None, None)
        bound = None if radius is None or gap is None else radius / gap**2
        if bound is not None and m.start is None:
            excess.append(float(m.effective_[q]) / bound)
        rows.append([m.classes_.tolist()[k], int(m.mistakes_[q]), int(m.epochs_[q]), bool(m.converged_[q]), wrong,
                     radius, gap, bound])  # fmt: skip
    out.tables["mistakes"] = Table(
        ("positive_class", "mistakes", "epochs", "converged", "error", "radius2", "margin", "bound"), rows
    )
    out.summary |= {"mistakes": int(m.mistakes_.sum()), "epochs": m.n_iter_}
    if K == 2:
        out.traces["error"] = m.traces_[0]
    if updated:
        out.certificates = [_replayed(m, X, y, s)]
        return out
    out.certificates = [Certificate("error_difference", off, 1e-12,
                                    "the share of rows on the wrong side is what the fit found")]  # fmt: skip
    if excess:
        out.certificates.append(Certificate("mistakes_over_bound", max(excess), 1 + 1e-9,
            "corrections, (Σs)²/Σs² with weights, over the bound R²/γ² of the widest margin found"))  # fmt: skip
    return out


def _bound(m: Perceptron, X: Matrix, t: Vector, q: int) -> tuple[float | None, float | None]:
    """R² and the widest margin in the space of (x, 1), where the last weights separate the rows given."""
    w = m.last_[q] if m.fit_intercept else m.last_[q, :-1]
    Z = np.column_stack([X, np.ones(len(X))]) if m.fit_intercept else X
    Z = Z * t[:, None]
    if not m.converged_[q] or not (Z @ w > 0).all():
        return None, None
    return float((Z * Z).sum(axis=1).max()), widest_margin(Z, w)


def _replayed(m: Perceptron, X: Matrix, y: Codes, s: Vector) -> Certificate:
    """The last update made again from the weights before it, on the rows given."""
    W = m.before_.copy()
    for q, k in enumerate(m._positive()):
        m._rows(X, 2.0 * (y == k) - 1.0, s).epochs(W[q], W[q].copy(), 1, 0.0)
    size = max(float(np.abs(m.last_).max()), np.finfo(float).tiny)
    return Certificate("replay_error", float(np.abs(W - m.last_).max()) / size, 1e-12,
                       "a pass over these rows from the weights before the update gives those after it")  # fmt: skip
