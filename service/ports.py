"""What the use cases need from the outside world; adapters implement it, `container.py` chooses.

A *job* is the only mutable thing with a life of its own, and the ledger is its only owner. A model is a row that says
what was asked joined with the job that fits it: its state is the job's state and what the fit produced is the job's
`result`, so "job succeeded" and "model ready" are one UPDATE and can never disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Lane = Literal["instant", "long"]
TERMINAL: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})
Json = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """What one attempt may use: seconds of wall clock, bytes of memory, cores."""

    wall_seconds: float
    memory_bytes: int
    cores: int


@dataclass(frozen=True)
class NewModel:
    """What was asked of the model that a job makes; it gets the next version of `name`."""

    name: str
    record: Json


@dataclass(frozen=True)
class NewJob:
    """A job that makes `resource`, with its record where that is a model; ids in `needs` may not be deleted meanwhile.

    `tenant` is its API key's id or "".
    """

    kind: str
    resource: str
    spec: Json
    lane: Lane
    limits: Limits
    priority: int = 0
    needs: tuple[str, ...] = ()
    spread: bool = False
    tenant: str = ""
    model: NewModel | None = None


@dataclass(frozen=True)
class Job:
    """A job as the ledger knows it. `result` is what the successful attempt returned; `error` has code and detail."""

    id: str
    kind: str
    resource: str
    spec: Json
    lane: Lane
    limits: Limits
    priority: int
    state: State
    attempts: int
    submitted_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    worker: str | None = None
    progress: Json | None = None
    result: Json | None = None
    error: Json | None = None
    cancel_requested: bool = False
    queue_position: int | None = None
    log_tail: str = ""
    spread: bool = False
    tenant: str = ""
    engine_losses: int = 0


@dataclass(frozen=True)
class Claim:
    """The right to work on one attempt of a job: every write of the attempt is fenced by (job, attempt, owner)."""

    job: Job
    attempt: int
    owner: str


@dataclass(frozen=True)
class Attempt:
    """How one attempt ended."""

    host: str
    pid: int
    exit_code: int | None
    peak_rss_bytes: int
    cpu_seconds: float


@dataclass(frozen=True)
class Outcome:
    """What is written when an attempt ends: a terminal state, or `queued` to run again; `progress` where it is new."""

    claim: Claim
    state: State
    result: Json | None = None
    error: Json | None = None
    attempt: Attempt | None = None
    log_tail: str = ""
    progress: Json | None = None


@dataclass(frozen=True)
class Page:
    """One page of a listing, newest first, and the cursor of the next one."""

    items: list[Any]
    next_cursor: str | None


class Leases(Protocol):
    """The runner's half of the ledger. Every transition is one conditional UPDATE; terminal states never change."""

    def claim(self, owner: str, free: Mapping[Lane, int]) -> list[Claim]:
        """Take up to free[lane] jobs of each lane, by priority with ageing, then age."""

    def exchange(self, owner: str, outcomes: Sequence[Outcome], free: Mapping[Lane, int]) -> list[Claim]:
        """End attempts still held and take new jobs at once; long places without a long job serve instant ones."""

    def renew(self, owner: str, claims: Sequence[Claim]) -> list[Claim]:
        """Extend the leases; returns the claims still held and not asked to cancel."""

    def cancelled(self, claims: Sequence[Claim]) -> list[Claim]:
        """Those of the claims that somebody asked to cancel."""

    def report(self, claim: Claim, progress: Json, log_tail: str = "") -> bool:
        """Store progress; False when the claim is no longer held."""

    def finish(
        self, claim: Claim, state: State, *, result: Json | None = None, error: Json | None = None,
        attempt: Attempt | None = None, log_tail: str = "",
    ) -> bool:  # fmt: skip
        """End the attempt: a terminal state, or `queued` to run again (fails by itself after the last attempt)."""

    def release(self, claims: Sequence[Claim]) -> int:
        """Hand jobs back to the queue unfinished; the attempt does not count. Returns how many were still held."""

    def disown(self, owner: str, held: Sequence[Claim]) -> int:
        """Hand back, uncounted, what the owner runs by the ledger but does not hold: claims whose answer was lost."""

    def reap(self, dead: str | None = None) -> int:
        """Put jobs whose lease expired, and all of an owner known to be dead, back in the queue (or fail them)."""

    def version(self) -> int:
        """A cheap number that changes whenever anything another connection wrote is visible here."""

    def cancels(self) -> int:
        """As `version`, but of requests to cancel; asked after it."""


