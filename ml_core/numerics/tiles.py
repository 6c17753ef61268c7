"""Cholesky factors and inverses of large matrices on the thread budget, tile by tile, in place.

The tiles and the order of their sums depend on the size alone, so that the bits of an answer do not depend on how many
threads worked on it. BLAS and LAPACK are called through the addresses that SciPy exports, which releases the
interpreter. A matrix has its rows in memory one after another, perhaps with gaps, its lower triangle in use; to LAPACK
that is the upper triangle of a column-major matrix M with M[r, c] = A[c, r], A = L Lᵀ = Uᵀ U. Blocked algorithms as in
LAPACK's potrf, trtri and lauum, in double or single precision.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from ml_core.parallel import team

TILE = (128, 384)
"""Least and most rows of a diagonal tile, else an eighth of the matrix: its factor is the serial part of a step."""
REAL: dict[Any, tuple[str, Any]] = {np.dtype(np.float64): ("d", ctypes.c_double),
                                    np.dtype(np.float32): ("s", ctypes.c_float)}  # fmt: skip
PARTS = 8
"""Pieces of a step, fixed so that bits are."""
Each = Callable[[Callable[[Any], None], Sequence[Any]], list[None]]


@cache
def _routine(name: str, lapack: bool = False) -> Any:
    """The Fortran routine as a C function of pointers."""
    capsule = (cython_lapack if lapack else cython_blas).__pyx_capi__[name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None)(pointer_of(capsule, name_of(capsule)))


class _Tiles:
    """Blocks of M, called by their first rows and columns."""

    def __init__(self, A: np.ndarray) -> None:
        packed = A.ndim == 2 and A.strides[1] == A.itemsize and A.strides[0] >= A.shape[1] * A.itemsize
        if not packed or A.shape[0] != A.shape[1] or A.dtype not in REAL:
            raise TypeError("tiles are of square C-ordered matrices of float64 or float32")
        self.base, self.n, self.size = A.ctypes.data, len(A), A.itemsize
        self.prefix, self.real = REAL[A.dtype]
        self.lead = ctypes.byref(ctypes.c_int(A.strides[0] // A.itemsize))
        self.column = A.strides[0]
        width = min(max(self.n // 8, TILE[0]), TILE[1])
        self.steps = list(pairwise([*range(0, self.n, width), self.n]))

    def at(self, row: int, column: int) -> ctypes.c_void_p:
        """Address of M[row, column]."""
        return ctypes.c_void_p(self.base + column * self.column + row * self.size)

    def call(self, name: str, flags: str, sizes: Sequence[int], *operands: Any) -> None:
        """One routine of BLAS; operands are addresses, each followed by the leading dimension, and scalars."""
        given: list[Any] = [ctypes.byref(ctypes.c_char(f.encode())) for f in flags]
        given += [ctypes.byref(ctypes.c_int(size)) for size in sizes]
        for o in operands:
            given += [o, self.lead] if isinstance(o, ctypes.c_void_p) else [ctypes.byref(self.real(o))]
        _routine(self.prefix + name)(*given)

    def checked(self, name: str, flags: str, size: int, block: ctypes.c_void_p) -> int:
        """A LAPACK routine on one diagonal tile; its info."""
        info = ctypes.c_int(0)
        given = [ctypes.byref(ctypes.c_char(f.encode())) for f in flags]
        order = ctypes.byref(ctypes.c_int(size))
        _routine(self.prefix + name, lapack=True)(*given, order, block, self.lead, ctypes.byref(info))
        return info.value


def cholesky(A: np.ndarray) -> bool:
    """L over the lower triangle of A (n, n); False where a pivot is not positive, A half overwritten. O(n³/3)."""
    M = _Tiles(A)
    with team() as each:
        for a, b in M.steps:
            if M.checked("potrf", "U", b - a, M.at(a, a)) != 0:
                return False
            _below(M, each, a, b)
    return True


def _below(M: _Tiles, each: Each, a: int, b: int) -> None:
    """The strips right of step (a, b), largest first: solved by its factor, then subtracted from what is left."""
    later = list(_parts(b, M.n))[::-1]

    def solved(strip: tuple[int, int]) -> None:
        i, j = strip
        M.call("trsm", "LUTN", (b - a, j - i), 1.0, M.at(a, a), M.at(a, i))

    def less(strip: tuple[int, int]) -> None:
        i, j = strip
        if i > b:
            M.call("gemm", "TN", (i - b, j - i, b - a), -1.0, M.at(a, b), M.at(a, i), 1.0, M.at(b, i))
        M.call("syrk", "UT", (j - i, b - a), -1.0, M.at(a, i), 1.0, M.at(i, i))

    each(solved, later)
    each(less, later)


def solved(L: np.ndarray, B: np.ndarray) -> None:
    """A⁻¹bᵢ over the rows bᵢ of B (q, n), C-ordered as `cholesky`'s triangle L (n, n) and of its type; O(n² q)."""
    M, info = _Tiles(L), ctypes.c_int(0)
    if B.shape[1] != M.n or B.dtype != L.dtype or not B.flags.c_contiguous:
        raise TypeError("right sides are the rows of a C-ordered matrix of the factor's type")
    n, q = (ctypes.byref(ctypes.c_int(k)) for k in (M.n, len(B)))
    upper, rows = ctypes.byref(ctypes.c_char(b"U")), ctypes.c_void_p(B.ctypes.data)
    _routine(M.prefix + "potrs", lapack=True)(upper, n, q, M.at(0, 0), M.lead, rows, n, ctypes.byref(info))


