"""The runner's half of the ledger: claims, leases, progress and endings, each fenced by (job, attempt, owner)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BindParameter,
    Connection,
    Double,
    Integer,
    Row,
    Select,
    and_,
    bindparam,
    exists,
    insert,
    or_,
    select,
    update,
)

from service.adapters import rules
from service.adapters.database import Database, Now
from service.adapters.job_tables import job_attempts, job_of, jobs
from service.ports import Attempt, Claim, Json, Lane, Outcome, State
from service.settings import Settings

LANES: tuple[Lane, ...] = ("long", "instant")


def _given(name: str, column: Any = None) -> BindParameter[Any]:
    """A value that comes with the execution, typed as the column of its name."""
    return bindparam(f"given_{name}", type_=(jobs.c[name] if column is None else column).type)


def _ready(lane: Any) -> Any:
    return and_(jobs.c.state == "queued", jobs.c.lane == lane, jobs.c.run_after <= Now())


def _end(again: bool) -> Any:
    """The one UPDATE out of `running`: back to the queue, or to a terminal state."""
    kept = ("state", "result", "error", "log_tail", "owner", "started", "progress", "spared", "lost")
    return (
        update(jobs)
        .where(jobs.c.id == _given("id"), jobs.c.attempt == _given("attempt"), jobs.c.state == "running")
        .values(
            **{name: _given(name) for name in kept}, lease_until=None, finished=None if again else Now(),
            run_after=Now() + bindparam("delay", type_=Double()),
        )
    )  # fmt: skip


# Built once: a statement costs SQLAlchemy more to build and to look up than the database to execute.
_FENCE = and_(
    jobs.c.id == _given("id"), jobs.c.attempt == _given("attempt"), jobs.c.owner == _given("owner"),
    jobs.c.state == "running",
)  # fmt: skip
_ROW: Select[Any] = select(
    jobs.c.id, jobs.c.attempt, jobs.c.spared, jobs.c.lost, jobs.c.cancel_requested, jobs.c.owner, jobs.c.started,
    jobs.c.progress,
)  # fmt: skip
_LOCK = _ROW.where(_FENCE).with_for_update()
_OWN = _ROW.where(jobs.c.owner == _given("owner"), jobs.c.state == "running").with_for_update()
_END = {again: _end(again) for again in (True, False)}
_RECORD = insert(job_attempts).values(
    **{c.name: bindparam(c.name, type_=c.type) for c in job_attempts.c if c.name != "finished"}, finished=Now()
)
_WAITING = select(*(exists(select(jobs.c.id).where(_ready(lane))).label(lane) for lane in LANES))
# The CTE is evaluated once; as a plain subquery PostgreSQL may run it again and lock more than n rows.
_BEST = (
    select(jobs.c.id)
    .where(_ready(_given("lane")))
    .order_by(jobs.c.rank, jobs.c.id)
    .limit(bindparam("n", type_=Integer()))
    .with_for_update(skip_locked=True)
    .cte("best")
)
_TAKE = (
    update(jobs)
    .where(jobs.c.id.in_(select(_BEST.c.id)), jobs.c.state == "queued")
    .values(
        state="running", attempt=jobs.c.attempt + 1, owner=_given("owner"), started=Now(), progress=None, log_tail="",
        lease_until=Now() + bindparam("lease", type_=Double()),
    )
    .returning(jobs)
)  # fmt: skip


class SqlLeases:
    """What a runner asks of the ledger."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self.db = db
        self._settings = settings

    def claim(self, owner: str, free: Mapping[Lane, int]) -> list[Claim]:
        """Take up to free[lane] jobs of each lane, best rank first."""
        wanted = {lane: n for lane, n in free.items() if n > 0}
        with self.db.read() as connection:  # a look costs no write lock
            found = _waiting(connection, wanted)
        if not found:
            return []
        with self.db.write() as connection:
            rows = [row for lane in found for row in self._take(connection, owner, lane, wanted[lane])]
        return [Claim(job_of(row), row.attempt, owner) for row in rows]

    def exchange(self, owner: str, outcomes: Sequence[Outcome], free: Mapping[Lane, int]) -> list[Claim]:
        """End attempts and take new jobs in one transaction; long places without a long job serve instant ones."""
        wanted = {lane: n for lane, n in free.items() if n > 0}
        if not outcomes:
            with self.db.read() as connection:
                if not _waiting(connection, dict.fromkeys(LANES, 1) if wanted else {}):
                    return []
        with self.db.write() as connection:
            for outcome in outcomes:
                self._settle(connection, outcome)
            rows = self._fill(connection, owner, wanted)
        return [Claim(job_of(row), row.attempt, owner) for row in rows]

    def _fill(self, connection: Connection, owner: str, wanted: Mapping[Lane, int]) -> list[Row[Any]]:
        waiting = _waiting(connection, dict.fromkeys(LANES, 1)) if wanted else []
        long = wanted.get("long", 0)
        rows = list(self._take(connection, owner, "long", long)) if long and "long" in waiting else []
        instant = wanted.get("instant", 0) + long - len(rows)
        if instant and "instant" in waiting:
            rows += self._take(connection, owner, "instant", instant)
        return rows

    def _take(self, connection: Connection, owner: str, lane: Lane, n: int) -> Sequence[Row[Any]]:
        given = {"given_lane": lane, "n": n, "given_owner": owner, "lease": self._settings.lease_seconds}
        rows = connection.execute(_TAKE, given).all()
        return sorted(rows, key=lambda row: (row.rank, row.id))

    def renew(self, owner: str, claims: Sequence[Claim]) -> list[Claim]:
        """Extend the leases; returns the claims still held and not asked to cancel."""
        if not claims:
            return []
        with self.db.write(quiet=True) as connection:
            rows = connection.execute(
                update(jobs)
                .where(jobs.c.owner == owner, self._any(claims))
                .values(lease_until=self._lease())
                .returning(jobs.c.id, jobs.c.attempt, jobs.c.cancel_requested)
            ).all()
        held = {(row.id, row.attempt) for row in rows if not row.cancel_requested}
        return [c for c in claims if (c.job.id, c.attempt) in held]

    def cancelled(self, claims: Sequence[Claim]) -> list[Claim]:
        """Those of the claims that somebody asked to cancel."""
        if not claims:
            return []
        asked = select(jobs.c.id, jobs.c.attempt).where(self._any(claims), jobs.c.cancel_requested)
        with self.db.read() as connection:
            found = {(row.id, row.attempt) for row in connection.execute(asked)}
        return [c for c in claims if (c.job.id, c.attempt) in found]

    def report(self, claim: Claim, progress: Json, log_tail: str = "") -> bool:
        """Store progress; False when the claim is no longer held."""
        values: Json = {"progress": progress, **({"log_tail": rules.tail(log_tail)} if log_tail else {})}
        with self.db.write() as connection:
            return connection.execute(update(jobs).where(_FENCE).values(**values), _fence(claim)).rowcount == 1

    def finish(
        self, claim: Claim, state: State, *, result: Json | None = None, error: Json | None = None,
        attempt: Attempt | None = None, log_tail: str = "",
    ) -> bool:  # fmt: skip
        """End the attempt; False, and nothing is written, when the claim is no longer held."""
        with self.db.write() as connection:
            return self._settle(connection, Outcome(claim, state, result, error, attempt, log_tail))

    def _settle(self, connection: Connection, outcome: Outcome) -> bool:
        row = connection.execute(_LOCK, _fence(outcome.claim)).one_or_none()
        if row is None:
            return False
        self._end(connection, row, outcome.state, result=outcome.result, error=outcome.error,
                  log_tail=outcome.log_tail, progress=outcome.progress)  # fmt: skip
        connection.execute(_RECORD, _attempt(row, outcome.attempt, outcome.error))
        return True

    def release(self, claims: Sequence[Claim]) -> int:
        """Hand jobs back to the queue unfinished; the attempt does not count. Returns how many were still held."""
        if not claims:
            return 0
        with self.db.write(work=True) as connection:
            rows = [connection.execute(_LOCK, _fence(claim)).one_or_none() for claim in claims]
            return self._hand_back(connection, [row for row in rows if row is not None])

    def disown(self, owner: str, held: Sequence[Claim]) -> int:
        """Hand back, uncounted, what the owner runs by the ledger but does not hold: claims whose answer was lost."""
        ours = {(claim.job.id, claim.attempt) for claim in held}
        with self.db.write(work=True) as connection:
            rows = connection.execute(_OWN, {"given_owner": owner}).all()
            return self._hand_back(connection, [row for row in rows if (row.id, row.attempt) not in ours])

    def _hand_back(self, connection: Connection, rows: Sequence[Row[Any]]) -> int:
        for row in rows:
            self._end(connection, row, "queued", spared=1)
        return len(rows)

    def reap(self, dead: str | None = None) -> int:
        """End the attempts whose lease expired, and all of an owner known to be dead; returns how many."""
        expired = or_(jobs.c.lease_until <= Now(), jobs.c.owner == dead) if dead else jobs.c.lease_until <= Now()
        silent = select(jobs).where(jobs.c.state == "running", expired)
        with self.db.read() as connection:
            if connection.execute(silent.limit(1)).first() is None:
                return 0
        with self.db.write() as connection:
            rows = connection.execute(silent.with_for_update(skip_locked=True)).all()
            for row in rows:
                self._end(connection, row, "queued", error=rules.worker_lost(), log_tail=row.log_tail)
                connection.execute(_RECORD, _attempt(row, None, rules.worker_lost()))
        return len(rows)

    def _end(
        self, connection: Connection, row: Row[Any], state: State, *, result: Json | None = None,
        error: Json | None = None, log_tail: str = "", spared: int = 0, progress: Json | None = None,
    ) -> None:  # fmt: skip
        """End the attempt of a row that this transaction has locked."""
        end = rules.ending(
            state, self._settings, cancel_requested=row.cancel_requested, result=result, error=error,
            attempts=row.attempt - row.spared - row.lost - spared, losses=row.lost,
        )  # fmt: skip
        again = end.state == "queued"
        values = {
            "id": row.id, "attempt": row.attempt, "state": end.state, "result": end.result, "error": end.error,
            "log_tail": rules.tail(log_tail), "owner": None if again else row.owner,
            "started": None if again else row.started, "progress": None if again else progress or row.progress,
            "spared": row.spared + spared, "lost": row.lost + end.lost,
        }  # fmt: skip
        given = {f"given_{name}": value for name, value in values.items()}
        connection.execute(_END[again], {**given, "delay": end.delay_seconds})

    def _lease(self) -> Any:
        return Now() + self._settings.lease_seconds

    @staticmethod
    def _any(claims: Sequence[Claim]) -> Any:
        return and_(jobs.c.state == "running", jobs.c.id.in_([c.job.id for c in claims]))


def _waiting(connection: Connection, lanes: Mapping[Lane, int]) -> list[Lane]:
    """Those of the lanes in which a job may begin now."""
    found = connection.execute(_WAITING).one()._mapping if lanes else {}
    return [lane for lane in lanes if found[lane]]


def _fence(claim: Claim) -> Json:
    """The values of `_FENCE`."""
    return {"given_id": claim.job.id, "given_attempt": claim.attempt, "given_owner": claim.owner}


def _attempt(row: Row[Any], attempt: Attempt | None, error: Json | None) -> Json:
    a = attempt or Attempt(host=row.owner, pid=0, exit_code=None, peak_rss_bytes=0, cpu_seconds=0.0)
    return {
        "job_id": row.id, "attempt": row.attempt, "owner": row.owner, "host": a.host, "pid": a.pid,
        "exit_code": a.exit_code, "peak_rss_bytes": a.peak_rss_bytes, "cpu_seconds": a.cpu_seconds, "error": error,
    }  # fmt: skip
