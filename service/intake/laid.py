"""An Arrow file made around columns that lie in it already: its head goes into room kept free, the rest behind them.

The metadata are those that Arrow writes for one row of the same columns, with other numbers in their places.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from service.intake.messages import HEADER, LENGTH, field, follow

MAGIC, END, FOOT = b"ARROW1\0\0", b"\xff\xff\xff\xff\0\0\0\0", b"ARROW1"
NODES, BUFFERS, BODY, BLOCKS = 1, 2, 3, 3  # places of fields in RecordBatch, Message and Footer
ALIGN, PAGE = 64, 4096
USED = 0.75  # of the file, by the columns of the table


@dataclass(frozen=True)
class Laid:
    """A file with columns behind `room` bytes that are free, and its mapping."""

    path: Path
    room: int
    whole: pa.Buffer

    def become(self, columns: Sequence[pa.Array], schema: pa.Schema, target: Path) -> bool:
        """Make this file the Arrow file of these columns, one batch, and rename it; False where copying is better.

        What of them does not lie in the file goes to its end. O(bytes of that).
        """
        if not self.path.exists() or any(column.offset for column in columns):
            return False
        buffers = [buffer for column in columns for buffer in _buffers(column)]
        places = [self._place(buffer) for buffer in buffers]
        inside = sum(buffer.size for buffer, place in zip(buffers, places, strict=True) if place >= 0)
        if inside < USED * self.whole.size:
            return False
        end, fresh = self.whole.size, []
        for i, buffer in enumerate(buffers):
            if places[i] < 0:
                places[i] = end if buffer.size else self.room
                fresh.append((places[i], buffer))
                end = _up(end + buffer.size, ALIGN)
        nodes = [(len(column), column.null_count) for column in columns]
        spots = [(place - self.room, buffer.size) for place, buffer in zip(places, buffers, strict=True)]
        ends = _ends(schema, nodes, spots, end - self.room, self.room)
        if ends is None:
            return False
        with self.path.open("r+b", buffering=0) as file:
            for place, data in [(0, ends[0]), *fresh, (end, ends[1])]:
                file.seek(place)
                _write(file, data)
        try:
            self.path.rename(target)
        except OSError:  # on another disk
            return False
        return True

    def _place(self, buffer: pa.Buffer) -> int:
        """Where the buffer lies in the file; −1 when it does not."""
        at = buffer.address - self.whole.address
        return at if buffer.size and self.room <= at <= self.whole.size - buffer.size else -1


def room_for(names: Sequence[str]) -> int:
    """Bytes that the head of a table with about these names needs at most, a multiple of PAGE."""
    widest = pa.schema([(name, pa.timestamp("us", "UTC")) for name in names])
    return _up(2 * widest.serialize().size + 128 * len(names), PAGE) + PAGE


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _write(file: Any, data: Any) -> None:
    left = memoryview(data).cast("B")
    while left:
        left = left[file.write(left) :]


def _buffers(column: pa.Array) -> list[pa.Buffer]:
    """The buffers of a flat column in the order of its format, without what is behind their ends."""
    rows, kind = len(column), column.type
    valid, *rest = column.buffers()
    found = [valid.slice(0, (rows + 7) // 8) if column.null_count else pa.py_buffer(b"")]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        places, text = rest
        width = 8 if pa.types.is_large_string(kind) else 4
        (size,) = struct.unpack_from("<q" if width == 8 else "<i", places, width * rows)
        return [*found, places.slice(0, width * (rows + 1)), pa.py_buffer(b"") if text is None else text.slice(0, size)]
    return [*found, rest[0].slice(0, (rows * kind.bit_width + 7) // 8)]


def _ends(
    schema: pa.Schema, nodes: list[tuple[int, int]], spots: list[tuple[int, int]], body: int, room: int
) -> tuple[bytes, bytes] | None:
    """The `room` bytes before the columns and the bytes behind them; None when the room is too small.

    `nodes` are rows and missing cells of the columns, `spots` offset and size of the buffers in the body.
    """
    file = _of_one_row(schema)
    (size,) = struct.unpack_from("<i", file, len(file) - 10)
    footer = memoryview(file)[-10 - size : -10]
    block = follow(footer, field(footer, follow(footer, 0), BLOCKS)) + 4
    at, length = struct.unpack_from("<qi", footer, block)
    start = room - length
    if start < at:
        return None
    meta = memoryview(file)[at + 8 : at + length]
    message = follow(meta, 0)
    batch = follow(meta, field(meta, message, HEADER))
    struct.pack_into("<q", meta, field(meta, message, BODY), body)
    struct.pack_into("<q", meta, field(meta, batch, LENGTH), nodes[0][0])
    for number, pairs in ((NODES, nodes), (BUFFERS, spots)):
        place = follow(meta, field(meta, batch, number)) + 4
        for i, pair in enumerate(pairs):
            struct.pack_into("<qq", meta, place + 16 * i, *pair)
    struct.pack_into("<qixxxxq", footer, block, start, length, body)
    head = bytes(file[:12]) + struct.pack("<i", start - 16) + bytes(file[16:at])  # its padding grows
    return head.ljust(start, b"\0") + bytes(file[at : at + length]), END + bytes(footer) + bytes(file[-10:])


def _of_one_row(schema: pa.Schema) -> bytearray:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.nulls(1, kind) for kind in schema.types], schema=schema))
    return bytearray(sink.getvalue())
