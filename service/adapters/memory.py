"""The ledger in memory: the same contract for tests and for trying things out in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from service.adapters import rules
from service.errors import Conflict, NotFound
from service.ids import new_id
from service.ports import TERMINAL, Attempt, Claim, Job, Json, Lane, NewJob, Outcome, Page, State
from service.settings import Settings


@dataclass
class _Row:
    job: Job
    rank: float
    needs: tuple[str, ...]
    attempt: int = 0
    spared: int = 0
    lost: int = 0
    run_after: float = 0.0
    lease_until: float = 0.0

    @property
    def queued(self) -> bool:
        return self.job.state == "queued"


class MemoryLeases:
    """What a runner asks of the ledger."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.RLock()
        self._rows: dict[str, _Row] = {}
        self._version = 0
        self.attempts: list[tuple[str, int, Attempt | None, Json | None]] = []

    def claim(self, owner: str, free: Mapping[Lane, int]) -> list[Claim]:
        """Take up to free[lane] jobs of each lane, best rank first."""
        with self._lock:
            now = self._clock()
            ready = sorted(
                (r for r in self._rows.values() if r.queued and r.run_after <= now),
                key=lambda r: (r.rank, r.job.id),
            )
            taken = [r for lane, n in free.items() for r in [r for r in ready if r.job.lane == lane][: max(0, n)]]
            return [self._take(row, owner, now) for row in taken]

    def exchange(self, owner: str, outcomes: Sequence[Outcome], free: Mapping[Lane, int]) -> list[Claim]:
        """End attempts and take new jobs at once; long places without a long job serve instant ones."""
        with self._lock:
            for o in outcomes:
                if o.progress is not None:
                    self.report(o.claim, o.progress)
                self.finish(o.claim, o.state, result=o.result, error=o.error, attempt=o.attempt, log_tail=o.log_tail)
            long = self.claim(owner, {"long": free.get("long", 0)})
            return long + self.claim(owner, {"instant": free.get("instant", 0) + free.get("long", 0) - len(long)})

    def _take(self, row: _Row, owner: str, now: float) -> Claim:
        row.attempt += 1
        row.lease_until = now + self._settings.lease_seconds
        self._set(
            row, state="running", attempts=row.attempt - row.spared - row.lost, worker=owner, started_at=_time(now),
            progress=None, log_tail="",
        )  # fmt: skip
        return Claim(row.job, row.attempt, owner)

    def renew(self, owner: str, claims: Sequence[Claim]) -> list[Claim]:
        """Extend the leases; returns the claims still held and not asked to cancel."""
        with self._lock:
            held = [(c, row) for c in claims if c.owner == owner and (row := self._held(c))]
            for _, row in held:
                row.lease_until = self._clock() + self._settings.lease_seconds
            return [c for c, row in held if not row.job.cancel_requested]

    def cancelled(self, claims: Sequence[Claim]) -> list[Claim]:
        """Those of the claims that somebody asked to cancel."""
        with self._lock:
            return [c for c in claims if (row := self._held(c)) and row.job.cancel_requested]

    def report(self, claim: Claim, progress: Json, log_tail: str = "") -> bool:
        """Store progress; False when the claim is no longer held."""
        with self._lock:
            row = self._held(claim)
            if row:
                self._set(row, progress=progress, log_tail=rules.tail(log_tail) or row.job.log_tail)
            return row is not None

    def finish(
        self, claim: Claim, state: State, *, result: Json | None = None, error: Json | None = None,
        attempt: Attempt | None = None, log_tail: str = "",
    ) -> bool:  # fmt: skip
        """End the attempt; False, and nothing is written, when the claim is no longer held."""
        with self._lock:
            row = self._held(claim)
            if row:
                self.attempts.append((row.job.id, row.attempt, attempt, error))
                self._end(row, state, result=result, error=error, log_tail=log_tail)
            return row is not None

    def release(self, claims: Sequence[Claim]) -> int:
        """Hand jobs back to the queue unfinished; the attempt does not count. Returns how many were still held."""
        with self._lock:
            held = [row for c in claims if (row := self._held(c))]
            for row in held:
                row.spared += 1
                self._end(row, "queued")
            return len(held)

    def disown(self, owner: str, held: Sequence[Claim]) -> int:
        """Hand back, uncounted, what the owner runs by the ledger but does not hold: claims whose answer was lost."""
        with self._lock:
            ours = {(claim.job.id, claim.attempt) for claim in held}
            mine = [row for row in self._rows.values() if row.job.state == "running" and row.job.worker == owner]
            return self.release([Claim(r.job, r.attempt, owner) for r in mine if (r.job.id, r.attempt) not in ours])

    def reap(self, dead: str | None = None) -> int:
        """End the attempts whose lease expired, and all of an owner known to be dead; returns how many."""
        with self._lock:
            now = self._clock()
            silent = [
                r for r in self._rows.values()
                if r.job.state == "running" and (r.lease_until <= now or r.job.worker == dead)
            ]  # fmt: skip
            for row in silent:
                self.attempts.append((row.job.id, row.attempt, None, rules.worker_lost()))
                self._end(row, "queued", error=rules.worker_lost(), log_tail=row.job.log_tail)
            return len(silent)

    def _end(
        self, row: _Row, state: State, *, result: Json | None = None, error: Json | None = None, log_tail: str = ""
    ) -> None:
        end = rules.ending(
            state, self._settings, cancel_requested=row.job.cancel_requested, losses=row.lost,
            attempts=row.attempt - row.spared - row.lost, result=result, error=error,
        )  # fmt: skip
        row.lost += end.lost
        now, again = self._clock(), end.state == "queued"
        row.run_after = now + end.delay_seconds
        self._set(
            row, state=end.state, result=end.result, error=end.error, log_tail=rules.tail(log_tail),
            worker=None if again else row.job.worker, finished_at=None if again else _time(now),
            attempts=row.attempt - row.spared - row.lost, engine_losses=row.lost,
            progress=None if again else row.job.progress, started_at=None if again else row.job.started_at,
        )  # fmt: skip

    def _set(self, row: _Row, **changes: object) -> None:
        row.job = replace(row.job, **changes)  # type: ignore[arg-type]
        self._version += 1

    def _held(self, claim: Claim) -> _Row | None:
        row = self._rows.get(claim.job.id)
        if row is None or row.job.state != "running":
            return None
        return row if (row.attempt, row.job.worker) == (claim.attempt, claim.owner) else None


