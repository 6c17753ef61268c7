"""One runner per data folder: an flock that also remembers whose it was."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger("postfit.runner")


@contextmanager
def only_runner(data: Path, owner: str, wait: Callable[[], bool]) -> Iterator[str | None]:
    """Hold `<data>/runner.lock` while the block runs; yields the previous owner when it died without cleaning up.

    The kernel frees the lock when its holder dies, so whoever gets it knows that the holder before is gone and need not
    wait for its leases. `wait` is called between tries; when it answers False the wait is over and "" is yielded.
    """
    data.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(data / "runner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _taken(descriptor):
            log.info("another runner has %s; this one waits until it ends", data)
            while not _taken(descriptor):
                if not wait():
                    yield ""
                    return
        before = os.pread(descriptor, 4096, 0).decode()
        _write(descriptor, owner)
        yield before or None
        _write(descriptor, "")
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(descriptor: int, owner: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, owner.encode(), 0)
