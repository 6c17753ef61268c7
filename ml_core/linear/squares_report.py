"""Diagnostics of least squares with a squared penalty: certificates, the path over penalties, errors of leaving out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Notice, Table
from ml_core.linear.linear_inference import criteria, mallows
from ml_core.numerics.totals import Total
from ml_core.solvers.shrinkage import Shrinkage
from ml_core.statistics import Moments
from ml_core.sums import Passes

if TYPE_CHECKING:
    from ml_core.linear.penalised_squares import PenalisedSquares

BLOCK = 1 << 16
LEAST = 1e-10
SHOWN = 50


ROUNDING = 1e-5
"""Share of the targets below which a residual is measured by them: 1e-10 of it is rounding."""


@dataclass(frozen=True)
class Press(Total):
    """(a, q) Σ s (y - f₋ᵢ)² for each penalty, f₋ᵢ the prediction by a fit without one copy of row i."""

    errors: Matrix


@dataclass(frozen=True)
class PressPart:
    """The part whose total is `Press`; O(n d (d + a)) and a block of rows of memory."""

    model: PenalisedSquares
    found: Shrinkage
    alphas: Vector

    @classmethod
    def of(cls, m: PenalisedSquares) -> PressPart:
        """For the penalties that the model compares."""
        return cls(m, m._shrinkage(), m._grid())

    def __call__(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Press:
        """Of the rows of X. A row that alone determines a direction (leverage 1) makes the error NaN."""
        m, Y, found = self.model, y.reshape(len(X), -1), self.found
        t, d = m.sums_.triangle, m.sums_.columns
        errors, rows = np.zeros((len(self.alphas), Y.shape[1])), max(64, BLOCK // max(X.shape[1], len(self.alphas)))
        for a in range(0, len(X), rows):
            G = found.directions(m._rows(X[a : a + rows]))
            one = m._copies(s[a : a + rows])[0][:, None]
            left = 1.0 - one * (m._free_bias() + found.leverages(G, self.alphas))
            left[left < LEAST] = np.nan
            for k in range(Y.shape[1]):
                b = 0.0 if m._bias() else t.mean[d + k] + t.rest[d + k]
                r = (Y[a : a + rows, k] - b)[:, None] - found.fitted(G, self.alphas, k)
                errors[:, k] += s[a : a + rows] @ (r / left) ** 2
        return Press(errors)


@dataclass(frozen=True)
class Slopes(Total):
    """Moments of the targets, Σ s r² (q,), [1, X]ᵀS r and the size of its terms (1 + d, q), Σ log s."""

    targets: Moments
    rss: Vector
    gradient: Matrix
    size: Matrix
    logs: float


@dataclass(frozen=True)
class SlopesPart:
    """The part whose total is `Slopes`."""

    model: PenalisedSquares

    def __call__(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Slopes:
        """Of the rows of X."""
        m, Y = self.model, y.reshape(len(X), -1)
        Z = X - m.center_
        r = Y - Z @ m.weights_ - m.offset_
        A, weight = np.hstack([np.ones((len(X), 1)), X]), s[:, None]
        far = m._bias() * (np.abs(m.center_) @ np.abs(m.weights_))  # a penalised bias is the value at 0
        large = np.abs(r) + ROUNDING * (np.abs(Y) + far + np.abs(Z) @ np.abs(m.weights_))
        return Slopes(Moments.of(Y, s), s @ r**2, A.T @ (weight * r), np.abs(A).T @ (weight * large),
                      float(np.log(s).sum()))  # fmt: skip


def gcv(m: PenalisedSquares, found: Shrinkage, alphas: Vector) -> Vector:
    """(a,) n RSS/(n - freedom)², generalised cross-validation; NaN where no freedom is left."""
    n = m._observations()
    free = found.freedom(alphas) + (m.fit_intercept and not m._bias())
    rest = np.where(n > free * (1 + LEAST), n - free, np.nan)
    return np.asarray(n * found.rss(alphas).sum(axis=1) / rest**2)


def audit(m: PenalisedSquares) -> Passes:
    """Statistics, certificates and the path, from one pass over the rows."""
    t: Slopes = yield SlopesPart(m)
    mean, n = t.targets.mean, t.targets.total
    tss = np.diag(t.targets.scatter) + (0.0 if m.fit_intercept else n * mean**2)
    n, logs = m._observations(), t.logs if m.weight_kind == "precision" else 0.0
    free, found = m.effective_parameters_, m._shrinkage()
    noise = _noise(m, found)
    outputs = [[k, float(r), float(v), 1 - float(r / v) if v > 0 else None, *criteria(n, float(r), free, logs),
                None if noise is None else float(mallows(r, free, noise[k], n))]
               for k, (r, v) in enumerate(zip(t.rss, tss, strict=True))]  # fmt: skip
    out = Diagnostics(summary={
        "rows": t.targets.rows, "observations": n, "alpha": m.alpha_, "effective_parameters": free,
        "rss": float(t.rss.sum()), "tss": float(tss.sum()), "r2": outputs[0][3],
        "aic": outputs[0][4], "bic": outputs[0][5], "mallows_cp": outputs[0][6],
        "objective": float(t.rss.sum() + m.alpha_ * _penalty_size(m)),
        "condition_number": _condition(m, found),
        "rank": found.rank + int(m.fit_intercept and not m._bias()), "columns": len(m.weights_) + int(m.fit_intercept),
    })  # fmt: skip
    out.certificates = [_normal_equations(m, t)]
    out.tables["outputs"] = Table(("output", "rss", "tss", "r2", "aic", "bic", "mallows_cp"), outputs)
    out.tables["coefficients"] = _coefficients(m)
    out.curves["path"], out.matrices["path_coefficients"] = _path(m, found)
    if m.choose_alpha == "gcv":
        _chosen(m, out, gcv(m, found, m._grid()), "generalised cross-validation")
    if m.compared_:
        alphas, errors, spread = np.array(m.compared_).T
        out.curves["cross_validation"] = {"x": alphas, "error": errors, "standard_error": spread}
        if m.alpha_ in alphas:
            _chosen(m, out, errors, "cross-validation")
    text = "errors of leaving one row out take all rows in memory; the path has their invariant mean (gcv)"
    out.warnings.append(Notice("rows_not_in_memory", text))
    return out


def _condition(m: PenalisedSquares, found: Shrinkage) -> float | None:
    """Of the centred columns, with weights; null where an operator stands in the penalty, or the rank is short."""
    plain = m._root() is None and found.own == len(m.weights_)
    return float(found.c.max() / found.c[: found.own].min()) if plain and found.own else None


def _noise(m: PenalisedSquares, found: Shrinkage) -> Vector | None:
    """(q,) unbiased noise variance of the fit without penalty, which Mallows's Cp measures by; None without one."""
    zero, n = np.zeros(1), m._observations()
    rest = n - float(found.freedom(zero)[0]) - (m.fit_intercept and not m._bias())
    rss = found.rss(zero)[0]
    return rss / rest if rest > LEAST * n and (rss > 0).all() else None


