"""Waiting for a job without holding a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from service.ports import TERMINAL, Job, Ledger

POLL_SECONDS = 0.01


def never() -> bool:
    """A wait that nobody cuts short."""
    return False


async def changed(ledger: Ledger, version: int, seconds: float, stop: Callable[[], bool] = never) -> bool:
    """Whether somebody wrote after the ledger was at `version`, at once when it happens; False after `seconds`."""
    deadline = time.monotonic() + seconds
    while ledger.version() == version:
        left = deadline - time.monotonic()
        if left <= 0 or stop():
            return False
        await asyncio.sleep(min(POLL_SECONDS, left))
    return True


async def settle(ledger: Ledger, job_id: str, seconds: float, stop: Callable[[], bool] = never) -> Job:
    """Return the job as soon as it has ended, or as it is after `seconds` or when `stop` says so; NotFound.

    The ledger's version is read every 10 ms (microseconds) and the row only when the version changed.
    """
    deadline = time.monotonic() + seconds
    while True:
        version = ledger.version()  # before the row: a change in between is then seen, never missed
        job = await asyncio.to_thread(ledger.get, job_id)
        left = deadline - time.monotonic()
        if job.state in TERMINAL or left <= 0 or stop() or not await changed(ledger, version, left, stop):
            return job
