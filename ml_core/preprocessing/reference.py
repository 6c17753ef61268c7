"""Where the training rows lie, column by column, in a fixed number of numbers: what later rows are compared with.

Of a column of levels (category, text, boolean) it is how often each occurs; of numbers and moments the exact number of
training cells below and up to each of at most 256 of its values, the least and the largest among them. Between two of
those values the distribution function is known to within `error_bound`; with at most 256 values it is known exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidData
from ml_core.preprocessing.policies import LEVELLED
from ml_core.preprocessing.table import Column, Table

POINTS = 256
MAX_KEPT = 2_000
TRUTHS = ("false", "true")
IMPOSSIBLE = "the model cannot have seen these rows: without them a count of training cells would be negative"


@portable
@dataclass(frozen=True)
class Sketch:
    """The distribution function of the n finite cells of a numeric column at some of its values.

    `counts` (m, 3), m ≤ 256: value, training cells below it, training cells up to it; by value. `missing`: empty cells.
    """

    counts: Matrix
    missing: int

    @property
    def rows(self) -> int:
        """Training cells with a value."""
        return int(self.counts[-1, 2]) if len(self.counts) else 0

    @property
    def range(self) -> tuple[float, float] | None:
        """Least and largest training value; after rows were forgotten, an interval that holds them."""
        return (float(self.counts[0, 0]), float(self.counts[-1, 0])) if self.rows else None

    @property
    def error_bound(self) -> float:
        """Largest share of the training cells that lies strictly between two neighbouring points."""
        gaps = self.counts[1:, 1] - self.counts[:-1, 2]
        return float(gaps.max() / self.rows) if len(gaps) else 0.0

    def upto(self, x: Vector) -> tuple[Vector, Vector]:
        """Least and largest possible number of training cells up to each x (q,)."""
        at = np.searchsorted(self.counts[:, 0], x, side="right")
        return self._after(at), np.where(self._hit(x, at), self._after(at), self._before(at))

    def below(self, x: Vector) -> tuple[Vector, Vector]:
        """Least and largest possible number of training cells below each x (q,)."""
        at = np.searchsorted(self.counts[:, 0], x, side="right")
        exact, hit = self._before(np.maximum(at - 1, 0)), self._hit(x, at)
        return np.where(hit, exact, self._after(at)), np.where(hit, exact, self._before(at))

    def _after(self, at: np.ndarray) -> Vector:
        """Training cells up to the point before place `at`."""
        return np.concatenate([[0.0], self.counts[:, 2]])[at]

    def _before(self, at: np.ndarray) -> Vector:
        """Training cells below the point at place `at`."""
        return np.append(self.counts[:, 1], self.rows)[at]

    def _hit(self, x: Vector, at: np.ndarray) -> np.ndarray:
        return (at > 0) & (self.counts[np.maximum(at - 1, 0), 0] == x) if len(self.counts) else np.zeros(len(x), bool)

    def largest_gap(self, values: Vector) -> int:
        """max over x of |m F(x) n - n G(x) m|, an integer, at the points: F of these n cells, G of values (m,).

        Over all x it is larger by at most `error_bound` m n.
        """
        values = np.sort(values)
        m, n = len(values), self.rows
        upto = np.searchsorted(values, self.counts[:, 0], side="right")
        below = np.searchsorted(values, self.counts[:, 0], side="left")
        exact = self.counts[:, 1:].astype(np.int64)
        return int(np.abs(np.column_stack([below, upto]) * n - exact * m).max(initial=0))

    def plus(self, column: Column) -> Sketch:
        """With more rows: exact at the points that were, at values beyond them, and where nothing lay between."""
        present, missing = _cells(column)
        if not len(present):
            return Sketch(self.counts, self.missing + missing)
        values = np.unique(present)
        low, high = self.upto(values)
        points = np.union1d(self.counts[:, 0], values[low == high])
        together = np.column_stack([points, self.below(points)[0], self.upto(points)[0]])
        together[:, 1:] += _counts(np.sort(present), points)[:, 1:]
        return Sketch(_thinned(together), self.missing + missing)

    def minus(self, column: Column) -> Sketch:
        """Without these rows; InvalidData where they cannot have been among them."""
        present, missing = _cells(column)
        counts = self.counts.copy()
        counts[:, 1:] -= _counts(np.sort(present), counts[:, 0])[:, 1:]
        rows, steps = self.rows - len(present), np.diff(counts[:, 1:].ravel(), prepend=0.0)
        if missing > self.missing or rows < 0 or (steps < 0).any() or (len(counts) and counts[-1, 2] != rows):
            raise InvalidData(IMPOSSIBLE)
        kept = np.flatnonzero((counts[:, 2] > 0) & (counts[:, 1] < rows))
        if not len(kept):
            return Sketch(counts[:0], self.missing - missing)
        return Sketch(counts[max(0, kept[0] - 1) : kept[-1] + 2], self.missing - missing)


@portable
@dataclass(frozen=True)
class Levels:
    """How often each level occurs in the training rows: the 2,000 most frequent, and how many cells hold others."""

    levels: tuple[str, ...]
    counts: np.ndarray
    others: int
    missing: int

    @property
    def rows(self) -> int:
        """Training cells with a value."""
        return int(self.counts.sum()) + self.others

    def plus(self, column: Column) -> Levels:
        """With more rows."""
        return self._changed(column, 1)

    def minus(self, column: Column) -> Levels:
        """Without these rows; InvalidData where they cannot have been among them."""
        return self._changed(column, -1)

    def _changed(self, column: Column, sign: int) -> Levels:
        found, missing = level_counts(column)
        known = dict(zip(self.levels, self.counts.tolist(), strict=True))
        for level, k in found.items() if not self.others else ():
            known[level] = known.get(level, 0) + sign * k
        others = self.others
        for level, k in found.items() if self.others else ():
            if level in known:
                known[level] += sign * k
            else:
                others += sign * k
        if min([*known.values(), others, self.missing + sign * missing]) < 0:
            raise InvalidData(IMPOSSIBLE)
        return levels_of(known, self.missing + sign * missing, others)


@portable
@dataclass(frozen=True)
class Reference:
    """The training rows of a model: how many, and each input column's type with what is known of its cells."""

    rows: int
    names: tuple[str, ...]
    types: tuple[str, ...]
    columns: tuple[Any, ...]

    @classmethod
    def of(cls, table: Table) -> Reference:
        """Learn from columns in memory, O(n log n) each."""
        rows = len(next(iter(table.values())).values)
        return cls(rows, tuple(table), tuple(c.type for c in table.values()), tuple(map(_learned, table.values())))

    def plus(self, table: Table) -> Reference:
        """With more rows."""
        return self._changed(table, 1, [k.plus(c) for k, c in self._beside(table)])

    def minus(self, table: Table) -> Reference:
        """Without these rows; InvalidData where they cannot have been among them."""
        return self._changed(table, -1, [k.minus(c) for k, c in self._beside(table)])

    def _beside(self, table: Table) -> list[tuple[Any, Column]]:
        given = [as_type(kind, table[name]) for name, kind in zip(self.names, self.types, strict=True)]
        return list(zip(self.columns, given, strict=True))

    def _changed(self, table: Table, sign: int, columns: list[Any]) -> Reference:
        rows = self.rows + sign * len(table[self.names[0]].values)
        return Reference(rows, self.names, self.types, tuple(columns))