class Ledger(Leases, Protocol):
    """The only owner of jobs."""

    def put(self, new: NewJob, *, once: bool = False) -> Job:
        """Queue a job; with `once` the one that makes its resource, or NotFound where a need is gone; QueueFull."""

    def get(self, job_id: str) -> Job:
        """The job with its queue position; NotFound."""

    def of_resource(self, resource: str) -> Job:
        """The newest job that makes this resource; NotFound."""

    def page(self, *, limit: int, cursor: str | None, state: str | None = None, kind: str | None = None) -> Page:
        """Jobs, newest first, without what may be long: spec, result and log."""

    def attempts(self, job_id: str) -> list[Json]:
        """How each ended attempt went: attempt, host, pid, exit_code, peak_rss_bytes, cpu_seconds, error, finished."""

    def needed(self, resource: str) -> bool:
        """Whether a queued or running job needs this resource."""

    def cancel(self, job_id: str) -> Job:
        """Cancel: a queued job at once, a running one by a flag its runner sees; Conflict when it ended otherwise."""


@dataclass(frozen=True)
class RunnerFacts:
    """What a runner tells of itself: its state is `well` or why it cannot work now."""

    owner: str
    host: str
    pid: int
    version: str
    slots: int
    busy: int
    state: str = "well"


class Runners(Protocol):
    """Who works on jobs: a row per runner, renewed with its leases."""

    def beat(self, facts: RunnerFacts) -> None:
        """Write the row; the database's clock dates it."""

    def leave(self, owner: str) -> None:
        """Remove the row of a runner that ends."""

    def alive(self) -> list[RunnerFacts]:
        """The runners that wrote within one lease."""


class Objects(Protocol):
    """Immutable bytes under keys like `tables/ab12….parquet`; a write is whole or absent, durable at return.

    A key is written once: its bytes never change, and a second write of the same key leaves the first in place.
    """

    def put_file(self, key: str, source: Path) -> None:
        """Store the file's bytes (moving it when on the same disk); StorageFull, EngineLost."""

    def has(self, key: str) -> bool:
        """Whether the store itself holds the key, whatever this host has a copy of."""

    def path(self, key: str) -> Path:
        """A local, readable file with these bytes; NotFound."""

    def open(self, key: str) -> BinaryIO:
        """The bytes as a stream; NotFound."""

    def delete(self, key: str) -> None:
        """Remove; nothing happens when absent."""

    def keys(self, prefix: str) -> Iterator[str]:
        """All keys with the prefix."""

    def stale(self, prefix: str, older_than_seconds: float) -> Iterator[str]:
        """Keys with the prefix that were written longer ago than this."""

    def scratch(self) -> Path:
        """A folder on the same disk for half-made files; swept at start."""


class Upkeep(Protocol):
    """What of the stores is still needed; the database's side of housekeeping."""

    def unnamed(self, keys: Sequence[str]) -> list[str]:
        """Those of the object keys that no dataset, model or unfinished job names."""

    def remove(self, key: str, remove: Callable[[str], None]) -> bool:
        """Remove the object while nobody can come to name it; False when somebody does."""

    def forget_jobs(self) -> int:
        """Delete jobs that ended long ago and whose resource is gone; returns how many."""

    def forget_answers(self) -> int:
        """Delete old answers to idempotency keys."""

    def forget_runners(self) -> int:
        """Delete the rows of runners that fell silent long ago."""


@dataclass(frozen=True)
class Report:
    """What a running job may tell: progress, at most a few times a second; raises Cancelled when it should stop."""

    progress: Callable[[Json], None]
    cores: int
    attempt: int = 1
