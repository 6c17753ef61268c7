"""Numeric columns on their way to a file, block by block, each contiguous there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from service.intake.kernels import MISSING
from service.intake.laid import Laid


class Store:
    """Columns of at most `bound` rows in one file, behind `room` free bytes; written block by block, then mapped."""

    def __init__(self, path: Path, room: int, bound: int) -> None:
        self.path = path
        self._room = room
        self._bits_at = -(-bound * 8 // 64) * 64
        self._stride = self._bits_at + -(-bound // 512) * 64
        self._valid: list[list[Any]] = []
        self._rows: list[int] = []
        self._whole: pa.Buffer | None = None

    @contextmanager
    def of(self, columns: int) -> Iterator[None]:
        """The file is open, with room for so many columns."""
        self._valid = [[] for _ in range(columns)]
        with self.path.open("w+b", buffering=0) as self._file:
            self._file.truncate(self._room + self._stride * columns)
            yield

    def add(self, numbers: Any, marks: Any, rows: int) -> None:
        """The next rows: numbers (k × ≥ n) and their marks."""
        at = self._room + 8 * sum(self._rows)
        self._rows.append(rows)
        for k, valid in enumerate(self._valid):
            self._write(numbers[k, :rows], k * self._stride + at)
            seen = marks[k, :rows] != MISSING
            valid.append(None if seen.all() else np.packbits(seen))

    def _write(self, values: Any, at: int) -> None:
        left = memoryview(values).cast("B")
        while left:
            done = os.pwrite(self._file.fileno(), left, at)
            left, at = left[done:], at + done

    def column(self, k: int, kind: pa.DataType) -> pa.Array:
        """One column with all rows, mapped."""
        rows, at, bits, gaps = sum(self._rows), self._room + k * self._stride, None, 0
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
