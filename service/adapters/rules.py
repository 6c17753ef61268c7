"""What becomes of a job when an attempt ends: the rules that every ledger shares."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from service.ports import Json, State

AGEING_SECONDS = 600.0  # waiting this long is worth one step of priority
THROUGHPUT_SECONDS = 60.0
LOG_CHARACTERS = 16_384


@dataclass(frozen=True)
class Ending:
    """The state a job goes to, with what is stored beside it."""

    state: State
    result: Json | None = None
    error: Json | None = None
    delay_seconds: float = 0.0


def ending(
    wanted: State, *, cancel_requested: bool, attempts: int, max_attempts: int,
    result: Json | None = None, error: Json | None = None,
) -> Ending:  # fmt: skip
    """An accepted cancellation always wins; a job that used up its attempts fails with the last cause."""
    if cancel_requested or wanted == "cancelled":
        return Ending("cancelled")
    if wanted == "succeeded":
        return Ending("succeeded", result=result)
    if wanted == "queued" and attempts < max_attempts:
        return Ending("queued", delay_seconds=backoff(attempts))
    return Ending("failed", error=error or worker_lost())


def backoff(attempts: int) -> float:
    """Seconds before the next attempt: 0.1, 0.2, 0.4 … at most 30."""
    return float(min(30.0, 0.1 * 2 ** max(0, attempts - 1)))


def rank(submitted: float, priority: int) -> float:
    """Order in the queue, least first: submitted - 600 priority.

    Ageing by one step per ten minutes, priority + (now - submitted) / 600, sorts exactly the same at every `now`, so
    the order is a stored, indexed number and a claim reads only the rows it takes.
    """
    return submitted - AGEING_SECONDS * priority


def retry_after(finished_lately: int) -> int:
    """Seconds until a place in the queue should be free, from the jobs that ended in the last minute."""
    return max(1, ceil(THROUGHPUT_SECONDS / finished_lately)) if finished_lately else int(THROUGHPUT_SECONDS)


def worker_lost() -> Json:
    """The error of a job whose runner fell silent."""
    return {"code": "worker_lost", "detail": "the process that worked on the job fell silent and its lease ran out"}


def tail(log: str) -> str:
    """The end of a log, without the NUL characters that PostgreSQL cannot store."""
    return log.replace("\0", "")[-LOG_CHARACTERS:]
