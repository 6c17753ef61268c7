"""Where the rows of a table lie that is never in memory as a whole: two passes over its chunks.

The first pass chooses, per numeric column, values near evenly spaced ranks; the second counts the cells below and up to
each of them, which is exact. Both go by chunk number, so the answer has the same bits on any number of threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ml_core import parallel, progress
from ml_core.preprocessing.reference import POINTS, Reference, Sketch, level_counts, levelled, levels_of
from service.usecases import tabular
from service.usecases.chunked import Source

KEPT = 8 * POINTS
Weighted = tuple[np.ndarray, np.ndarray]


def reference_of(source: Source) -> Reference:
    """The reference of the rows that a fit from these chunks learns from."""
    rows, found = 0, {f: _start(source.kinds[f]) for f in source.features}
    for done, (n, parts) in enumerate(parallel.spread_map(_look, range(len(source)), (source,)), start=1):
        rows += n
        progress.tick(done, total=len(source), unit="chunks")
        for name, (part, missing) in parts.items():
            total = found[name]
            total[1] += missing
            total[0] = _merged(total[0], part) if isinstance(part, tuple) else total[0] + Counter(part)
    points = {name: thinned(f[0][0], f[0][1], POINTS)[0] for name, f in found.items() if isinstance(f[0], tuple)}
    counts = {name: np.zeros((len(p), 2)) for name, p in points.items()}
    if points:
        for done, part in enumerate(parallel.spread_map(_count, range(len(source)), (source, points)), start=1):
            progress.tick(done, total=len(source), unit="chunks")
            for name in points:
                counts[name] += part[name]
    columns = [
        Sketch(np.column_stack([points[f], counts[f]]), found[f][1]) if f in points else levels_of(*found[f])
        for f in source.features
    ]
    kinds: Sequence[str] = [source.kinds[f] for f in source.features]
    return Reference(rows, source.features, tuple(kinds), tuple(columns))


def _start(kind: str) -> list[Any]:
    return [Counter[str]() if levelled(kind) else (np.zeros(0), np.zeros(0)), 0]


def _look(i: int, source: Source) -> tuple[int, dict[str, tuple[Any, int]]]:
    """Rows kept of piece i; per column its levels, or values that stand for how many cells; and its empty cells."""
    part, out = source.piece(i, source.features), {}
    for name in source.features:
        column = tabular.column(part[name], source.kinds[name])
        if levelled(column.type):
            counts, missing = level_counts(column)
            out[name] = (dict(counts), missing)
            continue
        present = ~column.missing
        values, weights = np.unique(column.values[present], return_counts=True)
        out[name] = (thinned(values, weights.astype(np.float64), KEPT), int((~present).sum()))  # type: ignore[assignment]
    return part.num_rows, out


def _count(i: int, source: Source, points: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """(m, 2) per column: cells of piece i below and up to each of its points."""
    part, out = source.piece(i, tuple(points)), {}
    for name, at in points.items():
        column = tabular.column(part[name], source.kinds[name])
        values = np.sort(column.values[~column.missing])
        out[name] = np.column_stack([np.searchsorted(values, at, "left"), np.searchsorted(values, at, "right")])
    return out


def _merged(one: Weighted, other: Weighted) -> Weighted:
    values, places = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
    return thinned(values, np.bincount(places, np.concatenate([one[1], other[1]]), len(values)), KEPT)


def thinned(values: np.ndarray, weights: np.ndarray, most: int) -> Weighted:
    """At most `most` of the increasing values, with the extremes; what is left out weighs on the next one kept."""
    if len(values) <= most:
        return values, weights
    upto = np.cumsum(weights)
    at = np.searchsorted(upto, np.linspace(0.0, upto[-1], most))
    kept = np.unique(np.minimum(at, len(values) - 1))
    kept[0] = 0
    return values[kept], np.diff(upto[kept], prepend=0.0)
