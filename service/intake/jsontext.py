"""JSON tables: lines of records, an array of records, or an object of columns.

Every scalar becomes a text cell plus the kinds seen in its column, so that numbers stay exact however late the first
decimal comes, and text that only looks like a number ("007") stays text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ml_core.errors import pointer
from service.errors import Invalid, Issue, TooLarge
from service.intake.delimited import as_utf8
from service.intake.findings import (
    MAX_COLUMNS,
    MAX_REJECTS,
    ReadOptions,
    Shelf,
    Typed,
    one_chunk,
    refuse,
    warning,
)
from service.intake.types import Rules, infer, text_type

BATCH = 20_000
READ = 1 << 20
MAX_RECORD = 16 << 20
MAX_WHOLE = 256 << 20
BLANKS = re.compile(r"[ \t\r\n]*")


class Unreadable(ValueError):
    """A record that cannot be a row; the message says why."""


@dataclass
class Column:
    """The text chunks of one column, and which kinds of value it holds."""

    chunks: list[pa.Array] = field(default_factory=list)
    kinds: set[type] = field(default_factory=set)
    rows: int = 0


@dataclass
class Builder:
    """Collects records into columns of text cells."""

    shelf: Shelf
    columns: dict[str, Column] = field(default_factory=dict)
    rows: int = 0

    def add(self, block: list[dict[str, Any]]) -> None:
        """Append records; a column that is new here was missing before."""
        names = dict.fromkeys(name for record in block for name in record)
        for name in names:
            self.columns.setdefault(name, Column())
        if len(self.columns) > MAX_COLUMNS:
            raise TooLarge(f"The records have more than {MAX_COLUMNS} different fields.")
        for name in names:
            self.put(name, [record.get(name) for record in block])
        self.rows += len(block)

    def put(self, name: str, values: list[Any]) -> None:
        """Append values to one column."""
        column = self.columns.setdefault(name, Column())
        column.kinds |= {type(value) for value in values}
        gap = self.rows - column.rows
        text = [None] * gap + [v if v is None or type(v) is str else _TEXT[type(v)](v) for v in values]
        column.chunks.append(self.shelf.keep(pa.array(text, pa.string())))
        column.rows = self.rows + len(values)

    def typed(self, name: str, rules: Rules) -> Typed:
        """The finished column."""
        column = self.columns[name]
        if column.rows < self.rows:
            column.chunks.append(pa.nulls(self.rows - column.rows, pa.string()))
        cells = one_chunk(pa.chunked_array(column.chunks, pa.string()))
        return _typed(cells, column.kinds - {type(None)}, rules)


_TEXT: dict[type, Any] = {int: str, float: repr, bool: lambda v: "true" if v else "false"}


def _typed(cells: pa.Array, kinds: set[type], rules: Rules) -> Typed:
    if kinds == {str}:
        found = infer(cells, Rules(nulls=(), odd_nulls=False))
        return found if found.type in {"date", "datetime"} else Typed(cells, text_type(cells))
    if kinds == {float}:
        found = infer(cells, Rules(nulls=()))
        return found if found.type == "number" else Typed(pc.cast(cells, pa.float64()), "number")
    found = infer(cells, rules)
    if len(kinds - {int, float}) > 0 and len(kinds) > 1 and not found.warnings and found.type in {"text", "category"}:
        return Typed(found.array, found.type, (warning("mixed_column", "mixes kinds of value and is text."),))
    return found


def read_json(path: Path, form: str, options: ReadOptions, shelf: Shelf) -> tuple[Builder, dict[str, Any], int]:
    """The filled builder, how the file was read, and how many records were left out."""
    plain, encoding, _ = as_utf8(path, options.encoding, shelf.folder)
    builder = Builder(shelf)
    source = {"encoding": encoding}
    if form == "ndjson":
        return builder, source, _fill(builder, _lines(plain), "line", options)
    with plain.open(encoding="utf-8-sig") as text:
        start = text.read(READ).lstrip()[:1]
    if start == "{":
        _columns(plain, builder)
        return builder, source | {"orientation": "columns"}, 0
    return builder, source | {"orientation": "records"}, _fill(builder, _elements(plain), "record", options)


def _fill(builder: Builder, records: Iterable[tuple[int, str]], unit: str, options: ReadOptions) -> int:
    """Decode records in blocks; bad ones are reported, or counted when they are to be skipped."""
    issues: list[Issue] = []
    skipped, block = 0, []
    for number, text in records:
        try:
            block.append(decode(text))
        except ValueError as error:
            skipped += 1
            if options.on_error != "skip":
                issues.append(
                    Issue(
                        f"/file/{unit}/{number}", "bad_record", f"{unit.capitalize()} {number}: {error}: {text[:200]!r}"
                    )
                )
            if len(issues) >= MAX_REJECTS:
                break
        if len(block) >= BATCH:
            builder.add(block)
            block = []
    if issues:
        raise Invalid(
            f"{issues[0].detail}. Correct it, or use on_error=skip to leave such records out.", issues=tuple(issues)
        )
    if block:
        builder.add(block)
    return skipped


def decode(text: str) -> dict[str, Any]:
    """One flat record; ValueError for anything else, for repeated keys, and for numbers that JSON does not have."""
    try:
        record = json.loads(text, object_pairs_hook=_unique, parse_constant=_constant)
    except RecursionError as error:
        raise Unreadable("the record is nested too deeply") from error
    if not isinstance(record, dict):
        raise Unreadable("not an object of columns and values")
    for name, value in record.items():
        _check(name, value)
    return record


def _check(name: str, value: Any) -> None:
    if isinstance(value, (dict, list)):
        raise Unreadable(f"field {name!r} holds a nested value")
    if isinstance(value, float) and not math.isfinite(value):
        raise Unreadable(f"field {name!r} is beyond the range of doubles")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Unreadable(f"field {name!r} holds half of a surrogate pair") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise Unreadable("a key is repeated")
    return record


def _constant(word: str) -> float:
    raise Unreadable(f"{word} is not JSON; write null")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8-sig") as text:
        number = 0
        while line := text.readline(MAX_RECORD):
            number += 1
            if len(line) == MAX_RECORD:
                raise TooLarge(f"Line {number} has more than {MAX_RECORD} characters, which is the limit of a record.")
            if line.strip():
                yield number, line.strip()


def _elements(path: Path) -> Iterator[tuple[int, str]]:
    """The text of each element of a top-level array, without holding the array."""
    scanner, number = json.JSONDecoder(), 0
    with path.open(encoding="utf-8-sig") as text:
        buffer, at, comma = text.read(READ).lstrip(), 1, False
        while True:
            at = _skip(buffer, at)
            if buffer[at : at + 1] == "]" and not comma:
                if buffer[at + 1 :].strip() or text.read(READ).strip():
                    raise refuse("/file", "trailing_text", "There is text after the end of the JSON array.")
                return
            try:
                end = scanner.raw_decode(buffer, at)[1]
            except (ValueError, RecursionError):
                end = len(buffer)
            mark = _skip(buffer, end)
            if mark == len(buffer):
                if len(buffer) - at > MAX_RECORD:
                    raise TooLarge(f"Record {number + 1} has more than {MAX_RECORD} characters or is malformed.")
                more = text.read(max(READ, len(buffer) - at))
                if not more:
                    shown = f"The JSON array breaks off or is malformed at record {number + 1}: {buffer[at:][:200]!r}."
                    raise refuse(f"/file/record/{number + 1}", "bad_record", shown)
                buffer, at = buffer[at:] + more, 0
                continue
            number += 1
            yield number, buffer[at:end]
            if buffer[mark] not in ",]":
                raise refuse(f"/file/record/{number}", "bad_record", f"A comma is missing after record {number}.")
            comma = buffer[mark] == ","
            at = mark + comma


def _skip(buffer: str, at: int) -> int:
    """Where the blanks from `at` on end."""
    found = BLANKS.match(buffer, at)
    return found.end() if found else at


def _columns(path: Path, builder: Builder) -> None:
    """An object of equally long lists; it is held in memory whole."""
    if path.stat().st_size > MAX_WHOLE:
        raise TooLarge(f"A JSON object of columns may have {MAX_WHOLE} bytes; send records or ndjson, which stream.")
    try:
        table = json.loads(path.read_text("utf-8-sig"), object_pairs_hook=_unique, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise refuse("/file", "bad_json", f"The file is not one JSON value: {error}.") from error
    if table and not any(isinstance(values, (list, dict)) for values in table.values()):
        builder.add([decode(json.dumps(table))])
        return
    lengths = {name: len(values) if isinstance(values, list) else -1 for name, values in table.items()}
    if len(set(lengths.values())) != 1 or -1 in lengths.values():
        shown = ", ".join(f"{n!r}: {'no list' if k < 0 else k}" for n, k in list(lengths.items())[:10])
        raise refuse("/file", "bad_columns", f"A JSON object of columns needs lists of one length; here: {shown}.")
    for name, values in table.items():
        try:
            for row, value in enumerate(values, 1):  # noqa: B007
                _check(name, value)
        except Unreadable as error:
            raise refuse(pointer("file", "column", name, "row", row), "bad_value", f"Row {row}: {error}.") from error
        builder.put(name, values)
    builder.rows = next(iter(lengths.values()))
