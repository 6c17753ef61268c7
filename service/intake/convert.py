"""Values of a stated type: from text cells, or from a column of another type."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from service.intake.findings import Type, Typed
from service.intake.types import (
    DATE,
    DATETIME,
    EXACT,
    NUMBER,
    NUMBER_COMMA,
    ODD_NULLS,
    ZONED,
    Rules,
    all_match,
    cast,
    instants,
    matches,
    plain_numbers,
    without,
)  # fmt: skip

PLAIN = Rules()
ARROW: dict[Type, pa.DataType] = {
    "number": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(), "category": pa.string(),
    "text": pa.string(), "date": pa.date32(),
}  # fmt: skip


def parse(cells: pa.Array, kind: Type, rules: Rules) -> tuple[pa.Array, pa.Array]:
    """Text cells as values of a stated type, and a mask of the cells that are no such values (null there). O(n)."""
    if kind in {"text", "category"}:
        return cells, pa.repeat(pa.scalar(False), len(cells))
    words = rules.nulls + (ODD_NULLS if rules.odd_nulls and kind in {"number", "integer"} else ())
    cells = without(pc.utf8_trim_whitespace(cells), words)
    values = _PARSERS[kind](cells, rules)
    return values, pc.and_(pc.is_valid(cells), pc.is_null(values))


def convert(typed: Typed, kind: Type, rules: Rules = PLAIN) -> tuple[pa.Array, pa.Array]:
    """A typed column as another type, and the mask of cells that cannot be; a datetime becomes its date. O(n)."""
    array, here = typed.array, typed.type
    if here == kind or {here, kind} <= {"text", "category"}:
        return array, pa.repeat(pa.scalar(False), len(array))
    if here == "boolean" and kind in {"number", "integer"}:
        return pc.cast(pc.cast(array, pa.int64()), ARROW[kind]), pa.repeat(pa.scalar(False), len(array))
    if here == "datetime" and kind == "date":
        return pc.cast(array, pa.date32(), safe=False), pa.repeat(pa.scalar(False), len(array))
    if here == "date" and kind == "datetime":
        return pc.cast(array, pa.timestamp("us")), pa.repeat(pa.scalar(False), len(array))
    text = pc.cast(array, pa.string())
    return (text, pa.repeat(pa.scalar(False), len(array))) if kind in {"text", "category"} else parse(text, kind, rules)


def _each(cells: pa.Array, pattern: str, turn: Callable[[pa.Array], pa.Array | None], kind: pa.DataType) -> pa.Array:
    """Cast the cells that match; where the cast refuses some of those, try them one by one."""
    cells = pc.if_else(matches(cells, pattern), cells, pa.scalar(None, cells.type))
    values = turn(cells)
    if values is None:
        single = (turn(cells.slice(i, 1)) for i in range(len(cells)))
        values = pa.concat_arrays([pa.nulls(1, kind) if v is None else v for v in single])
    return values


def _parse_number(cells: pa.Array, rules: Rules) -> pa.Array:
    pattern = NUMBER if rules.decimal == "." else NUMBER_COMMA
    return _each(cells, pattern, lambda c: cast(plain_numbers(c, rules), pa.float64()), pa.float64())


def _parse_integer(cells: pa.Array, rules: Rules) -> pa.Array:
    sign = "." if rules.decimal == "." else ","
    plain = pc.replace_substring_regex(cells, rf"^\+|[{sign}]0*$", "")
    whole = _each(plain, r"^-?\d+$", lambda c: cast(c, pa.int64()), pa.int64())
    if whole.null_count == cells.null_count:
        return whole
    numbers = _parse_number(cells, rules)
    usable = pc.and_(pc.equal(pc.round(numbers), numbers), pc.less_equal(pc.abs(numbers), float(EXACT)))
    return pc.coalesce(whole, pc.cast(pc.if_else(usable, numbers, pa.scalar(None, pa.float64())), pa.int64()))


def _parse_boolean(cells: pa.Array, rules: Rules) -> pa.Array:
    lower = pc.utf8_lower(cells)
    yes = pc.is_in(lower, pa.array(["true", "t", "yes", "y", "1", "1.0"], lower.type))
    known = pc.or_(yes, pc.is_in(lower, pa.array(["false", "f", "no", "n", "0", "0.0"], lower.type)))
    return pc.if_else(known, yes, pa.scalar(None, pa.bool_()))


def _parse_date(cells: pa.Array, rules: Rules) -> pa.Array:
    compact = pc.replace_substring_regex(cells, r"^(\d{4})(\d{2})(\d{2})$", r"\1-\2-\3")
    return _each(compact, DATE, lambda c: cast(pc.replace_substring(c, "/", "-"), pa.date32()), pa.date32())


def _parse_datetime(cells: pa.Array, rules: Rules) -> pa.Array:
    zone = "UTC" if all_match(cells.slice(0, 100), ZONED) else None
    pattern = ZONED if zone else DATETIME
    return _each(cells, pattern, lambda c: instants(c, zone), pa.timestamp("us", zone))


_PARSERS: dict[Type, Callable[[pa.Array, Rules], pa.Array]] = {
    "number": _parse_number, "integer": _parse_integer, "boolean": _parse_boolean,
    "date": _parse_date, "datetime": _parse_datetime,
}  # fmt: skip
