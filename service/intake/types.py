"""The type of a column, decided from every one of its cells, never from a sample.

A column of text cells becomes the first of these that fits all cells which are not missing:
integer (64 bits) → number (nearest double) → boolean (true, false) → date → datetime → category or text.
Codes with leading zeros and integers beyond 64 bits stay text. Text is a `category` when it has at most
max(20, 5 % of the rows) and at most 1000 distinct values, unless more than ten values are all different.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from service.intake.findings import NULLS, Json, Type, Typed, warning

ARROW: dict[Type, pa.DataType] = {
    "number": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(), "category": pa.string(),
    "text": pa.string(), "date": pa.date32(),
}  # fmt: skip
EXACT = 2**53
ODD_NULLS = ("?", "-")
NUMBER = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"
NUMBER_COMMA = r"^[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"
DATE = r"^\d{4}([-/])\d{2}[-/]\d{2}$"
DATETIME = r"^\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?$"
ZONED = r"^\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?)$"
SHOWN = 5


@dataclass(frozen=True)
class Rules:
    """How cells are written: the decimal sign and the words for a missing value."""

    decimal: str = "."
    nulls: tuple[str, ...] = NULLS
    odd_nulls: bool = True


def infer(cells: pa.Array, rules: Rules) -> Typed:
    """The typed column of text cells; missing cells are null already. O(n)."""
    if cells.null_count == len(cells):
        return Typed(pa.nulls(len(cells), pa.float64()), "number")
    cells = _unpadded(cells, rules)
    if rules.decimal == ".":
        quick = _integer(cells) or _number(cells)
        if quick is not None:
            return quick
    bare = _without(cells, tuple(w for w in rules.nulls if w))
    for attempt in (lambda c: _numeric(c, rules), _boolean, _date, _datetime):
        found = attempt(bare)
        if found is not None:
            return found
    text = _without(cells, ("",) if "" in rules.nulls else ())
    return Typed(text, text_type(text), _mixed(bare, rules))


def text_type(cells: pa.Array) -> Type:
    """`category` when few values recur, else `text` (see the module)."""
    valid = len(cells) - cells.null_count
    distinct = pc.count_distinct(cells, mode="only_valid").as_py()
    few = distinct <= min(max(20.0, 0.05 * len(cells)), 1000.0)
    return "category" if few and not (distinct == valid and valid > 10) else "text"


def parse(cells: pa.Array, kind: Type, rules: Rules) -> tuple[pa.Array, pa.Array]:
    """Text cells as values of a stated type, and a mask of the cells that are no such values (null there). O(n)."""
    if kind in {"text", "category"}:
        return cells, pa.repeat(pa.scalar(False), len(cells))
    words = rules.nulls + (ODD_NULLS if rules.odd_nulls and kind in {"number", "integer"} else ())
    cells = _without(pc.utf8_trim_whitespace(cells), words)
    values = _PARSERS[kind](cells, rules)
    return values, pc.and_(pc.is_valid(cells), pc.is_null(values))


def convert(typed: Typed, kind: Type, rules: Rules = Rules()) -> tuple[pa.Array, pa.Array]:
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


def _unpadded(cells: pa.Array, rules: Rules) -> pa.Array:
    """Cells without blanks around them where every cell starts with one (`a, b, c`)."""
    if not pc.all(pc.starts_with(cells, " ")).as_py():
        return cells
    return _without(pc.utf8_trim_whitespace(cells), rules.nulls)


def _without(cells: pa.Array, words: tuple[str, ...]) -> pa.Array:
    if not words:
        return cells
    hit = pc.is_in(cells, pa.array(words, cells.type), skip_nulls=True)
    return pc.if_else(hit, pa.scalar(None, cells.type), cells) if pc.any(hit).as_py() else cells


def _matches(cells: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(cells, pattern)


def _all_match(cells: pa.Array, pattern: str) -> bool:
    return bool(pc.all(_matches(cells, pattern), min_count=1).as_py())


def _some(cells: pa.Array, pattern: str) -> bool:
    return bool(pc.any(_matches(cells, pattern)).as_py())


def _first(cells: pa.Array) -> str:
    at = pc.index(pc.is_valid(cells), True).as_py()
    return "" if at < 0 else str(cells[at].as_py())


def _codes(cells: pa.Array) -> Typed | None:
    """The column as text when a cell is an integer with a leading zero: a code, not a quantity."""
    starts = pc.or_(pc.starts_with(cells, "0"), pc.starts_with(cells, "-0"))
    if not pc.any(starts).as_py() or not _some(cells.filter(starts), r"^[+-]?0(\d+|[xX].*)$"):
        return None
    note = warning(
        "leading_zeros", "has whole numbers with leading zeros and stays text.", "Set types to read it as integer."
    )
    return Typed(cells, text_type(cells), (note,))


def _cast(cells: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        return pc.cast(cells, kind)
    except pa.ArrowInvalid:
        return None


def _integer(cells: pa.Array) -> Typed | None:
    values = _cast(cells, pa.int64())
    if values is None:
        return None
    codes = _codes(cells)
    return codes or Typed(values, "integer", big_integers(values))


def big_integers(values: pa.Array) -> tuple[Json, ...]:
    """The warning that some integers are beyond what a double holds exactly."""
    ends = pc.min_max(values)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None or -EXACT <= low <= high <= EXACT:
        return ()
    advice = "They are stored exactly; ask for big_integers=string in JSON, or make it category if it is an identifier."
    return (warning("big_integers", "has integers beyond 2^53, which doubles cannot hold.", advice),)


def _number(cells: pa.Array) -> Typed | None:
    values = _cast(cells, pa.float64())
    if values is None:
        return None
    largest = pc.max(pc.abs(pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values))).as_py()
    whole = largest is not None and largest > EXACT and _matches(cells, r"^[+-]?\d+$")
    if whole and pc.all(whole).as_py():
        note = warning("huge_integers", "has integers beyond 64 bits and stays text, so that no digit is lost.")
        return Typed(cells, text_type(cells), (note,))
    notes: tuple[Json, ...] = ()
    if whole and pc.any(pc.and_(whole, pc.greater(pc.abs(values), float(EXACT)))).as_py():
        notes = (warning("inexact_integers", "mixes decimals and integers beyond 2^53; the latter were rounded."),)
    if largest == float("inf"):
        if not pc.all(_matches(cells.filter(pc.is_inf(values)), "(?i)inf")).as_py():
            return None
        notes += (warning("infinite", "has infinite values.", "Most algorithms refuse them."),)
    if pc.any(pc.is_nan(values)).as_py():
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
    return _codes(cells) or Typed(values, "number", notes)


def _numeric(cells: pa.Array, rules: Rules) -> Typed | None:
    """Numbers with blanks, plus signs, a decimal comma, or `?` and `-` for missing."""
    bare = pc.utf8_trim_whitespace(cells)
    bare = _without(_without(bare, rules.nulls), ODD_NULLS if rules.odd_nulls else ())
    if not _all_match(bare, NUMBER if rules.decimal == "." else NUMBER_COMMA):
        return None
    plain = _plain_numbers(bare, rules)
    found = _integer(plain) or _number(plain)
    if found is None:
        return None
    if found.type in {"category", "text"}:
        return replace(found, array=cells)
    if bare.null_count == cells.null_count:
        return found
    used = pc.unique(pc.utf8_trim_whitespace(cells)).to_pylist()
    return replace(found, odd_nulls=tuple(w for w in ODD_NULLS if rules.odd_nulls and w in used))


def _plain_numbers(cells: pa.Array, rules: Rules) -> pa.Array:
    plain = pc.replace_substring(cells, ",", ".") if rules.decimal == "," else cells
    return pc.replace_substring_regex(plain, r"^\+", "")


def _boolean(cells: pa.Array) -> Typed | None:
    if _first(cells).lower() not in {"true", "false"} or not _all_match(cells, "^(?i:true|false)$"):
        return None
    return Typed(pc.equal(pc.utf8_lower(cells), "true"), "boolean")


def _date(cells: pa.Array) -> Typed | None:
    if not _all_match(cells.slice(0, 1000), DATE) and not _all_match(cells, DATE):
        return None
    values = _cast(pc.replace_substring(cells, "/", "-"), pa.date32()) if _all_match(cells, DATE) else None
    return None if values is None else Typed(values, "date")


def _datetime(cells: pa.Array) -> Typed | None:
    for pattern, zone in ((DATETIME, None), (ZONED, "UTC")):
        if _all_match(cells.slice(0, 1000), pattern) and _all_match(cells, pattern):
            values = _instants(cells, zone)
            return None if values is None else Typed(values, "datetime")
    return None


def _instants(cells: pa.Array, zone: str | None) -> pa.Array | None:
    """Microseconds; finer fractions are kept only when they are whole microseconds."""
    cells = pc.replace_substring(cells, "/", "-")
    values = _cast(cells, pa.timestamp("us", zone))
    if values is not None:
        return values
    fine = _cast(cells, pa.timestamp("ns", zone))
    return None if fine is None else _cast(fine, pa.timestamp("us", zone))


def _mixed(cells: pa.Array, rules: Rules) -> tuple[Json, ...]:
    """The warning that a text column is mostly numbers, with the first cells that are none."""
    good = _matches(pc.utf8_trim_whitespace(cells), NUMBER if rules.decimal == "." else NUMBER_COMMA)
    numbers, valid = pc.sum(good).as_py() or 0, len(cells) - cells.null_count
    if 2 * numbers < valid or not numbers:
        return ()
    if numbers == valid:
        return (warning("out_of_range", "has numbers beyond the range of doubles and stays text."),)
    rows = pc.indices_nonzero(pc.fill_null(pc.invert(good), False))[:SHOWN].to_pylist()
    shown = ", ".join(f"row {row + 1}: {cells[row].as_py()[:40]!r}" for row in rows)
    text = f"is text because {valid - numbers} of {valid} values are not numbers ({shown})."
    return (warning("mixed_column", text, "Correct these cells, or name them in null_values."),)


def _each(cells: pa.Array, pattern: str, cast: Callable[[pa.Array], pa.Array | None], kind: pa.DataType) -> pa.Array:
    """Cast the cells that match; where the cast refuses some of those, try them one by one."""
    cells = pc.if_else(_matches(cells, pattern), cells, pa.scalar(None, cells.type))
    values = cast(cells)
    if values is None:
        single = (cast(cells.slice(i, 1)) for i in range(len(cells)))
        values = pa.concat_arrays([pa.nulls(1, kind) if v is None else v for v in single])
    return values


def _parse_number(cells: pa.Array, rules: Rules) -> pa.Array:
    pattern = NUMBER if rules.decimal == "." else NUMBER_COMMA
    return _each(cells, pattern, lambda c: _cast(_plain_numbers(c, rules), pa.float64()), pa.float64())


def _parse_integer(cells: pa.Array, rules: Rules) -> pa.Array:
    sign = "." if rules.decimal == "." else ","
    plain = pc.replace_substring_regex(cells, rf"^\+|[{sign}]0*$", "")
    whole = _each(plain, r"^-?\d+$", lambda c: _cast(c, pa.int64()), pa.int64())
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
    return _each(compact, DATE, lambda c: _cast(pc.replace_substring(c, "/", "-"), pa.date32()), pa.date32())


def _parse_datetime(cells: pa.Array, rules: Rules) -> pa.Array:
    zone = "UTC" if _all_match(cells.slice(0, 100), ZONED) else None
    pattern = ZONED if zone else DATETIME
    return _each(cells, pattern, lambda c: _instants(c, zone), pa.timestamp("us", zone))


_PARSERS: dict[Type, Callable[[pa.Array, Rules], pa.Array]] = {
    "number": _parse_number, "integer": _parse_integer, "boolean": _parse_boolean,
    "date": _parse_date, "datetime": _parse_datetime,
}  # fmt: skip
