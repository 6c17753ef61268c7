"""Rows of a kernel matrix that is never formed as a whole: computed in stripes on threads, kept while memory allows.

The tiles depend on how many rows and columns there are and on nothing else, so that bits do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.kernels.base import Kernel
from ml_core.kernels.precomputed import needs_all_rows
from ml_core.kernels.stationary import RBFKernel
from ml_core.numerics.exponential import gaussian_of_products, gaussian_rows_single
from ml_core.numerics.jit import compiled
from ml_core.parallel import team

EPS = float(np.finfo(float).eps)
SINGLE_EPS = float(np.finfo(np.float32).eps)
EXPONENT_ERROR, SINGLE_ERROR = 1e-12, 1e-4
CACHE_BYTES = 512 << 20
STRIPE = 4096
TALL = 64
PLAIN = 512
WORTH = 1 << 20
ALL = slice(None)
Index = np.ndarray
Columns = Index | slice
Each = Callable[[Callable[[slice], None], Sequence[slice]], list[None]]


def serial(function: Callable[[slice], None], parts: Sequence[slice]) -> list[None]:
    """One piece after the other."""
    return list(map(function, parts))


@dataclass(frozen=True)
class Centred:
    """Rows less their mean, in lengths of a Gaussian kernel, and half their squares: values go by matrix products.

    In double or single precision; single values take a third of the time.
    """

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

    def single(self) -> Centred | None:
        """In single precision; None where exponents would err by 1e-4."""
        if not 8 * SINGLE_EPS * self.half.max(initial=0.0) <= SINGLE_ERROR:
            return None
        return Centred(self.P.astype(np.float32), self.half.astype(np.float32))

    def subset(self, rows: Columns) -> Centred:
        """Some of the rows."""
        return Centred(self.P[rows], self.half[rows])

    def fill(self, rows: Index, other: Centred, flat: np.ndarray, width: int, first: int, slots: Index) -> None:
        """Values of rows and all of the other's go to rows `slots` of the store of that width, from column `first`."""
        D = self.P[rows] @ other.P.T
        if flat.dtype == np.float32:
            gaussian_rows_single(D, self.half[rows], other.half, flat, width, first, slots)
            return
        gaussian_of_products(D, self.half[rows], other.half)
        flat[: len(flat) // width * width].reshape(-1, width)[slots, first : first + D.shape[1]] = D

    def values(self, rows: Columns, other: Centred) -> Matrix:
        """(rows, all of the other's) of the kernel matrix."""
        D = self.P[rows] @ other.P.T
        if D.dtype == np.float32:
            gaussian_rows_single(D, self.half[rows], other.half, D.reshape(-1), D.shape[1], 0, np.arange(len(D)))
        else:
            gaussian_of_products(D, self.half[rows], other.half)
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

    def single(self) -> KernelRows:
        """The same values in single precision, where that is faster and exact enough; else these."""
        centred = self.centred and self.centred.single()
        if centred is None:
            return self
        out = copy(self)
        out.centred = centred
        return out

    def block(self, rows: Index, columns: Columns = ALL) -> Matrix:
        """(len(rows), columns) values."""
        if self.gram is not None:
            return self.gram[rows, columns] if isinstance(columns, slice) else self.gram[np.ix_(rows, columns)]
        if self.centred is None:
            return self.kernel(self.X[rows], self.X[columns])
        return self.centred.values(rows, self.centred.subset(columns))

    def square(self, rows: Index, each: Each = serial) -> Matrix:
        """(len(rows), len(rows)) values of rows among themselves; one triangle is computed, in strips on threads."""
        if self.gram is not None or self.centred is None:
            return self.kernel(self.X[rows]) if self.gram is None else self.gram[np.ix_(rows, rows)]
        own, K = self.centred.subset(rows), np.empty((len(rows), len(rows)))

        def strip(part: slice) -> None:
            i, j = part.start, part.stop
            K[i:j, :j] = own.values(part, own.subset(slice(0, j)))
            K[:i, i:j] = K[i:j, :i].T

        each(strip, [slice(i, min(i + TALL, len(rows))) for i in range(0, len(rows), TALL)])
        return K

    def times(self, beta: Vector, columns: Index | None = None) -> Vector:
        """Σᵢ βᵢ k(xᵢ, xⱼ) for the columns j, from the rows with βᵢ ≠ 0, on the thread budget."""
        on = np.flatnonzero(beta)
        out = np.zeros(self.n if columns is None else len(columns))

        def add(part: slice) -> None:
            these = part if columns is None else columns[part]
            other = self.centred and self.centred.subset(these)
            for i in range(0, len(on), self.tall):
                few = on[i : i + self.tall]
                K = self.centred.values(few, other) if self.centred and other else self.block(few, these)
                add_rows(K.reshape(-1), K.shape[1], 0, np.arange(len(few)), beta[few], out[part])

        with team(len(on) * len(out) >= WORTH) as each:
            each(add, stripes(len(out)))
        return out


def stripes(width: int) -> list[slice]:
    """So many columns in an even number of about equal pieces."""
    count = 2 * max(1, -(-width // STRIPE))
    return [slice(a, b) for a, b in pairwise(width * i // count for i in range(count + 1)) if a < b]


@compiled(lambda: (np.zeros(4), 2, 0, np.zeros(1, np.int64), np.zeros(1), np.zeros(2)),
          lambda: (np.zeros(4, np.float32), 2, 0, np.zeros(1, np.int64), np.zeros(1), np.zeros(2)))  # fmt: skip
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


@compiled(lambda: (np.zeros(4), 2, 1, np.zeros(1, np.int64)),
          lambda: (np.zeros(4, np.float32), 2, 1, np.zeros(1, np.int64)))  # fmt: skip
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
        width, kind = rows.n, np.dtype(np.float64) if rows.centred is None else rows.centred.P.dtype
        capacity = min(rows.n, max(least, size // (kind.itemsize * width)))
        self.flat: np.ndarray = np.empty(capacity * width, kind)
        self.computed = 0
        self.reset(np.arange(width))

    def reset(self, columns: Index) -> None:
        """Forget every row; from now on these columns are active."""
        self._narrow(columns)
        self.capacity = min(self.rows.n, len(self.flat) // max(1, self.width))
        self.slot = np.full(self.rows.n, -1, dtype=np.int64)
        self.owner = np.full(self.capacity, -1, dtype=np.int64)
        self.used = np.zeros(self.capacity, dtype=np.int64)
        self.clock = 0
        self.filled = 0

    def _narrow(self, columns: Index) -> None:
        self.columns, self.width = columns, len(columns)
        self.near = self.rows.centred and self.rows.centred.subset(columns)

    def shrink(self, keep: Index) -> None:
        """Only these of the active columns stay; rows that are held stay."""
        compress(self.flat, self.width, self.filled, keep)
        self._narrow(self.columns[keep])
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
        out, tall = np.zeros(self.width), self.rows.tall

        def add(part: slice) -> None:
            for i in range(0, len(missing), tall):
                self._fill(missing[i : i + tall], part, fresh[i : i + tall])
            add_rows(self.flat, self.width, part.start, slots, total, out[part])

        self.each(add, stripes(self.width))
        self.computed = len(missing)
        return out

    def _fill(self, few: Index, part: slice, slots: Index) -> None:
        """The stretch `part` of these rows' values, into their slots."""
        if self.near is not None and self.rows.centred is not None:
            self.rows.centred.fill(few, self.near.subset(part), self.flat, self.width, part.start, slots)
            return
        table = self.flat[: self.capacity * self.width].reshape(self.capacity, self.width)
        table[slots, part] = self.rows.block(few, part if self.width == self.rows.n else self.columns[part])

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
