"""Numeric columns on their way to a file, block by block, each contiguous there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from service.intake.kernels import MISSING
from service.intake.laid import Laid

COPY, FLUSH = 1 << 20, 32 << 20


class Store:
    """Columns in one file, behind `room` free bytes; written block by block, then mapped.

    There is room for `bound` rows; what comes beyond goes to a file with more of it.
    """

    def __init__(self, path: Path, room: int, bound: int) -> None:
        self.path = path
        self._room = room
        self._count = 0
        self._flushed = 0
        self._flush: Future[None] | None = None
        self._valid: list[list[Any]] = []
        self._rows: list[int] = []
        self._whole: pa.Buffer | None = None
        self._make_room(bound)

    def _make_room(self, bound: int) -> None:
        self._bound = bound
        self._bits_at = -(-bound * 8 // 64) * 64
        self._stride = self._bits_at + -(-bound // 512) * 64

    @contextmanager
    def of(self, columns: int) -> Iterator[None]:
        """The file is open, with room for so many columns."""
        self._valid = [[] for _ in range(columns)]
        self._file = self._open(self.path)
        with ThreadPoolExecutor(1) as self._flusher:
            try:
                yield
            finally:
                try:
                    self._settle()
                finally:
                    self._file.close()

    def _open(self, path: Path) -> FileIO:
        file = FileIO(path, "w+")
        file.truncate(self._room + self._stride * len(self._valid))
        return file

    def add(self, numbers: Any, marks: Any, rows: int) -> None:
        """The next rows: numbers (k × ≥ n) and their marks."""
        if self._count + rows > self._bound:
            self._grow(max(2 * self._bound, self._count + rows))
        at = self._room + 8 * self._count
        self._rows.append(rows)
        self._count += rows
        for k, valid in enumerate(self._valid):
            self._write(numbers[k, :rows], k * self._stride + at)
            seen = marks[k, :rows] != MISSING
            valid.append(None if seen.all() else np.packbits(seen))

        self._flush_much()

    def _flush_much(self) -> None:
        """Have the disk begin with what is there, so that it is not all left for the end."""
        size = 8 * self._count * len(self._valid)
        if size >= self._flushed + FLUSH and (self._flush is None or self._flush.done()):
            self._settle()
            self._flushed, self._flush = size, self._flusher.submit(os.fdatasync, self._file.fileno())

    def _settle(self) -> None:
        if self._flush is not None:
            self._flush.result()

    def _grow(self, bound: int) -> None:
        """The same rows in a file with room for more. O(bytes)."""
        self._settle()
        old, stride = self._file, self._stride
        self._make_room(bound)
        grown = self.path.with_suffix(".grown")
        self._file = self._open(grown)
        with old:
            for k in range(len(self._valid)):
                for start in range(0, 8 * self._count, COPY):
                    part = os.pread(old.fileno(), min(COPY, 8 * self._count - start), self._room + k * stride + start)
                    self._write(part, self._room + k * self._stride + start)
        grown.replace(self.path)

    def _write(self, values: Any, at: int) -> None:
        left = memoryview(values).cast("B")
        while left:
            done = os.pwrite(self._file.fileno(), left, at)
            left, at = left[done:], at + done

    def column(self, k: int, kind: pa.DataType) -> pa.Array:
        """One column with all rows, mapped."""
        rows, at, bits, gaps = self._count, self._room + k * self._stride, None, 0
        if any(seen is not None for seen in self._valid[k]):
            blocks = zip(self._valid[k], self._rows, strict=True)
            valid = np.concatenate([_unpacked(seen, n) for seen, n in blocks])
            gaps = rows - int(np.count_nonzero(valid))
            self._write(np.packbits(valid, bitorder="little"), at + self._bits_at)
            bits = self._mapped().slice(at + self._bits_at, -(-rows // 8))
        return pa.Array.from_buffers(kind, rows, [bits, self._mapped().slice(at, 8 * rows)], gaps)

    def _mapped(self) -> pa.Buffer:
        if self._whole is None:
            self._whole = pa.memory_map(str(self.path)).read_buffer()
        return self._whole

    def laid(self) -> Laid:
        """The file with all columns."""
        return Laid(self.path, self._room, self._mapped())


def _unpacked(bits: Any, rows: int) -> Any:
    return np.ones(rows, bool) if bits is None else np.unpackbits(bits, count=rows).view(bool)
