"""The ledger on SQLite or PostgreSQL: the API's half here, the runner's half in `leases`."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Connection, Double, Select, String, bindparam, case, func, insert, select, update

from service.adapters import rules
from service.adapters.database import Database, Now
from service.adapters.job_tables import (
    SHOWN,
    job_attempts,
    job_needs,
    job_of,
    jobs,
    moment,
    needed,
    places,
    select_job,
)
from service.adapters.leases import SqlLeases
from service.adapters.models import add_model, hold_needs
from service.errors import Conflict, NotFound
from service.ids import new_id
from service.ports import Job, Json, NewJob, Page
from service.settings import Settings

COUNT_SECONDS = 1.0
GIVEN = (
    "id", "kind", "resource", "spec", "lane", "priority", "wall_seconds", "memory_bytes", "cores", "spread", "tenant",
)  # fmt: skip
# Built once: a statement costs SQLAlchemy more to build and to look up than SQLite to execute.
INSERT = (
    insert(jobs)
    .values(
        **{name: bindparam(name, type_=jobs.c[name].type) for name in GIVEN},
        rank=Now() - bindparam("advantage", type_=Double()), run_after=Now(), submitted=Now(), state="queued",
        attempt=0, spared=0, lost=0, cancel_requested=False, log_tail="",
    )
    .returning(jobs.c.submitted)
)  # fmt: skip
INSERT_NEEDS = insert(job_needs)
ONE = select_job().where(jobs.c.id == bindparam("wanted", type_=String()))
NEWEST = (
    select_job().where(jobs.c.resource == bindparam("wanted", type_=String())).order_by(jobs.c.id.desc()).limit(1)
)
SHARERS = 16  # so many processes may put at once before the limit is passed by more than a few


class SqlLedger(SqlLeases):
    """The only owner of jobs; every write is one short transaction."""

    def __init__(self, db: Database, settings: Settings) -> None:
        super().__init__(db, settings)
        self._room: dict[str, tuple[float, int]] = {}

    def put(self, new: NewJob, *, once: bool = False) -> Job:
        """Queue a job; QueueFull when there are too many (simultaneous writers may pass by a few on PostgreSQL).

        `once`: where a job makes the resource already, that one is returned instead; NotFound where a dataset or
        model that it needs is gone.
        """
        with self.db.write(tell="work") as connection:
            if once and (known := self._maker(connection, new.resource)):
                return known
            if once:
                hold_needs(connection, new.needs)
            job = self._insert(connection, new)
            if new.model is not None:
                add_model(connection, new.resource, new.model)
            return job

    def _insert(self, connection: Connection, new: NewJob) -> Job:
        row = _row(new_id("job"), new)
        self._refuse_when_full(connection, new)
        submitted = connection.execute(INSERT, row).scalar_one()
        if new.needs:
            needs = [{"resource": resource, "job_id": row["id"]} for resource in dict.fromkeys(new.needs)]
            connection.execute(INSERT_NEEDS, needs)
        return Job(
            row["id"], new.kind, new.resource, new.spec, new.lane, new.limits, new.priority, "queued", 0,
            moment(submitted), spread=new.spread, tenant=new.tenant,
        )  # fmt: skip

    def _refuse_when_full(self, connection: Connection, new: NewJob) -> None:
        """Count the queue, but not for each of many puts: a sixteenth of the room is taken without counting again.

        The room of all (under "") and that of the key are both taken from, so that many keys do not add up.
        """
        rooms = {name: self._room.get(name, (0.0, 0)) for name in ("", new.tenant)}
        if all(room > 0 and time.monotonic() < until for until, room in rooms.values()):
            self._room |= {name: (until, room - 1) for name, (until, room) in rooms.items()}
            return
        counts = select(
            func.count().label("queued"), func.count(case((jobs.c.tenant == new.tenant, 1))).label("own")
        ).where(jobs.c.state == "queued")  # fmt: skip
        queue = connection.execute(counts).one()
        if why := rules.full(new, self._settings, queued=queue.queued, own=queue.own):
            lately = select(func.count()).where(jobs.c.finished > Now() - rules.THROUGHPUT_SECONDS)
            raise rules.refusal(why, connection.execute(lately).scalar_one())
        until = time.monotonic() + COUNT_SECONDS
        self._room[""] = (until, (self._settings.max_queued - queue.queued) // SHARERS)
        if new.tenant:
            self._room[new.tenant] = (until, (self._settings.max_queued_per_key - queue.own) // SHARERS)

    def _maker(self, connection: Connection, resource: str) -> Job | None:
        """The newest job of the resource; who asks at the same time waits until this transaction ends."""
        if self.db.dialect == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(resource, 0))))
        row = connection.execute(NEWEST, {"wanted": resource}).one_or_none()
        return None if row is None else job_of(row)

    def get(self, job_id: str) -> Job:
        """The job with its queue position; NotFound."""
        return self._one(ONE, {"wanted": job_id}, f"there is no job {job_id}")

    def of_resource(self, resource: str) -> Job:
        """The newest job that makes this resource; NotFound."""
        return self._one(NEWEST, {"wanted": resource}, f"no job makes {resource}")

    def page(self, *, limit: int, cursor: str | None, state: str | None = None, kind: str | None = None) -> Page:
        """Jobs without spec, result and log, newest first; the cursor is the last id of the page before."""
        query = select(*SHOWN).order_by(jobs.c.id.desc()).limit(limit + 1)
        for column, value in ((jobs.c.state, state), (jobs.c.kind, kind)):
            query = query if value is None else query.where(column == value)
        query = query if cursor is None else query.where(jobs.c.id < cursor)
        with self.db.read() as connection:
            rows = connection.execute(query).all()
            queued = [row.id for row in rows if row.state == "queued"]
            place = {row.id: row.place for row in connection.execute(places(queued))} if queued else {}
        found = [job_of(row, place.get(row.id)) for row in rows]
        return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)

    def attempts(self, job_id: str) -> list[Json]:
        """How each ended attempt went, the first one first."""
        query = select(job_attempts).where(job_attempts.c.job_id == job_id).order_by(job_attempts.c.attempt)
        with self.db.read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def needed(self, resource: str) -> bool:
        """Whether a queued or running job needs this resource."""
        with self.db.read() as connection:
            return needed(connection, resource)

    def cancel(self, job_id: str) -> Job:
        """Cancel: a queued job at once, a running one by a flag its runner sees; Conflict when it ended otherwise."""
        with self.db.write(tell="cancel") as connection:
            row = connection.execute(select(jobs).where(jobs.c.id == job_id).with_for_update()).one_or_none()
            if row is None:
                raise NotFound(f"there is no job {job_id}")
            if row.state in ("succeeded", "failed"):
                raise Conflict(f"job {job_id} has already {row.state}")
            values: dict[str, Any] = {"cancel_requested": True}
            if row.state == "queued":
                values |= {"state": "cancelled", "finished": Now()}
            if row.state != "cancelled":
                connection.execute(update(jobs).where(jobs.c.id == job_id, jobs.c.state == row.state).values(values))
            return job_of(connection.execute(select_job().where(jobs.c.id == job_id)).one())

    def version(self) -> int:
        """A cheap number that changes whenever anything another connection wrote is visible here."""
        return self.db.version()

    def cancels(self) -> int:
        """A cheap number that changes whenever others may have asked to cancel a job; asked after `version`."""
        return self.db.cancels()

    def _one(self, query: Select[Any], given: Json, missing: str) -> Job:
        with self.db.read() as connection:
            row = connection.execute(query, given).one_or_none()
        if row is None:
            raise NotFound(missing)
        return job_of(row)


def _row(job_id: str, new: NewJob) -> dict[str, Any]:
    return {
        "id": job_id, "kind": new.kind, "resource": new.resource, "spec": new.spec, "lane": new.lane,
        "priority": new.priority, "advantage": rules.AGEING_SECONDS * new.priority,
        "wall_seconds": new.limits.wall_seconds, "memory_bytes": new.limits.memory_bytes, "cores": new.limits.cores,
        "spread": new.spread, "tenant": new.tenant,
    }  # fmt: skip
