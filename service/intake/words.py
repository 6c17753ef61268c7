"""Compiled loops over the texts of a column: how many differ, and whether some words are among them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ml_core.numerics.jit import compiled, inner, read_only

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

FEW = 1 << 16  # Arrow's own functions are as fast for so few rows
IN_MEMORY = 1 << 24
STEP = 1 << 20


def _texts() -> tuple[Any, ...]:
    return read_only(np.frombuffer(b"abab", np.uint8), np.array([0, 2, 4], np.int32), np.array([3], np.uint8))


@inner
def _valid(bits: Bytes, row: Any) -> bool:
    return bits.size == 0 or (bits[row >> 3] >> (row & 7)) & 1 == 1


@inner
def _equal(data: Bytes, at: Any, words: Bytes, start: Any, size: Any) -> bool:
    """Whether `size` bytes are the same."""
    for i in range(size):  # noqa: SIM110 - compiled
        if data[at + i] != words[start + i]:
            return False
    return True


@compiled(lambda: (*_texts(), np.full(8, -1, np.int32)))
def distinct(data: Bytes, offsets: Any, bits: Bytes, table: Any) -> int:
    """How many different texts data[offsets[i]:offsets[i + 1]] there are; −1 where their hashes (FNV-1a) cluster.

    `table`, all −1 and a power of two long, is the room for rows; texts are compared, so that the count is exact.
    """
    found, probes = 0, 0
    for row in range(offsets.size - 1):
        if not _valid(bits, row):
            continue
        at, size = offsets[row], offsets[row + 1] - offsets[row]
        code = np.uint64(14695981039346656037)
        for i in range(at, at + size):
            code = (code ^ np.uint64(data[i])) * np.uint64(1099511628211)
        code ^= code >> np.uint64(32)
        slot = np.int64(code & np.uint64(table.size - 1))
        while table[slot] >= 0:
            other = offsets[table[slot]]
            if offsets[table[slot] + 1] - other == size and _equal(data, at, data, other, size):
                break
            slot = (slot + 1) & (table.size - 1)
            probes += 1
        if table[slot] < 0:
            table[slot] = row
            found += 1
        if probes > 32 * (row + 1000):
            return -1
    return found


@compiled(lambda: (*_texts(), *read_only(np.frombuffer(b"NA", np.uint8), np.array([0, 2]))))
def may_have(data: Bytes, offsets: Any, bits: Bytes, words: Bytes, ends: Any) -> bool:
    """Whether a text may be one of the words, with blanks around it perhaps; False is certain. `ends` of the words."""
    first, longest, start = np.zeros(256, np.bool_), 0, 0
    for end in ends:
        longest = max(longest, end - start)
        if end > start:
            first[words[start]] = True
        start = end
    empty = ends.size > 0 and ends[0] == 0
    for row in range(offsets.size - 1):
        at, end = offsets[row], offsets[row + 1]
        if at == end:
            if empty and _valid(bits, row):
                return True
        elif data[at] <= 32 or data[at] > 127 or data[end - 1] <= 32 or data[end - 1] > 127:
            return True
        elif end - at <= longest and first[data[at]]:
            start = 0
            for stop in ends:
                if stop - start == end - at and _equal(data, at, words, start, stop - start) and _valid(bits, row):
                    return True
                start = stop
    return False


def _layout(cells: pa.Array) -> tuple[Bytes, Any, Bytes]:
    """Bytes, offsets and marks of a string array, as the loops take them."""
    marks = pc.is_valid(cells).to_numpy(zero_copy_only=False) if cells.null_count else np.zeros(0, bool)
    _, offsets, data = cells.buffers()
    places = np.frombuffer(offsets, np.int32)[cells.offset : cells.offset + len(cells) + 1]
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    views: tuple[Bytes, Any, Bytes] = text.view(), places.view(), np.packbits(marks, bitorder="little")
    for view in views:
        view.flags.writeable = False
    return views


def none_of(cells: pa.Array, words: Iterable[str]) -> bool:
    """True is certain: no text, with or without blanks around it, is one of the words. Quick for long columns only."""
    known = sorted(word.encode() for word in words)
    if len(cells) < FEW or not pa.types.is_string(cells.type) or not known:
        return False
    ends = np.cumsum([len(word) for word in known])
    packed = np.frombuffer(b"".join(known) or b" ", np.uint8)
    ends.flags.writeable = False
    return not may_have(*_layout(cells), packed, ends)


def count_distinct(cells: pa.Array, folder: Path | None = None) -> int:
    """How many different texts there are, exactly; the table of a long column lies in a file in `folder`. O(n)."""
    if len(cells) >= FEW and pa.types.is_string(cells.type) and len(cells) < 2**31:
        size = 1 << (2 * len(cells)).bit_length()
        if folder is None or size <= IN_MEMORY:
            found = distinct(*_layout(cells), np.full(size, -1, np.int32))
        else:
            with NamedTemporaryFile(dir=folder) as file:
                for _ in range(0, size, STEP):
                    np.full(STEP, -1, np.int32).tofile(file)
                file.flush()
                found = distinct(*_layout(cells), np.asarray(np.memmap(file, np.int32, "r+")))
        if found >= 0:
            return int(found)
    return pc.count_distinct(cells, mode="only_valid").as_py()
