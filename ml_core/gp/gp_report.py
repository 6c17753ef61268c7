"""Certificates and predictive diagnostics of a Gaussian process, recomputed from its answer and the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.gp import exact, sparse
from ml_core.gp.search import Searched, Space
from ml_core.gp.task import LOG_2PI, Task
from ml_core.numerics.gaussian import root
from ml_core.numerics.positive import half, invert, solve
from ml_core.solvers.bounded import projected

if TYPE_CHECKING:
    from ml_core.gp.gaussian_process_regression import GaussianProcessRegression

DENSE_ROWS = 1500
GRADIENT = 1e-4


def draws(mean: Vector, C: Matrix, n: int, rng: np.random.Generator) -> Matrix:
    """(n, k) draws of N(mean, C), C (k, k) positive semidefinite."""
    return np.asarray(mean + rng.standard_normal((n, len(mean))) @ root(C).T)


def diagnose(model: GaussianProcessRegression, task: Task) -> Diagnostics:
    """Of the training rows."""
    out = Diagnostics(summary={
        "rows": len(task.y), "observations": float(task.weight.sum()),
        "log_marginal_likelihood": model.log_marginal_likelihood_, "noise_variance": model.noise_variance_,
        "inducing_rows": len(model.surface_.rows) if model.method_ == "sparse" else None, "jitter": model.jitter_,
        "iterations": model.n_iter_,
    })  # fmt: skip
    if model.method_ == "exact":
        _exact(model, task, out)
    else:
        _sparse(model, task, out)
    _search(model, task, out)
    return out


def _exact(model: GaussianProcessRegression, task: Task, out: Diagnostics) -> None:
    at, s2 = model.surface_, model.noise_variance_
    few, rest = task.merged(model.kernel_, s2)
    K = model.kernel_(few.X)
    noise = few.noise(s2) + model.jitter_
    r = exact.residual(few, K, noise, at.weights, at.beta)
    size = (np.abs(K).sum(axis=1).max() + noise.max()) * np.abs(at.weights).max() + np.abs(few.y).max()
    out.certificates.append(Certificate(
        "solve_backward_error", float(np.abs(r).max() / max(size, np.finfo(float).tiny)), 1e-13,
        "y - Hβ - (K + D)α, largest entry relative to ‖K + D‖‖α‖ + ‖y‖, equal rows as one"))  # fmt: skip
    if len(at.beta):
        terms = np.abs(few.H).T @ (np.abs(at.weights) + np.abs(solve(at.root, few.y)))
        off = np.abs(few.H.T @ at.weights) / np.maximum(terms, np.finfo(float).tiny)
        out.certificates.append(Certificate("mean_orthogonality", float(off.max()), 1e-9,
                                            "Hᵀα = 0, relative to |H|ᵀ(|α| + |C⁻¹y|)"))  # fmt: skip
    C = K + np.diag(noise)
    z = np.cos(np.arange(len(C), dtype=float))
    lost = at.root @ (at.root.T @ z) - C @ z
    out.certificates.append(Certificate(
        "factor_error", float(np.linalg.norm(lost) / (np.linalg.norm(C, 1) * np.linalg.norm(z))), 1e-12,
        "L Lᵀz against (K + D)z, relative to ‖K + D‖‖z‖"))  # fmt: skip
    if len(C) <= DENSE_ROWS:
        again = dense_likelihood(few, C, at.weights) + rest
        out.certificates.append(_recomputed(model.log_marginal_likelihood_, again))
    _left_out(task, C if few is task else model.kernel_(task.X) + np.diag(task.noise(s2) + model.jitter_), out)


def _recomputed(value: float, again: float) -> Certificate:
    return Certificate("marginal_likelihood_error", abs(value - again) / (1.0 + abs(value)), 1e-8,
                       "against the value by an LU factorisation, relative to 1 + |value|")  # fmt: skip


def dense_likelihood(task: Task, C: Matrix, alpha: Vector) -> float:
    """The log marginal likelihood of covariance C by LU, which shares nothing with the fit but C and α."""
    n, p = task.H.shape
    logs = 0.5 * np.linalg.slogdet(C)[1]
    if p:
        logs += 0.5 * np.linalg.slogdet(task.H.T @ np.linalg.solve(C, task.H))[1]
    return float(-0.5 * task.y @ alpha - logs - 0.5 * (n - p) * LOG_2PI)


def _left_out(task: Task, C: Matrix, out: Diagnostics) -> None:
    """Each row predicted by all others: y - α/P, variance 1/P (P the diagonal of the precision, coefficients out)."""
    L = C.copy()
    factored = exact.solved(task, L)
    alpha = factored.alpha
    invert(L)
    _told_left_out(task.y, alpha, L.diagonal(), factored.spread, np.zeros(len(alpha)), out)


def _left_out_sparse(model: GaussianProcessRegression, task: Task, out: Diagnostics) -> None:
    """The same with inducing rows and hyperparameters kept: the precision is that of Q + D, k - q adds to variances."""
    Z, kernel = model.surface_.rows, model.kernel_
    at = sparse.bound(task, kernel, model.noise_variance_, kernel(Z), kernel(Z, task.X))
    V = half(at.M, at.A / np.sqrt(at.noise))
    _told_left_out(task.y, at.b, 1.0 / at.noise - np.einsum("ij,ij->j", V, V), at.E, at.short, out)


def _told_left_out(y: Vector, alpha: Vector, diagonal: Vector, E: Matrix, more: Vector, out: Diagnostics) -> None:
    """From C⁻¹(y - Hβ), the diagonal of C⁻¹, what the coefficients take of it (E Eᵀ), and variance to be added."""
    precision = diagonal - np.einsum("ij,ij->i", E, E)
    ok = precision > 1e-12 * diagonal
    r = np.divide(alpha, precision, out=np.full(len(alpha), np.nan), where=ok)
    sd = np.sqrt(np.divide(1.0, precision, out=np.full(len(alpha), np.nan), where=ok) + more)
    z = r / sd
    density = -0.5 * (z**2 + LOG_2PI) - np.log(sd)
    out.summary |= {
        "leave_one_out_rmse": float(np.sqrt(np.nanmean(r**2))),
        "leave_one_out_log_density": float(np.nanmean(density)),
        "leave_one_out_coverage_90": float(np.nanmean(np.abs(z[ok]) <= 1.6448536269514722)) if ok.any() else None,
    }
    out.curves["leave_one_out"] = {"x": np.arange(len(r)), "y": y - r, "standard_deviation": sd, "z": z,
                                   "log_density": density, "quantile": ndtr(z)}  # fmt: skip


def _sparse(model: GaussianProcessRegression, task: Task, out: Diagnostics) -> None:
    at, kernel, s2 = model.surface_, model.kernel_, model.noise_variance_
    Kuf = kernel(at.rows, task.X)
    Kuu, noise = kernel(at.rows), task.noise(s2)
    t = task.y - task.H @ at.beta
    scaled = Kuf / noise
    u = Kuf.T @ at.weights
    off = Kuu @ at.weights + scaled @ u - scaled @ t
    size = np.abs(Kuu) @ np.abs(at.weights) + np.abs(scaled) @ (np.abs(u) + np.abs(t))
    out.certificates.append(Certificate(
        "solve_backward_error", float((np.abs(off) / size).max()), 1e-8,
        "(K_uu + K_uf D⁻¹K_fu)w = K_uf D⁻¹(y - Hβ), relative to the size of the terms"))  # fmt: skip
    V = half(at.root, Kuf)
    short = np.maximum(kernel.diag(task.X) - np.einsum("ij,ij->j", V, V), 0.0)
    out.summary["unexplained_share"] = float(short.sum() / kernel.diag(task.X).sum())
    slack = 0.5 * float((short / noise).sum())
    out.summary["bound_slack"] = slack
    _left_out_sparse(model, task, out)
    if len(task.y) > DENSE_ROWS:
        return
    C = V.T @ V + np.diag(noise)
    repeats = task.repeated(s2)[0]
    again = dense_likelihood(task, C, np.asarray(np.linalg.solve(C, t))) + repeats - slack
    out.certificates.append(_recomputed(model.log_marginal_likelihood_, again))
    full = kernel(task.X) + np.diag(noise)
    whole = dense_likelihood(task, full, exact.solved(task, full.copy()).alpha) + repeats
    out.certificates.append(Certificate(
        "bound", (model.log_marginal_likelihood_ - whole) / (1.0 + abs(whole)), 1e-8,
        "the bound is not above the exact log marginal likelihood (difference relative to 1 + |value|)"))  # fmt: skip
    out.summary["exact_log_marginal_likelihood"] = whole


def _search(model: GaussianProcessRegression, task: Task, out: Diagnostics) -> None:
    out.tables["hyperparameters"] = Table(("name", "value"), [[k, v] for k, v in model.hyperparameters_.items()])
    if model.runs_:
        searched(model, model._space(task), *_again(model, task, model._space(task)), out)


def searched(model: Searched, space: Space, value: float, gradient: Vector, out: Diagnostics) -> None:
    """Every run, the ranges and the stationarity of the last run's end, from value and gradient recomputed there."""
    best = model.runs_[-1]
    left = projected(-gradient, best.end, space.low, space.high)[space.free]
    out.certificates.append(Certificate(
        "gradient", float(np.abs(left).max(initial=0.0)) / (1.0 + abs(value)), GRADIENT,
        "largest derivative by a logarithm within its bounds, relative to 1 + |log marginal likelihood|"))  # fmt: skip
    rows: list[list[Any]] = [
        [i, r.rows, r.value, r.converged, r.evaluations, *space.values(r.start), *space.values(r.end)]
        for i, r in enumerate(model.runs_)
    ]
    names = [*(f"start {n}" for n in space.names), *space.names]
    out.tables["runs"] = Table(("run", "rows", "log_marginal_likelihood", "converged", "evaluations", *names), rows)
    ends = zip(space.names, np.exp(space.low), np.exp(space.high), space.free, strict=True)
    out.tables["ranges"] = Table(("name", "low", "high", "searched"), [[n, a, b, bool(f)] for n, a, b, f in ends])
    out.traces["log_marginal_likelihood"] = [-v for v in model.solution_.trace]


def _again(model: GaussianProcessRegression, task: Task, space: Space) -> tuple[float, Vector]:
    if model.method_ == "exact":
        return exact.value_gradient(task, *space.at(model.runs_[-1].end))
    return sparse.value_gradient(task, *space.at(model.runs_[-1].end), model.surface_.rows)
