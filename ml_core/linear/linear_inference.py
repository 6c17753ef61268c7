"""Classical inference and diagnostics of a fitted linear model, recomputed from its parameters and the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.linear.conditioning import condition, singular_values
from ml_core.numerics.singular import graded, graded_rank, lengths
from ml_core.selection.left_out import copies
from ml_core.solvers.least_squares import EPS, ROUNDINGS
from ml_core.solvers.linear_model import ESTIMABLE

if TYPE_CHECKING:
    from ml_core.linear.linear_regression import LinearRegression

TINY = float(np.finfo(float).tiny)
TOP = 20
CURVE = 2000
SMALL = 64
LEVEL = 0.95


def mean_variance(m: LinearRegression, X: Matrix) -> Vector:
    """(n,) Var f(x)/σ²; infinite where f(x) is not estimable, that is (1, x) is outside the row space of the design."""
    Z = X - m.center_
    h = ((m.root_[0] + Z @ m.root_[1:]) ** 2).sum(axis=1)
    if len(m.rows_):
        A = np.hstack([np.full((len(X), 1), float(m.fit_intercept)), Z / m.scale_])
        outside = A - (A @ m.rows_) @ m.rows_.T
        size = np.abs(X).max(axis=0, initial=0.0) / m.scale_
        lost = np.sqrt((outside**2).sum(axis=1)) > ESTIMABLE * np.sqrt((A**2).sum(axis=1)) + 64 * EPS * size.max()
        h[lost] = np.inf
    return np.asarray(h)


def condition_bound(m: LinearRegression) -> float:
    """‖X~‖‖X~⁺‖ in the Frobenius norm: between the condition number and p times it; O(d²)."""
    with np.errstate(over="ignore"):
        return float(m.sums_.size() * np.sqrt(np.nansum(np.square(m.deviations_))))


def digits_left(m: LinearRegression, raw: Vector, spread: Vector, left: Vector) -> float | None:
    """Decimal digits of the slopes that rounding each cell leaves, at least; null where those of an output are all 0.

    `raw` (d + q,) are the lengths of [X, Y], `spread` (d,) those about the mean with an intercept, `left` (q,) those of
    the residuals.
    The slopes w of columns A of unit length move by at most ‖A⁺‖(‖δA‖ + (‖δy‖ + ‖A⁺‖‖δA‖‖y - f‖)/‖w‖) of their length,
    to first order: Björck (1996), Numerical Methods for Least Squares Problems, 1.4.
    """
    real, d = np.isfinite(m.deviations_[1:]) & (spread > 0), len(spread)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        inverse = np.linalg.norm((spread * m.deviations_[1:])[real])
        moved = np.linalg.norm((raw[:d] / spread)[real])
        about = raw[d:] + inverse * moved * left
        loss = float(EPS * inverse * (moved + (about / lengths(spread[real, None] * m.weights_[real])).max()))
    return float(np.clip(-np.log10(loss), 0, -np.log10(EPS))) if 0 < loss < np.inf else None


@dataclass(frozen=True)
class Residuals:
    """Fitted values and residuals (n, q), leverage h (n,) and its multiplicity, standardised residuals (n, q)."""

    fitted: Matrix
    raw: Matrix
    h: Vector
    standardized: Matrix
    studentized: Matrix
    cook: Matrix
    times: Vector

    @classmethod
    def of(cls, m: LinearRegression, X: Matrix, Y: Matrix, s: Vector) -> Residuals:
        """Internally and externally studentised residuals and Cook's distances; NaN where h = 1 or df is exhausted."""
        f = (X - m.center_) @ m.weights_ + m.offset_
        r, h = Y - f, mean_variance(m, X)
        one, times = copies(s, precise=m.weight_kind == "precision")
        h = np.minimum(h * one, 1.0)
        free = np.where(1 - h > 1e-10, 1 - h, np.nan)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            e = r * np.sqrt(one)[:, None] / np.sqrt(free)
            t = e / np.sqrt(np.where(m.sigma2_ > 0, m.sigma2_, np.nan))
            left = (m.df_ * m.sigma2_ - e**2) / (m.df_ - 1) if m.df_ > 1 else np.full(e.shape, np.nan)
            deleted = e / np.sqrt(np.where(left > 0, left, np.nan))
            cook = t**2 * (h[:, None] / free) / max(m.rank_, 1)
        return cls(f, r, h, t, deleted, cook, times)


