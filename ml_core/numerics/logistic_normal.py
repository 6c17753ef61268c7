"""Means of logistic and softmax functions of a normal variable, which have no closed form."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.stable import expit, softmax
from ml_core.rng import generator

POINTS = 1024
CELLS = 1 << 20
LATTICE = np.array([1, 182667, 469891, 498753, 110745, 446107, 250185, 118627, 245333, 283199, 408519, 391023, 246327,
                    126539, 399185, 461527])  # fmt: skip


def mean_logistic(mean: Vector, variance: Vector) -> Vector:
    """(n,) about E σ(η) for η ~ N(mean, variance): σ(mean/√(1 + π variance/8)); at most 0.02 off, not at mean 0.

    σ(η) is replaced by Φ(η√(π/8)), of the same slope at 0, whose mean is known.

    Source: MacKay (1992), The evidence framework applied to classification networks, Neural Computation 4(5).
    """
    return np.asarray(expit(mean / np.sqrt(1.0 + np.pi * variance / 8.0)))


def mean_softmax(mean: Matrix, covariance: np.ndarray, basis: Matrix, seed: int) -> Matrix:
    """(n, K) E softmax(B η) for η ~ N(mean, covariance), (n, q) and (n, q, q); B (K, q).

    The average over the same 1024 points for every row, which are laid along the principal axes of its covariance;
    O(n 1024 q²).
    """
    values, axes = np.linalg.eigh(covariance)
    root = (axes * np.sqrt(np.maximum(values, 0.0))[:, None, :])[:, :, ::-1]
    points = normal_lattice(mean.shape[1], seed)
    out = np.empty((len(mean), len(basis)))
    each = max(1, CELLS // (POINTS * len(basis)))
    for a in range(0, len(mean), each):
        eta = mean[a : a + each, None, :] + points @ root[a : a + each].transpose(0, 2, 1)
        flat = softmax((eta @ basis.T).reshape(-1, len(basis)))
        out[a : a + each] = flat.reshape(len(eta), POINTS, -1).mean(axis=1)
    return out


def normal_lattice(q: int, seed: int) -> Matrix:
    """(1024, q) normal scores of a shifted lattice of rank 1, folded at ½; beyond 16 coordinates random ones.

    Source: Cools, Kuo, Nuyens (2006), Constructing embedded lattice rules for multivariate integration, SIAM J. Sci.
    Comput. 28(6).
    """
    rng = generator(seed)
    u = (np.outer(np.arange(POINTS), LATTICE[:q] / POINTS) + rng.random(min(q, len(LATTICE)))) % 1.0
    scores = ndtri(np.clip(np.abs(2.0 * u - 1.0), 1e-12, 1.0 - 1e-12))
    return np.hstack([scores, rng.standard_normal((POINTS, max(0, q - len(LATTICE))))])
