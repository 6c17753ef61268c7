"""Compiled loops over bytes of text: where a record begins, and cells put together as Arrow wants them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ml_core.numerics.jit import compiled, read_only
from service.intake.digits import WORD, put, word
from service.intake.kernels import DOUBLED, LF, MISSING, QUOTE, Bytes, Int

LANES = 128


@compiled(lambda: (*read_only(np.frombuffer(b"a\n", np.uint8)), 0), early=True, allocates=False)
def boundary(data: Bytes, inside: int) -> int:
    """Where the first record begins after a line feed outside quotes; the size when none does."""
    for at in range(data.size):
        if data[at] == QUOTE:
            inside = 1 - inside
        elif data[at] == LF and not inside:
            return at + 1
    return data.size


def _gathered() -> tuple[Any, ...]:
    return (
        *read_only(np.frombuffer(b"ab", np.uint8)),
        np.array([[0, 2]], np.int32), np.ones(1, np.uint8), np.zeros(2, np.int32), np.zeros(2 + WORD, np.uint8),
    )  # fmt: skip


@compiled(_gathered, early=True, allocates=False)
def gather(data: Bytes, places: Any, marks: Bytes, offsets: Any, out: Bytes) -> None:
    """The bytes of the cells one after the other, doubled quotes made single; offsets (n + 1,) as Arrow has them.

    `out` has WORD bytes more than the cells: eight are copied at once, and what is too much is written over.
    """
    to: Int = 0
    for row in range(marks.size):
        if marks[row] != MISSING:
            at, end = np.int64(places[row, 0]), np.int64(places[row, 1])
            if marks[row] != DOUBLED:
                start = at
                while at < end and at + WORD <= data.size:
                    put(out, np.uintp(to + at - start), word(data, np.uintp(at)))
                    at += WORD
                at = min(at, end)
                to += at - start
            while at < end:
                out[to] = data[at]
                at += 2 if data[at] == QUOTE and marks[row] == DOUBLED else 1
                to += 1
        offsets[row + 1] = to


def texts_at(data: Bytes, places: Any, marks: Any) -> pa.Array:
    """A string array of the cells at these places."""
    valid = marks != MISSING
    offsets = np.zeros(marks.size + 1, np.int32)
    size = int((places[:, 1] - places[:, 0]).sum(where=valid))
    out = np.empty(size + WORD, np.uint8)
    gather(data, places, marks, offsets, out)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(marks.size, pa.py_buffer(offsets), pa.py_buffer(out[:size]), bits)


@compiled(lambda: read_only(np.frombuffer(b"ab" * LANES, np.uint8)), early=True, allocates=False)
def census(data: Bytes) -> tuple[int, int, int]:
    """How many line feeds, double quotes and bytes beyond ASCII (or NUL) there are.

    Runs of LANES bytes are counted in bytes, which compilers make vectors of.
    """
    feeds: Int = 0
    quotes: Int = 0
    high: Int = 0
    at = 0
    while at + LANES <= data.size:
        f, q, h = np.uint8(0), np.uint8(0), np.uint8(0)
        for i in range(LANES):
            byte = data[at + i]
            f = np.uint8(f + np.uint8(byte == LF))
            q = np.uint8(q + np.uint8(byte == QUOTE))
            h = np.uint8(h + np.uint8((byte > 127) | (byte == 0)))
        feeds, quotes, high, at = feeds + f, quotes + q, high + h, at + LANES
    for i in range(at, data.size):
        feeds += data[i] == LF
        quotes += data[i] == QUOTE
        high += (data[i] > 127) | (data[i] == 0)
    return feeds, quotes, high