def diagnose(m: LinearRegression, X: Matrix, Y: Matrix, s: Vector) -> Diagnostics:
    """All of it; O(n d²) for the singular values."""
    e = Residuals.of(m, X, Y, s)
    outputs = [_output(m, Y[:, k], s, e, k) for k in range(Y.shape[1])]
    sizes = singular_values(X, s, m.fit_intercept)
    out = Diagnostics(summary={
        "rows": len(X), "observations": m.n_, "rank": m.rank_, "columns": X.shape[1] + int(m.fit_intercept),
        "degrees_of_freedom": m.df_, "condition_number": condition(sizes, m.rank_ == X.shape[1] + m.fit_intercept),
        "largest_singular_value": float(sizes[0]), "smallest_singular_value": float(sizes[-1]),
        "gradient_step_bound": 2.0 * float(s.sum()) / float(sizes[0]) / float(sizes[0]) if sizes[0] > 0 else None,
        "largest_leverage": float(e.h.max()), **(outputs[0] if len(outputs) == 1 else {}),
    })  # fmt: skip
    out.certificates = _certificates(m, X, Y, s, e)
    spread = _spread(m, X, s)
    out.summary["digits_left"] = digits_left(m, lengths(np.hstack([X, Y]), s), spread, lengths(e.raw, s))
    out.tables = {"coefficients": coefficients(m, spread), "influential_rows": _influence(e)}
    out.tables["outputs"] = Table(("output", *outputs[0]), [[k, *o.values()] for k, o in enumerate(outputs)])
    if m.aliased_:
        out.tables["aliased_columns"] = Table(("column",), [[j] for j in m.aliased_])
    if m.powers_:
        out.tables["exact_powers"] = Table(("column", "base", "exponent"), [list(q) for q in m.powers_])
    out.tables["solver"] = solver(m)
    out.traces = {f"objective_{k}" if k else "objective": a.trace for k, a in enumerate(m.solutions_)}
    if m.solutions_[0].reason == "direct":
        out.traces = {"relative_correction": m.solutions_[0].trace}
    out.curves = _curves(e)
    out.matrices = _matrices(m, X, s, sizes)
    return out


def solver(m: LinearRegression) -> Table:
    """The solver that gave the answer of each output, its iterations (refinements of a direct one), why it ended."""
    rows = [[k, m.solver_, a.n_iter, a.reason] for k, a in enumerate(m.solutions_)]
    return Table(("output", "solver", "iterations", "stopped_by"), rows)


def _augmented(m: LinearRegression, X: Matrix) -> Matrix:
    return np.hstack([np.ones((len(X), 1)), X]) if m.fit_intercept else X


def _output(m: LinearRegression, y: Vector, s: Vector, e: Residuals, k: int) -> dict[str, float | None]:
    """Fit statistics of one output."""
    tss = float(s @ (y - (s @ y / s.sum() if m.fit_intercept else 0.0)) ** 2)
    logs = float(np.log(s).sum()) if m.weight_kind == "precision" else 0.0
    free = np.where(1 - e.h > 1e-10, 1 - e.h, np.nan)
    return statistics(m, float(s @ e.raw[:, k] ** 2), tss, logs) | {
        "leave_one_out_mse": float(np.sum(s * (e.raw[:, k] / free) ** 2) / s.sum()),
        "largest_studentized_residual": _top(e.studentized[:, k]), "largest_cook_distance": _top(e.cook[:, k]),
    }  # fmt: skip


def statistics(m: LinearRegression, rss: float, tss: float, logs: float) -> dict[str, float | None]:
    """Those that sums tell. The variance is no parameter in AIC and BIC; R² is about 0 without intercept."""
    n = m.n_
    r2, mle = (1 - rss / tss if tss > 0 else None), rss / n
    like = 0.5 * (logs - n * (np.log(2 * np.pi * mle) + 1)) if mle > 0 else None
    return {
        "rss": rss, "tss": tss, "r2": r2,
        "adjusted_r2": None if r2 is None or m.df_ <= 0 else 1 - (1 - r2) * (n - m.fit_intercept) / m.df_,
        "sigma2_unbiased": rss / m.df_ if m.df_ > 0 else None, "sigma2_mle": mle, "log_likelihood": like,
        "mallows_cp": mallows(rss, m.rank_, rss / m.df_, n) if m.df_ > 0 else None,
        "aic": None if like is None else 2 * m.rank_ - 2 * like,
        "bic": None if like is None else m.rank_ * float(np.log(n)) - 2 * like,
    }  # fmt: skip


