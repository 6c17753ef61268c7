"""Rows of a kernel matrix that is never formed as a whole: computed in stripes on threads, kept while memory allows.

The tiles depend on how many rows and columns there are and on nothing else, so that bits do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.kernels.base import Kernel
from ml_core.kernels.precomputed import needs_all_rows
from ml_core.kernels.stationary import RBFKernel
from ml_core.numerics.exponential import gaussian_of_products
from ml_core.numerics.jit import compiled
from ml_core.parallel import team

EPS = float(np.finfo(float).eps)
EXPONENT_ERROR = 1e-12
CACHE_BYTES = 512 << 20
STRIPE = 4096
TALL = 64
PLAIN = 512
WORTH = 1 << 20
ALL = slice(None)
Index = np.ndarray
Columns = Index | slice
Each = Callable[[Callable[[slice], None], Sequence[slice]], list[None]]


@dataclass(frozen=True)
class Centred:
    """Rows less their mean, in lengths of a Gaussian kernel, and half their squares: values go by matrix products."""

    P: Matrix
    half: Vector

    @classmethod
    def of(cls, kernel: Kernel, X: Matrix) -> Centred | None:
        """None for other kernels, and where rows lie so far from their mean that exponents would err by 1e-12."""
        if type(kernel) is not RBFKernel:
            return None
        P = (X - X.mean(axis=0)) / np.asarray(kernel.length_scale)
        half = 0.5 * np.einsum("ij,ij->i", P, P)
        exact = 8 * EPS * half.max(initial=0.0) <= EXPONENT_ERROR
        return cls(np.ascontiguousarray(P), half) if exact else None

    def subset(self, rows: Index) -> Centred:
        """Some of the rows."""
        return Centred(self.P[rows], self.half[rows])

    def values(self, rows: Index, columns: Columns) -> Matrix:
        """(rows, columns) of the kernel matrix."""
        D = self.P[rows] @ self.P[columns].T
        gaussian_of_products(D, self.half[rows], self.half[columns])
        return D


class KernelRows:
    """Values of one kernel among training rows.

    The Gaussian kernel goes by matrix products where these are exact enough (rows far from their mean, in lengths of
    the kernel, are compared by subtraction); all others by `kernel(A, B)`. A kernel whose rows are its values with all
    training rows is held as a whole, as the table is.
    """

    def __init__(self, kernel: Kernel, X: Matrix) -> None:
        self.kernel, self.X, self.n = kernel, X, len(X)
        self.diag: Vector = kernel.diag(X)
        self.gram: Matrix | None = kernel(X) if needs_all_rows(kernel) else None
        self.centred = Centred.of(kernel, X)
        self.tall = TALL if self.centred else PLAIN

    def subset(self, rows: Index) -> KernelRows:
        """The same values among some of the rows."""
        out = object.__new__(KernelRows)
        out.kernel, out.X, out.n, out.tall = self.kernel, self.X[rows], len(rows), self.tall
        out.gram = None if self.gram is None else self.gram[np.ix_(rows, rows)]
        out.diag, out.centred = self.diag[rows], self.centred and self.centred.subset(rows)
        return out

    def block(self, rows: Index, columns: Columns = ALL) -> Matrix:
        """(len(rows), columns) values."""
        if self.gram is not None:
            return self.gram[rows, columns] if isinstance(columns, slice) else self.gram[np.ix_(rows, columns)]
        if self.centred is None:
            return self.kernel(self.X[rows], self.X[columns])
        return self.centred.values(rows, columns)

    def times(self, beta: Vector, columns: Index | None = None) -> Vector:
        """Σᵢ βᵢ k(xᵢ, xⱼ) for the columns j, from the rows with βᵢ ≠ 0, on the thread budget."""
        on = np.flatnonzero(beta)
        out = np.zeros(self.n if columns is None else len(columns))

        def add(part: slice) -> None:
            for i in range(0, len(on), self.tall):
                few = on[i : i + self.tall]
                out[part] += beta[few] @ self.block(few, part if columns is None else columns[part])

        with team(len(on) * len(out) >= WORTH) as each:
            each(add, stripes(len(out)))
        return out


def stripes(width: int) -> list[slice]:
    """So many columns in an even number of about equal pieces."""
    count = 2 * max(1, -(-width // STRIPE))
    return [slice(a, b) for a, b in pairwise(width * i // count for i in range(count + 1)) if a < b]


@compiled(lambda: (np.zeros(4), 2, 0, np.zeros(1, np.int64), np.zeros(1), np.zeros(2)))
def add_rows(flat: Vector, width: int, first: int, slots: Index, weight: Vector, out: Vector) -> None:
    """out += Σᵢ weightᵢ · row slotᵢ of the flat row store, from column `first` on, in stretches that stay near."""
    for start in range(0, len(out), 2048):
        stop = min(start + 2048, len(out))
        part = out[start:stop]
        for i in range(len(slots)):
            w = weight[i]
            if w != 0.0:
                row = flat[slots[i] * width + first + start : slots[i] * width + first + stop]
                for k in range(len(part)):
                    part[k] += w * row[k]


@compiled(lambda: (np.zeros(4), 2, 1, np.zeros(1, np.int64)))
def compress(flat: Vector, width: int, slots: int, keep: Index) -> None:
    """Leave the columns `keep` of the first rows of the store, in place."""
    m = len(keep)
    for i in range(slots):
        for k in range(m):
            flat[i * m + k] = flat[i * width + keep[k]]


class RowCache:
    """The most recently used rows over the active columns, within `size` bytes; O(1) look-up by row.

    `each` runs the stripes of a sum on threads; `computed` counts the rows that the last sum missed.
    """

    def __init__(self, rows: KernelRows, size: int, least: int, each: Each) -> None:
        self.rows, self.each = rows, each
        width = rows.n
        capacity = min(rows.n, max(least, size // (8 * width)))
        self.flat: Vector = np.empty(capacity * width)
        self.computed = 0
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

    def weighted(self, ids: Index, weight: Vector) -> Vector:
        """(active columns,) Σ weight · row over at most `capacity` rows, which may repeat; those missing are kept."""
        self.clock += 1
        ids, place = np.unique(ids[weight != 0.0], return_inverse=True)
        total = np.bincount(place, weight[weight != 0.0], len(ids)).astype(np.float64)
        missing = ids[self.slot[ids] < 0]
        self.used[self.slot[ids[self.slot[ids] >= 0]]] = self.clock
        self._make_room(missing)
        slots, fresh = self.slot[ids], self.slot[missing]
        table = self.flat[: self.capacity * self.width].reshape(self.capacity, self.width)
        out, whole, tall = np.zeros(self.width), self.width == self.rows.n, self.rows.tall

        def add(part: slice) -> None:
            columns = part if whole else self.columns[part]
            for i in range(0, len(missing), tall):
                table[fresh[i : i + tall], part] = self.rows.block(missing[i : i + tall], columns)
            add_rows(self.flat, self.width, part.start, slots, total, out[part])

        self.each(add, stripes(self.width))
        self.computed = len(missing)
        return out

    def _make_room(self, missing: Index) -> None:
        """Slots for these rows: empty ones, then those that were used longest ago."""
        fresh = np.arange(self.filled, min(self.capacity, self.filled + len(missing)))
        short = len(missing) - len(fresh)
        if short:
            old = np.argpartition(self.used[: self.filled], short - 1)[:short]
            self.slot[self.owner[old]] = -1
            fresh = np.concatenate([fresh, old])
        self.filled = min(self.capacity, self.filled + len(missing))
        self.slot[missing], self.owner[fresh], self.used[fresh] = fresh, missing, self.clock
