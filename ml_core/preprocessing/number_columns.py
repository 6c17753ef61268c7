"""Compiled passes over one column of numbers, NaN where a cell is empty: what it holds, and its place in a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.column_moments import LEAST, column_moments
from ml_core.numerics.jit import compiled, read_only, regrouped
from ml_core.parallel import ordered_map

T = TypeVar("T")
R = TypeVar("R")
BLOCK = 1024
"""Cells summed by themselves before they are added to the rest, so that long sums round little."""
TILE = 131_072
"""Cells of the matrix written at once: they stay in a core's cache while each column adds its own."""
SHARED = 1_000_000
"""Cells from which the work is worth threads."""
SQUARES = (1e-140, 1e140)
"""Range of a column's spread within which squares neither vanish nor overflow."""


def spread_over(function: Callable[[T], R], items: Sequence[T], cells: int) -> Iterable[R]:
    """`map`, on the thread budget where that many cells are read; results in order."""
    return ordered_map(function, items) if cells >= SHARED else map(function, items)


@regrouped
def _part(x: Vector, a: int, b: int) -> tuple[float, int]:
    total, gaps = 0.0, 0
    for i in range(a, b):
        v = x[i]
        gone = v != v  # noqa: PLR0124 - NaN alone differs from itself
        total += 0.0 if gone else v
        gaps += 1 if gone else 0
    return total, gaps


@compiled(lambda: read_only(np.ones(2)))
def _present(x: Vector) -> tuple[float, int]:
    """The sum of the cells that are not empty, and how many are."""
    total, gaps = 0.0, 0
    for a in range(0, len(x), BLOCK):
        t, g = _part(x, a, min(a + BLOCK, len(x)))
        total += t
        gaps += g
    return total, gaps


@regrouped
def _deviations(x: Vector, a: int, b: int, fill: float, middle: float) -> tuple[float, float]:
    first, second = 0.0, 0.0
    for i in range(a, b):
        v = x[i]
        z = (fill if v != v else v) - middle  # noqa: PLR0124 - NaN alone differs from itself
        first += z
        second += z * z
    return first, second


@compiled(lambda: (*read_only(np.ones(2)), 0.0, 0.0))
def _spread(x: Vector, fill: float, middle: float) -> tuple[float, float]:
    """Σ z and Σ z² of z = x - middle, `fill` standing for empty cells."""
    first, second = 0.0, 0.0
    for a in range(0, len(x), BLOCK):
        f, q = _deviations(x, a, min(a + BLOCK, len(x)), fill, middle)
        first += f
        second += q
    return first, second


@compiled(lambda: (*read_only(np.ones(2)), 0.0, 0.0, 1.0, np.ones((2, 1)), 0))
def _write(x: Vector, fill: float, shift: float, scale: float, out: Matrix, j: int) -> int:
    """(x - shift)/scale into column j of `out`, `fill` standing for empty cells; how many are empty."""
    gaps = 0
    for i in range(len(x)):
        v = x[i]
        if v != v:  # noqa: PLR0124 - NaN alone differs from itself
            v = fill
            gaps += 1
        out[i, j] = (v - shift) / scale
    return gaps


def column_of(values: np.ndarray) -> Vector:
    """The column as the passes read it: float64, contiguous, read-only; copied only where it is not contiguous."""
    x = np.ascontiguousarray(values, dtype=np.float64).view()
    x.flags.writeable = False
    return x


def gaps_and_mean(values: np.ndarray) -> tuple[int, float]:
    """How many cells are empty, and the mean of the others: NaN where there are none, not finite where the sum is not.

    A second pass over the deviations takes back what rounding took, so that equal cells have themselves as mean.
    """
    x = column_of(values)
    total, gaps = _present(x)
    present = len(x) - gaps
    if not present:
        return gaps, np.nan
    mean = total / present
    return gaps, mean + _spread(x, mean, mean)[0] / present


def lie(values: np.ndarray, fill: float | None) -> tuple[float, float, float, float]:
    """Least, largest, mean and standard deviation (0 if constant) of a column, `fill` standing for empty cells.

    NaN throughout where a cell is empty and nothing stands for it.
    """
    x = column_of(values)
    total, gaps = _present(x)
    low, high = float(np.fmin.reduce(x)), float(np.fmax.reduce(x))
    own = np.nan if fill is None else fill
    if gaps:
        low, high, total = min(own, low), max(own, high), total + gaps * own
    if not low <= high or low == high:
        return low, high, low, 0.0 if low == high else np.nan
    size = max(high - low, abs(low), abs(high))
    if size > SQUARES[1] or high - low < SQUARES[0]:
        mean, sd, _ = column_moments(np.where(np.isnan(x), own, x)[:, None], np.ones(len(x)))
        return low, high, float(mean[0]), float(sd[0])
    middle = total / len(x)
    first, second = _spread(x, own, middle)
    step = first / len(x)
    return low, high, middle + step, max(float(np.sqrt(max(second / len(x) - step * step, 0.0))), LEAST)


@dataclass(frozen=True)
class Placed:
    """A column, what stands for its empty cells (NaN: nothing), its scale, and its place in the matrix."""

    values: Vector
    fill: float
    shift: float
    scale: float
    place: int


def write(columns: Sequence[Placed], out: Matrix) -> np.ndarray:
    """Write the columns (n,) into `out` (n, k) as (x - shift)/scale, once and scaled; empty cells of each column."""
    n, k = out.shape
    step = max(1, TILE // max(k, 1))

    def tile(a: int) -> list[int]:
        rows: Any = out[a : a + step]
        return [_write(c.values[a : a + step], c.fill, c.shift, c.scale, rows, c.place) for c in columns]

    gaps = np.zeros(len(columns), dtype=np.int64)
    for found in spread_over(tile, range(0, n, step), n * len(columns)):
        gaps += np.array(found, dtype=np.int64)
    return gaps
