"""Sums of weighted outer products of rows, the Hessians of losses of a linear predictor, a strip of rows in cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Curvature
from ml_core.numerics.jit import compiled, read_only, read_only_views

EPS = float(np.finfo(float).eps)
STRIP_CELLS = 1 << 17
STRIP_ROWS = 64
MANY = 4
"""Predictors from which on products of pairs of columns cost less than copies of the columns."""


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


@compiled(lambda: (*read_only(np.ones((2, 5))), 4, 6, np.ones((2, 11))))
def _pairs(Z, first, last, out):  # type: ignore[no-untyped-def]
    """(m, ·) the products z̃ⱼ z̃ₗ of all j in [first, last) and l ≤ j, a pair a column, ordered by j."""
    d = Z.shape[1]
    for i in range(Z.shape[0]):
        at = 0
        for j in range(first, last):
            z = Z[i, j] if j < d else 1.0
            for k in range(min(j + 1, d)):
                out[i, at + k] = z * Z[i, k]
            if j == d:
                out[i, at + d] = 1.0
            at += j + 1


def room_for(q: int, D: int) -> np.ndarray:
    """Zeros for `add_products`: q(q+1)/2 pairs of predictors × (D, D), or from `MANY` predictors on its triangle."""
    pairs = q * (q + 1) // 2
    return np.zeros((pairs, D, D)) if q < MANY else np.zeros((pairs, D * (D + 1) // 2))


def add_products(total: np.ndarray, Z: Matrix, C: Curvature, s: Vector, D: int) -> None:
    """total += Σ s c_jk z̃z̃ᵀ for k ≤ j, as `room_for` lays it out; Z (m, d), symmetric C (m, q, q), s (m,).

    z̃ is z, with a 1 behind where D = d + 1. One symmetric product, O(m D²), of one predictor with c ≥ 0 and where all
    rows have the same curvature, as at the start; else O(m D² q²), from `MANY` predictors on half of it.
    """
    q = C.shape[1]
    if q == 1 and C.min(initial=0.0) >= 0:
        total[0] += _symmetric(Z, C[:, 0, 0] * s, D)
        return
    lower = np.tril_indices(q)
    if _alike(C[-1:], C[0]) and _alike(C, C[0]):
        G = _symmetric(Z, s, D)
        total += np.multiply.outer(C[0][lower], G if q < MANY else G[np.tril_indices(D)])
    else:
        (_add_blocks if q < MANY else _add_pairs)(total, Z, C[:, *lower] * s[:, None], D)


def blocks(total: np.ndarray, q: int, D: int) -> np.ndarray:
    """(q, q, D, D) of a sum of `add_products`, symmetric both ways."""
    if q == 1:
        return total[None]
    if q >= MANY:
        row, column = np.tril_indices(D)
        full = np.empty((len(total), D, D))
        full[:, row, column] = full[:, column, row] = total
        total = full
    row, column = np.tril_indices(q)
    out = np.empty((q, q, D, D))
    out[row, column] = out[column, row] = total
    return out


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


def _add_blocks(total: np.ndarray, Z: Matrix, C: Matrix, D: int) -> None:
    """total += one product of Z̃ with its copies weighted by all columns of C, a strip of rows at a time."""
    k = C.shape[1]
    (Z, C, ones), rows = read_only_views(Z, C, np.ones((len(Z), 1))), _strip(D * k)
    for a in range(0, len(Z), rows):
        z = Z[a : a + rows]
        U, V = np.empty((len(z), D)), np.empty((len(z), k * D))
        _weighted(z, ones[: len(z)], U)
        _weighted(z, C[a : a + rows], V)
        total += (U.T @ V).reshape(D, k, D).transpose(1, 0, 2)


def _add_pairs(total: Matrix, Z: Matrix, C: Matrix, D: int) -> None:
    """total += Cᵀ P, P the pairs of columns, a tile of few rows and some columns at a time."""
    (Z,) = read_only_views(Z)
    width = max(D, STRIP_CELLS // STRIP_ROWS)
    rows = _strip(min(width, total.shape[1]))
    buffer = np.empty(min(rows, len(Z)) * min(width, total.shape[1]))
    for first, last in _tiles(D, width):
        tile = slice(first * (first + 1) // 2, last * (last + 1) // 2)
        for a in range(0, len(Z), rows):
            z = Z[a : a + rows]
            P = buffer[: len(z) * (tile.stop - tile.start)].reshape(len(z), -1)
            _pairs(z, first, last, P)
            total[:, tile] += C[a : a + rows].T @ P


def _tiles(D: int, width: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows of a triangle of D rows, of at most `width` cells, at least D."""
    first = cells = 0
    for j in range(D):
        if cells + j + 1 > width:
            yield first, j
            first, cells = j, 0
        cells += j + 1
    yield first, D


def _strip(width: int) -> int:
    return max(STRIP_ROWS, STRIP_CELLS // width)