def criteria(n: float, rss: float, parameters: float, logs: float) -> tuple[float | None, float | None]:
    """AIC and BIC of Gaussian noise whose variance is learned, and not counted among the parameters.

    `logs` is Σ log s where s are precisions, else 0.
    """
    if rss <= 0:
        return None, None
    fit = n * (np.log(2 * np.pi * rss / n) + 1) - logs
    return float(fit + 2 * parameters), float(fit + np.log(n) * parameters)


def mallows(rss: Any, parameters: Any, noise: Any, n: float) -> Any:
    """Mallows's Cp, (RSS + 2 M σ²)/n, with M parameters and the noise variance σ² of the largest model."""
    return (rss + 2 * parameters * noise) / n


def _top(v: Vector) -> float | None:
    return None if np.isnan(v).all() else float(np.nanmax(np.abs(v)))


def _spread(m: LinearRegression, X: Matrix, s: Vector) -> Vector:
    return lengths(X - (s @ X / s.sum() if m.fit_intercept else 0.0), s)


def coefficients(m: LinearRegression, spread: Vector) -> Table:
    """Estimate, standard error, t, two-sided p, interval, VIF; null with the reason where a figure has no meaning.

    `spread` (d,) holds the lengths of the columns, about their mean with an intercept.
    """
    vif = [None, *((spread * m.deviations_[1:]) ** 2).tolist()]
    terms: list[Any] = ["intercept", *range(len(spread))][0 if m.fit_intercept else 1 :]
    rows = []
    for k in range(m.weights_.shape[1]):
        w = [np.ravel(m.intercept_)[k], *m.weights_[:, k]]
        for term in terms:
            j = 0 if term == "intercept" else term + 1
            rows.append([k, term, float(w[j]), *_inference(m, float(w[j]), j, k), vif[j], _reason(m, j, k)])
    columns = ("output", "term", "estimate", "standard_error", "t", "p", "low", "high", "vif", "reason")
    return Table(columns, [[_none(v) for v in row] for row in rows])


def _none(v: Any) -> Any:
    return None if isinstance(v, float) and not np.isfinite(v) else v


def _reason(m: LinearRegression, j: int, k: int) -> str | None:
    if np.isnan(m.deviations_[j]):
        return "not estimable: the column is a combination of others"
    if m.df_ <= 0:
        return "no residual degrees of freedom"
    return None if m.sigma2_[k] > 0 else "the fit is exact"


def _inference(m: LinearRegression, w: float, j: int, k: int) -> list[float | None]:
    if _reason(m, j, k) not in (None, "the fit is exact"):
        return [None] * 5
    se = float(m.deviations_[j] * np.sqrt(m.sigma2_[k]))
    half = se * float(stdtrit(m.df_, 0.5 + LEVEL / 2))
    t = w / se if se > 0 else None
    p = None if t is None else float(2 * stdtr(m.df_, -abs(t)))
    return [se, t, p, w - half, w + half]


def _influence(e: Residuals) -> Table:
    """The rows with the largest Cook distances and studentised residuals."""
    rows = []
    for k in range(e.raw.shape[1]):
        size = np.nan_to_num(np.abs(e.studentized[:, k])) + np.nan_to_num(e.cook[:, k]) + 1e-9 * e.h
        for i in np.argsort(-size, kind="stable")[:TOP]:
            cells = (e.fitted[i, k], e.raw[i, k], e.h[i], e.standardized[i, k], e.studentized[i, k], e.cook[i, k])
            rows.append([int(i), k, *(_none(float(c)) for c in cells)])
    columns = ("row", "output", "fitted", "residual", "leverage", "standardized", "studentized", "cook_distance")
    return Table(columns, rows)


