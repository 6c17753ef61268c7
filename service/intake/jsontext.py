"""JSON tables: lines of records, an array of records, or an object of columns.

Every scalar becomes a text cell plus the kinds seen in its column, so that numbers stay exact however late the first
decimal comes, and text that only looks like a number ("007") stays text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ml_core.errors import pointer
from service.errors import Invalid, Issue, TooLarge
from service.intake.decoding import as_utf8
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
from service.intake.jsonrecords import (
    READ,
    Unreadable,
    check_cell,
    decode,
    elements,
    flat,
    no_constant,
    record_lines,
    unique_keys,
)
from service.intake.types import Rules, infer, text_type

BATCH = 20_000
MAX_WHOLE = 256 << 20


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

    def names(self) -> list[str]:
        """The columns; `a` is none of them when it is only ever null or an object of fields `a.b`."""
        parents = {name[:i] for name in self.columns for i, letter in enumerate(name) if letter == "."}
        empty = {name for name in parents if name in self.columns and self.columns[name].kinds <= {type(None)}}
        return [name for name in self.columns if name not in empty]

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
    with plain.open(encoding="utf-8-sig") as text:
        start = text.read(READ).lstrip()[:1]
    if form == "ndjson" or (options.format is None and start == "{" and _more_lines(plain)):
        return builder, source | {"format": "ndjson"}, _fill(builder, record_lines(plain), "line", options)
    if start == "{":
        return builder, source | {"orientation": _columns(plain, builder)}, 0
    if start != "[":
        raise refuse("/file", "bad_json", "The file is no JSON table: an array of records, or an object of columns.")
    return builder, source | {"orientation": "records"}, _fill(builder, elements(plain), "record", options)


def _more_lines(path: Path) -> bool:
    """Whether the first line is a whole record and others follow."""
    lines = record_lines(path)
    try:
        decode(next(lines)[1])
    except (Unreadable, ValueError, TooLarge, StopIteration):
        return False
    return next(lines, None) is not None


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


def _columns(path: Path, builder: Builder) -> str:
    """An object of equally long lists, held in memory whole, or of one record; which of the two it is."""
    if path.stat().st_size > MAX_WHOLE:
        raise TooLarge(f"A JSON object of columns may have {MAX_WHOLE} bytes; send records or ndjson, which stream.")
    try:
        table = json.loads(path.read_text("utf-8-sig"), object_pairs_hook=unique_keys, parse_constant=no_constant)
    except RecursionError as error:
        raise refuse("/file", "bad_json", "The file is nested too deeply.") from error
    except ValueError as error:
        raise refuse("/file", "bad_json", f"The file is not one JSON value: {error}.") from error
    table = _by_label(table)
    if not any(isinstance(values, list) for values in table.values()):
        if table and all(isinstance(values, dict) for values in table.values()):
            detail = "An object of objects may mean rows or columns; send an array of records, or columns of lists."
            raise refuse("/file", "bad_columns", detail)
        _add_record(table, builder)
        return "records"
    lengths = {name: len(values) if isinstance(values, list) else -1 for name, values in table.items()}
    if len(set(lengths.values())) != 1 or -1 in lengths.values():
        shown = ", ".join(f"{n!r}: {'no list' if k < 0 else k}" for n, k in list(lengths.items())[:10])
        raise refuse("/file", "bad_columns", f"A JSON object of columns needs lists of one length; here: {shown}.")
    for name, values in table.items():
        _add_column(name, values, builder)
    builder.rows = next(iter(lengths.values()))
    return "columns"


def _by_label(table: dict[str, Any]) -> dict[str, Any]:
    """Columns of lists where they are objects with the row numbers as keys, as pandas writes them."""
    first = next(iter(table.values()), None)
    numbers = [str(i) for i in range(len(first))] if isinstance(first, dict) and first else None
    if numbers is None or any(not isinstance(v, dict) or list(v) != numbers for v in table.values()):
        return table
    return {name: list(values.values()) for name, values in table.items()}


def _add_record(table: dict[str, Any], builder: Builder) -> None:
    try:
        record = flat(table)
        for name, value in record.items():
            check_cell(name, value)
    except Unreadable as error:
        raise refuse("/file/record/1", "bad_record", f"The record cannot be read: {error}.") from error
    builder.add([record] if record else [])


def _add_column(name: str, values: list[Any], builder: Builder) -> None:
    """One list as a column, or as several when it holds objects."""
    records, row = [], 0
    try:
        for row, value in enumerate(values, 1):  # noqa: B007
            records.append(flat({name: value}) if isinstance(value, dict) else {name: value})
            for field, cell in records[-1].items():
                check_cell(field, cell)
    except Unreadable as error:
        raise refuse(pointer("file", "column", name, "row", row), "bad_value", f"Row {row}: {error}.") from error
    for field in dict.fromkeys(field for record in records for field in record):
        if field in builder.columns:
            raise refuse(
                "/file", "bad_columns", f"The column {field!r} comes twice, by its own name and by nested ones."
            )
        builder.put(field, [record.get(field) for record in records])
