"""Rows of a kernel matrix that is never formed as a whole: computed in blocks, kept while memory allows."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.kernels.base import Kernel
from ml_core.kernels.precomputed import needs_all_rows
from ml_core.kernels.stationary import RBFKernel
from ml_core.numerics.exponential import gaussian_of_products
from ml_core.numerics.jit import compiled

EPS = float(np.finfo(float).eps)
EXPONENT_ERROR = 1e-12
CACHE_BYTES = 512 << 20
Index = np.ndarray


class KernelRows:
    """Values of one kernel among training rows.

    The Gaussian kernel goes by matrix products where these are exact enough (rows far from their mean, in lengths of
    the kernel, are compared by subtraction); all others by `kernel(A, B)`. A kernel whose rows are its values with all
    training rows is held as a whole, as the table is.
    """

    def __init__(self, kernel: Kernel, X: Matrix) -> None:
        self.kernel, self.X, self.n = kernel, X, len(X)
        self.diag: Vector = kernel.diag(X)
        self.half: Vector | None = None
        self.gram: Matrix | None = kernel(X) if needs_all_rows(kernel) else None
        if type(kernel) is RBFKernel:
            P = (X - X.mean(axis=0)) / np.asarray(kernel.length_scale)
            half = 0.5 * np.einsum("ij,ij->i", P, P)
            if 8 * EPS * half.max(initial=0.0) <= EXPONENT_ERROR:
                self.X, self.half = np.ascontiguousarray(P), half

    def subset(self, rows: Index) -> KernelRows:
        """The same values among some of the rows."""
        out = object.__new__(KernelRows)
        out.kernel, out.X, out.n = self.kernel, self.X[rows], len(rows)
        out.gram = None if self.gram is None else self.gram[np.ix_(rows, rows)]
        out.diag, out.half = self.diag[rows], None if self.half is None else self.half[rows]
        return out

    def block(self, rows: Index, columns: Index | None = None, out: Matrix | None = None) -> Matrix:
        """(len(rows), len(columns)) values, written to `out` where it is given; None: all columns."""
        if self.gram is not None:
            D = self.gram[rows] if columns is None else self.gram[np.ix_(rows, columns)]
            return _copied(D, out)
        A = self.X[rows]
        B = self.X if columns is None else self.X[columns]
        D = np.empty((len(A), len(B))) if out is None else out
        if self.half is None:
            return _copied(self.kernel(A, B), D)
        np.matmul(A, B.T, out=D)
        gaussian_of_products(D, self.half[rows], self.half if columns is None else self.half[columns])
        return D

    def times(self, beta: Vector, columns: Index | None = None) -> Vector:
        """Σᵢ βᵢ k(xᵢ, xⱼ) for the columns j, from the rows with βᵢ ≠ 0, in blocks of bounded memory."""
        on = np.flatnonzero(beta)
        m = self.n if columns is None else len(columns)
        out = np.zeros(m)
        size = max(1, (16 << 20) // (8 * max(m, 1)))
        for i in range(0, len(on), size):
            part = on[i : i + size]
            out += beta[part] @ self.block(part, columns)
        return out


def _copied(values: Matrix, out: Matrix | None) -> Matrix:
    if out is None:
        return values
    out[...] = values
    return out


@compiled(lambda: (np.zeros(4), 2, np.zeros(1, np.int64), np.zeros(1), np.zeros(2)))
def add_rows(flat: Vector, width: int, slots: Index, weight: Vector, out: Vector) -> None:
    """out += Σᵢ weightᵢ · row slotᵢ of the flat row store, in stretches that stay in the cache."""
    for start in range(0, width, 2048):
        stop = min(start + 2048, width)
        part = out[start:stop]
        for i in range(len(slots)):
            w = weight[i]
            if w != 0.0:
                row = flat[slots[i] * width + start : slots[i] * width + stop]
                for k in range(len(part)):
                    part[k] += w * row[k]


@compiled(lambda: (np.zeros(4), 2, np.zeros(1, np.int64), np.zeros(1, np.int64)))
def gather(flat: Vector, width: int, slots: Index, columns: Index) -> Matrix:
    """(len(slots), len(columns)) of the flat row store."""
    out = np.empty((len(slots), len(columns)))
    for i in range(len(slots)):
        row = flat[slots[i] * width : (slots[i] + 1) * width]
        for k in range(len(columns)):
            out[i, k] = row[columns[k]]
    return out


@compiled(lambda: (np.zeros(4), 2, 1, np.zeros(1, np.int64)))
def compress(flat: Vector, width: int, slots: int, keep: Index) -> None:
    """Leave the columns `keep` of the first rows of the store, in place."""
    m = len(keep)
    for i in range(slots):
        for k in range(m):
            flat[i * m + k] = flat[i * width + keep[k]]


class RowCache:
    """The most recently used rows over the active columns, within `bytes`; O(1) look-up by row."""

    def __init__(self, rows: KernelRows, size: int, least: int) -> None:
        self.rows = rows
        width = rows.n
        capacity = min(rows.n, max(least, size // (8 * width)))
        self.flat: Vector = np.empty(capacity * width)
        self.evaluations = 0
        self.reset(np.arange(width))

    def reset(self, columns: Index) -> None:
        """Forget every row; from now on these columns are active."""
        self.columns, self.width = columns, len(columns)
        self.capacity = min(self.rows.n, len(self.flat) // max(1, self.width))
        self.slot = np.full(self.rows.n, -1, dtype=np.int64)
        self.owner = np.full(self.capacity, -1, dtype=np.int64)
        self.used = np.zeros(self.capacity, dtype=np.int64)
        self.clock = 0
        self.filled = 0

    def shrink(self, keep: Index) -> None:
        """Only these of the active columns stay; rows that are held stay."""
        compress(self.flat, self.width, self.filled, keep)
        self.columns, self.width = self.columns[keep], len(keep)
        capacity = min(self.rows.n, len(self.flat) // max(1, self.width))
        self.owner = np.concatenate([self.owner, np.full(capacity - self.capacity, -1, dtype=np.int64)])
        self.used = np.concatenate([self.used, np.zeros(capacity - self.capacity, dtype=np.int64)])
        self.capacity = capacity

    def slots(self, ids: Index) -> Index:
        """Places of these rows in the store, computing those that are missing; at most `capacity` ids."""
        self.clock += 1
        missing = ids[self.slot[ids] < 0]
        held = self.slot[ids[self.slot[ids] >= 0]]
        self.used[held] = self.clock
        if len(missing):
            self._take(missing)
        return self.slot[ids]

    def _take(self, missing: Index) -> None:
        fresh = np.arange(self.filled, min(self.capacity, self.filled + len(missing)))
        self.filled += len(fresh)
        short = len(missing) - len(fresh)
        if short:
            old = np.argpartition(self.used[: fresh[0] if len(fresh) else self.filled], short - 1)[:short]
            self.slot[self.owner[old]] = -1
            fresh = np.concatenate([fresh, old])
        whole = None if self.width == self.rows.n else self.columns
        table = self.flat[: self.capacity * self.width].reshape(self.capacity, self.width)
        n = len(missing) - short
        step = max(1, (8 << 20) // (8 * max(1, self.width)))
        for i in range(0, n, step):
            k = min(i + step, n)
            self.rows.block(missing[i:k], whole, out=table[fresh[i] : fresh[k - 1] + 1])
        for i in range(n, len(missing), step):
            table[fresh[i : i + step]] = self.rows.block(missing[i : i + step], whole)
        self.evaluations += len(missing) * self.width
        self.slot[missing], self.owner[fresh], self.used[fresh] = fresh, missing, self.clock
