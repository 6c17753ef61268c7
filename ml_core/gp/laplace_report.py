"""Certificates of a Gaussian process classifier, recomputed from its answer and the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.gp.gp_report import searched
from ml_core.gp.laplace import Labelled, Prior, T

if TYPE_CHECKING:
    from ml_core.gp.gaussian_process_classification import GaussianProcessClassification

DENSE_SCORES = 1500
TINY = float(np.finfo(float).tiny)
STEP = 1e-4


def diagnose(model: GaussianProcessClassification, rows: Labelled) -> Diagnostics:
    """Of the training rows."""
    at = model.surface_
    prior: Prior[Any] = at.prior(rows.X)
    a, Z = at.coefficients, at.inducing
    f = prior.scores(a)
    likelihood, norm = rows.log_likelihood(f), prior.norm(a, f)
    P, s = model._proba(rows.X), rows.weight
    own = P[np.arange(len(P)), rows.y]
    out = Diagnostics(summary={
        "rows": len(rows.y), "inducing_rows": None if Z is None else len(Z), "observations": float(s.sum()),
        "functions": a.shape[1],
        "log_marginal_likelihood": model.log_marginal_likelihood_, "log_likelihood_at_mode": likelihood,
        "function_norm": max(norm, 0.0) ** 0.5, "iterations": model.n_iter_, "newton_steps": model.newton_steps_,
        "accuracy": float(np.average(P.argmax(axis=1) == rows.y, weights=s)),
        "mean_log_score": float(np.average(np.log(np.maximum(own, TINY)), weights=s)),
    })  # fmt: skip
    g = prior.gather(rows.residual(f)) - a
    out.certificates.append(Certificate(
        "mode_stationarity", float(np.abs(g).max()) / prior.unit(s), 1e-7,
        "largest derivative of the log posterior by a coefficient, in its unit (all rows: |s(1_y - p) - a| over the "
        "largest weight): 0 at the mode"))  # fmt: skip
    out.certificates.append(Certificate(
        "newton_decrement", max(_squared(rows, prior, f, g), 0.0) ** 0.5, 1e-4,
        "√(gᵀ(K⁻¹ + W)⁻¹g), g the gradient: distance to the mode in posterior standard deviations"))  # fmt: skip
    if f.size <= DENSE_SCORES:
        again = likelihood - 0.5 * norm - 0.5 * dense_logdet(rows, prior.dense(), f) - prior.slack(rows, f)
        out.certificates.append(Certificate(
            "evidence_error", abs(model.log_marginal_likelihood_ - again) / (1.0 + abs(again)), 1e-8,
            "against log|I + K W| by one LU factorisation of all functions, relative to 1 + |value|"))  # fmt: skip
    _evidence(model, rows, out)
    return out


def _squared(rows: Labelled, prior: Prior[T], f: Matrix, g: Matrix) -> float:
    """stepᵀ(K⁻¹ + W)step of Newton's step at scores f from the gradient g by coefficients."""
    step = prior.step(prior.curvature(rows, f), g)
    scores = prior.scores(step)
    return prior.norm(step, scores) + float(np.vdot(scores, rows.curved(rows.chances(f), scores)))


def dense_logdet(rows: Labelled, K: Matrix, f: Matrix) -> float:
    """log|I + K W| of all n C scores by LU, which shares nothing with the fit."""
    n, C = f.shape
    p, A = rows.chances(f), np.zeros((C, n, C, n))
    for e in range(C):
        unit = np.zeros((n, C))
        unit[:, e] = 1.0
        for c, w in enumerate(rows.curved(p, unit).T):
            A[c, :, e] = K * w
    return float(np.linalg.slogdet(np.eye(n * C) + A.reshape(n * C, n * C))[1])


def _evidence(model: GaussianProcessClassification, rows: Labelled, out: Diagnostics) -> None:
    """The climbs, and their derivatives against differences of the evidence along the steepest direction."""
    out.tables["hyperparameters"] = Table(("name", "value"), [[k, v] for k, v in model.hyperparameters_.items()])
    if not model.runs_:
        return
    space, end = model._space(rows.X), model.runs_[-1].end
    evidence = model._evidence(model.surface_.inducing)
    value, gradient = evidence(rows, space.at(end)[0])
    searched(model, space, value, gradient, out)
    away = space.free / np.sqrt(max(float(space.free.sum()), 1.0))

    def along(t: float) -> tuple[float, Vector]:
        return evidence(rows, space.at(end + t * away)[0])

    (high, _), (low, _) = along(STEP), along(-STEP)
    error = abs((high - low) / (2 * STEP) - float(gradient @ away))
    out.certificates.append(Certificate(
        "gradient_error", error / (1.0 + abs(value)), 1e-6,
        "derivative of the evidence along all logarithms against its difference quotient, relative"))  # fmt: skip