class MemoryLedger(MemoryLeases):
    """The only owner of jobs, for one process."""

    def put(self, new: NewJob, *, once: bool = False) -> Job:
        """Queue a job, or with `once` give the one that makes the resource already; QueueFull."""
        with self._lock:
            if once and any(row.job.resource == new.resource for row in self._rows.values()):
                return self.of_resource(new.resource)
            now = self._clock()
            self._refuse_when_full(new, now)
            job = Job(
                id=new_id("job"), kind=new.kind, resource=new.resource, spec=new.spec, lane=new.lane,
                limits=new.limits, priority=new.priority, state="queued", attempts=0, submitted_at=_time(now),
                spread=new.spread, tenant=new.tenant,
            )  # fmt: skip
            self._rows[job.id] = _Row(job, rules.rank(now, new.priority), new.needs)
            self._version += 1
            return job

    def _refuse_when_full(self, new: NewJob, now: float) -> None:
        queue = [row.job.tenant for row in self._rows.values() if row.queued]
        why = rules.full(new, self._settings, queued=len(queue), own=queue.count(new.tenant))
        if why is None:
            return
        since = _time(now - rules.THROUGHPUT_SECONDS)
        lately = sum(r.job.finished_at is not None and r.job.finished_at > since for r in self._rows.values())
        raise rules.refusal(why, lately)

    def get(self, job_id: str) -> Job:
        """The job with its queue position; NotFound."""
        with self._lock:
            if job_id not in self._rows:
                raise NotFound(f"there is no job {job_id}")
            return self._placed(self._rows[job_id])

    def of_resource(self, resource: str) -> Job:
        """The newest job that makes this resource; NotFound."""
        with self._lock:
            found = [row for row in self._rows.values() if row.job.resource == resource]
            if not found:
                raise NotFound(f"no job makes {resource}")
            return self._placed(max(found, key=lambda row: row.job.id))

    def page(self, *, limit: int, cursor: str | None, state: str | None = None, kind: str | None = None) -> Page:
        """Jobs without spec, result and log, newest first; the cursor is the last id of the page before."""
        with self._lock:
            found = [
                replace(self._placed(row), spec={}, result=None, log_tail="")
                for row in sorted(self._rows.values(), key=lambda row: row.job.id, reverse=True)
                if state in (None, row.job.state) and kind in (None, row.job.kind)
                and (cursor is None or row.job.id < cursor)
            ]  # fmt: skip
        return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)

    def needed(self, resource: str) -> bool:
        """Whether a queued or running job needs this resource."""
        with self._lock:
            return any(resource in r.needs and r.job.state not in TERMINAL for r in self._rows.values())

    def cancel(self, job_id: str) -> Job:
        """Cancel: a queued job at once, a running one by a flag its runner sees; Conflict when it ended otherwise."""
        with self._lock:
            self.get(job_id)
            row = self._rows[job_id]
            if row.job.state in ("succeeded", "failed"):
                raise Conflict(f"job {job_id} has already {row.job.state}")
            if row.job.state == "queued":
                self._set(row, state="cancelled", finished_at=_time(self._clock()), cancel_requested=True)
            elif row.job.state == "running":
                self._set(row, cancel_requested=True)
            return self.get(job_id)

    def version(self) -> int:
        """A number that changes with every change."""
        return self._version

    def cancels(self) -> int:
        """The version."""
        return self._version

    def _placed(self, row: _Row) -> Job:
        if not row.queued:
            return replace(row.job, queue_position=None)
        mine = (row.rank, row.job.id)
        lane = [r for r in self._rows.values() if r.queued and r.job.lane == row.job.lane]
        return replace(row.job, queue_position=sum((r.rank, r.job.id) <= mine for r in lane))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
