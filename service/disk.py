"""Writing files so that they are whole, durable, or absent."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.errors import StorageFull

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
SWEEP_SECONDS = 24 * 3600.0


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


def install_once(source: Path, target: Path) -> bool:
    """The same, but a file that has the name already stays; whether it was ours. The source is gone in both cases."""
    sync(source)
    try:
        os.link(source, target)
        first = True
    except FileExistsError:
        first = False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        first = not target.exists()  # a disk without hard links cannot decide a race, and renames whole files at least
        if first:
            source.replace(target)
    source.unlink(missing_ok=True)
    sync(target.parent)  # also of a loser, whose caller relies on the name as well
    return first


def swept(folder: Path) -> Path:
    """A folder for half-made files, without those older than a day: younger ones may belong to a live process."""
    folder.mkdir(parents=True, exist_ok=True)
    oldest = time.time() - SWEEP_SECONDS
    for path in folder.iterdir():
        try:
            if path.stat().st_mtime > oldest:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        except FileNotFoundError:
            continue
    return folder
