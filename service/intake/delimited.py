"""Delimited text: decode, find the dialect, parse as text cells, then type each column from all its cells.

The cells go through a scratch file of Arrow record batches, and columns are typed one at a time: memory does not
grow with the file. Typing after parsing means that no value is ever read by the type of an earlier one.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from service.disk import full_disk
from service.errors import TooLarge
from service.intake.arrival import Arrival
from service.intake.cutting import split_blanks
from service.intake.decoding import SMALL, as_utf8, beginning, said_utf8
from service.intake.encoding import guess_encoding
from service.intake.findings import (
    IN_MEMORY,
    MAX_COLUMNS,
    MAX_REJECTS,
    WHITESPACE,
    Json,
    ReadOptions,
    Shelf,
    refuse,
    warning,
)
from service.intake.laid import Laid
from service.intake.regular import Regular, read_regular
from service.intake.scan import MAX_FIELD, check_quotes, ragged, reject_of, rejects
from service.intake.sniff import HEAD, NO_ROWS, Dialect, dialect
from service.intake.trimming import without_comments, without_trailing

BLOCK = 1 << 20
PARSE_BLOCK = 8 << 20
BLANK = " \t\r\n\v\f\x1a"


@dataclass
class Cells:
    """A parsed file: its names and text cells, and what was noticed on the way.

    When it is `regular` (see `regular.py`) columns of plain numbers are int64 and float64 already, in the file `laid`.
    """

    names: tuple[str, ...]
    table: pa.Table
    dialect: Dialect
    path: Path
    source: Json
    warnings: list[Json] = field(default_factory=list)
    regular: bool = False
    laid: Laid | None = None

    def doubtful(self, options: ReadOptions) -> bool:
        """Whether decimal marks were guessed where they may part thousands."""
        return _doubtful(options, self.source["delimiter"], self.dialect.decimal)


def _doubtful(options: ReadOptions, delimiter: str, decimal: str) -> bool:
    return options.decimal is None and (delimiter == ";" or decimal == ",")


@dataclass(frozen=True)
class Draft:
    """What a text came to before it was known to be complete; `regular` is None where it is not regular."""

    how: Dialect
    regular: Regular | None


def draft(text: Arrival, options: ReadOptions, folder: Path) -> Draft | None:
    """Read delimited text while it arrives; None where all of it must be seen first. Broken, Invalid, TooLarge."""
    head = bytes(text.part(0, min(HEAD, text.upto(HEAD))))
    if not said_utf8(options.encoding or guess_encoding(head)):
        return None
    how = _dialect(text, options)
    if how.padded or how.delimiter == WHITESPACE:
        return None
    found = read_regular(text, how, options, folder, doubtful=_doubtful(options, how.delimiter, how.decimal))
    return Draft(how, found)


def _dialect(text: Arrival, options: ReadOptions) -> Dialect:
    sample, complete = beginning(text)
    if not sample.strip():
        raise refuse("/file", "empty_file", "The file is empty.")
    how = dialect(sample, complete, options)
    if len(how.names) > MAX_COLUMNS:
        raise TooLarge(f"The file has {len(how.names)} columns; the limit is {MAX_COLUMNS}.")
    return how


def read_cells(path: Path, options: ReadOptions, shelf: Shelf, ahead: Draft | None = None) -> Cells:
    """Parse the file completely, or refuse it with the first rejects; `ahead` is what is read of it already."""
    if ahead is not None and ahead.regular is not None and ahead.regular.quotes is not None:
        plain, encoding, quotes, how = path, "utf-8", ahead.regular.quotes, ahead.how
    else:
        plain, encoding, quotes = as_utf8(path, options.encoding, shelf.folder)
        how = _dialect(Arrival.of(plain), options)
    text, written, doubtful = plain, how, quotes % 2 or plain.stat().st_size < SMALL
    if quotes and doubtful:
        check_quotes(text, written)
    record = {
        "encoding": encoding, "delimiter": how.delimiter, "decimal": how.decimal, "header": how.header,
        "skipped_lines": how.skip, "null_values": list(options.nulls),
    }  # fmt: skip
    if how.padded or how.delimiter == WHITESPACE:
        plain, how = _tabbed(plain, how, shelf.folder)
    cells = Cells(how.names, pa.table({}), how, plain, record, _notes(encoding, how, options))
    if ahead is not None and plain == path and how == ahead.how:
        found = ahead.regular
    else:
        found = read_regular(Arrival.of(plain), how, options, shelf.folder, doubtful=cells.doubtful(options))
    cells.table = _parse(plain, how, options, shelf, cells, found)
    if not cells.table.num_rows:
        raise refuse("/file", "no_rows", NO_ROWS)
    if quotes and not cells.regular and not doubtful:  # quotes that are regular enclose whole cells
        check_quotes(text, written)
    return cells


def _notes(encoding: str, how: Dialect, options: ReadOptions) -> list[Json]:
    """What was guessed and may be wrong."""
    notes = list(how.notes)
    if options.encoding is None and encoding == "cp1252":
        advice = "Set encoding if that is wrong."
        notes.append(warning("encoding", "The file is not UTF-8; it was read as cp1252.", advice))
    if how.row_names:
        text = "The header has one name less than the rows have fields; the first column is now 'row'."
        notes.append(warning("row_names", text))
    if options.header is None and not how.header:
        text = "No header row was found; the columns are named column_1, column_2, …"
        notes.append(warning("no_header", text, "Set header=true if the first row holds names."))
    return notes


def _parse(
    path: Path, how: Dialect, options: ReadOptions, shelf: Shelf, cells: Cells, found: Regular | None
) -> pa.Table:  # fmt: skip
    if found is not None:
        cells.regular, cells.laid = True, found.laid
        return _kept(found.table, how, [], path, cells)
    bad: list[Any] = []
    comments: list[str] = []

    def reject(row: Any) -> str:
        if how.comments(row.text):
            comments.append(row.text)
        elif row.text.strip(BLANK):
            bad.append(row if len(bad) < MAX_REJECTS else None)
            return "skip" if options.on_error == "skip" else "error"
        return "skip"

    try:
        table = _stream(path, how, options, shelf, reject)
    except pa.ArrowInvalid as error:
        if bad:
            raise ragged(rejects(path, how) or [reject_of(row) for row in bad if row is not None]) from error
        if "straddling" in str(error):
            text = f"A row has more than {PARSE_BLOCK} bytes; the delimiter or a quote may be wrong."
            raise refuse("/file", "row_too_long", text) from error
        raise refuse("/file", "unreadable", f"The text cannot be read as rows: {error}.") from error
    if bad:
        cells.source["skipped_rows"] = len(bad)
        first = rejects(path, how)[:1]
        seen = f"; first: line {first[0][0]}, {first[0][1]}" if first else ""
        cells.warnings.append(warning("skipped_rows", f"{len(bad)} rows were left out{seen}."))
    return _kept(table, how, comments, path, cells)


def _kept(table: pa.Table, how: Dialect, comments: list[str], path: Path, cells: Cells) -> pa.Table:
    """The table without comments and without an empty last column."""
    table, notes = without_comments(table, how, comments, path)
    cells.warnings += notes
    if how.trailing:
        table, notes = without_trailing(table, how, path)
        cells.warnings += notes
        cells.names = how.names[: table.num_columns]
    return table


def _stream(path: Path, how: Dialect, options: ReadOptions, shelf: Shelf, reject: Any) -> pa.Table:
    keys = [str(i) for i in range(len(how.names))]
    blanks = len(keys) == 1
    reader = pacsv.open_csv(
        str(path),
        read_options=pacsv.ReadOptions(
            column_names=keys, skip_rows=how.skip, skip_rows_after_names=int(how.header), block_size=PARSE_BLOCK,
        ),
        parse_options=pacsv.ParseOptions(
            delimiter=how.delimiter, newlines_in_values=True,
            ignore_empty_lines=not blanks, invalid_row_handler=reject,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(keys, pa.string()), null_values=list(options.nulls), strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )  # fmt: skip
    with reader:
        if path.stat().st_size <= IN_MEMORY:
            return _trimmed(reader.read_all(), path) if blanks else reader.read_all()
        target = str(shelf.folder / "cells.arrow")
        with full_disk(), pa.OSFile(target, "wb") as sink, pa.ipc.new_file(sink, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    table = pa.ipc.open_file(pa.memory_map(target)).read_all()
    return _trimmed(table, path) if blanks else table


def _trimmed(table: pa.Table, path: Path) -> pa.Table:
    """A one-column table without the empty lines at its end (those inside are missing values)."""
    with path.open("rb") as source:
        source.seek(max(0, path.stat().st_size - BLOCK))
        tail = source.read().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return table.slice(0, max(0, table.num_rows - max(0, len(tail) - len(tail.rstrip(b"\n")) - 1)))


def _tabbed(path: Path, how: Dialect, scratch: Path) -> tuple[Path, Dialect]:
    """The text with tabs for runs of blanks or for delimiters with blanks behind, record by record, lines as before."""
    target = scratch / "tabbed"
    with (
        full_disk(),
        path.open(encoding="utf-8-sig", newline="" if how.padded else None) as source,
        target.open("w", encoding="utf-8", newline="") as sink,
    ):
        csv.field_size_limit(MAX_FIELD)
        cut = csv.reader(source, delimiter=how.delimiter, skipinitialspace=True) if how.padded else None
        writer = csv.writer(sink, delimiter="\t", lineterminator="\n")
        writer.writerows(cut or (split_blanks(line) for line in source))
    return target, replace(how, delimiter="\t", padded=False)