def _coefficients(m: PenalisedSquares) -> Table:
    """Estimates; a penalty biases them, so errors, tests and intervals of least squares say nothing of them."""
    b, reason = m.offset_ - m.center_ @ m.weights_, "penalised" if m.alpha_ > 0 else "see_linear_regression"
    rows: list[list[object]] = []
    for k in range(len(m.offset_)):
        terms: list[tuple[str | int, float]] = [("intercept", float(b[k]))] if m.fit_intercept else []
        terms += [(j, float(w)) for j, w in enumerate(m.weights_[:, k])]
        rows += [[k, j, w, None, None, None, None, None, reason] for j, w in terms]
    return Table(("output", "term", "estimate", "standard_error", "t", "p", "low", "high", "reason"), rows)


def _pull(m: PenalisedSquares) -> Matrix:
    """(1 + d, q) KᵀK (b, w), the bias's entry 0 unless it is penalised."""
    K, b = m._root(), m.offset_ - m.center_ @ m.weights_
    return np.vstack([b if m._bias() else 0.0 * b, m.weights_ if K is None else K.T @ (K @ m.weights_)])


def _pull_size(m: PenalisedSquares) -> Matrix:
    """(1 + d, q) the size of the terms of `_pull`."""
    K, w = m._root(), np.abs(m.weights_)
    pull = w if K is None else np.abs(K).T @ (np.abs(K) @ w)
    return np.vstack([m._bias() * (np.abs(m.offset_) + np.abs(m.center_) @ w), pull])


