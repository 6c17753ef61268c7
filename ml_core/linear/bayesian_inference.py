"""Diagnostics of Bayesian linear regression, recomputed from the posterior and the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import null_space
from scipy.special import ndtri

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.numerics.cholesky import Cholesky
from ml_core.solvers.gaussian_linear import LOG_2PI, gradient

if TYPE_CHECKING:
    from ml_core.linear.bayesian_linear_regression import BayesianLinearRegression

DIRECT_ROWS = 400
LEVEL = 0.95
EPS = float(np.finfo(float).eps)


def diagnose(m: BayesianLinearRegression, X: Matrix, y: Vector, s: Vector) -> Diagnostics:
    """Summary, coefficient table and certificates; O(n d), and O(n³) for the direct evidence of at most 400 rows."""
    post, total = m.posterior_, float(s.sum())
    r = y - m._predict(X)
    gamma = m.prior_.root.shape[1] - post.shrinkage + m.prior_.flat
    mean = (s @ y) / total if m.fit_intercept else 0.0
    tss, rss = float(s @ (y - mean) ** 2), float(s @ r**2)
    half = ndtri(0.5 + LEVEL / 2) * np.sqrt(m.noise_variance_ + (m._roots(X) ** 2).sum(axis=1))
    out = Diagnostics(summary={
        "rows": len(X), "observations": total, "alpha": m.alpha_ if m.prior_covariance is None else None,
        "noise_variance": m.noise_variance_, "log_evidence": m.log_evidence_, "effective_parameters": gamma,
        "rss": rss, "r2": 1 - rss / tss if tss > 0 else None, "n_iter": m.n_iter_,
        "share_in_95_percent_interval": float(s @ (np.abs(r) <= half) / total),
    })  # fmt: skip
    out.certificates = [_stationary(m, X, r, s)]
    if len(X) <= DIRECT_ROWS and (s == 1.0).all():
        off = abs(_direct_evidence(m, X, y) - m.log_evidence_)
        out.certificates.append(Certificate("evidence_error", float(off), 1e-6 * (1 + abs(m.log_evidence_)),
                                            "log evidence against the n × n density of the targets"))  # fmt: skip
    if m.hyperparameters == "evidence":
        out.certificates.append(_evidence_gradient(m, total))
        out.traces["log_evidence"] = m.trace_
    B = m._coefficient_root()
    out.tables["coefficients"] = _table(m, B)
    if len(B) <= 65:
        out.matrices["posterior_covariance"] = B @ B.T
    return out


def _table(m: BayesianLinearRegression, B: Matrix) -> Table:
    sd = np.sqrt((B * B).sum(axis=1))
    w, half = np.concatenate([[m.intercept_], m.coef_]), float(ndtri(0.5 + LEVEL / 2)) * sd
    prior = np.sqrt((m.prior_.root**2).sum(axis=1))
    rows = []
    for j in range(0 if m.fit_intercept else 1, len(w)):
        flat = j == 0 and m.prior_.flat
        before = (None, None) if flat else (float(m.prior_.mean[j]), float(prior[j]))
        term = j - 1 if j else "intercept"
        rows.append([term, float(w[j]), float(sd[j]), float(w[j] - half[j]), float(w[j] + half[j]), *before])
    return Table(("term", "mean", "standard_deviation", "low", "high", "prior_mean", "prior_standard_deviation"), rows)


def _stationary(m: BayesianLinearRegression, X: Matrix, r: Vector, s: Vector) -> Certificate:
    """u - u₀ = S₀Φᵀr/σ² at the posterior mean, relative to the terms that cancel; Σ s r = 0 for a flat intercept."""
    post, prior = m.posterior_, m.prior_
    L, u = prior.root.copy(), prior.mean.copy()
    if m.fit_intercept:
        L[0] += post.center @ L[1:]
        u[0] += post.center @ u[1:]
    A = np.hstack([np.full((len(X), 1), float(m.fit_intercept)), X - post.center])
    noise = EPS * (np.abs(r) + np.abs(post.mean[0]) + np.abs(A[:, 1:]) @ np.abs(m.coef_))
    g, size = A.T @ (s * r), np.abs(A).T @ (s * (np.abs(r) + noise))
    off = post.mean - u - L @ (L.T @ g) / post.noise
    scale = np.abs(post.mean - u) + np.abs(L) @ (np.abs(L.T) @ size) / post.noise
    if prior.flat:
        off[0], scale[0] = g[0], size[0]
    scale = np.maximum(scale, np.sqrt((post.root**2).sum(axis=1)))  # an error far below the posterior's width is none
    value = float(np.max(np.abs(off) / np.where(scale > 0, scale, 1.0)))
    return Certificate("posterior_mean_equation", value, 1e-9,
                       "the mean solves m - m₀ = S₀Φᵀ(y - Φm)/σ², relative to the size of the terms")  # fmt: skip


def _direct_evidence(m: BayesianLinearRegression, X: Matrix, y: Vector) -> float:
    """log N(y | Φm₀, σ²I + ΦS₀Φᵀ); for a flat intercept the density of the contrasts, over √n."""
    B = m.prior_.root[0] + X @ m.prior_.root[1:]
    e = y - X @ m.prior_.mean[1:] - m.prior_.mean[0]
    logs = 0.0
    if m.prior_.flat:
        C = null_space(np.ones((1, len(X)))).T
        B, e, logs = C @ B, C @ e, -0.5 * float(np.log(len(X)))
    factor = Cholesky.of(B @ B.T + m.noise_variance_ * np.eye(len(e)), jitter=False)
    return float(logs - 0.5 * (factor.quadratic(e[None])[0] + factor.logdet + len(e) * LOG_2PI))


def _evidence_gradient(m: BayesianLinearRegression, total: float) -> Certificate:
    shared = m.bias_prior_variance is None
    gamma, square, left, rss = gradient(m.posterior_, m.prior_, m.alpha_, total, shared)
    slopes = [gamma - m.alpha_ * square]
    if m.noise_variance is None:
        slopes.append(rss / m.noise_variance_ - left)
    return Certificate("evidence_gradient", 0.5 * float(np.max(np.abs(slopes))), 1e-6 * total,
                       "derivatives of the log evidence by log alpha and log noise are 0 at its maximum")  # fmt: skip
