"""Text cut into records and fields, as far as the sniffer needs it."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence

from service.intake.findings import WHITESPACE, refuse

SAMPLE_ROWS = 2000
DELIMITERS = (",", ";", "\t", "|")
RARE_DELIMITERS = ("\x01", "\x1f", "^", "~", "¦", "§", ":")
FIELD = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
NUMBER = re.compile(r"^\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*$")
LINE_END = re.compile("\r\n|\r|\n")


def split_blanks(line: str) -> list[str]:
    """Fields between runs of blanks; double quotes keep blanks inside a field."""
    return [m[1].replace('""', '"') if m[1] is not None else m[2] for m in FIELD.finditer(line)]


def padded(body: str, delimiter: str) -> bool:
    """Whether blanks stand between a delimiter and a double quote (`a, "b, c"`) that no quoted field holds."""
    if delimiter == WHITESPACE or ' "' not in body:
        return False
    if not re.search(f'(?:^|{re.escape(delimiter)}) +"', body, re.MULTILINE):
        return False
    rows = _cut(body, delimiter, skip=False)
    return any(cell[:1] == " " and cell.lstrip(" ")[:1] == '"' for row in rows for cell in row)


def _cut(body: str, delimiter: str, *, skip: bool) -> list[list[str]]:
    reader = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter, skipinitialspace=skip)
    rows = []
    try:
        for row in reader:
            rows.append(row)
            if len(rows) > SAMPLE_ROWS:
                break
    except csv.Error as error:
        detail = f"Line {reader.line_num}: {error}."
        raise refuse(f"/file/line/{reader.line_num}", "unreadable_line", detail) from error
    return rows


def fields(body: str, delimiter: str, complete: bool) -> list[list[str]]:
    """The first rows, without blank ones; the last is dropped when it may be cut off."""
    if delimiter == WHITESPACE:
        rows = [split_blanks(line) for line in LINE_END.split(body)]
    else:
        rows = _cut(body, delimiter, skip=padded(body, delimiter))
    if not complete and 1 < len(rows) <= SAMPLE_ROWS:
        rows.pop()
    return [row for row in rows if row and not (len(row) == 1 and not row[0].strip())]


def width(rows: Sequence[Sequence[str]]) -> int:
    """The commonest number of fields."""
    return Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