def as_type(kind: str, column: Column) -> Column:
    """The cells as a column of the type that a model learned, whatever type they came as."""
    if kind in LEVELLED and column.type not in LEVELLED:
        empty = column.missing
        values = np.array([None if gap else str(v) for v, gap in zip(column.values, empty, strict=True)], object)
        return Column(kind, values)  # type: ignore[arg-type]
    return Column(kind, column.values)  # type: ignore[arg-type]


def levelled(kind: str) -> bool:
    """Whether cells of this type are compared as levels."""
    return kind in LEVELLED or kind == "boolean"


def level_counts(column: Column) -> tuple[Mapping[str, int], int]:
    """How often each level occurs, and how many cells are empty."""
    missing = column.missing
    present = column.values[~missing]
    if column.type == "boolean":
        ones = int((present != 0).sum())
        return {k: v for k, v in zip(TRUTHS, (len(present) - ones, ones), strict=True) if v}, int(missing.sum())
    return Counter(present.tolist()), int(missing.sum())


def levels_of(counts: Mapping[str, int], missing: int, others: int = 0) -> Levels:
    """The most frequent levels, ties by name, in the order of their names; the rest are others."""
    kept = sorted(sorted((k for k, c in counts.items() if c), key=lambda k: (-counts[k], k))[:MAX_KEPT])
    found = np.array([counts[k] for k in kept], dtype=np.int64)
    return Levels(tuple(kept), found, others + sum(counts.values()) - int(found.sum()), missing)


def points_of(ordered: Vector, most: int = POINTS) -> Vector:
    """At most `most` of ordered values: all that differ, or those at evenly spaced ranks; the extremes always."""
    changes = np.flatnonzero(ordered[1:] != ordered[:-1])
    if len(changes) < most:
        return np.concatenate([ordered[:1], ordered[changes + 1]])
    return np.unique(ordered[_ranks(len(ordered), most)])


def _learned(column: Column) -> Sketch | Levels:
    if levelled(column.type):
        return levels_of(*level_counts(column))
    present, missing = _cells(column)
    ordered = np.sort(present)
    return Sketch(_counts(ordered, points_of(ordered)), missing)


def _cells(column: Column) -> tuple[Vector, int]:
    missing = column.missing
    gaps = int(missing.sum())
    return (column.values[~missing] if gaps else column.values), gaps


def _ranks(n: int, most: int) -> np.ndarray:
    return np.round(np.linspace(0, n - 1, most)).astype(np.int64)


def _counts(ordered: Vector, points: Vector) -> Matrix:
    """(m, 3): each point, the values below it and up to it, of ordered values."""
    sides = [np.searchsorted(ordered, points, side=side) for side in ("left", "right")]
    return np.column_stack([points, *sides]).astype(np.float64)


def _thinned(counts: Matrix) -> Matrix:
    """At most 256 of the points: those that hold the evenly spaced ranks."""
    if len(counts) <= POINTS:
        return counts
    at = np.searchsorted(counts[:, 2], _ranks(int(counts[-1, 2]), POINTS), side="right")
    return counts[np.unique(np.concatenate([[0], np.minimum(at, len(counts) - 1), [len(counts) - 1]]))]
