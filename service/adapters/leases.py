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
    false,
    func,
    insert,
    or_,
    select,
    union_all,
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
_SUCCEED = (
    update(jobs)
    .where(_FENCE, jobs.c.cancel_requested == false())
    .values(
        state="succeeded", result=_given("result"), error=None, log_tail=_given("log_tail"),
        progress=func.coalesce(_given("progress"), jobs.c.progress), lease_until=None, finished=Now(),
    )
)  # fmt: skip
_RECORD = insert(job_attempts).values(
    **{c.name: bindparam(c.name, type_=c.type) for c in job_attempts.c if c.name != "finished"}, finished=Now()
)
_WAITING = select(*(exists(select(jobs.c.id).where(_ready(lane))).label(lane) for lane in LANES))


def _best(lane: Lane, limit: Any) -> Any:
    # A CTE is evaluated once; as a plain subquery PostgreSQL may run it again and lock more than n rows.
    ordered = select(jobs.c.id).where(_ready(lane)).order_by(jobs.c.rank, jobs.c.id).limit(limit)
    return ordered.with_for_update(skip_locked=True).cte(f"best_{lane}")


def _take(*best: Any) -> Any:
    """The one UPDATE out of `queued`: of the jobs in these tables."""
    return (
        update(jobs)
        .where(jobs.c.id.in_(union_all(*(select(table.c.id) for table in best))), jobs.c.state == "queued")
        .values(
            state="running", attempt=jobs.c.attempt + 1, owner=_given("owner"), started=Now(), progress=None,
            log_tail="", lease_until=Now() + bindparam("lease", type_=Double()),
        )
        .returning(jobs)
    )  # fmt: skip


_N = {lane: bindparam(f"n_{lane}", type_=Integer()) for lane in LANES}
_LONG = _best("long", _N["long"])
_LEFT = _N["instant"] + _N["long"] - select(func.count()).select_from(_LONG).scalar_subquery()
_TAKE = _take(_LONG, _best("instant", _N["instant"]))
_FILL = _take(_LONG, _best("instant", _LEFT))  # long places that no long job wants serve instant ones


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
            return self._taken(connection, _TAKE, owner, wanted)

    def exchange(self, owner: str, outcomes: Sequence[Outcome], free: Mapping[Lane, int]) -> list[Claim]:
        """End attempts and take new jobs in one transaction; long places without a long job serve instant ones."""
        wanted = {lane: n for lane, n in free.items() if n > 0}
        if not outcomes:
            with self.db.read() as connection:
                if not _waiting(connection, dict.fromkeys(LANES, 1) if wanted else {}):
                    return []
        with self.db.write() as connection:
            self._settle(connection, outcomes)
            return self._taken(connection, _FILL, owner, wanted) if wanted else []

    def _taken(self, connection: Connection, take: Any, owner: str, wanted: Mapping[Lane, int]) -> list[Claim]:
        places = {f"n_{lane}": wanted.get(lane, 0) for lane in LANES}
        rows = connection.execute(take, {**places, "given_owner": owner, "lease": self._settings.lease_seconds}).all()
        rows = sorted(rows, key=lambda row: (LANES.index(row.lane), row.rank, row.id))
        return [Claim(job_of(row), row.attempt, owner) for row in rows]

    def renew(self, owner: str, claims: Sequence[Claim]) -> list[Claim]:
        """Extend the leases; returns the claims still held and not asked to cancel."""
        if not claims:
            return []
        with self.db.write(tell=None) as connection:
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
            return self._settle(connection, [Outcome(claim, state, result, error, attempt, log_tail)]) == 1

    def _settle(self, connection: Connection, outcomes: Sequence[Outcome]) -> int:
        """End the attempts that are still held and record them; how many those were."""
        ended = [o for o in outcomes if self._succeed(connection, o) or self._conclude(connection, o)]
        if ended:
            connection.execute(_RECORD, [_attempt(o.claim, o.attempt, o.error) for o in ended])
        return len(ended)

    def _succeed(self, connection: Connection, outcome: Outcome) -> bool:
        """The usual end in one statement; False when the claim is not held, or somebody asked to cancel."""
        if outcome.state != "succeeded":
            return False
        given = {"result": outcome.result, "log_tail": rules.tail(outcome.log_tail), "progress": outcome.progress}
        values = {f"given_{name}": value for name, value in given.items()}
        return connection.execute(_SUCCEED, {**_fence(outcome.claim), **values}).rowcount == 1

    def _conclude(self, connection: Connection, outcome: Outcome) -> bool:
        """Any end, by the rules; False when the claim is not held."""
        row = connection.execute(_LOCK, _fence(outcome.claim)).one_or_none()
        if row is None:
            return False
        self._end(connection, row, outcome.state, result=outcome.result, error=outcome.error,
                  log_tail=outcome.log_tail, progress=outcome.progress)  # fmt: skip
        return True

    def release(self, claims: Sequence[Claim]) -> int:
        """Hand jobs back to the queue unfinished; the attempt does not count. Returns how many were still held."""
        if not claims:
            return 0
        with self.db.write(tell="work") as connection:
            rows = [connection.execute(_LOCK, _fence(claim)).one_or_none() for claim in claims]
            return self._hand_back(connection, [row for row in rows if row is not None])

    def disown(self, owner: str, held: Sequence[Claim]) -> int:
        """Hand back, uncounted, what the owner runs by the ledger but does not hold: claims whose answer was lost."""
        ours = {(claim.job.id, claim.attempt) for claim in held}
        with self.db.write(tell="work") as connection:
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
                claim, error = Claim(job_of(row), row.attempt, row.owner), rules.worker_lost()
                self._end(connection, row, "queued", error=error, log_tail=row.log_tail)
                connection.execute(_RECORD, _attempt(claim, None, error))
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


def _attempt(claim: Claim, attempt: Attempt | None, error: Json | None) -> Json:
    a = attempt or Attempt(host=claim.owner, pid=0, exit_code=None, peak_rss_bytes=0, cpu_seconds=0.0)
    return {
        "job_id": claim.job.id, "attempt": claim.attempt, "owner": claim.owner, "host": a.host, "pid": a.pid,
        "exit_code": a.exit_code, "peak_rss_bytes": a.peak_rss_bytes, "cpu_seconds": a.cpu_seconds, "error": error,
    }  # fmt: skip
