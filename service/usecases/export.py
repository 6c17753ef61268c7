"""Tables on their way out: JSON rows, and CSV, Arrow, Parquet or NDJSON as chunks of bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from service.errors import Unsupported
from service.intake.profile import rfc3339

ROWS = 1 << 16
EXACT = 2**53


def json_rows(table: pa.Table, *, big_integers: bool = False) -> list[dict[str, Any]]:
    """Rows as JSON values: times as RFC 3339 text, missing and infinite as null.

    With `big_integers`, columns that have integers beyond 2^53 become strings.
    """
    columns = [_json_column(column, big_integers) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _json_column(column: pa.ChunkedArray, big_integers: bool) -> list[Any]:
    kind = column.type
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    elif pa.types.is_temporal(kind):
        return [None if value is None else rfc3339(value) for value in pc.cast(column, pa.string()).to_pylist()]
    elif pa.types.is_integer(kind) and big_integers and _beyond(column):
        column = pc.cast(column, pa.string())
    return column.to_pylist()


def _beyond(column: pa.ChunkedArray) -> bool:
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return low is not None and (low < -EXACT or high > EXACT)


def stream(table: pa.Table, form: str) -> Iterator[bytes]:
    """The whole table in chunks; memory holds one block of rows. `form`: csv, arrow, parquet or ndjson."""
    if form not in _WRITERS:
        raise Unsupported(f"A table cannot be written as {form!r}; use {', '.join(_WRITERS)}.")
    return _WRITERS[form](table)


class _Sink(io.RawIOBase):
    """Bytes written since the last `take`."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        out, self._parts = b"".join(self._parts), []
        return out


def _batches(table: pa.Table) -> Iterator[pa.Table]:
    return (table.slice(start, ROWS) for start in range(0, max(table.num_rows, 1), ROWS))


def _csv(table: pa.Table) -> Iterator[bytes]:
    """Text is quoted, so that "NA" comes back as text; whole numbers keep a decimal, so that they stay numbers."""
    table = _with_points(table)
    options = pacsv.WriteOptions(include_header=False, null_string="NA" if table.num_columns == 1 else "")
    yield (",".join('"' + name.replace('"', '""') + '"' for name in table.column_names) + "\n").encode()
    for block in _batches(table):
        sink = _Sink()
        pacsv.write_csv(block, pa.PythonFile(sink, mode="w"), options)
        yield sink.take()


def _with_points(table: pa.Table) -> pa.Table:
    for i, column in enumerate(table.columns):
        if pa.types.is_floating(column.type) and _whole(column):
            values = pc.cast(column, pa.decimal128(17, 1))
            table = table.set_column(i, table.column_names[i], values)
    return table


def _whole(column: pa.ChunkedArray) -> bool:
    small = pc.less(pc.abs(column), 1e15)
    return bool(pc.all(pc.and_(small, pc.equal(pc.round(column), column)), min_count=1).as_py())


def _arrow(table: pa.Table) -> Iterator[bytes]:
    sink = _Sink()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), table.schema) as writer:
        for block in _batches(table):
            writer.write_table(block)
            yield sink.take()
    yield sink.take()


def _parquet(table: pa.Table) -> Iterator[bytes]:
    sink = _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), table.schema, compression="zstd") as writer:
        for block in _batches(table):
            writer.write_table(block)
            yield sink.take()
    yield sink.take()


def _ndjson(table: pa.Table) -> Iterator[bytes]:
    for block in _batches(table):
        rows = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in json_rows(block))
        yield "".join(rows).encode()


_WRITERS: dict[str, Callable[[pa.Table], Iterator[bytes]]] = {
    "csv": _csv, "arrow": _arrow, "parquet": _parquet, "ndjson": _ndjson,
}  # fmt: skip
