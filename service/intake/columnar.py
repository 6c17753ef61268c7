"""Parquet and Arrow IPC: one column at a time, validated, structs as columns with dotted names, within the cap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from service.errors import TooLarge
from service.intake.canonical import canonical, check_type
from service.intake.findings import MAX_COLUMNS, Shelf, Typed, refuse
from service.intake.messages import Odd, decoded_bytes, spelt_bytes

ROWS, FEW_ROWS = 1 << 16, 16
SWOLLEN = 256 << 20
DELTAS = {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}
MAGIC = b"ARROW1\0\0"
ERRORS = (
    pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, pa.ArrowIndexError, pa.ArrowSerializationError,
    pa.ArrowTypeError, pa.ArrowCapacityError, UnicodeError, OSError,
)  # fmt: skip


def read_parquet(path: Path, shelf: Shelf, cap: int) -> tuple[list[str], list[Typed]]:
    """Names and columns; the decoded size is counted while reading, since run lengths can hide a bomb."""
    try:
        with pq.ParquetFile(str(path)) as file:
            schema, meta = file.schema_arrow, file.metadata
            _check(schema, meta.num_rows, cap)
            for field in schema:
                check_type(field.name, field.type)
            if len(set(schema.names)) < len(schema.names):
                raise refuse("/file", "duplicate_columns", "Two Parquet columns share one name; rename one of them.")
            text, rows = coded(meta)
        room, names, columns = cap, [], []
        with pq.ParquetFile(str(path), read_dictionary=text) as file:
            for field in schema:
                chunks, room = _taken(file, field, room, rows)
                for name, cells in chunks.items():
                    names.append(name)
                    columns.append(_kept(name, pa.chunked_array(cells), shelf))
        return names, columns
    except ERRORS as error:
        raise damaged("Parquet", error) from error


def coded(meta: pq.FileMetaData) -> tuple[list[str], int]:
    """Columns of text that can be read as a dictionary and codes, and how many rows are read at once.

    Texts in delta encodings cannot; so few rows are read at once that shared beginnings cannot swell.
    """
    text, largest = [], 1
    for j in range(meta.num_columns):
        column = meta.schema.column(j)
        if column.physical_type != "BYTE_ARRAY":
            continue
        parts = [meta.row_group(i).column(j) for i in range(meta.num_row_groups)]
        shared = [part.total_uncompressed_size for part in parts if DELTAS & {*part.encodings}]
        largest = max(largest, *shared) if shared else largest
        text += [] if shared else [column.path]
    return text, max(FEW_ROWS, min(ROWS, SWOLLEN // largest))


def _taken(
    file: pq.ParquetFile, field: pa.Field, room: int, rows: int
) -> tuple[dict[str, list[pa.Array]], int]:
    """The chunks of one top-level column by the name of each of its leaves, and the room that they leave.

    Texts come as a dictionary and codes, so that they can be measured before they are spelt out.
    """
    kinds = dict(_types(field.name, field.type))
    chunks: dict[str, list[pa.Array]] = {name: [] for name in kinds}
    for batch in file.iter_batches(batch_size=rows, columns=[field.name], use_threads=False):
        for name, coded in _leaves(field.name, batch.column(batch.schema.names.index(field.name))):
            room -= spelt_bytes(coded)
            if room < 0:
                raise TooLarge("The file decodes to more bytes than the limit allows.")
            spelt = pa.types.is_dictionary(coded.type) and not pa.types.is_dictionary(kinds[name])
            cells = coded.dictionary_decode() if spelt else coded
            cells.validate(full=True)
            chunks[name].append(cells)
    return {name: found or [pa.array([], kinds[name])] for name, found in chunks.items()}, room


def _types(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Dotted names and types of the leaves of a column."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _types(f"{name}.{field.name}", field.type)
    else:
        yield name, kind


def _leaves(name: str, cells: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Dotted names and values of the leaves of a column; where a struct is missing its fields are."""
    if pa.types.is_struct(cells.type):
        for field, inner in zip(cells.type, cells.flatten(), strict=True):
            yield from _leaves(f"{name}.{field.name}", inner)
    else:
        yield name, cells


def read_arrow(path: Path, shelf: Shelf, cap: int) -> tuple[list[str], list[Typed]]:
    """Names and columns of an IPC file or stream; every buffer is validated, since bad offsets would crash."""
    try:
        with pa.memory_map(str(path)) as source:
            start = len(MAGIC) if source.read(6) == MAGIC[:6] else 0
            if start:
                source.seek(0)
                pa.ipc.open_file(source)  # the end is there; what stands before it is a stream
            source.seek(start)
            _measured(source, cap, whole=not start)
            source.seek(start)
            with pa.ipc.open_stream(source) as reader:
                return _of_stream(reader, shelf, cap)
    except (*ERRORS, Odd) as error:
        raise damaged("Arrow", error) from error


def _measured(source: pa.NativeFile, cap: int, *, whole: bool) -> None:
    """TooLarge beyond so many decoded bytes; Odd where what must be a `whole` stream has no end, or more behind it."""
    room, end = cap, source.tell()
    for message in pa.ipc.MessageReader.open_stream(source):
        room -= decoded_bytes(message)
        _enough(room, cap)
        end = source.tell()
    if whole and source.tell() == end:
        raise Odd("the mark at the end of the stream is absent, so that rows may be. Close the writer.")
    if whole and source.tell() < source.size():
        raise Odd(f"{source.size() - source.tell()} bytes stand behind the end of the stream. Send one stream.")


def _of_stream(reader: pa.RecordBatchReader, shelf: Shelf, cap: int) -> tuple[list[str], list[Typed]]:
    """Names and columns, each batch validated before it is used."""
    for field in reader.schema:
        check_type(field.name, field.type)
    batches, room = [], cap
    for batch in reader:
        batch.validate(full=True)
        _check(batch.schema, batch.num_rows, cap)
        room -= sum(spelt_bytes(cells) for column in batch.columns for _, cells in _leaves("", column))
        _enough(room, cap)
        batches.append(batch)
    names, columns = [], []
    for i, field in enumerate(reader.schema):
        leaves: dict[int, list[pa.Array]] = {}
        for batch in batches:
            for j, (_, cells) in enumerate(_leaves(field.name, batch.column(i))):
                leaves.setdefault(j, []).append(cells)
        for j, (name, kind) in enumerate(_types(field.name, field.type)):
            names.append(name)
            columns.append(_kept(name, pa.chunked_array(leaves.get(j, []), kind), shelf))
    return names, columns


def _enough(room: int, cap: int) -> None:
    if room < 0:
        raise TooLarge(f"The file decodes to more than {cap} bytes, which is the limit.")


def _check(schema: pa.Schema, rows: int, cap: int) -> None:
    leaves = [name for field in schema for name, _ in _types(field.name, field.type)]
    if len(leaves) > MAX_COLUMNS:
        raise TooLarge(f"The file has {len(leaves)} columns; the limit is {MAX_COLUMNS}.")
    if rows * len(leaves) > cap:
        raise TooLarge(f"{rows} rows of {len(leaves)} columns decode to more than {cap} bytes, which is the limit.")


def _kept(name: str, cells: pa.ChunkedArray, shelf: Shelf) -> Typed:
    typed = canonical(name, cells)
    return Typed(shelf.keep(typed.array), typed.type, typed.warnings, typed.explicit)


def damaged(form: str, error: Exception) -> Exception:
    """The refusal of a binary file that its own library cannot read."""
    first = str(error).split("\n", maxsplit=1)[0][:300]
    return refuse("/file", "damaged_file", f"The {form} file is damaged or cut off: {first}")
