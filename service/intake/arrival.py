"""A file on its way: whoever reads it waits for the bytes that are not there yet."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from service.intake.kernels import Bytes


class Broken(Exception):
    """The rest of the file will not come."""


class Arrival:
    """A file that grows until it is complete or broken off; one thread writes, others wait and read.

    `expected` are its bytes in the end, as far as one knows.
    """

    def __init__(self, path: Path, expected: int | None = None) -> None:
        self.path = path
        self.expected = expected
        self._size = 0
        self._complete = self._broken = False
        self._news = threading.Condition()

    @classmethod
    def of(cls, path: Path) -> Arrival:
        """A file that is there."""
        found = cls(path, path.stat().st_size)
        found.grew(found.expected or 0)
        found.complete()
        return found

    def grew(self, size: int) -> None:
        """The file has so many bytes now."""
        with self._news:
            self._size = size
            self._news.notify_all()

    def complete(self) -> None:
        """All of it is there."""
        with self._news:
            self._complete = True
            self._news.notify_all()

    def give_up(self) -> None:
        """Nobody needs what is read of it any more."""
        with self._news:
            self._broken = True
            self._news.notify_all()

    def upto(self, size: int) -> int:
        """How many bytes there are, once there are `size` or all; Broken."""
        with self._news:
            self._news.wait_for(lambda: self._size >= size or self._complete or self._broken)
            if self._broken:
                raise Broken
            return self._size

    def part(self, start: int, stop: int) -> Bytes:
        """Bytes that are there, mapped."""
        if start >= stop:
            return np.zeros(0, np.uint8)
        return np.asarray(np.memmap(self.path, np.uint8, "r", start, (stop - start,)))
