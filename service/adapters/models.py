"""Records of models: what was asked, joined with the newest job that makes it. State and result are the job's."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from service.adapters.database import Database, Now
from service.adapters.datasets import datasets
from service.adapters.facts import catalogue, catalogue_write
from service.adapters.job_tables import jobs, needed
from service.adapters.model_tables import aliases, models
from service.errors import Conflict, NotFound, Stale
from service.ports import Json, NewModel, Page

STATE = {"succeeded": "ready"}
VERSION = re.compile(r"[0-9]{1,9}")


class SqlModels:
    """Models by id, alias, name or name@version."""

    def __init__(self, db: Database) -> None:
        self.db = db

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

    def remove(self, model_id: str, allowed: Callable[[Json], object] = lambda row: None) -> Json:
        """Delete the record and what its job says of the product; the job stays as history. Returns what there was.

        `allowed` sees the model as it is when it goes, and raises to keep it. NotFound; Conflict while its job or one
        that needs it is under way, or an alias points at it.
        """
        with catalogue_write(self.db) as c:
            c.execute(select(models.c.id).where(models.c.id == model_id).with_for_update())
            row = c.execute(_query().where(models.c.id == model_id)).mappings().one_or_none()
            if row is None:
                raise NotFound(f"there is no model {model_id!r}")
            allowed(model := _model(row))
            _check_unused(c, model)
            c.execute(delete(models).where(models.c.id == model_id))
            c.execute(update(jobs).where(jobs.c.resource == model_id).values(result=None))
        return model

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


def add_model(c: Connection, model_id: str, new: NewModel) -> None:
    """Store the record of a new model under the next version of its name, in the transaction that makes its job.

    Until it ends, others who want a version of the name wait.
    """
    if c.dialect.name == "postgresql":
        c.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"versions of {new.name}", 0))))
    newest = c.execute(select(func.max(models.c.version)).where(models.c.name == new.name)).scalar_one()
    c.execute(
        insert(models).values(
            id=model_id, name=new.name, version=int(newest or 0) + 1, algorithm=new.record["estimator"]["algorithm"],
            dataset=new.record["dataset"], labels=new.record.get("labels") or {}, record=new.record, created=Now(),
            revision=1,
        )
    )  # fmt: skip


def hold_needs(c: Connection, needs: Collection[str]) -> None:
    """Keep datasets and models from being deleted until this transaction ends; NotFound where one is gone.

    The job that needs them is in the transaction, so who deletes one waits and then sees the job.
    """
    for table, prefix in ((datasets, "ds_"), (models, "mdl_")):
        wanted = {key for key in needs if key.startswith(prefix)}
        if wanted:
            held = select(table.c.id).where(table.c.id.in_(wanted)).with_for_update(read=True, key_share=True)
            if gone := wanted - set(c.execute(held).scalars()):
                raise NotFound(f"{', '.join(sorted(gone))} was deleted meanwhile")


def _check_unused(c: Connection, model: Json) -> None:
    key = model["id"]
    if model["job"] and model["state"] in ("queued", "running"):
        raise Conflict(f"model {key} is {model['state']}; cancel job {model['job']} first")
    if needed(c, key):
        raise Conflict(f"a queued or running job needs model {key}; cancel it or wait")
    found = list(c.execute(select(aliases.c.name).where(aliases.c.model == key).order_by(aliases.c.name)).scalars())
    if found:
        raise Conflict(f"alias {', '.join(found)} points at model {key}; move or delete the alias first")


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
