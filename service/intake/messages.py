"""How large Arrow data become, found out before they are decoded."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

HEADER, LENGTH, DATA, BUFFERS, COMPRESSION = 2, 0, 1, 2, 3  # places of fields in the tables Message, …, RecordBatch


class Odd(ValueError):
    """The metadata do not fit the data."""


def decoded_bytes(message: Any) -> int:
    """Bytes of a record or dictionary batch without its compression, as it says; Odd."""
    if message.type not in {"record batch", "dictionary"} or message.body is None:
        return 0
    meta, body = memoryview(message.metadata), memoryview(message.body)
    try:
        batch = follow(meta, field(meta, follow(meta, 0), HEADER))
        if message.type == "dictionary":
            batch = follow(meta, field(meta, batch, DATA))
        if not field(meta, batch, COMPRESSION):
            return len(body)
        return sum(_decoded(body, *place) for place in _buffers(meta, batch))
    except struct.error as error:
        raise Odd(f"the metadata of a message are damaged: {error}") from error


def _buffers(meta: memoryview, batch: int) -> list[tuple[int, int]]:
    """Offset and length of each buffer in the body."""
    at = field(meta, batch, BUFFERS)
    if not at:
        return []
    start = follow(meta, at)
    (count,) = struct.unpack_from("<I", meta, start)
    return [struct.unpack_from("<qq", meta, start + 4 + 16 * i) for i in range(count)]


def _decoded(body: memoryview, offset: int, length: int) -> int:
    """A compressed buffer begins with its length; −1 says that it is not compressed."""
    if length < 8:
        return max(length, 0)
    (size,) = struct.unpack_from("<q", body, offset)
    if size < -1:
        raise Odd(f"a buffer says that it has {size} bytes")
    return length - 8 if size == -1 else size


def follow(meta: memoryview, at: int) -> int:
    """Where the reference at `at` leads."""
    return at + int(struct.unpack_from("<I", meta, at)[0])


def field(meta: memoryview, table: int, number: int) -> int:
    """Where a field of a flatbuffer table is; 0 when the table has none."""
    layout = table - struct.unpack_from("<i", meta, table)[0]
    (size,) = struct.unpack_from("<H", meta, layout)
    at = 4 + 2 * number
    offset = struct.unpack_from("<H", meta, layout + at)[0] if at < size else 0
    return table + offset if offset else 0


def spelt_bytes(cells: pa.Array) -> int:
    """Bytes of a column once dictionaries, runs and shared texts are spelt out."""
    kind = cells.type
    if pa.types.is_dictionary(kind):
        return int(pc.sum(pc.take(_each(cells.dictionary), cells.indices)).as_py() or 0)
    if pa.types.is_run_end_encoded(kind):
        return len(cells) * int(pc.max(_each(cells.values)).as_py() or 0)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return int(pc.sum(_each(cells)).as_py() or 0)
    return int(cells.nbytes)


def _each(cells: pa.Array) -> pa.Array:
    """Bytes of each value of a flat column."""
    kind = cells.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(cells.buffers()[1], np.int32)[4 * cells.offset :: 4][: len(cells)]
        return pa.array(views.astype(np.int64), mask=np.asarray(cells.is_null()))
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        return pc.cast(pc.binary_length(cells), pa.int64())
    return pa.array(np.full(len(cells), 8, np.int64))