def _certificates(m: LinearRegression, X: Matrix, Y: Matrix, s: Vector, e: Residuals) -> list[Certificate]:
    A = np.hstack([np.full((len(X), 1), float(m.fit_intercept)), X - m.center_])
    size = lengths(A, s)
    faked = ROUNDINGS * EPS * np.sqrt(s.sum()) * np.append(0.0, np.abs(X).max(axis=0)) * m.fit_intercept
    A, size = A[:, size > faked] / size[size > faked], size[size > faked]
    noise = 4 * EPS * np.sqrt(s @ (np.abs(Y) + np.abs(m.offset_) + np.abs(X - m.center_) @ np.abs(m.weights_)) ** 2)
    length = np.sqrt(s @ e.raw**2)
    angle = np.abs(A.T @ (s[:, None] * e.raw))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.where(length > 0, angle / length, 0.0).max(initial=0.0)
        if m.solutions_[0].reason != "direct":
            first = _first_gradient(m, X, Y, s) * (1 + np.abs(m.center_).max())
            noise = noise + m.tol * first / size.min(initial=np.inf)
        slack = np.where(length > 0, np.minimum(noise / length, 1.0), 0.0).max()
    out = [
        Certificate("normal_equations", float(cosine), float(1e-12 * np.sqrt(len(X)) + slack),
                    "backward error: largest cosine of residuals and a centred column, 0 at the minimum but for tol"),
        Certificate("leverage_sum_error", float(abs(e.times @ e.h - m.rank_)), 1e-6 * max(m.rank_, 1),
                    "the leverages of the training rows add up to the rank"),
    ]  # fmt: skip
    if m.aliased_:
        out.append(_least_norm(m, X))
    return out


def _first_gradient(m: LinearRegression, X: Matrix, Y: Matrix, s: Vector) -> float:
    """Largest partial derivative at w~ = 0, the unit in which iterations stop; centred columns differ from raw ones."""
    return float(np.abs(_augmented(m, X).T @ (s[:, None] * Y)).max(initial=0.0))


def _least_norm(m: LinearRegression, X: Matrix) -> Certificate:
    """Whether the solution lies in the row space of the (augmented or centred) design: then no shorter one exists."""
    free = m.fit_intercept and m.min_norm == "centered"
    A = X - X.mean(axis=0) if free or not m.fit_intercept else np.hstack([np.ones((len(X), 1)), X])
    A = X if not m.fit_intercept else A
    w = m.weights_ if free or not m.fit_intercept else np.vstack([np.ravel(m.intercept_), m.weights_])
    Q, R, _ = graded(A.T)
    Q = Q[:, : graded_rank(A.T, R)]
    off = np.abs(w - Q @ (Q.T @ w)).max() / max(float(np.abs(w).max()), TINY)
    return Certificate("outside_row_space", float(off), 1e-6, "share of the solution that a shorter one would drop")


def _curves(e: Residuals) -> dict[str, dict[str, Any]]:
    """Residuals against fitted values, and normal quantiles against ordered standardised residuals, of output 0."""
    at = np.arange(0, len(e.h), max(1, len(e.h) // CURVE))
    z = np.sort(e.standardized[:, 0][np.isfinite(e.standardized[:, 0])])
    pick = np.arange(0, len(z), max(1, len(z) // CURVE))
    out = {"residuals": {"x": e.fitted[at, 0], "y": e.raw[at, 0], "leverage": e.h[at]}}
    if len(z):
        out["normal_quantiles"] = {"x": ndtri((pick + 0.5) / len(z)), "y": z[pick]}
    return out


def _matrices(m: LinearRegression, X: Matrix, s: Vector, sizes: Vector) -> dict[str, Any]:
    out: dict[str, Any] = {"singular_values": sizes}
    if X.shape[1] <= SMALL and m.df_ > 0:
        K = np.vstack([m.root_[0] - m.center_ @ m.root_[1:], m.root_[1:]])[0 if m.fit_intercept else 1 :]
        with np.errstate(over="ignore", invalid="ignore"):
            out["coefficient_covariance"] = (K @ K.T) * m.sigma2_[0]
    if len(X) <= SMALL:
        B = m.root_[0] + (X - m.center_) @ m.root_[1:]
        out["hat"] = B @ B.T * np.sqrt(s * s[:, None])
    return out
