"""Summary of each column: what is missing, how it is distributed. Every number is finite or null."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, repeat
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.intake.findings import Json, Type, one_chunk
from service.intake.words import count_distinct

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
MAX_BINS = 30
MAX_LEVELS = 100
STEP = 1 << 20
IN_MEMORY_ROWS = 1 << 22
MAX_THREADS = 8


def profile(table: pa.Table, types: tuple[Type, ...], folder: Path | None = None) -> list[Json]:
    """One record per column, every number exact. O(n log n) time.

    Columns beyond 4 million rows are sorted in files in `folder`, so that memory does not grow with them.
    """
    with ThreadPoolExecutor(threads()) as pool:
        return list(pool.map(column_profile, table.column_names, table.columns, types, repeat(folder)))


def threads() -> int:
    """How many columns are profiled at once: each needs room for its sorted copy."""
    return min(MAX_THREADS, len(os.sched_getaffinity(0)))


def column_profile(name: str, cells: pa.ChunkedArray, kind: Type, folder: Path | None = None) -> Json:
    """`name`, `type`, `missing`, `distinct` and, by type, numbers or levels."""
    array = one_chunk(cells)
    record: Json = {"name": name, "type": kind, "missing": array.null_count}
    if kind in {"number", "integer"}:
        if folder is None or len(array) <= IN_MEMORY_ROWS:
            return record | _numbers(np.sort(array.drop_null().to_numpy()))
        return record | _in_file(array, folder)
    if kind in {"date", "datetime"}:
        return record | _times(array.drop_null())
    return record | ({"distinct": count_distinct(array, folder)} if kind == "text" else _levels(array.drop_null()))


def _in_file(array: pa.Array, folder: Path) -> Json:
    """The same from a file that is sorted where it lies: its pages are the disk's, not the process's."""
    with NamedTemporaryFile(dir=folder) as file:
        for start in range(0, len(array), STEP):
            array.slice(start, STEP).drop_null().to_numpy().tofile(file)
        file.flush()
        if not file.tell():
            return _numbers(np.empty(0))
        ordered = np.asarray(np.memmap(file, array.type.to_pandas_dtype(), "r+"))
        ordered.sort()
        return _numbers(ordered)


def _numbers(ordered: np.ndarray[Any, Any]) -> Json:
    """Quantiles interpolate linearly, the deviation divides by n − 1; infinite values count in `distinct` only."""
    blocks = (ordered[start : start + STEP + 1] for start in range(0, ordered.size, STEP))
    distinct = sum(int(np.count_nonzero(block[1:] != block[:-1])) for block in blocks) + (ordered.size > 0)
    if ordered.dtype.kind == "f":
        ordered = ordered[np.searchsorted(ordered, -np.inf, "right") : np.searchsorted(ordered, np.inf)]
    if not ordered.size:
        empty = dict.fromkeys(("min", "max", "mean", "standard_deviation", "quantiles", "histogram"))
        return {"distinct": distinct} | empty
    mean, deviation = _moments(ordered)
    return {
        "distinct": distinct, "min": ordered[0].item(), "max": ordered[-1].item(), "mean": mean,
        "standard_deviation": deviation,
        "quantiles": [{"probability": p, "value": _quantile(ordered, p)} for p in QUANTILES],
        "histogram": _histogram(ordered),
    }  # fmt: skip


def _moments(ordered: np.ndarray[Any, Any]) -> tuple[float, float | None]:
    """Mean and sample standard deviation, scaled by the largest magnitude so that no square overflows."""
    scale = max(abs(float(ordered[0])), abs(float(ordered[-1])))
    if scale == 0.0:
        return 0.0, 0.0 if ordered.size > 1 else None
    exponent = max(-1023, min(math.frexp(scale)[1], 1023))
    factor, room = math.ldexp(1.0, -exponent), np.empty(min(STEP, ordered.size))

    def scaled() -> Iterator[np.ndarray[Any, Any]]:
        for start in range(0, ordered.size, STEP):
            part = ordered[start : start + STEP]
            yield np.multiply(part, factor, out=room[: part.size])

    mean = math.fsum(float(part.sum()) for part in scaled()) / ordered.size
    back = finite(_ldexp(mean, exponent))
    if ordered.size == 1:
        return back if back is not None else 0.0, None
    squares = math.fsum(float(np.square(np.subtract(part, mean, out=part), out=part).sum()) for part in scaled())
    deviation = math.sqrt(squares / (ordered.size - 1))
    return back if back is not None else 0.0, finite(_ldexp(deviation, exponent))


def _ldexp(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


def finite(value: float) -> float | None:
    """The value, or None where JSON has no number for it."""
    return value if math.isfinite(value) else None


def _quantile(ordered: np.ndarray[Any, Any], probability: float) -> float:
    at = probability * (ordered.size - 1)
    low, share = int(at), at - int(at)
    below, above = float(ordered[low]), float(ordered[min(low + 1, ordered.size - 1)])
    return below if share == 0.0 else below * (1.0 - share) + above * share


def _histogram(ordered: np.ndarray[Any, Any]) -> Json | None:
    """Equal bins, ⌈2 n^(1/3)⌉ of them and at most 30; null when the range overflows."""
    low, high = float(ordered[0]), float(ordered[-1])
    if low == high:
        return {"edges": [low, high], "counts": [int(ordered.size)]}
    if not math.isfinite(high - low):
        return None
    bins = min(MAX_BINS, math.ceil(2.0 * ordered.size ** (1.0 / 3.0)))
    with np.errstate(over="ignore"):  # of the last edge, which is then `high` itself
        edges = np.unique(np.linspace(low, high, bins + 1))
    cuts = [0, *(int(i) for i in np.searchsorted(ordered, edges[1:-1])), int(ordered.size)]
    return {"edges": edges.tolist(), "counts": [b - a for a, b in pairwise(cuts)]}


def _times(array: pa.Array) -> Json:
    ends = pc.min_max(array)
    distinct = pc.count_distinct(array, mode="only_valid").as_py()
    return {"distinct": distinct, "min": _time(ends["min"]), "max": _time(ends["max"])}


def _time(value: pa.Scalar) -> str | None:
    text = pc.cast(value, pa.string()).as_py()
    return None if text is None else rfc3339(text)


def rfc3339(text: str) -> str:
    """Arrow's text of a date or time as RFC 3339: a T between date and time, no zero fraction."""
    return text.replace(" ", "T").replace(".000000", "")


def _levels(array: pa.Array) -> Json:
    """The commonest values first, ties in order of value."""
    counted = pc.value_counts(array)
    pairs = sorted(
        zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True), key=lambda p: (-p[1], p[0])
    )
    return {"distinct": len(pairs), "levels": [{"value": value, "count": count} for value, count in pairs[:MAX_LEVELS]]}
