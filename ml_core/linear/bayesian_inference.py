"""Diagnostics of Bayesian linear regression, recomputed from the posterior and the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import null_space, svd
from scipy.special import gammaln, ndtri, stdtrit

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Notice, Table
from ml_core.numerics.totals import Total
from ml_core.solvers.gaussian_linear import EPS, LOG_2PI, Sums, bounds, gradient
from ml_core.statistics import Moments
from ml_core.sums import Passes

if TYPE_CHECKING:
    from ml_core.linear.bayesian_linear_regression import BayesianLinearRegression

DIRECT_ROWS = 400
LEVEL = 0.95
AT_BOUND = 1e-9
ROUNDING = 1e-5
"""Share of the targets below which a residual is measured by them: 1e-9 of it is rounding."""


@dataclass(frozen=True)
class Tally(Total):
    """Sums of one pass at the fitted posterior; `moments` are those of the targets (n, 1)."""

    rows: int
    total: float
    moments: Moments
    rss: float
    inside: float
    gradient: Vector
    size: Vector


@dataclass(frozen=True)
class Tallied:
    """The part whose total is `Tally`: squares, rows inside their 95 % intervals, and Φᵀr in centred columns."""

    model: BayesianLinearRegression

    def __call__(self, X: Matrix, y: Vector, s: Vector) -> Tally:
        """Of the rows of X."""
        m, post = self.model, self.model.posterior_
        r = y - m._predict(X)
        half = _width(m) * np.sqrt(m.noise_variance_ + (m._roots(X) ** 2).sum(axis=1))
        A = np.hstack([np.full((len(X), 1), float(m.fit_intercept)), X - post.center])
        far = 0.0 if m.prior_.flat else np.abs(post.center) @ np.abs(m.coef_)  # the prior is of the value at 0
        noise = ROUNDING * (np.abs(r) + np.abs(post.mean[0]) + far + np.abs(A[:, 1:]) @ np.abs(m.coef_))
        inside, size = float(s @ (np.abs(r) <= half)), np.abs(A).T @ (s * (np.abs(r) + noise))
        return Tally(len(X), float(s.sum()), Moments.of(y[:, None], s), float(s @ r**2), inside, A.T @ (s * r), size)


def audit(m: BayesianLinearRegression) -> Passes:
    """Summary, coefficient table and certificates, from one pass over the rows, O(n d²)."""
    t = yield Tallied(m)
    out = _report(m, t)
    out.warnings.append(Notice("rows_not_in_memory", "the evidence was not recomputed from the n × n density of the "
                               "targets, which takes all rows in memory and at most 400", ""))  # fmt: skip
    return out


def diagnose(m: BayesianLinearRegression, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
    """The same of rows in memory, and O(n³) for the direct evidence of at most 400 rows."""
    out = _report(m, Tallied(m)(X, y, s))
    if len(X) <= DIRECT_ROWS and (s == 1.0).all():
        off = abs(_direct_evidence(m, X, y) - m.log_evidence_)
        slack = 1e-6 * (1 + abs(m.log_evidence_)) + _rounded_evidence(m, X, y)
        out.certificates.append(Certificate("evidence_error", float(off), slack,
                                            "log evidence against the n × n density of the targets"))  # fmt: skip
    return out


def _width(m: BayesianLinearRegression) -> float:
    """Half the central 95 % interval in units of its scale: normal, or Student's t where the noise is learned."""
    unknown = m.unknown_noise_
    return float(ndtri(0.5 + LEVEL / 2) if unknown is None else stdtrit(unknown.freedom, 0.5 + LEVEL / 2))


def _report(m: BayesianLinearRegression, t: Tally) -> Diagnostics:
    gamma = m.prior_.root.shape[1] - m.posterior_.shrinkage + m.prior_.flat
    tss = float(t.moments.scatter[0, 0]) + (0.0 if m.fit_intercept else t.total * float(t.moments.mean[0]) ** 2)
    noise = m.noise_variance_ if m.unknown_noise_ is None else m.unknown_noise_.mean
    out = Diagnostics(summary={
        "rows": t.rows, "observations": t.total, "alpha": m.alpha_ if m.prior_covariance is None else None,
        "noise_variance": noise, "log_evidence": m.log_evidence_, "effective_parameters": gamma,
        "rss": t.rss, "r2": 1 - t.rss / tss if tss > 0 else None, "n_iter": m.n_iter_,
        "share_in_95_percent_interval": t.inside / t.total,
    })  # fmt: skip
    if m.unknown_noise_ is not None:
        out.summary |= {"noise_shape": m.unknown_noise_.shape, "noise_scale": m.unknown_noise_.scale}
    out.certificates = [_stationary(m, t)]
    if m.hyperparameters == "evidence":
        out.certificates.append(_evidence_gradient(m, t.total))
        out.traces["log_evidence"] = m.trace_
    B = m._coefficient_root()
    out.tables["coefficients"] = _table(m, B)
    if len(B) <= 65:
        name = "posterior_covariance" if m.unknown_noise_ is None else "posterior_scale_matrix"
        out.matrices[name] = B @ B.T
    return out


