"""Values of a stated type: from text cells, or from a column of another type."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from service.intake.dates import DATE, DATETIME, ZONED, cast, day_and_month, days, instants, iso
from service.intake.findings import Type, Typed
from service.intake.numerals import families, grouped_pattern, number_pattern, plain_numbers
from service.intake.types import EXACT, Rules, all_match, matches, without

PLAIN = Rules()
ARROW: dict[Type, pa.DataType] = {
    "number": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(), "category": pa.string(),
    "text": pa.string(), "date": pa.date32(),
}  # fmt: skip


def parse(cells: pa.Array, kind: Type, rules: Rules, form: str | None = None) -> tuple[pa.Array, pa.Array]:
    """Text cells as values of a stated type, and a mask of the cells that are no such values (null there). O(n).

    Dates and times are ISO 8601, or written as in `form` (see `dates.iso`).
    """
    if kind in {"text", "category"}:
        return cells, pa.repeat(pa.scalar(False), len(cells))
    cells = without(pc.utf8_trim_whitespace(cells), rules.loose)
    cells = iso(cells, form) if form else cells
    values = _PARSERS[kind](cells, rules)
    return values, pc.and_(pc.is_valid(cells), pc.is_null(values))


def convert(typed: Typed, kind: Type, rules: Rules = PLAIN, form: str | None = None) -> tuple[pa.Array, pa.Array]:
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
    if here == "datetime":
        text = pc.replace_substring(pc.replace_substring(text, " ", "T"), ".000000", "")  # RFC 3339, as rows show it
    if kind in {"text", "category"}:
        return text, pa.repeat(pa.scalar(False), len(array))
    return parse(text, kind, rules, form)


def _each(cells: pa.Array, pattern: str, turn: Callable[[pa.Array], pa.Array | None], kind: pa.DataType) -> pa.Array:
    """Cast the cells that match; what the cast refuses is null. O(n), and O(log n) for each of those."""
    return _halved(pc.if_else(matches(cells, pattern), cells, pa.scalar(None, cells.type)), turn, kind)


def _halved(cells: pa.Array, turn: Callable[[pa.Array], pa.Array | None], kind: pa.DataType) -> pa.Array:
    values = turn(cells)
    if values is not None:
        return values
    if len(cells) == 1:
        return pa.nulls(1, kind)
    half = len(cells) // 2
    return pa.concat_arrays([_halved(part, turn, kind) for part in (cells.slice(0, half), cells.slice(half))])


def _ungrouped(cells: pa.Array, rules: Rules) -> pa.Array:
    """Cells with a decimal point and no plus, where digits in groups of three stand without the marks between them."""
    for marks in families(rules.decimal):
        if pc.any(matches(cells, grouped_pattern(rules.decimal, marks))).as_py():
            cells = pc.if_else(
                matches(cells, grouped_pattern(rules.decimal, marks)),
                pc.replace_substring_regex(cells, f"[{marks}]", ""), cells,
            )  # fmt: skip
    usable = matches(cells, number_pattern(rules.decimal))
    return plain_numbers(pc.if_else(usable, cells, pa.scalar(None, cells.type)), rules.decimal)


def _parse_number(cells: pa.Array, rules: Rules) -> pa.Array:
    return _each(_ungrouped(cells, rules), "", lambda c: cast(c, pa.float64()), pa.float64())


def _parse_integer(cells: pa.Array, rules: Rules) -> pa.Array:
    plain = _ungrouped(cells, rules)
    whole = _each(
        pc.replace_substring_regex(plain, r"\.0*$", ""), r"^-?\d+$", lambda c: cast(c, pa.int64()), pa.int64()
    )
    if whole.null_count == cells.null_count:
        return whole
    numbers = _each(plain, "", lambda c: cast(c, pa.float64()), pa.float64())
    usable = pc.and_(pc.equal(pc.round(numbers), numbers), pc.less_equal(pc.abs(numbers), float(EXACT)))
    return pc.coalesce(whole, pc.cast(pc.if_else(usable, numbers, pa.scalar(None, pa.float64())), pa.int64()))


def _parse_boolean(cells: pa.Array, rules: Rules) -> pa.Array:
    lower = pc.utf8_lower(cells)
    yes = pc.is_in(lower, pa.array(["true", "t", "yes", "y", "1", "1.0"], lower.type))
    known = pc.or_(yes, pc.is_in(lower, pa.array(["false", "f", "no", "n", "0", "0.0"], lower.type)))
    return pc.if_else(known, yes, pa.scalar(None, pa.bool_()))


def _parse_date(cells: pa.Array, rules: Rules) -> pa.Array:
    ordered = day_and_month(cells)
    if ordered is not None:
        return ordered[0]
    compact = pc.replace_substring_regex(cells, r"^(\d{4})(\d{2})(\d{2})$", r"\1-\2-\3")
    return _each(compact, DATE, days, pa.date32())


def _parse_datetime(cells: pa.Array, rules: Rules) -> pa.Array:
    zone = "UTC" if all_match(cells.slice(0, 100), ZONED) else None
    pattern = ZONED if zone else DATETIME
    return _each(cells, pattern, lambda c: instants(c, zone), pa.timestamp("us", zone))


_PARSERS: dict[Type, Callable[[pa.Array, Rules], pa.Array]] = {
    "number": _parse_number, "integer": _parse_integer, "boolean": _parse_boolean,
    "date": _parse_date, "datetime": _parse_datetime,
}  # fmt: skip
