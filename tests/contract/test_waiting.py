"""Waiting for a job: at once when it has ended, never longer than asked, and no change is missed."""

from __future__ import annotations

import asyncio

import pytest

from service.errors import NotFound
from service.ports import Job, Ledger
from service.usecases.waiting import settle
from tests.contract.ledgers import NEW, Make, claim


def test_an_ended_job_is_returned_at_once(make: Make) -> None:
    ledger = make()
    job = ledger.put(NEW)
    ledger.cancel(job.id)
    assert asyncio.run(settle(ledger, job.id, 600.0)).state == "cancelled"


def test_the_wait_has_an_end(make: Make) -> None:
    ledger = make()
    job = ledger.put(NEW)
    assert asyncio.run(settle(ledger, job.id, 0.0)).state == "queued"
    claim(ledger)
    assert asyncio.run(settle(ledger, job.id, 0.05)).state == "running"


def test_many_waiters_see_the_end(make: Make) -> None:
    ledger = make()
    job = ledger.put(NEW)
    held = claim(ledger)

    async def both() -> list[Job]:
        waiters = [asyncio.create_task(settle(ledger, job.id, 60.0)) for _ in range(20)]
        await asyncio.to_thread(ledger.finish, held, "succeeded", result={"r2": 1.0})
        return await asyncio.gather(*waiters)

    assert [(j.state, j.result) for j in asyncio.run(both())] == [("succeeded", {"r2": 1.0})] * 20


def test_an_end_between_the_first_looks_is_not_missed(make: Make) -> None:
    ledger = make()
    job = ledger.put(NEW)

    class Hasty:
        """Ends the job right after it was read for the first time."""

        def __init__(self) -> None:
            self.reads = 0

        def version(self) -> int:
            return ledger.version()

        def get(self, job_id: str) -> Job:
            self.reads += 1
            found = ledger.get(job_id)
            if self.reads == 1:
                ledger.cancel(job_id)
            return found

    hasty: Ledger = Hasty()  # type: ignore[assignment]
    assert asyncio.run(settle(hasty, job.id, 60.0)).state == "cancelled"


def test_an_unknown_job_is_not_found(make: Make) -> None:
    with pytest.raises(NotFound):
        asyncio.run(settle(make(), "job_none", 1.0))
