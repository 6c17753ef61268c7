"""The two files of a table: Parquet to keep, Arrow to map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from service.intake.findings import one_chunk
from service.intake.laid import Laid

ROW_GROUP = 1 << 17
SAMPLE = 1 << 15
WORTH = 0.875  # of its size, which compressed doubles must not exceed


def write_parquet(table: pa.Table, path: Path) -> None:
    """The canonical file, which nothing but this service reads: no statistics, no marks where nothing is missing.

    Doubles are split into bytes and LZ4 where a sample of them becomes an eighth smaller, else stand as they are;
    the rest is Zstandard, text that repeats itself with a dictionary.
    """
    columns = dict(zip(table.column_names, table.columns, strict=True))
    floats = {name: _shrinks(column) for name, column in columns.items() if pa.types.is_floating(column.type)}
    text = [name for name, column in columns.items() if pa.types.is_string(column.type) and _repeats(column)]
    codecs = {name: ("lz4" if floats[name] else "none") if name in floats else "zstd" for name in columns}
    bare = pa.schema([pa.field(name, column.type, column.null_count > 0) for name, column in columns.items()])
    pq.write_table(
        pa.table(table.columns, schema=bare), str(path), compression=codecs, row_group_size=ROW_GROUP,
        use_dictionary=text, use_byte_stream_split=[name for name, small in floats.items() if small],
        write_statistics=False,
    )  # fmt: skip


def _middle(column: pa.ChunkedArray) -> pa.Array:
    """At most SAMPLE rows from the middle."""
    return one_chunk(column.slice(max(0, len(column) - SAMPLE) // 2, SAMPLE))


def _shrinks(column: pa.ChunkedArray) -> bool:
    """Whether doubles, split into their bytes, are worth compressing."""
    values = pc.fill_null(_middle(column), 0.0).to_numpy()
    split = np.ascontiguousarray(values.view(np.uint8).reshape(-1, values.itemsize).T)
    return pa.Codec("lz4_raw").compress(split.tobytes()).size <= WORTH * values.nbytes


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether texts recur, so that a dictionary is shorter than they are."""
    sample = _middle(column)
    return 2 * int(pc.count_distinct(sample, mode="only_valid").as_py()) <= len(sample)


def write_mapped(table: pa.Table, path: Path, laid: Laid | None = None) -> None:
    """One record batch, so that a mapped column is one array; made of the file where most of it lies, if it can be."""
    columns = [one_chunk(column) for column in table.columns]
    if laid is not None and laid.become(columns, table.schema, path):
        return
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=table.schema))