def inverse(A: np.ndarray) -> None:
    """The lower triangle of A⁻¹ over its Cholesky factor (n, n); O(2n³/3)."""
    M = _Tiles(A)
    with team() as each:
        for a, b in M.steps:
            _inverted(M, each, a, b)
        for a, b in M.steps:
            _squared(M, each, a, b)


def _inverted(M: _Tiles, each: Each, a: int, b: int) -> None:
    """One step of U⁻¹ in place: with blocks 0, 1 (a … b) and 2, U₁₂ becomes -U₁₁⁻¹U₁₂, U₀₂ gains U₀₁U₁₂."""

    def after(part: tuple[int, int]) -> None:
        i, j = part
        M.call("trsm", "LUNN", (b - a, j - i), -1.0, M.at(a, a), M.at(a, i))
        if a:
            M.call("gemm", "NN", (a, j - i, b - a), 1.0, M.at(0, a), M.at(a, i), 1.0, M.at(0, i))

    def before(part: tuple[int, int]) -> None:
        i, j = part
        M.call("trsm", "RUNN", (j - i, b - a), 1.0, M.at(a, a), M.at(i, a))

    each(after, list(_parts(b, M.n)))
    each(before, list(_parts(0, a)))
    M.checked("trtri", "UN", b - a, M.at(a, a))


def _squared(M: _Tiles, each: Each, a: int, b: int) -> None:
    """One step of W Wᵀ in place: W₀₁W₀₁ᵀ is added to the blocks before, W₀₁ becomes W₀₁W₁₁ᵀ."""

    def upper(part: tuple[int, int]) -> None:
        i, j = part
        if i:
            M.call("gemm", "NT", (i, j - i, b - a), 1.0, M.at(0, a), M.at(i, a), 1.0, M.at(0, i))
        M.call("syrk", "UN", (j - i, b - a), 1.0, M.at(i, a), 1.0, M.at(i, i))

    def beside(part: tuple[int, int]) -> None:
        i, j = part
        M.call("trmm", "RUTN", (j - i, b - a), 1.0, M.at(a, a), M.at(i, a))

    each(upper, list(_parts(0, a))[::-1])
    each(beside, list(_parts(0, a)))
    M.checked("lauum", "U", b - a, M.at(a, a))


def _parts(first: int, last: int) -> Iterator[tuple[int, int]]:
    """The range in at most `PARTS` pieces."""
    edges = [first + (last - first) * i // PARTS for i in range(PARTS + 1)]
    return ((i, j) for i, j in pairwise(edges) if i < j)
