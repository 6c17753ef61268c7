"""Waiting for a job without holding a thread."""

from __future__ import annotations

import asyncio
import time

from service.ports import TERMINAL, Job, Ledger

POLL_SECONDS = 0.01


async def settle(ledger: Ledger, job_id: str, seconds: float) -> Job:
    """Return the job as soon as it has ended, or as it is after `seconds`; NotFound.

    The ledger's version is read every 10 ms (microseconds on SQLite) and the row only when the version changed.
    """
    deadline = time.monotonic() + seconds
    version = ledger.version()  # before the row: a change in between is then seen, never missed
    job = await asyncio.to_thread(ledger.get, job_id)
    while job.state not in TERMINAL and time.monotonic() < deadline:
        await asyncio.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
        now = ledger.version()
        if now != version:
            version = now
            job = await asyncio.to_thread(ledger.get, job_id)
    return job