def _table(m: BayesianLinearRegression, B: Matrix) -> Table:
    size, unknown, first = np.sqrt((B * B).sum(axis=1)), m.unknown_noise_, m._noise_prior()
    w, half = np.concatenate([[m.intercept_], m.coef_]), _width(m) * size
    prior = [float(v) if first is None else first.deviation(v * first.unit**0.5)
             for v in np.sqrt((m.prior_.root**2).sum(axis=1))]  # fmt: skip
    sd = [float(v) if unknown is None else unknown.deviation(v) for v in size]
    rows: list[list[object]] = []
    for j in range(0 if m.fit_intercept else 1, len(w)):
        flat = j == 0 and m.prior_.flat
        before = (None, None) if flat else (float(m.prior_.mean[j]), prior[j])
        term = j - 1 if j else "intercept"
        rows.append([term, float(w[j]), sd[j], float(w[j] - half[j]), float(w[j] + half[j]), *before])
    return Table(("term", "mean", "standard_deviation", "low", "high", "prior_mean", "prior_standard_deviation"), rows)


def _stationary(m: BayesianLinearRegression, t: Tally) -> Certificate:
    """u - u₀ = S₀Φᵀr/σ² at the posterior mean, relative to the terms that cancel; Σ s r = 0 for a flat intercept."""
    post, prior = m.posterior_, m.prior_
    L, u = prior.root.copy(), prior.mean.copy()
    if m.fit_intercept:
        L[0] += post.center @ L[1:]
        u[0] += post.center @ u[1:]
    g, size = t.gradient, t.size
    off = post.mean - u - L @ (L.T @ g) / post.noise
    scale = np.abs(post.mean - u) + np.abs(L) @ (np.abs(L.T) @ size) / post.noise
    if prior.flat:
        off[0], scale[0] = g[0], size[0]
    scale = np.maximum(scale, np.sqrt((post.root**2).sum(axis=1)))  # an error far below the posterior's width is none
    value = float(np.max(np.abs(off) / np.where(scale > 0, scale, 1.0)))
    return Certificate("posterior_mean_equation", value, 1e-9,
                       "the mean solves m - m₀ = S₀Φᵀ(y - Φm)/σ², relative to the size of the terms")  # fmt: skip


def _direct_evidence(m: BayesianLinearRegression, X: Matrix, y: Vector) -> float:
    """log N(y | Φm₀, σ²I + ΦS₀Φᵀ), a t of learned noise; for a flat intercept the density of the contrasts, over √n.

    By the eigenvalues of the covariance, from the singular values of ΦL: a Cholesky factor loses a small σ².
    """
    B = m.prior_.root[0] + X @ m.prior_.root[1:]
    e = y - X @ m.prior_.mean[1:] - m.prior_.mean[0]
    logs = 0.0
    if m.prior_.flat:
        C = null_space(np.ones((1, len(X)))).T
        B, e, logs = C @ B, C @ (e - e.mean()), -0.5 * float(np.log(len(X)))
    if not len(e):
        return logs
    U, sizes, _ = svd(B, full_matrices=False)
    first = m._noise_prior()
    noise = m.noise_variance_ if first is None else first.unit
    sizes = sizes if first is None else sizes * noise**0.5
    variance, inside = noise + sizes**2, U.T @ e
    square = inside**2 @ (1.0 / variance) + np.sum((e - U @ inside) ** 2) / noise
    logdet = np.log(variance).sum() + (len(e) - len(sizes)) * np.log(noise)
    if first is None:
        return float(logs - 0.5 * (square + logdet + len(e) * LOG_2PI))
    v, n = first.freedom, len(e)
    constant = gammaln((v + n) / 2) - gammaln(v / 2) - 0.5 * n * np.log(v * np.pi)
    fall = np.logaddexp(0.0, np.log(square) - np.log(v)) if square > 0 else 0.0
    return float(logs + constant - 0.5 * logdet - (v + n) / 2 * fall)


def _rounded_evidence(m: BayesianLinearRegression, X: Matrix, y: Vector) -> float:
    """What rounding y, and ΦL by δ, may do to the density: 2 ‖δ‖(‖r‖‖a‖/σ² + k/(2σ)), a the white coefficients."""
    A = np.hstack([np.full((len(X), 1), float(m.fit_intercept)), X])
    moved = 8 * EPS * float(np.linalg.norm(np.abs(A) @ np.abs(m.prior_.root)))
    noise, left = m.noise_variance_, float(np.linalg.norm(y - m._predict(X)))
    slope = left * m.posterior_.distance**0.5 / noise + 0.5 * m.prior_.root.shape[1] / noise**0.5
    return float(((4 * EPS * y) ** 2).sum()) / noise + 2 * moved * slope


def _evidence_gradient(m: BayesianLinearRegression, total: float) -> Certificate:
    shared = m.bias_prior_variance is None
    gamma, square, left, rss = gradient(m.posterior_, m.prior_, m.alpha_, total, shared)
    least, most = bounds(Sums.of(m.sums_, m.fit_intercept), m.alpha)
    slopes = [gamma - m.alpha_ * square]
    if m.alpha_ >= most * (1 - AT_BOUND):
        slopes = [min(slopes[0], 0.0)]
    if m.noise_variance is None:
        slope = rss / m.noise_variance_ - left
        slopes.append(max(slope, 0.0) if m.noise_variance_ <= least * (1 + AT_BOUND) else slope)
    return Certificate("evidence_gradient", 0.5 * float(np.max(np.abs(slopes))), 1e-6 * total,
                       "derivatives of the log evidence by log alpha and log noise: 0, or out of bounds")  # fmt: skip
