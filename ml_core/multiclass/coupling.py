"""Probabilities of K classes from those of pairs."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix

CELLS = 1_000_000
LEAST = 1e-7
"""Pair probabilities are kept this far from 0 and 1, where the equations would be singular."""


def quadratic(R: np.ndarray) -> np.ndarray:
    """(n, K, K) matrices Q of ½ pᵀQp = ½ Σ_{i≠j} (r_ji p_i - r_ij p_j)², r_ij = P(i | i or j) (n, K, K), r_ii = 0."""
    Q = -np.swapaxes(R, 1, 2) * R
    K = R.shape[1]
    Q[:, np.arange(K), np.arange(K)] = (R * R).sum(axis=1)
    return Q


def coupled(R: np.ndarray) -> Matrix:
    """(n, K) p ≥ 0 with sum 1 that minimises Σ_{i≠j} (r_ji p_i - r_ij p_j)²; exact where the pairs agree. O(n K³).

    References
    ----------
    Wu, Lin, Weng (2004), Probability estimates for multi-class classification by pairwise coupling, JMLR 5.
    """
    n, K, _ = R.shape
    out = np.empty((n, K))
    block = max(1, CELLS // (K + 1) ** 2)
    for i in range(0, n, block):
        Q = quadratic(R[i : i + block])
        A = np.ones((len(Q), K + 1, K + 1))
        A[:, :K, :K], A[:, K, K] = Q, 0.0
        b = np.zeros((len(Q), K + 1, 1))
        b[:, K] = 1.0
        out[i : i + block] = np.linalg.solve(A, b)[:, :K, 0]
    out = np.maximum(out, 0.0)
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def pairwise(P: Matrix, pairs: list[tuple[int, int]], K: int) -> np.ndarray:
    """(n, K, K) r_ij from the probabilities (n, pairs) of j in each pair (i, j)."""
    R = np.zeros((len(P), K, K))
    for p, (i, j) in zip(np.clip(P, LEAST, 1.0 - LEAST).T, pairs, strict=True):
        R[:, j, i], R[:, i, j] = p, 1.0 - p
    return R


def slope_error(R: np.ndarray, P: Matrix) -> float:
    """How far P is from the optimum: the spread of Qp over the classes with p > 0, relative to the largest of Q."""
    Q = quadratic(R)
    g = np.einsum("nij,nj->ni", Q, P)
    high = np.where(P > 0, g, -np.inf).max(axis=1)
    return float(((high - g.min(axis=1)) / np.abs(Q).max(axis=(1, 2))).max(initial=0.0))
