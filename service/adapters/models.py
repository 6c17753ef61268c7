"""Records of models: what was asked, joined with the newest job that makes it. State and result are the job's."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from service.adapters.database import Database, Now
from service.adapters.facts import catalogue, catalogue_write
from service.adapters.job_tables import jobs
from service.adapters.model_tables import aliases, models
from service.errors import Conflict, NotFound, Stale
from service.ports import Json, Page

STATE = {"succeeded": "ready"}
VERSION = re.compile(r"[0-9]{1,9}")


class SqlModels:
    """Models by id, alias, name or name@version."""

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
        """The model `id`, what the alias points at, `name@version`, or the newest ready version of `name`; NotFound.

        `lasting`: the key means this model until the catalogue changes; a bare name may move with any fit.
        """
        name, _, version = key.rpartition("@")
        pointed = select(aliases.c.model).where(aliases.c.name == key).scalar_subquery()
        lasting = True
        with self.db.read() as c:
            row = c.execute(_query().where(or_(models.c.id == key, models.c.id == pointed))).mappings().one_or_none()
            if row is None and name and VERSION.fullmatch(version):
                exact = _query().where(models.c.name == name, models.c.version == int(version))
                row = c.execute(exact).mappings().one_or_none()
            if row is None:
                lasting = False
                ready = _query().where(models.c.name == key, jobs.c.state == "succeeded")
                row = c.execute(ready.order_by(models.c.version.desc()).limit(1)).mappings().one_or_none()
        if row is None:
            raise NotFound(f"there is no model {key!r} (an id, an alias, a name with a ready version, or name@version)")
        return _model(row) | {"lasting": lasting}

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
        filters = ((models.c.algorithm, algorithm), (models.c.dataset, dataset), (models.c.name, name))
        where = [column == value for column, value in filters if value is not None]
        where += [] if cursor is None else [models.c.id < cursor]
        ids = select(models.c.id).where(*where).order_by(models.c.id.desc())
        if wanted is not None:  # found through the index of the jobs, however few models have the state
            ids = select(jobs.c.resource).join(models, models.c.id == jobs.c.resource)
            ids = ids.where(jobs.c.state == wanted, *where).order_by(jobs.c.resource.desc())
            ids = ids if cursor is None else ids.where(jobs.c.resource < cursor)
        with self.db.read() as c:
            found = list(c.execute(ids.limit(limit + 1)).scalars())
            shown = _query().where(models.c.id.in_(found[:limit])).order_by(models.c.id.desc())
            shown = shown if wanted is None else shown.where(jobs.c.state == wanted)
            items = [_model(row) for row in c.execute(shown).mappings()]
        return Page(items, found[limit - 1] if len(found) > limit else None)

    def change(self, model_id: str, values: Json, revision: int | None) -> None:
        """Change labels or name; Stale when the revision differs."""
        where = [models.c.id == model_id] + ([] if revision is None else [models.c.revision == revision])
        with self.db.write() as c:
            done = c.execute(update(models).where(*where).values(revision=models.c.revision + 1, **values))
        if not done.rowcount:
            raise Stale(f"model {model_id} has changed since that version")

    def remove(self, model_id: str) -> None:
        """Delete the record; its job stays as history. Conflict while an alias points at it."""
        with catalogue_write(self.db) as c:
            names = c.execute(select(aliases.c.name).where(aliases.c.model == model_id).order_by(aliases.c.name))
            if found := list(names.scalars()):
                raise Conflict(f"alias {', '.join(found)} points at model {model_id}; move or delete the alias first")
            c.execute(delete(models).where(models.c.id == model_id))

    def present(self, ids: Collection[str]) -> set[str]:
        """Those of the ids that are still models."""
        with self.db.read() as c:
            return set(c.execute(select(models.c.id).where(models.c.id.in_(ids))).scalars()) if ids else set()

    def epoch(self) -> str | None:
        """A token that changes whenever a model is deleted or an alias moves, in any process."""
        return catalogue(self.db)

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
