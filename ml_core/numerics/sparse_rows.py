"""Rows of mostly zeros: how they are checked, and one layout in which compiled loops read dense and sparse rows."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_array, issparse

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData, Issue, pointer
from ml_core.numerics.dot import dot
from ml_core.numerics.jit import compiled, merged
from ml_core.numerics.prefetch import prefetch

Rows: TypeAlias = Any
"""(n, d): a Matrix, or a csr_array."""
Layout = tuple[Matrix, np.ndarray, np.ndarray]
NONE = np.empty(0, dtype=np.int32)


def check_sparse(X: Any, *, owner: str = "", min_rows: int = 1, largest: float = math.inf) -> csr_array:
    """X as float64 by rows, each cell once; X itself is never written into. InvalidData names the bad cell."""
    if X.ndim != 2 or X.shape[0] < min_rows or X.shape[1] < 1:
        raise InvalidData(f"Found array with {X.shape[0]} sample(s) (shape={X.shape}) while a minimum of {min_rows} "
                          f"and a column is required by {owner or 'this method'}.")  # fmt: skip
    if X.dtype.kind == "c":
        raise InvalidData("Complex data not supported: X holds complex numbers")
    A = csr_array(X, dtype=np.float64)
    if not A.has_canonical_format:
        A = A.copy()
        A.sum_duplicates()
    top = min(largest, np.finfo(float).max)
    if not max(A.data.max(initial=0.0), -A.data.min(initial=0.0)) <= top:
        bad = np.flatnonzero(~(np.abs(A.data) <= top))
        i, j = int(np.searchsorted(A.indptr, bad[0], side="right")) - 1, int(A.indices[bad[0]])
        want = f"finite numbers of magnitude up to {largest:g}"
        what = "Input X contains NaN or infinity" if not np.isfinite(A.data[bad]).all() else f"{owner or 'X'}"
        text = f"{what}: row {i}, column {j} is {A.data[bad[0]]:g} and {want} are accepted ({len(bad)} such)"
        raise InvalidData(text, [Issue(pointer("rows", i, j), "out_of_domain", f"expected {want}")])
    return A


def layout(X: Rows) -> Layout:
    """Values, columns and starts for compiled loops; of dense rows columns and starts are empty."""
    if issparse(X):
        return X.data[None], X.indices, X.indptr
    return X, NONE, NONE


def squares(X: Rows) -> Vector:
    """(n,) ‖xᵢ‖²."""
    if issparse(X):
        return _squares(X.data, X.indptr)
    return np.asarray(np.einsum("ij,ij->i", X, X))


@compiled(lambda: (np.ones(1), np.array([0, 1], dtype=np.int32)))
def _squares(data: Vector, starts: np.ndarray) -> Vector:
    out = np.zeros(len(starts) - 1)
    for i in range(len(out)):
        for p in range(starts[i], starts[i + 1]):
            out[i] += data[p] * data[p]
    return out


@merged
def row_dot(values: Matrix, columns: np.ndarray, starts: np.ndarray, i: int, w: Vector) -> float:
    """xᵢ·w."""
    if len(starts) == 0:
        return dot(values[i], w)
    data = values[0]
    p, end = np.uint64(starts[i]), np.uint64(starts[i + 1])  # unsigned: no look for places from the end
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    t0 = t1 = t2 = t3 = 0.0
    while p + four <= end:  # four sums, none of which waits for the others
        t0 += data[p] * w[np.uint32(columns[p])]
        t1 += data[p + one] * w[np.uint32(columns[p + one])]
        t2 += data[p + two] * w[np.uint32(columns[p + two])]
        t3 += data[p + three] * w[np.uint32(columns[p + three])]
        p += four
    while p < end:
        t0 += data[p] * w[np.uint32(columns[p])]
        p += one
    return (t0 + t1) + (t2 + t3)


@merged
def fetch_row(values: Matrix, columns: np.ndarray, starts: np.ndarray, i: int) -> None:
    """Ask memory for the cells of a sparse row that is read soon, a line of 64 bytes at a time; changes no result."""
    if len(starts) > 0:
        data = values[0]
        for p in range(starts[i], starts[i + 1], 8):
            prefetch(data, p)
        for p in range(starts[i], starts[i + 1], 16):
            prefetch(columns, p)


@merged
def add_row(values: Matrix, columns: np.ndarray, starts: np.ndarray, i: int, factor: float, w: Vector) -> None:
    """w += factor xᵢ."""
    if len(starts) == 0:
        row = values[i]
        for k in range(len(w)):
            w[k] += factor * row[k]
    else:
        data = values[0]
        for p in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            w[np.uint32(columns[p])] += factor * data[p]
