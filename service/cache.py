"""Files of one host that can be made again, at most so many bytes of them: the least recently used go first.

Every process of the host uses the same folder without a lock. A file appears whole or not at all, two makers of one
file make the same bytes, and a file that is removed stays valid for those who have it open or mapped.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.disk import SWEEP_SECONDS, full_disk, install

PART = ".part"


class HostCache:
    """Files under names like `objects/tables/ab12….parquet` below `root`."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self.root = root
        self.limit_bytes = limit_bytes
        root.mkdir(parents=True, exist_ok=True)

    def get(self, name: str) -> Path | None:
        """The file, marked as used now; None when it has to be made."""
        path = self.root / name
        try:  # the time of writing stays, by which others know that the bytes are the same
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return path

    @contextmanager
    def making(self, name: str) -> Iterator[Path]:
        """A path to write the file to; it gets its name, and room is made, when the block ends well. StorageFull."""
        target, part = self.root / name, self.root / f"{secrets.token_hex(8)}{PART}"
        try:
            with full_disk():
                yield part
                target.parent.mkdir(parents=True, exist_ok=True)
                install(part, target)
        finally:
            part.unlink(missing_ok=True)
        self._trim(target)

    def drop(self, name: str) -> None:
        """Remove the file; nothing happens when absent."""
        (self.root / name).unlink(missing_ok=True)

    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(size for _, size, _ in self._files())

    def _trim(self, keep: Path) -> None:
        """Remove the least recently used until the rest fits; of half-made files only those that were left behind."""
        files, abandoned = sorted(self._files()), time.time() - SWEEP_SECONDS
        over = sum(size for _, size, _ in files) - self.limit_bytes
        for used, size, path in files:
            in_making = path.suffix == PART
            if (in_making and used < abandoned) or (over > 0 and not in_making and path != keep):
                path.unlink(missing_ok=True)
                over -= size

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """When each file was used last, its size and its path."""
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = Path(folder) / name
                try:
                    known = path.stat()
                except FileNotFoundError:
                    continue
                yield max(known.st_atime, known.st_mtime), known.st_size, path
