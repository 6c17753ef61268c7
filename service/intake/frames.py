"""Rows that come with a request as CSV, Arrow or Parquet: those columns that are wanted, as they stand.

Nothing is guessed about types: cells of text stay text, and who asked for the columns knows what they must be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ml_core.errors import InvalidData, pointer
from ml_core.errors import Issue as Cell
from service.disk import full_disk
from service.errors import Malformed, TooLarge
from service.intake.columnar import coded
from service.intake.delimited import read_cells
from service.intake.findings import MAX_COLUMNS, ReadOptions, Shelf
from service.intake.messages import Odd, decoded_bytes
from service.intake.read import tidy_names
from service.intake.types import Rules

END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The mark that ends an Arrow stream; without it nobody can tell whether all of it came."""
MAGIC = b"ARROW1"
MAX_DECODED = 1 << 30
Batches = Iterable[Any]


@dataclass(frozen=True)
class Frame:
    """Rows as they came: csv, arrow or parquet, the bytes, and how to read text."""

    form: str
    data: bytes
    options: ReadOptions = field(default_factory=ReadOptions)


@dataclass(frozen=True)
class Cells:
    """The wanted columns that are there, the names of others, what was noticed; `rules` where cells are text."""

    table: pa.Table
    extra: list[str]
    notes: list[str] = field(default_factory=list)
    rules: Rules | None = None


def open_frame(frame: Frame, wanted: Sequence[str], words: Collection[str], rows: int, scratch: Path) -> Cells:
    """Read a frame of at most so many rows completely; `words` are levels, which never mean an empty cell.

    Malformed where it is damaged or cut off; TooLarge; Invalid and InvalidData name lines and columns.
    """
    if frame.form == "csv":
        return _csv(frame, wanted, words, rows, scratch)
    read = _parquet if frame.form == "parquet" else _arrow
    try:
        cells = read(frame.data, list(wanted), rows)
        cells.table.validate(full=True)
    except pa.ArrowMemoryError as e:
        raise TooLarge(f"the {frame.form} body decodes to more than there is memory for") from e
    except (pa.ArrowException, OSError, UnicodeDecodeError, Odd) as e:
        reason = str(e).split("\n", maxsplit=1)[0][:300]
        raise Malformed(f"the {frame.form} body is damaged or cut off: {reason}") from e
    return cells


def _csv(frame: Frame, wanted: Sequence[str], words: Collection[str], rows: int, scratch: Path) -> Cells:
    file = scratch / "body.csv"
    with full_disk():
        file.write_bytes(frame.data)
    given = frame.options.nulls
    nulls, types = tuple(w for w in given if w not in words), dict.fromkeys(wanted, "text")
    options = replace(frame.options, header=True, null_values=nulls, types=types)
    found = read_cells(file, options, Shelf(scratch))
    limited(found.table.num_rows, rows)
    names, notes = tidy_names(found.names)
    _unique([n.strip() for n in found.names], [n for n in wanted if f"{n}_2" not in wanted])
    table = found.table.rename_columns(names)
    said = [note["message"] for note in (*notes, *found.warnings)]
    rules = Rules(found.dialect.decimal, given, frame.options.null_values is None)
    return _chosen(table, wanted, said, rules)


def _chosen(table: pa.Table, wanted: Sequence[str], notes: list[str], rules: Rules | None = None) -> Cells:
    extra = [n for n in table.column_names if n not in set(wanted)]
    return Cells(table.select([n for n in wanted if n in set(table.column_names)]), extra, notes, rules)


def _arrow(data: bytes, wanted: list[str], rows: int) -> Cells:
    """An Arrow stream or file; every buffer is validated, since bad offsets would crash."""
    source = pa.BufferReader(data)
    file = data.startswith(MAGIC)
    _roomy(data[len(MAGIC) + 2 :] if file else data)
    reader: Any = pa.ipc.open_file(source) if file else pa.ipc.open_stream(source)
    names = _names(reader.schema, wanted)
    batches = (reader.get_batch(i) for i in range(reader.num_record_batches)) if file else reader
    taken = list(_checked(batches, names, rows))
    if not file:
        _ended(data, source.tell())
    schema = pa.schema([reader.schema.field(n) for n in names])
    return Cells(pa.Table.from_batches(taken, schema), [n for n in reader.schema.names if n not in names])


def _roomy(data: bytes) -> None:
    """TooLarge where the messages of a stream say that they decode to more than is taken, before any is decoded."""
    size = 0
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(data)):
        size += decoded_bytes(message)
        if size > MAX_DECODED:
            raise TooLarge(f"the body decodes to more than {MAX_DECODED} bytes")


def _ended(data: bytes, at: int) -> None:
    """Malformed unless the stream ended with its mark, and the body with the stream."""
    if data[at - len(END) : at] != END:
        raise Malformed("the arrow body is cut off: the mark at the end of the stream is absent")
    if at != len(data):
        raise Malformed(f"the arrow body goes on for {len(data) - at} bytes after the end of its stream")


def _checked(batches: Batches, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """The wanted columns of valid batches within the limits."""
    total = size = 0
    for batch in batches:
        batch.validate(full=True)
        total += batch.num_rows
        limited(total, rows)
        size += batch.nbytes
        if size > MAX_DECODED:
            raise TooLarge(f"the body decodes to more than {MAX_DECODED} bytes")
        yield batch.select(names)


def _parquet(data: bytes, wanted: list[str], rows: int) -> Cells:
    """Parquet; text is read as a dictionary, so that a long word that recurs is stored once."""
    if not data.endswith(b"PAR1"):
        raise Malformed("the parquet body is damaged or cut off: the mark at its end is absent")
    schema = pq.read_schema(pa.BufferReader(data))
    names = _names(schema, wanted)
    text, size = coded(pq.read_metadata(pa.BufferReader(data)))
    with pq.ParquetFile(pa.BufferReader(data), read_dictionary=text) as file:
        limited(file.metadata.num_rows, rows)
        if not names:
            return Cells(pa.table({}), list(schema.names))
        taken = list(_checked(file.iter_batches(size, columns=names, use_threads=False), names, rows))
        table = pa.Table.from_batches(taken) if taken else file.schema_arrow.empty_table().select(names)
    return Cells(table, [n for n in schema.names if n not in names])


def _names(schema: pa.Schema, wanted: Sequence[str]) -> list[str]:
    if len(schema.names) > MAX_COLUMNS:
        raise TooLarge(f"the body has {len(schema.names)} columns; the limit is {MAX_COLUMNS}")
    _unique(schema.names, wanted)
    return [n for n in wanted if n in set(schema.names)]


def _unique(names: Sequence[str], wanted: Sequence[str]) -> None:
    """InvalidData where a wanted column is there twice."""
    several = Counter(names)
    twice = [n for n in wanted if several[n] > 1]
    if twice:
        issues = [
            Cell(pointer("columns", n), "duplicate_column", f"{several[n]} columns have this name") for n in twice
        ]
        raise InvalidData(f"{issues[0].pointer}: {issues[0].detail}; rename or remove all but one", issues)


def limited(rows: int, most: int) -> None:
    """TooLarge beyond so many rows, with the way that takes them."""
    if rows > most:
        raise TooLarge(
            f"{rows} rows; a request takes at most {most}. Store them as a dataset and predict it with "
            '{"dataset": id, "output": "dataset"}: a job, whose result is a dataset'
        )
