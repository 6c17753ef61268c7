"""Names of the matrix columns during a fit: notices, tables and errors speak of the caller's columns, parameters too.

The names are a context variable, as the thread budget is: the same numbers give the same fit under any names, unless a
parameter names a column (`params.Column`). What it names is found here alone, once, before anything is learned. Without
names a column is its number, counted from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import NoReturn, TypeVar

from ml_core.certificates import Table
from ml_core.errors import InvalidParameter, Issue

T = TypeVar("T")
MANY = 20
HEADINGS = frozenset({"base", "column", "feature", "term"})
"""Headings of table columns whose whole numbers are places of matrix columns."""


@dataclass(frozen=True)
class Names:
    """Names of the matrix columns; where known, the input column that each comes from and whether it was scaled."""

    columns: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    scaled: tuple[bool, ...] = ()


_names: ContextVar[Names | None] = ContextVar("column_names", default=None)


@contextmanager
def use(names: Names | Sequence[str] | None) -> Iterator[None]:
    """Call the matrix columns by these names inside the block; None goes back to numbers."""
    known = names if isinstance(names, Names) or names is None else Names(tuple(map(str, names)))
    token = _names.set(known)
    try:
        yield
    finally:
        _names.reset(token)


def in_force() -> Names | None:
    """The names in force, with their inputs."""
    return _names.get()


def current() -> tuple[str, ...] | None:
    """The names of the matrix columns in force."""
    names = _names.get()
    return None if names is None else names.columns


def only(columns: Iterable[int]) -> Names | None:
    """The names in force of these columns, for rows that consist of them."""
    names, at = _names.get(), list(columns)
    if names is None or max(at, default=-1) >= len(names.columns):
        return None
    return Names(_at(names.columns, at), _at(names.inputs, at), _at(names.scaled, at))


def _at(part: tuple[T, ...], columns: list[int]) -> tuple[T, ...]:
    return tuple(part[j] for j in columns) if part else ()


def places(column: int | str, width: int, what: str) -> list[int]:
    """The numbers of the matrix columns, `width` of them, that parameter `what` means; InvalidParameter.

    A number is one column. A name is an input column, which is all the matrix columns that it became, or else one
    matrix column.
    """
    if not isinstance(column, str):
        if column >= width:
            _refuse(what, "no_column", f"there is no column {column} of {width}: columns are counted from 0")
        return [column]
    names = _names.get()
    if names is None or len(names.columns) != width:
        _refuse(what, "no_names", f"the columns have no names here, so {column!r} is none; give its number, from 0")
    if found := [j for j, name in enumerate(names.inputs) if name == column]:
        return found
    found = [j for j, name in enumerate(names.columns) if name == column]
    if len(found) > 1:
        _refuse(what, "several_columns", f"the columns {found} are all called {column!r}; give one of these numbers")
    if not found:
        _refuse(what, "unknown_column", _unknown(column, names))
    return found


def place(column: int | str, width: int, what: str) -> int:
    """`places` where one column is meant; InvalidParameter where a name stands for several."""
    found = places(column, width, what)
    if len(found) > 1:
        _refuse(what, "several_columns", f"{column!r} became {len(found)} columns, {listed(found)}; name one of them")
    return found[0]


def check_units(column: int, what: str) -> None:
    """InvalidParameter where the encoding has scaled a column whose values parameter `what` takes as they are."""
    names = _names.get()
    if names is not None and column < len(names.scaled) and names.scaled[column]:
        text = f"{listed([column])} is scaled by the encoding; give that column scale none in encoding.columns"
        _refuse(what, "scaled_column", text)


def _refuse(what: str, code: str, text: str) -> NoReturn:
    raise InvalidParameter(f"{what}: {text}", [Issue("", code, text)])


def _unknown(column: str, names: Names) -> str:
    known = list(dict.fromkeys([*names.columns, *names.inputs]))
    lowered = {name.lower(): name for name in reversed(known)}
    near = get_close_matches(column.lower(), lowered, n=5, cutoff=0.6)
    close = f"near names: {', '.join(repr(lowered[n]) for n in near)}; " if near else ""
    more = f" and {len(known) - MANY} more" if len(known) > MANY else ""
    every = ", ".join(map(repr, known[:MANY]))
    return f"there is no column {column!r} among the features; {close}there are {every}{more}"


def name(j: int) -> str | int:
    """The name of matrix column j, or j itself where it has none."""
    names = current()
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
