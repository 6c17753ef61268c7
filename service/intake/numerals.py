"""How numbers are written: decimal mark, digit groups, signs; and such text turned into plain numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from service.intake.findings import Json, warning

NUMBER = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"
NUMBER_COMMA = r"^[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf|infinity)$"
BLANKS = " \u00a0\u2009\u202f"
QUOTES = "'\u2019"
POINT, COMMA = ".", ","


def number_pattern(decimal: str) -> str:
    """The regular expression of a number without digit groups."""
    return NUMBER if decimal == POINT else NUMBER_COMMA


def grouped_pattern(decimal: str, marks: str | None = None) -> str:
    """The regular expression of a number whose digits stand in groups of three, between any of these marks."""
    group = f"[{marks or _marks(decimal)}]"
    return rf"^[+-]?[1-9]\d{{0,2}}({group}\d{{3}})+([{decimal}]\d*)?$"


def _marks(decimal: str) -> str:
    return "".join(families(decimal))


def families(decimal: str) -> tuple[str, ...]:
    """The marks that may stand between groups of digits; those of one family may be mixed."""
    return (COMMA if decimal == POINT else POINT, BLANKS, QUOTES)


def grouping(cells: pa.Array, good: pa.Array, decimal: str) -> str | None:
    """The marks between digits when every cell that is not a plain number (`good`) has groups of one family. O(n).

    Blanks count only where groups differ from cell to cell: codes such as `555 123` have one length.
    """
    odd = cells.filter(pc.fill_null(pc.invert(good), False))
    for marks in families(decimal):
        if pc.all(pc.match_substring_regex(odd, grouped_pattern(decimal, marks)), min_count=1).as_py():
            lengths = pc.count_distinct(pc.utf8_length(cells), mode="only_valid").as_py()
            return marks if marks != BLANKS or lengths > 1 else None
    return None


def plain_numbers(cells: pa.Array, decimal: str, marks: str = "") -> pa.Array:
    """Cells without plus signs and digit groups, and with a decimal point."""
    if marks:
        grouped = pc.match_substring_regex(cells, grouped_pattern(decimal, marks))
        cells = pc.if_else(grouped, pc.replace_substring_regex(cells, f"[{marks}]", ""), cells)
    plain = pc.replace_substring(cells, COMMA, POINT) if decimal == COMMA else cells
    return pc.replace_substring_regex(plain, r"^\+", "")


def grouped_note(cells: pa.Array, marks: str, decimal: str) -> Json:
    """The warning that digit groups were read as one number, with the mark that was seen first."""
    row = pc.indices_nonzero(pc.fill_null(pc.match_substring_regex(cells, grouped_pattern(decimal, marks)), False))[0]
    cell = cells[row.as_py()].as_py()
    mark = next(letter for letter in cell if letter in marks)
    text = f"has numbers with digits in groups of three, between which {mark!r} was left out (row {row.as_py() + 1}: "
    advice = "Set types to text to keep the cells as they are; set decimal if that is the decimal mark."
    return warning("thousands_separators", f"{text}{cell!r}).", advice) | {"mark": mark}


def _one_group(decimal: str) -> str:
    return rf"[+-]?[1-9]\d{{0,2}}[{decimal}]\d{{3}}"


def may_part(marked: Iterable[str], decimal: str) -> bool:
    """Whether the mark of all these cells may part thousands, as `doubtful_note` asks of a whole column."""
    return all(re.fullmatch(_one_group(decimal), cell) for cell in marked)


def doubtful_note(sample: pa.Array, cells: pa.Array, decimal: str) -> tuple[Json, ...]:
    """The warning that each number has exactly three digits after its only mark, which might part thousands."""
    pattern = f"^{_one_group(decimal)}$"
    marked = rf"[{decimal}]"
    for every in (sample, cells):
        some = every.filter(pc.fill_null(pc.match_substring_regex(every, marked), False))
        if not pc.all(pc.match_substring_regex(some, pattern), min_count=1).as_py():
            return ()
    other = COMMA if decimal == POINT else POINT
    text = f"has three digits after each {decimal!r}, which was taken for the decimal mark."
    return (warning("doubtful_decimal", text, f"Set decimal={other} if it parts thousands, decimal={decimal} if not."),)
