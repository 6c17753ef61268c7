"""Uploads on their way to disk, and read as far as they have come."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from service.disk import full_disk
from service.errors import TooLarge
from service.intake.arrival import Arrival, Broken
from service.intake.delimited import Draft
from service.intake.findings import ReadOptions
from service.intake.read import read_ahead
from service.intake.regular import LEAST_BYTES

WRITE, MOST_CHUNKS = 1 << 20, 1000
AT_ONCE = 2  # uploads that are read ahead; the others are read when they are there


class Upload:
    """A body that is on disk completely, and what was read of it already."""

    def __init__(self, path: Path, reading: Future[Draft | None] | None) -> None:
        self.path = path
        self._reading = reading

    def draft(self) -> Draft | None:
        """What reading ahead came to, once it has come so far; StorageFull."""
        return self._reading.result() if self._reading is not None else None


class Spool:
    """Takes bodies to files in a folder, each at most `cap` bytes."""

    def __init__(self, folder: Path, cap: int) -> None:
        self._folder = folder
        self._cap = cap
        self._free = threading.Semaphore(AT_ONCE)
        self._pool = ThreadPoolExecutor(AT_ONCE, "ahead")

    @asynccontextmanager
    async def receive(
        self, body: AsyncIterator[bytes], options: ReadOptions | None = None, expected: int | None = None
    ) -> AsyncIterator[Upload]:
        """The stream as a file for the length of the block; TooLarge, StorageFull.

        With `options` it is read meanwhile; `expected` are its bytes as far as the sender told.
        """
        work = TemporaryDirectory(dir=self._folder, prefix="upload-")
        text = Arrival(Path(work.name) / "body", expected)
        reading: list[Future[Draft | None]] = []

        def begin() -> None:
            if options is not None and not reading and self._free.acquire(blocking=False):
                reading.append(self._pool.submit(self._ahead, text, options))

        try:
            await self._write(body, text, begin)
            yield Upload(text.path, reading[0] if reading else None)
        finally:
            text.give_up()
            await asyncio.shield(asyncio.to_thread(_clear, reading, work))

    async def _write(self, body: AsyncIterator[bytes], text: Arrival, begin: Callable[[], None]) -> None:
        """The chunks as they come, each written once; reading may begin when it is worth it."""
        size, written, chunks = 0, 0, list[bytes]()
        with full_disk(), text.path.open("wb", buffering=0) as sink:
            async for chunk in body:
                size += len(chunk)
                if size > self._cap:
                    raise TooLarge(f"The upload has more than {self._cap} bytes, which is the limit.")
                chunks.append(chunk)
                if size - written >= WRITE or len(chunks) >= MOST_CHUNKS:
                    await asyncio.to_thread(_write, sink.fileno(), chunks)
                    written, chunks = size, []
                    text.grew(written)
                    if written >= LEAST_BYTES:
                        begin()
            _write(sink.fileno(), chunks)
        text.grew(size)
        text.complete()

    def _ahead(self, text: Arrival, options: ReadOptions) -> Draft | None:
        try:
            return read_ahead(text, options, text.path.parent)
        except Broken:
            return None
        finally:
            self._free.release()


def _write(file: int, chunks: list[bytes]) -> None:
    """All of them, without putting them together first."""
    left = sum(map(len, chunks)) - (os.writev(file, chunks) if chunks else 0)
    if left:
        rest = memoryview(b"".join(chunks))[-left:]
        while rest:
            rest = rest[os.write(file, rest) :]


def _clear(reading: list[Future[Draft | None]], work: TemporaryDirectory[str]) -> None:
    """Remove the files once nobody writes there any more."""
    wait(reading)
    work.cleanup()
