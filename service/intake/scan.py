"""A slow, exact walk over delimited text, for messages: which line a record is on, and what is wrong with it."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.errors import Invalid, Issue
from service.intake.findings import MAX_REJECTS, WHITESPACE, open_quote
from service.intake.sniff import Dialect

MAX_FIELD = 2**31 - 1


def records(path: Path, how: Dialect, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line on which it begins, header included. O(cells); Invalid where a quote never closes."""
    csv.field_size_limit(MAX_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as source:
        for _ in range(how.skip):
            next(source)
        reader = csv.reader(source, delimiter=how.delimiter, strict=strict, skipinitialspace=how.padded)
        line = how.skip + 1
        try:
            for row in reader:
                yield line, row
                line = how.skip + reader.line_num + 1
        except csv.Error as error:
            raise open_quote(line, error) from error


def check_quotes(path: Path, how: Dialect) -> None:
    """Refuse a quote that never closes, or closes in another row: it would swallow rows into one cell."""
    if how.delimiter != WHITESPACE:
        for _ in records(path, how, strict=True):
            pass


def rejects(
    path: Path, how: Dialect, *, comments: bool = False, width: int | None = None
) -> list[tuple[int, str, str]]:
    """Line, reason and content of the first rows (of `comments` too) with another number of fields than the header."""
    found, width = [], len(how.names) if width is None else width
    for number, (line, row) in enumerate(records(path, how)):
        if (how.header and number == 0) or len(row) == width or (len(row) < 2 and not "".join(row).strip()):
            continue
        if how.comments(row[0]) and not comments:
            continue
        found.append((line, _wrong(len(row), width), how.delimiter.join(row)[:200]))
        if len(found) == MAX_REJECTS:
            break
    return found


def _wrong(fields: int, expected: int) -> str:
    return f"has {fields} fields where {expected} were expected"


def reject_of(row: Any) -> tuple[int, str, str]:
    """The same facts from the parser's own record of a bad row."""
    return row.number or 0, _wrong(row.actual_columns, row.expected_columns), row.text[:200]


def ragged(found: list[tuple[int, str, str]]) -> Invalid:
    """The refusal of a file with such rows."""
    issues = tuple(
        Issue(f"/file/line/{line}", "ragged_row", f"Line {line} {why}: {text!r}.") for line, why, text in found
    )
    more = f" (and {len(found) - 1} more, perhaps others)" if len(found) > 1 else ""
    advice = "Correct the rows, set delimiter, or use on_error=skip to leave them out."
    return Invalid(f"{issues[0].detail}{more} {advice}", issues=issues)