def _penalty_size(m: PenalisedSquares) -> float:
    b = m.offset_ - m.center_ @ m.weights_
    return float((np.vstack([b, m.weights_]) * _pull(m)).sum())


def _normal_equations(m: PenalisedSquares, t: Slopes) -> Certificate:
    off = np.abs(t.gradient - m.alpha_ * _pull(m))[0 if m.fit_intercept else 1 :]
    size = (t.size + m.alpha_ * _pull_size(m))[0 if m.fit_intercept else 1 :]
    return Certificate("normal_equations", float((off / np.where(size > 0, size, 1.0)).max()), 1e-10,
                       "[1, X]ᵀS(y - f) = half the slope of the penalty, relative to its terms")  # fmt: skip


def _path(m: PenalisedSquares, found: Shrinkage) -> tuple[dict[str, Any], Matrix]:
    """Of the penalties compared: degrees of freedom, RSS, generalised cross-validation, ‖w‖; slopes of output 0."""
    alphas, first = m._grid(), m._bias()
    fits = [found.solve(float(a))[first:] for a in alphas]
    free = found.freedom(alphas) + (m.fit_intercept and not first)
    curve = {
        "x": alphas, "effective_parameters": free, "rss": found.rss(alphas).sum(axis=1), "gcv": gcv(m, found, alphas),
        "coefficient_norm": np.array([np.linalg.norm(w) for w in fits]),
    }  # fmt: skip
    noise = _noise(m, found)
    if noise is not None:
        curve["mallows_cp"] = mallows(found.rss(alphas), free[:, None], noise, m._observations()).mean(axis=1)
    return curve, np.array([w[:SHOWN, 0] for w in fits])


def _chosen(m: PenalisedSquares, out: Diagnostics, errors: Vector, by: str) -> None:
    """A certificate that no penalty of the grid has a smaller error than the one in use."""
    usable = np.where(np.isfinite(errors), errors, np.inf)
    at = int(np.abs(m._grid() - m.alpha_).argmin())
    excess = float(usable[at] / usable.min() - 1) if usable.min() > 0 else 0.0
    out.certificates.append(Certificate("alpha_choice", excess, 1e-8, f"error by {by} above the least of the grid"))


def add_rows(m: PenalisedSquares, out: Diagnostics, X: Matrix, y: Vector | Matrix, s: Vector) -> Diagnostics:
    """What takes the rows in memory: leverages, errors of leaving one out, at the penalty in use and along the path."""
    out.warnings = [n for n in out.warnings if n.code != "rows_not_in_memory"]
    one, times = m._copies(s)
    h = m._leverages(X) * one
    r = y.reshape(len(X), -1) - (X - m.center_) @ m.weights_ - m.offset_
    left = np.where(1 - h > LEAST, 1 - h, np.nan)[:, None]
    out.summary["leave_one_out_mse"] = float(np.mean(s @ (r / left) ** 2 / s.sum()))
    out.summary["largest_leverage"] = float(h.max())
    off = abs(float(times @ h) - m.effective_parameters_)
    text = "the leverages of the training rows add up to the effective parameters"
    out.certificates.append(Certificate("leverage_sum_error", off, 1e-6 * len(m.center_), text))
    errors = PressPart.of(m)(X, y, s).errors.sum(axis=1)
    out.curves["path"]["leave_one_out_mse"] = errors / s.sum() / r.shape[1]
    if m.choose_alpha == "leave_one_out":
        _chosen(m, out, errors, "leaving one row out")
    return out
