"""The type of a column, decided from every one of its cells, never from a sample.

A column of text cells becomes the first of these that fits all cells which are not missing:
integer (64 bits) → number (nearest double) → boolean (true, false) → date → datetime → category or text.
Codes with leading zeros and integers beyond 64 bits stay text. Text is a `category` when it has at most
max(20, 5 % of the rows) and at most 1000 distinct values, unless more than ten values are all different.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from service.intake.findings import NULLS, Json, Type, Typed, warning

EXACT = 2**53
ODD_NULLS = ("?", "-")
NUMBER = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"
NUMBER_COMMA = r"^[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"
DATE = r"^\d{4}([-/])\d{2}[-/]\d{2}$"
DATETIME = r"^\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?$"
ZONED = r"^\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?)$"
SHOWN = 5
SAMPLE = 1000


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
    if rules.decimal == "." and not pc.any(pc.starts_with(cells, "+")).as_py():
        quick = _plain(cells)
        if quick is not None:
            return quick
    bare = without(cells, tuple(w for w in rules.nulls if w))
    for attempt in (lambda c: _numeric(c, rules), _boolean, _date, _datetime):
        found = attempt(bare)
        if found is not None:
            return found
    text = without(cells, ("",) if "" in rules.nulls else ())
    return Typed(text, text_type(text), _mixed(bare, rules))


def text_type(cells: pa.Array) -> Type:
    """`category` when few values recur, else `text` (see the module)."""
    valid, most = len(cells) - cells.null_count, min(max(20.0, 0.05 * len(cells)), 1000.0)
    if pc.count_distinct(cells.slice(0, 4 * SAMPLE), mode="only_valid").as_py() > most:
        return "text"
    distinct = pc.count_distinct(cells, mode="only_valid").as_py()
    return "category" if distinct <= most and not (distinct == valid and valid > 10) else "text"


def _unpadded(cells: pa.Array, rules: Rules) -> pa.Array:
    """Cells without blanks around them where every cell starts with one (`a, b, c`)."""
    if not pc.all(pc.starts_with(cells, " ")).as_py():
        return cells
    return without(pc.utf8_trim_whitespace(cells), rules.nulls)


def without(cells: pa.Array, words: tuple[str, ...]) -> pa.Array:
    """The cells, with these words missing."""
    if not words:
        return cells
    hit = pc.is_in(cells, pa.array(words, cells.type), skip_nulls=True)
    return pc.if_else(hit, pa.scalar(None, cells.type), cells) if pc.any(hit).as_py() else cells


def matches(cells: pa.Array, pattern: str) -> pa.Array:
    """Which cells match; null where missing."""
    return pc.match_substring_regex(cells, pattern)


def all_match(cells: pa.Array, pattern: str) -> bool:
    """Whether there is a cell and all that are not missing match."""
    return bool(pc.all(matches(cells, pattern), min_count=1).as_py())


def _some(cells: pa.Array, pattern: str) -> bool:
    return bool(pc.any(matches(cells, pattern)).as_py())


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


def cast(cells: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The cast, or None when a cell does not allow it."""
    try:
        return pc.cast(cells, kind)
    except pa.ArrowInvalid:
        return None


