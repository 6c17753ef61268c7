"""Conditions on the cells of a row, checked against the types of the columns and evaluated on Arrow tables.

A condition is true, false or unknown, as in SQL. Comparing an empty cell is unknown, and so is the `not` of it; a row
is taken where the whole is true. Hence `x == 1` and `x != 1` both leave out rows whose x is empty, `not (x < 1)` is
`x >= 1`, and only `is_null` and `not_null` find such rows. Numbers are compared exactly: a bound that no cell of the
column can have is moved to the nearest cell on its side, never rounded. Text is ordered by Unicode code points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

PHYSICAL = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


class Condition(Protocol):
    """What is true, false or unknown (null) of each row."""

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns that it reads."""

    def mask(self, table: pa.Table) -> Any:
        """(n,) Arrow booleans, null where unknown."""


@dataclass(frozen=True)
class Bound:
    """One end of an interval of cells."""

    value: Any
    included: bool


@dataclass(frozen=True)
class Within:
    """The cell lies between two ends, of which either may be open; `never` holds for no cell."""

    column: str
    kind: str
    low: Bound | None = None
    high: Bound | None = None
    never: bool = False

    @property
    def columns(self) -> frozenset[str]:
        """The column."""
        return frozenset((self.column,))

    def mask(self, table: pa.Table) -> Any:
        """See `Condition`."""
        cells = physical(table[self.column], self.kind)
        if self.never:
            return _known(cells, pa.scalar(False))
        parts = []
        if self.low is not None:
            above = pc.greater_equal if self.low.included else pc.greater
            parts.append(above(cells, pa.scalar(self.low.value, cells.type)))
        if self.high is not None:
            below = pc.less_equal if self.high.included else pc.less
            parts.append(below(cells, pa.scalar(self.high.value, cells.type)))
        return reduce(pc.and_, parts) if parts else _known(cells, pa.scalar(True))


@dataclass(frozen=True)
class Among:
    """The cell is one of some values."""

    column: str
    kind: str
    values: tuple[Any, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The column."""
        return frozenset((self.column,))

    def mask(self, table: pa.Table) -> Any:
        """See `Condition`."""
        cells = physical(table[self.column], self.kind)
        if len(self.values) == 1:
            return pc.equal(cells, pa.scalar(self.values[0], cells.type))
        zeros = (0.0, -0.0) if self.kind == "number" and 0 in self.values else ()  # which `is_in` tells apart
        return _known(cells, pc.is_in(cells, pa.array((*self.values, *zeros), cells.type)))


@dataclass(frozen=True)
class Empty:
    """The cell is empty."""

    column: str

    @property
    def columns(self) -> frozenset[str]:
        """The column."""
        return frozenset((self.column,))

    def mask(self, table: pa.Table) -> Any:
        """See `Condition`; never unknown."""
        return table[self.column].is_null()


@dataclass(frozen=True)
class Joined:
    """All of the parts hold, or any of them."""

    parts: tuple[Condition, ...]
    every: bool = True

    @property
    def columns(self) -> frozenset[str]:
        """Those of the parts."""
        return frozenset().union(*(p.columns for p in self.parts))

    def mask(self, table: pa.Table) -> Any:
        """See `Condition`: one false part settles `and`, one true part settles `or`."""
        join = pc.and_kleene if self.every else pc.or_kleene
        return reduce(join, (p.mask(table) for p in self.parts))


@dataclass(frozen=True)
class Negated:
    """The part does not hold; unknown where the part is."""

    part: Condition

    @property
    def columns(self) -> frozenset[str]:
        """Those of the part."""
        return self.part.columns

    def mask(self, table: pa.Table) -> Any:
        """See `Condition`."""
        return pc.invert(self.part.mask(table))


def physical(cells: Any, kind: str) -> Any:
    """The cells as what is compared: numbers, text, booleans; days and microseconds since 1970 (UTC)."""
    if kind == "date":
        return pc.cast(cells, pa.int32())
    if kind == "datetime":
        return pc.cast(cells, pa.int64())
    wanted = PHYSICAL.get(kind)
    return cells if wanted is None or cells.type == wanted else pc.cast(cells, wanted)


def _known(cells: Any, found: Any) -> Any:
    """What was found, and null for empty cells."""
    return pc.if_else(cells.is_valid(), found, pa.scalar(None, pa.bool_()))
