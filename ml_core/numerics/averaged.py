"""Logistic and softmax probabilities averaged over normal scores."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.stable import expit, softmax

STEP = 0.5
NORMAL_END, LOGISTIC_END = 10.0, 60.0
POINTS, GENERATOR = 4093, 1516
BLOCK_CELLS = 1 << 21


def averaged_logistic(mean: Vector, sd: Vector) -> Vector:
    """(n,) ∫ σ(t) N(t | mean, sd²) dt to about 1e-14, by the trapezoid rule.

    Narrow normals (sd < 1): over z of σ(mean + sd z) φ(z). Wide ones: by parts, over e of σ'(e) Φ((mean - e)/sd).
    Either integrand is analytic in a strip of half-width π, so steps of ½ leave an error of e^(-4π²).
    """
    out = np.empty(len(mean))
    narrow = sd < 1.0
    z = np.arange(-NORMAL_END, NORMAL_END + STEP, STEP)
    density = STEP * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    out[narrow] = expit(mean[narrow, None] + sd[narrow, None] * z) @ density
    e = np.arange(-LOGISTIC_END, LOGISTIC_END + STEP, STEP)
    slope = STEP * expit(e) * expit(-e)
    wide = ~narrow
    out[wide] = ndtr((mean[wide, None] - e) / sd[wide, None]) @ slope
    return out


def averaged_softmax(mean: Matrix, covariance: np.ndarray) -> Matrix:
    """(n, K) softmax of scores N(mean (n, K), covariance (n, K, K)), averaged over a lattice of 4,093 points.

    A Korobov lattice in the K - 1 directions of differences between scores, each point with its mirror image; errors
    are about 1e-4, the same points serve every row.
    """
    n, K = mean.shape
    z = _lattice(K - 1)
    from_last = np.eye(K)[:-1] - np.eye(K)[-1]
    centre, between = mean @ from_last.T, from_last @ covariance @ from_last.T
    values, vectors = np.linalg.eigh(between)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    out = np.empty((n, K))
    step = max(1, BLOCK_CELLS // (K * len(z)))
    for i in range(0, n, step):
        moved = np.einsum("nij,pj->npi", root[i : i + step], z)
        both = np.concatenate([centre[i : i + step, None] + moved, centre[i : i + step, None] - moved], axis=1)
        scores = np.concatenate([both, np.zeros((*both.shape[:2], 1))], axis=2)
        out[i : i + step] = softmax(scores.reshape(-1, K)).reshape(scores.shape).mean(axis=1)
    return out / out.sum(axis=1, keepdims=True)


def _lattice(dimensions: int) -> Matrix:
    """(POINTS, dimensions) standard normal points of a Korobov lattice.

    References
    ----------
    L'Ecuyer, Lemieux (2000), Variance reduction via lattice rules, Management Science 46(9).
    """
    steps = [1]
    for _ in range(dimensions - 1):
        steps.append(steps[-1] * GENERATOR % POINTS)
    at = np.outer(np.arange(POINTS), steps) % POINTS
    folded = 1.0 - np.abs((2.0 * at + 1.0) / POINTS - 1.0)  # smooth at the edges of the cube
    return np.asarray(ndtri(np.clip(folded, 1e-12, 1.0 - 1e-12)))
