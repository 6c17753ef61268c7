"""Records of datasets as JSON documents with a revision, on SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import JSON, Column, Connection, Integer, String, Table, delete, func, select, text, update

from service.adapters.database import Database, metadata
from service.adapters.facts import INSERT
from service.adapters.job_tables import jobs, needed
from service.errors import Conflict, NotFound, Stale
from service.ports import Json, Page

datasets = Table(
    "datasets",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", String(200), nullable=False, index=True),
    Column("sha256", String(64), nullable=False, index=True),
    Column("revision", Integer, nullable=False),
    Column("record", JSON, nullable=False),
)


class SqlDatasets:
    """Datasets by id, newest first."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def add(self, record: Json) -> None:
        """Store a new record (has `id`) as revision 1. Idempotent by id."""
        new = INSERT[self.db.dialect](datasets).values(id=record["id"], revision=1, **_columns(record))
        with self.db.write() as c:
            c.execute(new.on_conflict_do_nothing())

    def add_made(self, record: Json, job_id: str, attempt: int) -> bool:
        """Store the record that an attempt of a job made, unless it is no longer held or is to be cancelled."""
        held = select(jobs.c.id).where(
            jobs.c.id == job_id, jobs.c.attempt == attempt, jobs.c.state == "running", ~jobs.c.cancel_requested
        )
        new = INSERT[self.db.dialect](datasets).values(id=record["id"], revision=1, **_columns(record))
        with self.db.write() as c:
            if c.execute(held.with_for_update()).first() is None:
                return False
            c.execute(new.on_conflict_do_nothing())
        return True

    def get(self, dataset_id: str) -> Json:
        """The record with `revision`; NotFound."""
        with self.db.read() as c:
            row = c.execute(_query().where(datasets.c.id == dataset_id)).one_or_none()
        if row is None:
            raise _absent(dataset_id)
        return _document(row)

    def replace(self, dataset_id: str, record: Json, revision: int | None) -> Json:
        """Change it; NotFound; Stale when the revision differs (None: any)."""
        with self.db.write() as c:
            values = {**_columns(record | {"id": dataset_id}), "revision": datasets.c.revision + 1}
            done = c.execute(update(datasets).where(*_exactly(dataset_id, revision)).values(**values))
            if not done.rowcount:
                raise self._reason(c, dataset_id, revision)
            return _document(c.execute(_query().where(datasets.c.id == dataset_id)).one())

    def remove(self, dataset_id: str, revision: int | None = None) -> None:
        """Delete the record; NotFound, Stale, Conflict while a job needs it."""
        with self.db.write() as c:
            done = c.execute(delete(datasets).where(*_exactly(dataset_id, revision)))
            if not done.rowcount:
                raise self._reason(c, dataset_id, revision)
            if needed(c, dataset_id):  # looked for behind the lock of the row, and so undoes the deletion
                raise Conflict(f"a queued or running job needs dataset {dataset_id}; cancel it or wait")

    def page(self, *, limit: int, cursor: str | None, name: str | None = None) -> Page:
        """Records, newest first; the cursor is the last id of the page before."""
        query = _query().order_by(datasets.c.id.desc()).limit(limit + 1)
        query = query if name is None else query.where(datasets.c.name == name)
        query = query if cursor is None else query.where(datasets.c.id < cursor)
        with self.db.read() as c:
            found = [_document(row) for row in c.execute(query)]
        return Page(found[:limit], found[limit - 1]["id"] if len(found) > limit else None)

    def uses(self, sha256: str) -> int:
        """How many records share the table with this content hash."""
        with self.db.read() as c:
            return int(c.execute(select(func.count()).where(datasets.c.sha256 == sha256)).scalar_one())

    def unless_used(self, sha256: str, remove: Callable[[], None]) -> bool:
        """Call `remove` while no record can come to name the table; False, and no call, where one does."""
        with self.db.write(tell=None) as c:
            hold(c)
            if c.execute(select(datasets.c.id).where(datasets.c.sha256 == sha256).limit(1)).first() is not None:
                return False
            remove()
        return True

    def _reason(self, connection: Any, dataset_id: str, revision: int | None) -> NotFound | Stale:
        known = connection.execute(select(datasets.c.revision).where(datasets.c.id == dataset_id)).scalar_one_or_none()
        if known is None:
            return _absent(dataset_id)
        return Stale(f"dataset {dataset_id} is at revision {known}, not {revision}; read it again")


def hold(connection: Connection) -> None:
    """Until this write transaction ends nobody adds or changes records; on SQLite nobody writes anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE datasets IN SHARE MODE"))


def _columns(record: Json) -> Json:
    body = {key: value for key, value in record.items() if key != "revision"}
    return {"name": record["name"], "sha256": record["sha256"], "record": body}


def _query() -> Any:
    return select(datasets.c.record, datasets.c.revision)


def _document(row: Any) -> Json:
    return row.record | {"revision": row.revision}


def _exactly(dataset_id: str, revision: int | None) -> list[Any]:
    return [datasets.c.id == dataset_id] + ([] if revision is None else [datasets.c.revision == revision])


def _absent(dataset_id: str) -> NotFound:
    return NotFound(f"there is no dataset {dataset_id!r}")
