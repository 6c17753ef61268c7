"""What a column of text may have been meant as: warnings that name the cells and the option that reads them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from service.intake.findings import MAX_REJECTS, NULLS, Json, warning
from service.intake.numerals import COMMA, POINT, number_pattern
from service.intake.words import none_of

SHOWN = 5
LIKE_NULL = (
    "?", "-", "--", ".", "n.a.", "N.A.", "na", "Na", "none", "NONE", "Null", "missing", "Missing", "MISSING", "unknown",
    "#NULL!", "#VALUE!", "#DIV/0!", "#REF!", "#NUM!", "#NAME?",
)  # fmt: skip
DAYS = "PATCH the column with type date and a format such as %d/%m/%Y (day first) or %m/%d/%Y (month first)."
HINTS = (
    ("ambiguous_date", r"^\d{1,2}[/.-]\d{1,2}[/.-]\d{4}$", "looks like dates in an order that is not certain", DAYS),
    ("two_digit_years", r"^\d{1,2}[/.-]\d{1,2}[/.-]\d{2}([T ]\d{1,2}:\d{2}.*)?$",
     "looks like dates with years of two digits, whose order and century are not certain",
     "PATCH the column with type date and a format such as %d/%m/%y, %m/%d/%y or %y-%m-%d (datetime: %d/%m/%y %H:%M); "
     "69 to 99 are then 1969 to 1999, 00 to 68 are 2000 to 2068."),
    ("named_months",
     r"^\d{1,2}[ ./-]?[A-Za-z]{3,9}\.?[ ,./-]*\d{2}(\d{2})?( .*)?$|^[A-Za-z]{3,9}\.? \d{1,2},? \d{4}( .*)?$",
     "looks like dates with names of months",
     "PATCH the column with type date (or datetime) and a format such as %d-%b-%Y or %b %d, %Y, of English names."),
    ("date_like", r"^\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}([T ]\d{1,2}:\d{2}.*)?$",
     "looks like dates or times that are not all written in one ISO 8601 form, or are no real dates",
     "Write them all as 2020-12-31 or 2020-12-31T10:00:00 (all with a zone, or none), or PATCH the column with type "
     "date or datetime and a format such as %d/%m/%Y or %d/%m/%Y %H:%M."),
    ("time_of_day", r"^\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?$", "looks like times of day, for which there is no type",
     "Give seconds or hours as a number to use them as quantities."),
    ("currency", "^[+-]?[$€£¥]\\s?[\\d.,'\u00a0\u202f ]+$|^[+-]?[\\d.,'\u00a0\u202f ]+[$€£¥]$",
     "looks like amounts of money", "Leave out the currency sign to read them as numbers."),
    ("percent", r"^[+-]?[\d.,]+\s?%$", "looks like percentages", "Leave out the percent sign to read numbers."),
    ("digit_groups", "^[+-]?\\d+([_.,'\u00a0\u2009\u202f ]\\d{2,3})+([.,]\\d*)?$",
     "looks like numbers with digits in groups that may be read in more than one way",
     "Set decimal, or leave out the marks between groups of digits."),
)  # fmt: skip
WRONG_MARK = {
    POINT: ("decimal_comma", r"^[+-]?\d*,\d+([eE][+-]?\d+)?$", "decimal commas", "decimal=,"),
    COMMA: ("decimal_point", r"^[+-]?\d*\.\d+([eE][+-]?\d+)?$", "decimal points", "decimal=."),
}


def cells_of(bad: pa.Array, cells: pa.Array, most: int = MAX_REJECTS) -> list[Json]:
    """Row (from 1, below the header) and value of the first cells of a mask."""
    rows = pc.indices_nonzero(pc.fill_null(bad, False))[:most].to_pylist()
    return [{"row": row + 1, "value": str(cells[row].as_py())[:100]} for row in rows]


def shown(found: list[Json]) -> str:
    """The first of these cells, for a message."""
    return ", ".join(f"row {cell['row']}: {cell['value'][:40]!r}" for cell in found[:SHOWN])


def hints(
    cells: pa.Array, text: pa.Array, sample: pa.Array, decimal: str, nulls: tuple[str, ...]
) -> tuple[Json, ...]:
    """Warnings about a column that stays text: nearly numbers, dates, money, words like `n.a.`. O(n), mostly O(1).

    In `cells` words for a missing value are missing, in `text` quoted ones are not; `sample` is some of `cells`.
    `nulls` are the words that would be missing among numbers.
    """
    sample = pc.utf8_trim_whitespace(sample)
    return _mixed(cells, sample, decimal, nulls) or _looks(sample, decimal) or _like_null(text)


def option(bad: pa.Array, decimal: str) -> str:
    """The advice that reads such cells, "" when none is known."""
    return "".join(f"{note['advice']} " for note in _looks(pc.utf8_trim_whitespace(bad.slice(0, MAX_REJECTS)), decimal))


def _share(sample: pa.Array, pattern: str) -> float:
    return float(pc.mean(pc.match_substring_regex(sample, pattern)).as_py() or 0.0)


def _mixed(cells: pa.Array, sample: pa.Array, decimal: str, nulls: tuple[str, ...]) -> tuple[Json, ...]:
    """Mostly numbers: how many cells are none, and the first of them."""
    pattern = number_pattern(decimal)
    if not _share(sample, pattern):
        return ()
    trimmed = pc.utf8_trim_whitespace(cells)
    empty = pc.is_in(trimmed, pa.array(nulls, cells.type))
    good = pc.match_substring_regex(trimmed, pattern)
    numbers, valid = pc.sum(good).as_py() or 0, len(cells) - cells.null_count - pc.sum(empty).as_py()
    if 2 * numbers < valid or not numbers:
        return ()
    if numbers == valid:
        return (warning("out_of_range", "has numbers beyond the range of doubles and stays text."),)
    found, count = cells_of(pc.and_not(pc.invert(good), empty), cells), valid - numbers
    text = f"is text because {count} of {valid} values are not numbers ({shown(found)})."
    advice = (
        "Correct these cells, or name them in null_values; to make them missing set types to number with "
        'on_error=missing, or PATCH the column with type number and "misfits": "missing".'
    )
    return (warning("mixed_column", text, advice) | {"count": count, "cells": found},)


def _looks(sample: pa.Array, decimal: str) -> tuple[Json, ...]:
    code, pattern, marks, option = WRONG_MARK[decimal]
    if _share(sample, pattern) > 0.5:
        return (warning(code, f"stays text, but looks like numbers with {marks}.", f"Set {option} to read them."),)
    found = next(((c, what, advice) for c, p, what, advice in HINTS if _share(sample, p) > 0.5), None)
    return () if found is None else (warning(found[0], f"stays text, but {found[1]}.", found[2]),)


def _like_null(cells: pa.Array) -> tuple[Json, ...]:
    words = tuple(dict.fromkeys(LIKE_NULL + NULLS))
    if none_of(cells, words):
        return ()
    hit = pc.is_in(pc.utf8_trim_whitespace(cells), pa.array(words, cells.type), skip_nulls=True)
    count = pc.sum(hit).as_py()
    if not count:
        return ()
    found = cells_of(hit, cells)
    text = f"has {count} cells that may mean missing and were kept as text ({shown(found)})."
    return (warning("like_null", text, "Name such words in null_values.") | {"count": count, "cells": found},)
