"""Conditions as a request writes them → conditions on the cells of typed columns; or what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fractions import Fraction
from math import ceil, floor, inf, nextafter
from typing import Any

from service.errors import Invalid, Issue
from service.ports import Json
from service.usecases.conditions import Among, Bound, Condition, Empty, Joined, Negated, Within

MAX_ISSUES = 20
EXACT = 2**53
GRIDS = {"integer": (-(2**63), 2**63 - 1), "date": (-(2**31), 2**31 - 1), "datetime": (-(2**63), 2**63 - 1)}
WORDS = {"integer": "a whole number or a number", "number": "a number", "boolean": "true or false",
         "date": 'a date as text, "2024-02-29"', "datetime": 'a time as text, "2024-02-29T12:00:00Z"',
         "category": "text", "text": "text"}  # fmt: skip
WHOLE = re.compile(r"-?\d{1,400}")
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})?")
EPOCH = date(1970, 1, 1)


def conditions(where: Sequence[Json], kinds: Json, place: str = "/rows/where") -> Joined | None:
    """The conditions that must all hold, None where there are none; Invalid points at each that misfits a column."""
    read = _Reader(kinds)
    parts = tuple(read.condition(one, f"{place}/{i}") for i, one in enumerate(where))
    read.settle()
    return Joined(parts) if parts else None


def membership(name: str, values: Sequence[Any], kinds: Json, place: tuple[str, str]) -> Among:
    """Whether a column has one of some values; Invalid points at `place`: that of the name, and that of the values."""
    read = _Reader(kinds)
    kind = read.kind(name, place[0])
    found = list(read.cells(values, kind, place[1])) if kind else []
    read.settle()
    missed = [i for i, cell in enumerate(found) if cell is None]
    if missed:
        detail = f"{values[missed[0]]!r} is no value that a column of type {kind} can have"
        raise Invalid(detail, issues=(Issue(f"{place[1]}/{missed[0]}", "no_rows", "name values that occur"),))
    return Among(name, str(kind), tuple(found))


@dataclass
class _Reader:
    """Reads conditions for columns of these types, and collects what is wrong with them."""

    kinds: Json
    issues: list[Issue] = field(default_factory=list)

    def settle(self) -> None:
        """Invalid when something was wrong."""
        if self.issues:
            first = self.issues[0]
            raise Invalid(f"{first.pointer}: {first.detail}", issues=tuple(self.issues[:MAX_ISSUES]))

    def kind(self, name: str, at: str) -> str | None:
        """The type of a column; None, and an issue, where there is no such column."""
        if name in self.kinds:
            return str(self.kinds[name])
        known = ", ".join(list(self.kinds)[:50])
        self.issues.append(Issue(at, "unknown_column", f"there is no column {name!r}; there are {known}"))
        return None

    def condition(self, asked: Json, at: str) -> Condition:
        """One condition, whatever its form."""
        for word in ("and", "or"):
            if word in asked:
                parts = (self.condition(one, f"{at}/{word}/{i}") for i, one in enumerate(asked[word]))
                return Joined(tuple(parts), word == "and")
        if "not" in asked:
            return Negated(self.condition(asked["not"], f"{at}/not"))
        name, op = asked["column"], asked["op"]
        kind = self.kind(name, f"{at}/column")
        if op in ("is_null", "not_null"):
            return Empty(name) if op == "is_null" else Negated(Empty(name))
        if kind == "boolean" and op in ("<", "<=", ">", ">=", "between"):
            self.issues.append(Issue(f"{at}/op", "not_ordered", f"column {name!r} is boolean: use == or !="))
            return Empty(name)
        return Empty(name) if kind is None else self._test(name, kind, op, asked["value"], f"{at}/value")

    def _test(self, name: str, kind: str, op: str, value: Any, at: str) -> Condition:
        """A comparison of the cells of a column with values of its type."""
        many = isinstance(value, list)
        found = list(self._exact(value if many else [value], kind, at, many))
        if self.issues:
            return Empty(name)
        if op in ("==", "!=", "in", "not_in"):
            cells = tuple(c for c in (_cell(kind, v) for v in found) if c is not None)
            inside: Condition = Among(name, kind, cells) if cells else Within(name, kind, never=True)
            return Negated(inside) if op in ("!=", "not_in") else inside
        if op == "between":
            return _within(name, kind, Bound(found[0], True), Bound(found[1], True))
        end = Bound(found[0], op in ("<=", ">="))
        return _within(name, kind, None, end) if op in ("<", "<=") else _within(name, kind, end, None)

    def cells(self, values: Sequence[Any], kind: str, at: str) -> Iterator[Any]:
        """Each value as a cell of such a column, None for one that no cell can be; issues where the type misfits."""
        return (None if v is None else _cell(kind, v) for v in self._exact(values, kind, at, True))

    def _exact(self, values: Sequence[Any], kind: str, at: str, many: bool) -> Iterator[Any]:
        """Each value exactly, in the unit of the column; None, and an issue, where its type misfits."""
        for i, value in enumerate(values):
            exact = _READERS[kind](value)
            if exact is None:
                place = f"{at}/{i}" if many else at
                detail = f"the column is of type {kind} and is compared with {WORDS[kind]}, not {value!r:.60}"
                self.issues.append(Issue(place, "wrong_type", detail))
            yield exact


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _integer(value: Any) -> Any:
    """Numbers, and whole numbers beyond 2^53 as text, which is how `big_integers=string` writes them."""
    if isinstance(value, str):
        return int(value) if WHOLE.fullmatch(value) and abs(int(value)) > EXACT else None
    return _number(value)


def _boolean(value: Any) -> Any:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _day(value: Any) -> int | None:
    if not isinstance(value, str) or not DAY.fullmatch(value):
        return None
    try:
        return (date.fromisoformat(value) - EPOCH).days
    except ValueError:
        return None


def _moment(value: Any) -> int | Fraction | None:
    """Microseconds since 1970 UTC of an RFC 3339 time; UTC where it has no zone, midnight UTC where it is a date."""
    if not isinstance(value, str):
        return None
    day = _day(value)
    if day is not None:
        return day * 86_400_000_000
    parts = MOMENT.fullmatch(value)
    if parts is None:
        return None
    zone = (parts[4] or "Z").upper().replace("Z", "+00:00")
    try:
        whole = datetime.fromisoformat(f"{parts[1]}T{parts[2]}{zone}") - datetime(1970, 1, 1, tzinfo=UTC)
    except ValueError:
        return None
    exact = whole.days * 86_400_000_000 + whole.seconds * 1_000_000 + Fraction(f"0.{parts[3] or 0}") * 1_000_000
    return int(exact) if exact.denominator == 1 else exact


_READERS: dict[str, Callable[[Any], Any]] = {
    "number": _number, "integer": _integer, "boolean": _boolean, "category": _text, "text": _text, "date": _day,
    "datetime": _moment,
}  # fmt: skip


def _cell(kind: str, value: Any) -> Any:
    """The cell that equals the value; None where no cell of such a column can."""
    if kind == "number":
        return float(value) if float(value) == value else None
    if kind in GRIDS:
        low, high = GRIDS[kind]
        return int(value) if low <= value <= high and int(value) == value else None
    return value


def _within(name: str, kind: str, low: Bound | None, high: Bound | None) -> Within:
    """The interval between ends that may lie between, or beyond, the cells that the column can have."""
    down = None if low is None else _raised(kind, low)
    up = None if high is None else _lowered(kind, high)
    if down is _BEYOND or up is _BEYOND:
        return Within(name, kind, never=True)
    return Within(name, kind, down, up)


_BEYOND = Bound(None, False)


def _raised(kind: str, end: Bound) -> Bound | None:
    """A lower end as a cell: itself, or the next one above; None below all cells, `_BEYOND` above all."""
    cell = _cell(kind, end.value)
    if cell is not None:
        return Bound(cell, end.included)
    if kind == "number":
        near = float(end.value)
        return Bound(near if near > end.value else nextafter(near, inf), True)
    low, high = GRIDS[kind]
    return _BEYOND if end.value > high else None if end.value < low else Bound(ceil(end.value), True)


def _lowered(kind: str, end: Bound) -> Bound | None:
    """An upper end as a cell: itself, or the next one below; None above all cells, `_BEYOND` below all."""
    cell = _cell(kind, end.value)
    if cell is not None:
        return Bound(cell, end.included)
    if kind == "number":
        near = float(end.value)
        return Bound(near if near < end.value else nextafter(near, -inf), True)
    low, high = GRIDS[kind]
    return _BEYOND if end.value < low else None if end.value > high else Bound(floor(end.value), True)
