"""Tables of the ledger and the way from a row to a job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    Row,
    Select,
    String,
    Table,
    Text,
    and_,
    case,
    false,
    func,
    select,
    text,
    tuple_,
)

from service.adapters.database import metadata
from service.ports import Job, Limits

_QUEUED = text("state = 'queued'")
_RUNNING = text("state = 'running'")

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("kind", String(60), nullable=False),
    Column("resource", String(80), nullable=False),
    Column("spec", JSON, nullable=False),
    Column("lane", String(10), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("rank", Double, nullable=False),
    Column("run_after", Double, nullable=False),
    Column("wall_seconds", Double, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("cores", Integer, nullable=False),
    Column("state", String(10), nullable=False),
    Column("attempt", Integer, nullable=False),  # grows with every claim: the fence
    Column("spared", Integer, nullable=False),  # attempts handed back unfinished, which do not count
    Column("lost", Integer, nullable=False, server_default="0"),  # attempts that ended with their engine
    Column("spread", Boolean, nullable=False, server_default=false()),
    Column("tenant", String(40), nullable=False, server_default=text("''")),
    Column("owner", String(120)),
    Column("lease_until", Double),
    Column("cancel_requested", Boolean, nullable=False),
    Column("progress", JSON(none_as_null=True)),
    Column("result", JSON(none_as_null=True)),
    Column("error", JSON(none_as_null=True)),
    Column("log_tail", Text, nullable=False),
    Column("submitted", Double, nullable=False),
    Column("started", Double),
    Column("finished", Double),
    Index("ix_jobs_queue", "lane", "rank", "id", sqlite_where=_QUEUED, postgresql_where=_QUEUED),
    Index("ix_jobs_leases", "lease_until", sqlite_where=_RUNNING, postgresql_where=_RUNNING),
    Index("ix_jobs_resource", "resource", "id"),
    Index("ix_jobs_state", "state", "id"),
    Index("ix_jobs_kind", "kind", "id"),
    Index("ix_jobs_kind_state", "kind", "state", "id"),
    Index("ix_jobs_state_resource", "state", "resource"),
    Index("ix_jobs_tenant", "tenant", sqlite_where=_QUEUED, postgresql_where=_QUEUED),
    Index("ix_jobs_finished", "finished"),
)

job_needs = Table(
    "job_needs",
    metadata,
    Column("resource", String(80), primary_key=True),
    Column("job_id", String(40), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True, index=True),
)

job_attempts = Table(
    "job_attempts",
    metadata,
    Column("job_id", String(40), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("owner", String(120), nullable=False),
    Column("host", String(120), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("exit_code", Integer),
    Column("peak_rss_bytes", BigInteger, nullable=False),
    Column("cpu_seconds", Double, nullable=False),
    Column("error", JSON(none_as_null=True)),
    Column("finished", Double, nullable=False),
)


SHOWN = [c for c in jobs.c if c.name not in ("spec", "result", "log_tail")]
"""The columns of a listing: without what may be long."""


def places(ids: Sequence[str]) -> Select[Any]:
    """Id and place in the queue of its lane of those of the jobs that are queued: one pass over the queue's index."""
    order = func.row_number().over(partition_by=jobs.c.lane, order_by=(jobs.c.rank, jobs.c.id))
    queue = select(jobs.c.id, order.label("place")).where(jobs.c.state == "queued").subquery()
    return select(queue.c.id, queue.c.place).where(queue.c.id.in_(ids))


def needed(connection: Connection, resource: str) -> bool:
    """Whether a queued or running job needs this resource."""
    users = (
        select(jobs.c.id)
        .join(job_needs, job_needs.c.job_id == jobs.c.id)
        .where(job_needs.c.resource == resource, jobs.c.state.in_(("queued", "running")))
    )
    return connection.execute(users.limit(1)).first() is not None


def select_job() -> Select[Any]:
    """A job with its place in the queue of its lane, 1 is next."""
    ahead = jobs.alias("ahead")
    place = (
        select(func.count())
        .where(
            and_(
                ahead.c.state == "queued",
                ahead.c.lane == jobs.c.lane,
                tuple_(ahead.c.rank, ahead.c.id) <= tuple_(jobs.c.rank, jobs.c.id),
            )
        )
        .correlate(jobs)
        .scalar_subquery()
    )
    return select(jobs, case((jobs.c.state == "queued", place)).label("queue_position"))


def job_of(row: Row[Any], place: int | None = None) -> Job:
    """A row, also of a listing, as the value the service works with."""
    r = row._mapping
    return Job(
        id=r["id"], kind=r["kind"], resource=r["resource"], spec=r.get("spec", {}), lane=r["lane"],
        priority=r["priority"], limits=Limits(r["wall_seconds"], r["memory_bytes"], r["cores"]), state=r["state"],
        attempts=r["attempt"] - r["spared"] - r["lost"], engine_losses=r["lost"],
        spread=r["spread"], tenant=r["tenant"], submitted_at=moment(r["submitted"]),
        started_at=r["started"] and moment(r["started"]), finished_at=r["finished"] and moment(r["finished"]),
        worker=r["owner"], progress=r["progress"], result=r.get("result"), error=r["error"],
        cancel_requested=r["cancel_requested"], queue_position=r.get("queue_position", place),
        log_tail=r.get("log_tail", ""),
    )  # fmt: skip


def moment(seconds: float) -> datetime:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
