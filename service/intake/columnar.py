"""Parquet and Arrow IPC: one column at a time, validated, within the cap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from service.errors import TooLarge
from service.intake.canonical import canonical
from service.intake.findings import MAX_COLUMNS, Shelf, Typed, refuse

ROWS = 1 << 16


def read_parquet(path: Path, shelf: Shelf, cap: int) -> tuple[list[str], list[Typed]]:
    """Names and columns; the decoded size is counted while reading, since run lengths can hide a bomb."""
    try:
        with pq.ParquetFile(str(path)) as file:
            schema, meta = file.schema_arrow, file.metadata
            _check(schema, meta.num_rows, cap)
            if len(set(schema.names)) < len(schema.names):
                raise refuse("/file", "duplicate_columns", "Two Parquet columns share one name; rename one of them.")
            columns, room = [], cap
            for name in schema.names:
                chunks, room = _taken(file, name, room)
                columns.append(_kept(name, pa.chunked_array(chunks, schema.field(name).type), shelf))
            return list(schema.names), columns
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, OSError) as error:
        raise damaged("Parquet", error) from error


def _taken(file: pq.ParquetFile, name: str, room: int) -> tuple[list[pa.Array], int]:
    """The chunks of one top-level column, and the room that they leave."""
    chunks = []
    for batch in file.iter_batches(batch_size=ROWS, columns=[name], use_threads=False):
        chunks.append(batch.column(0))
        room -= batch.nbytes
        if room < 0:
            raise TooLarge("The file decodes to more than the limit.")
    return chunks, room


def read_arrow(path: Path, shelf: Shelf, cap: int) -> tuple[list[str], list[Typed]]:
    """Names and columns of an IPC file or stream; every buffer is validated, since bad offsets would crash."""
    try:
        with pa.memory_map(str(path)) as source:
            file = source.read(6) == b"ARROW1"
            source.seek(0)
            reader: Any = pa.ipc.open_file(source) if file else pa.ipc.open_stream(source)
            batches, size = [], 0
            for batch in _batches(reader, file):
                batch.validate(full=True)
                size += batch.nbytes
                if size > cap:
                    raise TooLarge(f"The file decodes to more than {cap} bytes, which is the limit.")
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
            _check(table.schema, table.num_rows, cap)
            columns = [_kept(name, cells, shelf) for name, cells in zip(table.column_names, table.columns, strict=True)]
            return table.column_names, columns
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, OSError) as error:
        raise damaged("Arrow", error) from error


def _batches(reader: Any, file: bool) -> Iterator[pa.RecordBatch]:
    if file:
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return iter(reader)


def _check(schema: pa.Schema, rows: int, cap: int) -> None:
    if len(schema.names) > MAX_COLUMNS:
        raise TooLarge(f"The file has {len(schema.names)} columns; the limit is {MAX_COLUMNS}.")
    if rows * len(schema.names) > cap:
        raise TooLarge(
            f"{rows} rows of {len(schema.names)} columns decode to more than {cap} bytes, which is the limit."
        )


def _kept(name: str, cells: pa.ChunkedArray, shelf: Shelf) -> Typed:
    typed = canonical(name, cells)
    return Typed(shelf.keep(typed.array), typed.type, typed.warnings, typed.explicit)


def damaged(form: str, error: Exception) -> Exception:
    """The refusal of a binary file that its own library cannot read."""
    first = str(error).split("\n", maxsplit=1)[0][:300]
    return refuse("/file", "damaged_file", f"The {form} file is damaged or cut off: {first}")
