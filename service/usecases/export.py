"""Tables on their way out: JSON rows, and CSV, Arrow, Parquet, NDJSON or JSON as chunks of bytes.

What each of them cannot express is told in docs/formats.md.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from service.errors import Unsupported
from service.intake.profile import rfc3339
from service.intake.quoting import csv_names
from service.ports import Json

ROWS = 1 << 16
EXACT = 2**53


def json_rows(table: pa.Table, texts: Collection[str] = ()) -> list[dict[str, Any]]:
    """Rows as JSON values: times as RFC 3339 text, missing and infinite as null, columns named in `texts` as text."""
    names = table.column_names
    columns = [_json_column(table.column(i), name in texts) for i, name in enumerate(names)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def infinite(table: pa.Table) -> list[str]:
    """A warning for each column of which JSON writes infinite values as null, with their number. O(n)."""
    said = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        count = pc.sum(pc.is_inf(column)).as_py() if pa.types.is_floating(column.type) else 0
        if count:
            said.append(f"column {name!r} has {count} infinite values, which JSON cannot write: they are null here")
    return said


def _json_column(column: pa.ChunkedArray, as_text: bool) -> list[Any]:
    kind = column.type
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    elif pa.types.is_temporal(kind):
        return [None if value is None else rfc3339(value) for value in pc.cast(column, pa.string()).to_pylist()]
    elif as_text:
        column = pc.cast(column, pa.string())
    return column.to_pylist()


def big_integers(columns: list[Json]) -> set[str]:
    """Names of the columns, by their profiles, that have integers beyond 2^53, which many readers of JSON round."""
    whole = [c for c in columns if c["type"] == "integer" and c["min"] is not None]
    return {c["name"] for c in whole if c["min"] < -EXACT or c["max"] > EXACT}


def stream(table: pa.Table, form: str, texts: Collection[str] = ()) -> Iterator[bytes]:
    """The whole table in chunks; memory holds one block of rows. `form`: csv, arrow, parquet, ndjson or json.

    `texts` are names of columns whose integers are text in JSON.
    """
    if form in {"json", "ndjson"}:
        return _json(table, texts) if form == "json" else _ndjson(table, texts)
    if form not in _WRITERS:
        raise Unsupported(f"A table cannot be written as {form!r}; use {', '.join(_WRITERS)}, ndjson or json.")
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
    yield csv_names(table.column_names).encode()
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


def _lines(table: pa.Table, texts: Collection[str]) -> Iterator[list[str]]:
    for block in _batches(table):
        yield [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in json_rows(block, texts)]


def _ndjson(table: pa.Table, texts: Collection[str]) -> Iterator[bytes]:
    for lines in _lines(table, texts):
        yield "".join(line + "\n" for line in lines).encode()


def _json(table: pa.Table, texts: Collection[str]) -> Iterator[bytes]:
    """An array of records, one on a line."""
    before = "[\n"
    for lines in _lines(table, texts):
        yield (before + ",\n".join(lines)).encode()
        before = ",\n"
    yield b"\n]\n"


_WRITERS: dict[str, Callable[[pa.Table], Iterator[bytes]]] = {"csv": _csv, "arrow": _arrow, "parquet": _parquet}
