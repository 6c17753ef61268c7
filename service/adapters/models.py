"""Records of models: what was asked, joined with the newest job that makes it. State and result are the job's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    Double,
    Integer,
    String,
    Table,
    UniqueConstraint,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from service.adapters.database import Database, Now, metadata
from service.adapters.job_tables import jobs
from service.errors import NotFound, Stale
from service.ports import Json, Page

models = Table(
    "models",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", String(200), nullable=False, index=True),
    Column("version", Integer, nullable=False),
    Column("algorithm", String(100), nullable=False, index=True),
    Column("dataset", String(40), nullable=False, index=True),
    Column("labels", JSON, nullable=False),
    Column("record", JSON, nullable=False),
    Column("created", Double, nullable=False),
    Column("revision", Integer, nullable=False),
    UniqueConstraint("name", "version"),
)
STATE = {"succeeded": "ready"}
VERSION = re.compile(r"[0-9]{1,9}")


class SqlModels:
    """Models by id, name or name@version."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def add(self, model_id: str, name: str, record: Json) -> int:
        """Store the record of a new model under the next version of its name; returns the version. Idempotent by id."""
        for _ in range(50):
            try:
                with self.db.write() as c:
                    known = c.execute(select(models.c.version).where(models.c.id == model_id)).scalar_one_or_none()
                    if known is not None:
                        return int(known)
                    newest = c.execute(select(func.max(models.c.version)).where(models.c.name == name)).scalar_one()
                    version = int(newest or 0) + 1
                    c.execute(
                        insert(models).values(
                            id=model_id,
                            name=name,
                            version=version,
                            algorithm=record["estimator"]["algorithm"],
                            dataset=record["dataset"],
                            labels=record.get("labels") or {},
                            record=record,
                            created=Now(),
                            revision=1,
                        )
                    )
                    return version
            except IntegrityError:
                continue
        raise Stale(f"many writers want a version of {name!r} at once; try again")

    def get(self, key: str) -> Json:
        """The model `id`, `name@version`, or the newest ready version of `name`; NotFound."""
        name, _, version = key.rpartition("@")
        with self.db.read() as c:
            row = c.execute(_query().where(models.c.id == key)).mappings().one_or_none()
            if row is None and name and VERSION.fullmatch(version):
                exact = _query().where(models.c.name == name, models.c.version == int(version))
                row = c.execute(exact).mappings().one_or_none()
            if row is None:
                ready = _query().where(models.c.name == key, jobs.c.state == "succeeded")
                row = c.execute(ready.order_by(models.c.version.desc()).limit(1)).mappings().one_or_none()
        if row is None:
            raise NotFound(f"there is no model {key!r} (an id, a name with a ready version, or name@version)")
        return _model(row)

    def page(
        self,
        *,
        limit: int,
        cursor: str | None,
        state: str | None = None,
        algorithm: str | None = None,
        dataset: str | None = None,
        name: str | None = None,
    ) -> Page:
        """Models, newest first."""
        wanted = {"ready": "succeeded"}.get(state, state) if state else None
        query = _query().order_by(models.c.id.desc()).limit(limit + 1)
        filters = (
            (jobs.c.state, wanted),
            (models.c.algorithm, algorithm),
            (models.c.dataset, dataset),
            (models.c.name, name),
        )
        for column, value in filters:
            query = query if value is None else query.where(column == value)
        query = query if cursor is None else query.where(models.c.id < cursor)
        with self.db.read() as c:
            found = [_model(row) for row in c.execute(query).mappings()]
        return Page(found[:limit], found[limit - 1]["id"] if len(found) > limit else None)

    def change(self, model_id: str, values: Json, revision: int | None) -> None:
        """Change labels or name; Stale when the revision differs."""
        where = [models.c.id == model_id] + ([] if revision is None else [models.c.revision == revision])
        with self.db.write() as c:
            done = c.execute(update(models).where(*where).values(revision=models.c.revision + 1, **values))
        if not done.rowcount:
            raise Stale(f"model {model_id} has changed since that version")

    def remove(self, model_id: str) -> None:
        """Delete the record; its job stays as history."""
        with self.db.write() as c:
            c.execute(delete(models).where(models.c.id == model_id))

    def of_dataset(self, dataset_id: str) -> Sequence[str]:
        """Ids of the models fitted on a dataset."""
        with self.db.read() as c:
            return list(c.execute(select(models.c.id).where(models.c.dataset == dataset_id)).scalars())


def _query() -> Any:
    newest = select(func.max(jobs.c.id)).where(jobs.c.resource == models.c.id).correlate(models).scalar_subquery()
    return select(
        models, jobs.c.id.label("job"), jobs.c.state, jobs.c.result, jobs.c.error
    ).join(jobs, jobs.c.id == newest, isouter=True)  # fmt: skip


def _model(row: Any) -> Json:
    """One row of the join as a dict: record, state in the contract's words, result and error of the job."""
    out = dict(row)
    state = out["state"] or "queued"
    return out | {"state": STATE.get(state, state), "result": out["result"] or {}}
