"""Names of the matrix columns during a fit, so that notices, tables and errors speak of the caller's columns.

The names are a context variable, as the thread budget is, because they must never be a parameter of a model: the same
numbers give the same fit under any names. Without names a column is its number, counted from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from ml_core.certificates import Table

MANY = 20
HEADINGS = frozenset({"base", "column", "feature", "term"})
"""Headings of table columns whose whole numbers are places of matrix columns."""

_names: ContextVar[tuple[str, ...] | None] = ContextVar("column_names", default=None)


@contextmanager
def use(names: Sequence[str] | None) -> Iterator[None]:
    """Call the matrix columns by these names inside the block; None goes back to numbers."""
    token = _names.set(None if names is None else tuple(map(str, names)))
    try:
        yield
    finally:
        _names.reset(token)


def current() -> tuple[str, ...] | None:
    """The names in force."""
    return _names.get()


def name(j: int) -> str | int:
    """The name of matrix column j, or j itself where it has none."""
    names = _names.get()
    return names[j] if names is not None and 0 <= j < len(names) else int(j)


def listed(columns: Iterable[int]) -> str:
    """The columns for a message: `'age', 'bmi'`, or `0, 2` without names; the first 20 and how many more."""
    every = [name(int(j)) for j in columns]
    text = ", ".join(repr(c) for c in every[:MANY])
    return text if len(every) <= MANY else f"{text} and {len(every) - MANY} more"


def told(table: Table) -> Table:
    """The table with names in place of numbers under the headings that hold columns."""
    at = [i for i, heading in enumerate(table.columns) if heading in HEADINGS]
    if not at or _names.get() is None:
        return table
    rows = [list(row) for row in table.rows]
    for row in rows:
        for i in at:
            if isinstance(row[i], int) and not isinstance(row[i], bool):
                row[i] = name(row[i])
    return replace(table, rows=rows)
