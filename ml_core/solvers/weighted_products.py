"""Sums of weighted outer products of rows, the Hessians of losses of a linear predictor, a strip of rows in cache."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Curvature
from ml_core.numerics.jit import compiled, read_only, read_only_views

EPS = float(np.finfo(float).eps)
STRIP_BYTES = 1 << 19


@compiled(lambda: (*read_only(np.ones((2, 5)), np.ones((2, 1))), np.ones((2, 6))))
def _weighted(Z, C, out):  # type: ignore[no-untyped-def]
    """(m, k D) with cᵢₖ z̃ᵢ side by side; z̃ has a 1 behind z where D is one more than the columns of Z."""
    d, D = Z.shape[1], out.shape[1] // C.shape[1]
    for i in range(Z.shape[0]):
        for k in range(C.shape[1]):
            c = C[i, k]
            for j in range(d):
                out[i, k * D + j] = c * Z[i, j]
            if d < D:
                out[i, k * D + d] = c


def add_products(H: np.ndarray, Z: Matrix, C: Curvature, s: Vector) -> None:
    """H[j, k] += Z̃ᵀ diag(s c_jk) Z̃ for k ≤ j; H (q, q, D, D), Z (m, d), C (m, q, q), s (m,), c ≥ 0 where q is 1.

    Z̃ is Z, with a column of ones where D = d + 1. O(m D² q²/2); one symmetric product, O(m D²), where q is 1 or the
    curvature of all rows is the same, as at the start.
    """
    q = len(H)
    if q == 1:
        H[0, 0] += _symmetric(Z, C[:, 0, 0] * s, H.shape[2])
    elif _alike(C[-1:], C[0]) and _alike(C, C[0]):
        H += np.tril(C[0])[:, :, None, None] * _symmetric(Z, s, H.shape[2])
    else:
        _add_blocks(H, Z, C * s[:, None, None])


def _alike(C: Curvature, first: Matrix) -> bool:
    """Whether every row has the first one's curvature, up to rounding."""
    return bool(np.abs(C - first).max() <= 4 * EPS * np.abs(first).max())


def _symmetric(Z: Matrix, c: Vector, D: int) -> Matrix:
    """Z̃ᵀ diag(c) Z̃."""
    (Z, root), rows = read_only_views(Z, np.sqrt(c)[:, None]), _strip(D)
    G, buffer = np.zeros((D, D)), np.empty((min(rows, len(Z)), D))
    for a in range(0, len(Z), rows):
        U = buffer[: len(Z) - a]
        _weighted(Z[a : a + rows], root[a : a + rows], U)
        G += U.T @ U
    return G


def _add_blocks(H: np.ndarray, Z: Matrix, C: Curvature) -> None:
    """One product of all blocks of a row of H at a time."""
    q, D = H.shape[1:3]
    rows = _strip(D * q)
    ones = np.ones((len(Z), 1))
    Z, C, ones = read_only_views(Z, C, ones)
    for a in range(0, len(Z), rows):
        z, c = Z[a : a + rows], C[a : a + rows]
        U = np.empty((len(z), D))
        _weighted(z, ones[: len(z)], U)
        for j in range(q):
            V = np.empty((len(z), (j + 1) * D))
            (own,) = read_only_views(c[:, j, : j + 1])
            _weighted(z, own, V)
            H[j, : j + 1] += (U.T @ V).reshape(D, j + 1, D).transpose(1, 0, 2)


def _strip(width: int) -> int:
    return max(64, STRIP_BYTES // (8 * width))
