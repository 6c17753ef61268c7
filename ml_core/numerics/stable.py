"""Elementary functions that neither overflow nor cancel."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from ml_core.arrays import Matrix, Vector

__all__ = ["expit", "log_expit", "log_softmax", "logsumexp", "slacks", "softmax", "softplus", "summed_logs"]


def softplus(t: Vector) -> Vector:
    """log(1 + e^t), elementwise."""
    return np.logaddexp(0.0, t)


def log_softmax(scores: Matrix) -> Matrix:
    """scores - logsumexp(scores), by row, (n, K). A row of all -inf gives the uniform distribution."""
    top = scores.max(axis=1, keepdims=True)
    shifted = scores - np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    lost = ~np.isfinite(top[:, 0])
    out[lost] = -np.log(scores.shape[1])
    return np.asarray(out)


def softmax(scores: Matrix) -> Matrix:
    """exp(log_softmax), rows sum to 1, (n, K)."""
    return np.asarray(np.exp(log_softmax(scores)))


def summed_logs(X: Matrix, L: Matrix) -> Matrix:
    """(n, K) Σ_j x_ij L_kj of counts X ≥ 0 (n, d) and log probabilities L (K, d), where 0 · (-inf) is 0."""
    never = np.isneginf(L)
    with np.errstate(over="ignore"):
        out = X @ np.where(never, 0.0, L).T
    if never.any():
        out[(X > 0).astype(np.float64) @ never.T > 0] = -np.inf
    return np.asarray(out)


def slacks(excess: Vector, free: np.ndarray, terms: float) -> Vector:
    """max(0, excess), and 0 where `free` rows, which pay nothing at an optimum, exceed by rounding alone.

    `terms` are the magnitudes that an excess adds up at most; a large price would make an objective of their rounding.
    """
    return np.where(excess > np.where(free, 8 * np.finfo(float).eps * terms, 0.0), excess, 0.0)
