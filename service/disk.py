"""Writing files so that they are whole, durable, or absent."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.errors import StorageFull

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def full_disk() -> Iterator[None]:
    """Turn "no space left" of any library into StorageFull; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL or "No space left on device" in str(error):
            raise StorageFull from error
        raise


def sync(path: Path) -> None:
    """Force a file or a folder's entries to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def install(source: Path, target: Path) -> None:
    """Give a finished file its final name on the same disk, durably: fsync, rename, fsync of the folder."""
    sync(source)
    source.replace(target)
    sync(target.parent)
