"""What a file is, found from its first 256 KiB: its format, and the dialect of delimited text."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.intake.findings import NULLS, WHITESPACE, ReadOptions, refuse
from service.intake.unpack import unread

HEAD = 256 << 10
SAMPLE_ROWS = 2000
DELIMITERS = (",", ";", "\t", "|")
FIELD = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
NUMBER = re.compile(r"^\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*$")
BINARY = (
    (b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"\xff\xff\xff\xff", "arrow"),
    (b"\x93NUMPY", "npy"), (b"\xd0\xcf\x11\xe0", "!an old Excel workbook (XLS)"), (b"%PDF", "!a PDF"),
    (b"SQLite format 3", "!an SQLite database"), (b"\x89HDF", "!an HDF5 file"), (b"BZh", "!packed with bzip2"),
    (b"\xfd7zXZ", "!packed with xz"), (b"ORC", "!an ORC file"), (b"Obj\x01", "!an Avro file"),
)  # fmt: skip
LINE_END = re.compile("\r\n|\r|\n")
LIBSVM = re.compile(r"^[+-]?[\d.]+([eE][+-]?\d+)?(\s+(qid|\d+):\S+)+\s*(#.*)?$")


@dataclass(frozen=True)
class Dialect:
    """How delimited text is written; `skip` lines come before the header (or before the first row)."""

    delimiter: str
    decimal: str
    header: bool
    skip: int
    names: tuple[str, ...]
    row_names: bool = False


def binary_format(head: bytes) -> str | None:
    """The format that the magic bytes announce, None for text; Invalid when it is one that is not read."""
    for magic, name in BINARY:
        if head.startswith(magic):
            if name.startswith("!"):
                raise unread(name[1:])
            return name
    return None


def text_format(sample: str) -> str:
    """`json`, `ndjson`, `arff`, `libsvm` or `csv`; Invalid for markup."""
    body = sample.lstrip("\ufeff \t\r\n")
    lines = [line for line in body.splitlines()[:50] if line.strip()]
    rest = body[1:].lstrip()[:1]
    if body.startswith("[") and rest in {"{", "[", "]"}:
        return "json"
    if body.startswith("{") and rest in {'"', "}"}:
        return "ndjson" if len(lines) > 1 and lines[1].lstrip().startswith("{") else "json"
    if any(line.lower().startswith("@relation") for line in lines):
        return "arff"
    if lines and all(LIBSVM.match(line) for line in lines[:5]):
        return "libsvm"
    if re.match(r"<(\?xml|!doctype|html)", body[:20].lower()):
        raise unread("XML or HTML")
    return "csv"


def dialect(sample: str, complete: bool, options: ReadOptions) -> Dialect:
    """The dialect of the text whose beginning is `sample`; what the options state is taken as it is."""
    lines = LINE_END.split(sample)
    delimiter = {"tab": "\t"}.get(options.delimiter or "", options.delimiter) or (
        "\t" if options.format == "tsv" else None
    )
    told = re.match(r"^\ufeff?sep=(.)$", lines[0])
    delimiter = delimiter or (told[1] if told else None)
    skip = 1 if told else _preamble(lines, delimiter)
    body = "\n".join(lines[skip:])
    delimiter = delimiter or _delimiter(body, complete)
    rows = fields(body, delimiter, complete)
    if not rows:
        raise refuse("/file", "no_rows", "The file has no row with any text.")
    decimal = options.decimal or _decimal(rows, delimiter)
    header = _has_header(rows) if options.header is None else options.header
    names = tuple(rows[0]) if header else tuple(f"column_{i + 1}" for i in range(_width(rows)))
    if header and complete and len(rows) == 1:
        raise refuse("/file", "no_rows", "The file has no rows below its header.")
    named = header and _names_rows(rows)
    return Dialect(delimiter, decimal, header, skip, ("row", *names) if named else names, named)


def _names_rows(rows: list[list[str]]) -> bool:
    """Whether each row begins with its name, for which the header has no field (as R writes tables)."""
    body = rows[1:]
    if len(rows[0]) < 2 or any(len(row) != len(rows[0]) + 1 for row in body):
        return False
    first = [row[0] for row in body]
    counted = len(first) > 2 and first == [str(i + 1) for i in range(len(first))]
    return counted or (len(set(first)) == len(first) and not any(map(NUMBER.match, first)))


def split_blanks(line: str) -> list[str]:
    """Fields between runs of blanks; double quotes keep blanks inside a field."""
    return [m[1].replace('""', '"') if m[1] is not None else m[2] for m in FIELD.finditer(line)]


def fields(body: str, delimiter: str, complete: bool) -> list[list[str]]:
    """The first rows, without blank ones; the last is dropped when it may be cut off."""
    if delimiter == WHITESPACE:
        rows = [split_blanks(line) for line in LINE_END.split(body)]
    else:
        reader = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter)
        rows = []
        try:
            for row in reader:
                rows.append(row)
                if len(rows) > SAMPLE_ROWS:
                    break
        except csv.Error as error:
            raise refuse(
                f"/file/line/{reader.line_num}", "unreadable_line", f"Line {reader.line_num}: {error}."
            ) from error
    if not complete and 1 < len(rows) <= SAMPLE_ROWS:
        rows.pop()
    return [row for row in rows if row and not (len(row) == 1 and not row[0].strip())]


def _preamble(lines: Sequence[str], delimiter: str | None) -> int:
    """How many lines before the table are blank or comments; a `#` in front of a proper header is no comment."""
    skip = 0
    while skip < len(lines) and (not lines[skip].strip() or lines[skip].startswith("#")):
        skip += 1
    if not 0 < skip < len(lines) or not lines[skip - 1].startswith("#"):
        return skip
    for mark in (delimiter,) if delimiter and delimiter != WHITESPACE else DELIMITERS:
        if 0 < lines[skip - 1].count(mark) == lines[skip].count(mark):
            return skip - 1
    return skip


def _width(rows: Sequence[Sequence[str]]) -> int:
    return Counter(map(len, rows)).most_common(1)[0][0] if rows else 0


def _score(rows: list[list[str]]) -> tuple[float, int]:
    """Share of rows with the commonest width (a header of another width costs), and that width."""
    width = _width(rows[1:] or rows)
    if width < 2:
        return 0.0, width
    share = sum(len(row) == width for row in rows) / len(rows)
    return (share if len(rows[0]) in {width, width - 1} else 0.3 * share), width


def _delimiter(body: str, complete: bool) -> str:
    """The character that cuts the rows most evenly; runs of blanks only when they do and no character does."""
    scores = {}
    for mark in DELIMITERS:
        rows = fields(body, mark, complete) if mark in body else []
        if rows:
            scores[mark] = _score(rows)
            if mark == ";" and scores[mark][0] > 0.9 and _decimal(rows, mark) == ",":
                return mark
    best = max(scores, key=lambda mark: scores[mark], default=",")
    if scores.get(best, (0.0, 0))[0] >= 0.9:
        return best
    rows = fields(body, WHITESPACE, complete)
    if rows and _score(rows)[0] > max(0.9, scores.get(best, (0.0, 0))[0]) and any(map(NUMBER.match, rows[-1])):
        return WHITESPACE
    return best if scores.get(best, (0.0, 0))[0] >= 0.3 else ","


def _decimal(rows: list[list[str]], delimiter: str) -> str:
    if delimiter == ",":
        return "."
    cells = [cell.strip() for row in rows[:200] for cell in row]
    commas = sum(bool(re.match(r"^[+-]?\d*,\d+([eE][+-]?\d+)?$", cell)) for cell in cells)
    points = sum(bool(re.match(r"^[+-]?\d*\.\d+([eE][+-]?\d+)?$", cell)) for cell in cells)
    return "," if commas > points else "."


def _has_header(rows: list[list[str]]) -> bool:
    """By contrast of kind: a word above numbers is a name, a number above numbers is not.

    Without numbers the first row is a header unless it has empty, repeated or recurring cells. Rising whole
    numbers above decimals (years, column indices) are names too.
    """
    if len(rows) < 2:
        return not (rows and all(NUMBER.match(cell) for cell in rows[0]))
    first, columns = rows[0], list(zip(*(row for row in rows[1:] if len(row) == len(rows[0]))))  # noqa: B905
    if not columns:
        return True
    bodies = [[cell for cell in column if cell.strip() not in NULLS] for column in columns]
    numeric = [i for i, body in enumerate(bodies) if body and all(map(NUMBER.match, body))]
    words = [first[i].strip() for i in numeric if first[i].strip() not in NULLS]
    if any(not NUMBER.match(word) for word in words):
        return True
    if not numeric:
        recurs = any(cell in body for cell, body in zip(first, bodies, strict=True))
        return len(set(first)) == len(first) and all(c.strip() for c in first) and not recurs
    if len(words) < len(numeric) or len(words) < 3 or not all(word.isdigit() for word in words):
        return False
    decimals = any("." in cell or "," in cell for i in numeric for cell in bodies[i])
    return decimals and all(int(a) < int(b) for a, b in pairwise(words))
