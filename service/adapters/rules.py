"""What becomes of a job when an attempt ends: the rules that every ledger shares."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from service.errors import QueueFull
from service.ports import Json, NewJob, State
from service.settings import Settings

AGEING_SECONDS = 600.0  # waiting this long is worth one step of priority
THROUGHPUT_SECONDS = 60.0
LOG_CHARACTERS = 16_384
LONGEST_BACKOFF, LONGEST_PATIENCE = 30.0, 60.0


@dataclass(frozen=True)
class Ending:
    """The state a job goes to, with what is stored beside it."""

    state: State
    result: Json | None = None
    error: Json | None = None
    delay_seconds: float = 0.0
    lost: int = 0
    """1 when the attempt ended with its engine, and so counts as a loss instead of an attempt."""


def ending(
    wanted: State, settings: Settings, *, cancel_requested: bool, attempts: int, losses: int,
    result: Json | None = None, error: Json | None = None,
) -> Ending:  # fmt: skip
    """An accepted cancellation always wins; a job that used up its attempts fails with the last cause.

    `attempts` counts this one, `losses` those of the engine before it: they have a limit of their own.
    """
    if cancel_requested or wanted == "cancelled":
        return Ending("cancelled")
    if wanted == "succeeded":
        return Ending("succeeded", result=result)
    if wanted == "queued" and (error or {}).get("code") == "engine_lost":
        if losses + 1 < settings.max_engine_losses:
            return Ending("queued", delay_seconds=patience(losses + 1), lost=1)
        return Ending("failed", error=error, lost=1)
    if wanted == "queued" and attempts < settings.max_attempts:
        return Ending("queued", delay_seconds=backoff(attempts))
    return Ending("failed", error=error or worker_lost())


def backoff(attempts: int) -> float:
    """Seconds before the next attempt: 0.1, 0.2, 0.4 … at most 30."""
    return float(min(LONGEST_BACKOFF, 0.1 * 2 ** min(20, max(0, attempts - 1))))


def patience(losses: int) -> float:
    """Seconds that an engine or a store gets to come back: 1, 3, 9, 27 … at most 60."""
    return float(min(LONGEST_PATIENCE, 3.0 ** min(20, losses - 1)))


def rank(submitted: float, priority: int) -> float:
    """Order in the queue, least first: submitted - 600 priority.

    Ageing by one step per ten minutes, priority + (now - submitted) / 600, sorts exactly the same at every `now`, so
    the order is a stored, indexed number and a claim reads only the rows it takes.
    """
    return submitted - AGEING_SECONDS * priority


def retry_after(finished_lately: int) -> int:
    """Seconds until a place in the queue should be free, from the jobs that ended in the last minute."""
    return max(1, ceil(THROUGHPUT_SECONDS / finished_lately)) if finished_lately else int(THROUGHPUT_SECONDS)


def full(new: NewJob, settings: Settings, *, queued: int, own: int) -> str | None:
    """Which limit refuses the job, in words, or None: `queued` jobs are there, `own` of them of the same key."""
    if queued >= settings.max_queued:
        return f"{queued} jobs are queued and the limit is {settings.max_queued}"
    if new.tenant and own >= settings.max_queued_per_key:
        return f"{own} jobs of this API key are queued and the limit of one key is {settings.max_queued_per_key}"
    return None


def refusal(why: str, finished_lately: int) -> QueueFull:
    """The error for a full queue, with the time after which to come again."""
    return QueueFull(why, retry_after_seconds=retry_after(finished_lately))


def worker_lost() -> Json:
    """The error of a job whose runner fell silent."""
    return {"code": "worker_lost", "detail": "the process that worked on the job fell silent and its lease ran out"}


def tail(log: str) -> str:
    """The end of a log, without the NUL characters that PostgreSQL cannot store."""
    return log.replace("\0", "")[-LOG_CHARACTERS:]