def _sample(cells: pa.Array) -> pa.Array:
    """At most about a thousand valid cells, evenly spread: what refutes a type here refutes it for the column."""
    valid = cells.drop_null() if cells.null_count else cells
    return valid.take(pa.array(range(0, len(valid), max(1, len(valid) // SAMPLE))))


def _plain(cells: pa.Array) -> Typed | None:
    """Integers or numbers as they stand. A cast that fails late is slow, so the sample goes first."""
    sample = _sample(cells)
    if cast(sample, pa.int64()) is not None:
        found = _integer(cells)
        if found is not None:
            return found
    return _number(cells) if cast(sample, pa.float64()) is not None else None


def _integer(cells: pa.Array) -> Typed | None:
    values = cast(cells, pa.int64())
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
    values = cast(cells, pa.float64())
    if values is None:
        return None
    largest = pc.max(pc.abs(pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values))).as_py()
    whole = largest is not None and largest > EXACT and matches(cells, r"^[+-]?\d+$")
    if whole and pc.all(whole).as_py():
        note = warning("huge_integers", "has integers beyond 64 bits and stays text, so that no digit is lost.")
        return Typed(cells, text_type(cells), (note,))
    notes: tuple[Json, ...] = ()
    if whole and pc.any(pc.and_(whole, pc.greater(pc.abs(values), float(EXACT)))).as_py():
        notes = (warning("inexact_integers", "mixes decimals and integers beyond 2^53; the latter were rounded."),)
    if largest == float("inf"):
        if not pc.all(matches(cells.filter(pc.is_inf(values)), "(?i)inf")).as_py():
            return None
        notes += (warning("infinite", "has infinite values.", "Most algorithms refuse them."),)
    if pc.any(pc.is_nan(values)).as_py():
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
    return _codes(cells) or Typed(values, "number", notes)


def _numeric(cells: pa.Array, rules: Rules) -> Typed | None:
    """Numbers with blanks, plus signs, a decimal comma, or `?` and `-` for missing."""
    pattern = NUMBER if rules.decimal == "." else NUMBER_COMMA
    words = (*rules.nulls, *(ODD_NULLS if rules.odd_nulls else ()))
    sample = without(pc.utf8_trim_whitespace(_sample(cells)), words)
    if not pc.all(matches(sample, pattern)).as_py():
        return None
    bare = pc.utf8_trim_whitespace(cells)
    bare = without(without(bare, rules.nulls), ODD_NULLS if rules.odd_nulls else ())
    if not all_match(bare, pattern):
        return None
    plain = plain_numbers(bare, rules)
    found = _plain(plain)
    if found is None:
        return None
    if found.type in {"category", "text"}:
        return replace(found, array=cells)
    if bare.null_count == cells.null_count:
        return found
    used = pc.unique(pc.utf8_trim_whitespace(cells)).to_pylist()
    return replace(found, odd_nulls=tuple(w for w in ODD_NULLS if rules.odd_nulls and w in used))


def plain_numbers(cells: pa.Array, rules: Rules) -> pa.Array:
    """Cells without plus signs and with a decimal point."""
    plain = pc.replace_substring(cells, ",", ".") if rules.decimal == "," else cells
    return pc.replace_substring_regex(plain, r"^\+", "")


def _boolean(cells: pa.Array) -> Typed | None:
    if _first(cells).lower() not in {"true", "false"} or not all_match(cells, "^(?i:true|false)$"):
        return None
    return Typed(pc.equal(pc.utf8_lower(cells), "true"), "boolean")


def _date(cells: pa.Array) -> Typed | None:
    if not all_match(_sample(cells), DATE):
        return None
    values = cast(pc.replace_substring(cells, "/", "-"), pa.date32()) if all_match(cells, DATE) else None
    return None if values is None else Typed(values, "date")


def _datetime(cells: pa.Array) -> Typed | None:
    for pattern, zone in ((DATETIME, None), (ZONED, "UTC")):
        if all_match(_sample(cells), pattern) and all_match(cells, pattern):
            values = instants(cells, zone)
            return None if values is None else Typed(values, "datetime")
    return None


def instants(cells: pa.Array, zone: str | None) -> pa.Array | None:
    """Microseconds; finer fractions are kept only when they are whole microseconds."""
    cells = pc.replace_substring(cells, "/", "-")
    values = cast(cells, pa.timestamp("us", zone))
    if values is not None:
        return values
    fine = cast(cells, pa.timestamp("ns", zone))
    return None if fine is None else cast(fine, pa.timestamp("us", zone))


def _mixed(cells: pa.Array, rules: Rules) -> tuple[Json, ...]:
    """The warning that a text column is mostly numbers, with the first cells that are none."""
    pattern = NUMBER if rules.decimal == "." else NUMBER_COMMA
    if not _some(pc.utf8_trim_whitespace(_sample(cells)), pattern):
        return ()
    good = matches(pc.utf8_trim_whitespace(cells), pattern)
    numbers, valid = pc.sum(good).as_py() or 0, len(cells) - cells.null_count
    if 2 * numbers < valid or not numbers:
        return ()
    if numbers == valid:
        return (warning("out_of_range", "has numbers beyond the range of doubles and stays text."),)
    rows = pc.indices_nonzero(pc.fill_null(pc.invert(good), False))[:SHOWN].to_pylist()
    shown = ", ".join(f"row {row + 1}: {cells[row].as_py()[:40]!r}" for row in rows)
    text = f"is text because {valid - numbers} of {valid} values are not numbers ({shown})."
    return (warning("mixed_column", text, "Correct these cells, or name them in null_values."),)
