"""Compiled loops over the texts of a column: how many differ, and whether some words are among them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ml_core.numerics.jit import compiled, read_only, uncounted
from service.intake.digits import WORD, word

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

FEW = 1 << 16  # Arrow's own functions are as fast for so few rows
IN_MEMORY = 1 << 23
STEP = 1 << 20
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _texts() -> tuple[Any, ...]:
    return read_only(np.frombuffer(b"abab", np.uint8), np.array([0, 2, 4], np.int32), np.array([3], np.uint8))


@uncounted
def _valid(bits: Bytes, row: Any) -> bool:
    return bits.size == 0 or (bits[row >> 3] >> (row & 7)) & 1 == 1


@uncounted
def _equal(data: Bytes, at: Any, words: Bytes, start: Any, size: Any) -> bool:
    """Whether `size` bytes are the same."""
    for i in range(size):  # noqa: SIM110 - compiled
        if data[at + i] != words[start + i]:
            return False
    return True


@uncounted
def _tail(data: Bytes, at: Any, count: Any) -> Any:
    """The 1 to 7 bytes at `at` as one number."""
    if at + WORD <= data.size:
        return word(data, np.uintp(at)) & ((np.uint64(1) << np.uint64(8 * count)) - np.uint64(1))
    found = np.uint64(0)
    for i in range(count):
        found |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return found


@uncounted
def _hash(data: Bytes, at: Any, size: Any) -> Any:
    """64 bits of a text, eight bytes at once: multiplications by 2^64 over the golden ratio, halves folded between."""
    code = np.uint64(size) * GOLDEN
    while size >= WORD:
        code = (code ^ word(data, np.uintp(at))) * GOLDEN
        code ^= code >> np.uint64(32)
        at, size = at + WORD, size - WORD
    if size:
        code = (code ^ _tail(data, at, size)) * GOLDEN
        code ^= code >> np.uint64(32)
    return code * GOLDEN


@uncounted
def _same(data: Bytes, at: Any, other: Any, size: Any) -> bool:
    """Whether two texts of one size have the same bytes, eight at once."""
    while size >= WORD:
        if word(data, np.uintp(at)) != word(data, np.uintp(other)):
            return False
        at, other, size = at + WORD, other + WORD, size - WORD
    return size == 0 or _tail(data, at, size) == _tail(data, other, size)


@compiled(lambda: (*_texts(), np.full(8, -1, np.int64)), early=True, allocates=False)
def distinct(data: Bytes, offsets: Any, bits: Bytes, table: Any) -> int:
    """How many different texts data[offsets[i]:offsets[i + 1]] there are; −1 where their hashes cluster.

    `table`, all −1 and a power of two long, is the room for rows with 31 bits of their hashes above them, which tell
    most other texts; the rest are compared, so that the count is exact.
    """
    found, probes = 0, 0
    for row in range(offsets.size - 1):
        if not _valid(bits, row):
            continue
        at, size = np.int64(offsets[row]), np.int64(offsets[row + 1] - offsets[row])
        code = _hash(data, at, size)
        slot = np.int64(code >> np.uint64(20)) & (table.size - 1)
        mark = np.int64((code & np.uint64(0x7FFFFFFF)) << np.uint64(32))
        while table[slot] >= 0:
            entry = table[slot]
            if (entry ^ mark) >> 32 == 0:
                there = entry & 0xFFFFFFFF
                other = np.int64(offsets[there])
                if offsets[there + 1] - other == size and _same(data, at, other, size):
                    break
            slot = (slot + 1) & (table.size - 1)
            probes += 1
        if table[slot] < 0:
            table[slot] = mark | row
            found += 1
        if probes > 32 * (row + 1000):
            return -1
    return found


def _words() -> tuple[Any, ...]:
    return (*read_only(np.frombuffer(b"NA", np.uint8), np.array([0, 2])), np.zeros(256, np.bool_))


@compiled(lambda: (*_texts(), *_words()), early=True, allocates=False)
def may_have(data: Bytes, offsets: Any, bits: Bytes, words: Bytes, ends: Any, first: Any) -> bool:
    """Whether a text may be one of the words, with blanks around it perhaps; False is certain.

    `ends` of the words; `first` (256,), all False, is room to mark the bytes with which they begin.
    """
    longest, start = 0, 0
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
    return not may_have(*_layout(cells), packed, ends, np.zeros(256, np.bool_))


def count_distinct(cells: pa.Array, folder: Path | None = None) -> int:
    """How many different texts there are, exactly; the table of a long column lies in a file in `folder`. O(n)."""
    if len(cells) >= FEW and pa.types.is_string(cells.type) and len(cells) < 2**31:
        size = 1 << (2 * len(cells)).bit_length()
        if folder is None or size <= IN_MEMORY:
            found = distinct(*_layout(cells), np.full(size, -1, np.int64))
        else:
            with NamedTemporaryFile(dir=folder) as file:
                for _ in range(0, size, STEP):
                    np.full(STEP, -1, np.int64).tofile(file)
                file.flush()
                found = distinct(*_layout(cells), np.asarray(np.memmap(file, np.int64, "r+")))
        if found >= 0:
            return int(found)
    return pc.count_distinct(cells, mode="only_valid").as_py()
