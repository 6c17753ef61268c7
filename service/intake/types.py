"""The type of a column, decided from every one of its cells, never from a sample.

A column of text cells becomes the first of these that fits all cells which are not missing:
integer (64 bits) → number (nearest double) → boolean (true, false) → date → datetime → category or text.
Codes with leading zeros, phone numbers with a plus, integers beyond 64 bits, and integers beyond 2^53 among decimals
stay text. Text is a `category` when it has at most max(20, 5 % of the rows) and at most 1000 distinct values, unless
more than ten values are all different.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from service.intake.dates import DATE, DATETIME, DAY_AND_MONTH, ZONED, cast, day_and_month, days, instants
from service.intake.findings import NULLS, Json, Type, Typed, warning
from service.intake.hints import hints
from service.intake.numerals import (
    POINT,
    doubtful_note,
    grouped_note,
    grouped_pattern,
    grouping,
    number_pattern,
    plain_numbers,
)  # fmt: skip
from service.intake.words import none_of

EXACT = 2**53
ODD_NULLS = (
    "?", "-", "--", ".", "n.a.", "N.A.", "na", "Na", "none", "NONE", "Null", "missing", "Missing", "MISSING",
    "#NULL!", "#VALUE!", "#DIV/0!", "#REF!", "#NUM!", "#NAME?", "1.#IND", "-1.#IND", "1.#QNAN",
)  # fmt: skip
SAMPLE = 1000
BOOLEAN = "^(?i:true|false)$"


@dataclass(frozen=True)
class Rules:
    """How cells are written: the decimal mark (and whether it is in doubt) and the words for a missing value.

    `odd_nulls`: `?`, `-` and the like are missing too in columns of numbers, booleans and times.
    """

    decimal: str = POINT
    nulls: tuple[str, ...] = NULLS
    odd_nulls: bool = True
    doubtful: bool = False

    @property
    def loose(self) -> tuple[str, ...]:
        """Words for a missing value in a column that is not text."""
        return ("", *self.nulls, *(ODD_NULLS if self.odd_nulls else ()))


def infer(cells: pa.Array, rules: Rules) -> Typed:
    """The typed column of text cells; missing cells are null already. O(n)."""
    if cells.null_count < len(cells) and pc.all(pc.starts_with(cells, " ")).as_py():  # `a, b, c`
        bare, odd = loosened(cells, replace(rules, odd_nulls=False))
        found = _infer(bare, rules)
        return replace(found, odd_nulls=odd + found.odd_nulls)
    return _infer(cells, rules)


def _infer(cells: pa.Array, rules: Rules) -> Typed:
    if cells.null_count == len(cells):
        return Typed(pa.nulls(len(cells), pa.float64()), "number")
    if rules.decimal == POINT and not pc.any(pc.starts_with(cells, "+")).as_py():
        quick = _plain(cells)
        if quick is not None:
            return _doubted(quick, cells, rules)
    bare = without(cells, tuple(w for w in rules.nulls if w))
    sample = sampled(bare)
    found = _numeric(bare, sample, rules) or _marked(bare, sample, rules)
    if found is not None:
        return found
    text = without(cells, ("",) if "" in rules.nulls else ())
    return Typed(text, text_type(text), hints(without(bare, ("",)), text, sample, rules.decimal, rules.loose))


def _doubted(found: Typed, cells: pa.Array, rules: Rules) -> Typed:
    """The column with a warning where its decimal mark may part thousands."""
    if not rules.doubtful or found.type != "number":
        return found
    return replace(found, warnings=found.warnings + doubtful_note(sampled(cells), cells, rules.decimal))


def text_type(cells: pa.Array) -> Type:
    """`category` when few values recur, else `text` (see the module)."""
    valid, most = len(cells) - cells.null_count, min(max(20.0, 0.05 * len(cells)), 1000.0)
    if pc.count_distinct(cells.slice(0, 4 * SAMPLE), mode="only_valid").as_py() > most:
        return "text"
    distinct = pc.count_distinct(cells, mode="only_valid").as_py()
    return "category" if distinct <= most and not (distinct == valid and valid > 10) else "text"


def without(cells: pa.Array, words: tuple[str, ...]) -> pa.Array:
    """The cells, with these words missing."""
    if not words or none_of(cells, words):
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


def _codes(cells: pa.Array) -> Typed | None:
    """The column as text when a cell is an integer with a leading zero: a code, not a quantity."""
    starts = pc.or_(pc.starts_with(cells, "0"), pc.starts_with(cells, "-0"))
    if not pc.any(starts).as_py() or not _some(cells.filter(starts), r"^[+-]?0(\d+|[xX].*)$"):
        return None
    note = warning(
        "leading_zeros", "has whole numbers with leading zeros and stays text.", "Set types to read it as integer."
    )
    return Typed(cells, text_type(cells), (note,))


def sampled(cells: pa.Array) -> pa.Array:
    """At most about a thousand valid cells, evenly spread: what refutes a type here refutes it for the column."""
    valid = cells.drop_null() if cells.null_count else cells
    return valid.take(pa.array(range(0, len(valid), max(1, len(valid) // SAMPLE)), pa.int64()))


def _plain(cells: pa.Array) -> Typed | None:
    """Integers or numbers as they stand. A cast that fails late is slow, so the sample goes first."""
    sample = sampled(cells)
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
    whole = largest is not None and largest >= EXACT and matches(cells, r"^[+-]?\d+$")
    if whole and pc.all(whole).as_py():
        note = warning("huge_integers", "has integers beyond 64 bits and stays text, so that no digit is lost.")
        return Typed(cells, text_type(cells), (note,))
    if whole and _rounded(cells.filter(pc.and_(whole, pc.greater_equal(pc.abs(values), float(EXACT))))):
        text = "has decimals and integers beyond 2^53, and stays text: doubles cannot hold all their digits."
        return Typed(cells, text_type(cells), (warning("huge_integers", text, "Set types to number to round them."),))
    notes: tuple[Json, ...] = ()
    if largest == float("inf"):
        if not pc.all(matches(cells.filter(pc.is_inf(values)), "(?i)inf")).as_py():
            return None
        notes += (warning("infinite", "has infinite values.", "Most algorithms refuse them."),)
    nan = pc.is_nan(values)
    odd = counts(cells.filter(nan)) if pc.any(nan).as_py() else ()
    values = pc.if_else(nan, pa.scalar(None, pa.float64()), values) if odd else values
    return _codes(cells) or Typed(values, "number", notes + _exponents(cells), odd_nulls=odd)


def _rounded(integers: pa.Array) -> bool:
    """Whether one of these integers is no double. O(n), a few cells as a rule."""
    return any(int(cell) != int(float(cell)) for cell in integers.to_pylist())


def _exponents(cells: pa.Array) -> tuple[Json, ...]:
    """The warning that `1e5`, `2e7` may be codes."""
    pattern = r"^\d+[eE]\d+$"
    if not all_match(sampled(cells), pattern) or not all_match(cells, pattern):
        return ()
    return (warning("exponents", "has values such as 1e5, read as numbers.", "Set types to text if they are codes."),)


def counts(words: pa.Array) -> tuple[tuple[str, int], ...]:
    """How often each word occurs, without blanks around it."""
    counted = pc.value_counts(pc.utf8_trim_whitespace(words.drop_null()))
    return tuple(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True))


def loosened(cells: pa.Array, rules: Rules) -> tuple[pa.Array, tuple[tuple[str, int], ...]]:
    """Cells without blanks around them, words for a missing value missing, and how often each of those occurs."""
    if none_of(cells, rules.loose):  # and none has blanks around it
        return cells, ()
    trimmed = pc.utf8_trim_whitespace(cells)
    bare = without(trimmed, rules.loose)
    if bare.null_count == cells.null_count:
        return bare, ()
    return bare, counts(trimmed.filter(pc.and_(pc.is_null(bare), pc.is_valid(trimmed))))


def _numeric(cells: pa.Array, sample: pa.Array, rules: Rules) -> Typed | None:
    """Numbers with blanks, plus signs, a decimal comma, digit groups, or words such as `?` for missing."""
    pattern = number_pattern(rules.decimal)
    sample = without(pc.utf8_trim_whitespace(sample), rules.loose)
    if not all_match(sample, f"{pattern}|{grouped_pattern(rules.decimal)}") and len(sample) > sample.null_count:
        return None
    bare, odd = loosened(cells, rules)
    good = matches(bare, pattern)
    marks = ""
    notes: tuple[Json, ...] = ()
    if not pc.all(good, min_count=1).as_py():
        marks = grouping(bare, good, rules.decimal) or ""
        if not marks:
            return None
        notes = (grouped_note(bare, marks, rules.decimal),)
    elif _some(bare, r"^\+\d{8,}$"):
        note = warning("leading_plus", "has long whole numbers with a plus, such as phone numbers, and stays text.")
        return Typed(cells, text_type(cells), (note,))
    found = _plain(plain_numbers(bare, rules.decimal, marks))
    if found is None:
        return None
    if found.type in {"category", "text"}:
        return replace(found, array=cells)
    found = replace(found, odd_nulls=odd + found.odd_nulls, warnings=found.warnings + notes)
    return found if marks else _doubted(found, bare, rules)


def _marked(cells: pa.Array, sample: pa.Array, rules: Rules) -> Typed | None:
    """Booleans, dates and times."""
    sample = without(pc.utf8_trim_whitespace(sample), rules.loose)
    patterns = (BOOLEAN, DATE, DATETIME, ZONED, DAY_AND_MONTH)
    seen = next((pattern for pattern in patterns if all_match(sample, pattern)), None)
    if seen is None:
        return None
    bare, odd = loosened(cells, rules)
    found = _read_marked(bare, seen)
    return None if found is None else replace(found, odd_nulls=odd)


def _read_marked(cells: pa.Array, pattern: str) -> Typed | None:
    """The column if all cells match; what is quicker than the pattern and implies it goes first."""
    if pattern == BOOLEAN:
        lower = pc.utf8_lower(cells)
        true = pc.equal(lower, "true")
        plain = pc.all(pc.or_(true, pc.equal(lower, "false"))).as_py()
        return Typed(true, "boolean") if plain or all_match(cells, pattern) else None
    if pattern == DATE:
        values = days(cells)
        return None if values is None else Typed(values, "date")
    if not all_match(cells, pattern):
        return None
    if pattern == DAY_AND_MONTH:
        ordered = day_and_month(cells)
        return None if ordered is None else Typed(ordered[0], "date", (ordered[1],))
    values = instants(cells, "UTC" if pattern == ZONED else None)
    return None if values is None else Typed(values, "datetime")
