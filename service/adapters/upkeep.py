"""What the stores keep that nothing needs any more: who asks for a sweep, what is named, what is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, delete, exists, or_, select, update

from service.adapters.access import answers
from service.adapters.database import Database, Now
from service.adapters.datasets import datasets, hold
from service.adapters.facts import INSERT, facts
from service.adapters.job_tables import jobs
from service.adapters.model_tables import models
from service.adapters.runners import KEPT_LEASES, runners
from service.errors import QueueFull
from service.ids import new_id
from service.ports import TERMINAL, Ledger, Limits, NewJob
from service.settings import Settings

SWEEP = "sweep"
BETWEEN_SECONDS = 3600.0
ANSWER_SECONDS = 24 * 3600.0
DAY = 24 * 3600.0
BATCH = 1000  # rows of one transaction, so that nobody waits long for it
PRIORITY = -3  # fits of up to half an hour later go first


class Upkeep:
    """The database's side of housekeeping."""

    def __init__(self, db: Database, ledger: Ledger, settings: Settings) -> None:
        self.db = db
        self._ledger = ledger
        self._settings = settings

    def ask(self) -> bool:
        """Queue a sweep unless somebody did within the hour or one is under way; whoever asks, one job results."""
        if self._too_soon() or not self._mark():
            return False
        limits = Limits(self._settings.wall_seconds, self._settings.memory_bytes, 1)
        try:
            self._ledger.put(NewJob(SWEEP, new_id("swp"), {}, "long", limits, PRIORITY))
        except QueueFull:
            with self.db.write() as c:  # the next one to ask may
                c.execute(delete(facts).where(facts.c.name == SWEEP))
            return False
        return True

    def _too_soon(self) -> bool:
        lately = select(facts.c.name).where(facts.c.name == SWEEP, facts.c.updated > Now() - BETWEEN_SECONDS)
        active = select(jobs.c.id).where(jobs.c.kind == SWEEP, jobs.c.state.in_(("queued", "running")))
        with self.db.read() as c:
            return any(c.execute(query.limit(1)).first() for query in (lately, active))

    def _mark(self) -> bool:
        """The one conditional write that only one of many askers gets through."""
        due = update(facts).where(facts.c.name == SWEEP, facts.c.updated <= Now() - BETWEEN_SECONDS)
        first = INSERT[self.db.dialect](facts).values(name=SWEEP, value={}, updated=Now()).on_conflict_do_nothing()
        made = first.returning(facts.c.name)  # the count of rows is not told of an insert on every database
        with self.db.write() as c:
            return bool(c.execute(due.values(updated=Now())).rowcount or c.execute(made).first() is not None)

    def unnamed(self, keys: Sequence[str]) -> list[str]:
        """Those of the object keys that no dataset, model or unfinished job names."""
        with self.db.read() as c:
            named = _named(c, keys)
        return [key for key in keys if key not in named]

    def remove(self, key: str, remove: Callable[[str], None]) -> bool:
        """Remove the object while nobody can come to name it; False when somebody does.

        A dataset that is added meanwhile waits, then finds its table gone and stores it again.
        """
        with self.db.write() as c:
            if key.startswith("tables/"):
                hold(c)
            if _named(c, [key]):
                return False
            remove(key)
        return True

    def forget_jobs(self) -> int:
        """Delete, with their attempts, jobs that ended long ago and whose resource is gone; returns how many."""
        made = [exists().where(table.c.id == jobs.c.resource) for table in (models, datasets)]
        return self._forget(
            jobs, jobs.c.id, jobs.c.finished < Now() - self._settings.retention_days * DAY,
            jobs.c.state.in_(TERMINAL), ~or_(*made),
        )  # fmt: skip

    def forget_answers(self) -> int:
        """Delete answers to idempotency keys after a day."""
        return self._forget(answers, answers.c.key, answers.c.created < Now() - ANSWER_SECONDS)

    def forget_runners(self) -> int:
        """Delete the rows of runners that fell silent long ago."""
        return self._forget(
            runners, runners.c.owner, runners.c.beat < Now() - KEPT_LEASES * self._settings.lease_seconds
        )

    def _forget(self, table: Table, key: ColumnElement[Any], *where: ColumnElement[bool]) -> int:
        total = 0
        while True:
            some = select(key).where(*where).limit(BATCH)
            with self.db.write() as c:
                done = c.execute(delete(table).where(key.in_(some))).rowcount
            total += done
            if done < BATCH:
                return total


def _named(c: Connection, keys: Sequence[str]) -> set[str]:
    """Of `tables/<sha256>.parquet`, `models/<model>/…`, `spread/<job>/…` those in use; other keys count as in use."""
    tables = {key.removeprefix("tables/").partition(".")[0]: key for key in keys if key.startswith("tables/")}
    makers: dict[str, list[str]] = {}
    for key in keys:
        if key.startswith("models/") and key.count("/") > 1:
            makers.setdefault(key.split("/")[1], []).append(key)
    spread = {key: key.split("/")[1] for key in keys if key.startswith("spread/") and key.count("/") > 1}
    used = c.execute(select(datasets.c.sha256).where(datasets.c.sha256.in_(tables))).scalars()
    known = {*tables.values(), *spread, *(key for group in makers.values() for key in group)}
    return (
        {key for key in keys if key not in known}
        | {tables[sha] for sha in used}
        | _of_models(c, makers)
        | _of_spread_fits(c, spread)
    )


def _of_spread_fits(c: Connection, spread: Mapping[str, str]) -> set[str]:
    """The keys whose job has not ended."""
    going = select(jobs.c.id).where(jobs.c.id.in_(spread.values()), jobs.c.state.not_in(TERMINAL))
    busy = set(c.execute(going).scalars())
    return {key for key, job in spread.items() if job in busy}


def _of_models(c: Connection, makers: dict[str, list[str]]) -> set[str]:
    """All keys of what a job still works on; of what is made those that its record or a job's result spells out.

    Results outlive a missing record: who deletes a model empties the results of its jobs in the same transaction.
    """
    working = select(jobs.c.resource).where(jobs.c.resource.in_(makers), jobs.c.state.not_in(TERMINAL))
    named = {key for made in c.execute(working).scalars() for key in makers[made]}
    records = select(models.c.id, models.c.record.label("said")).where(models.c.id.in_(makers))
    results = select(jobs.c.resource.label("id"), jobs.c.result.label("said")).where(jobs.c.resource.in_(makers))
    for query in (records, results.where(jobs.c.result.is_not(None))):
        for row in c.execute(query):
            said = msgspec.json.encode(row.said).decode()
            named |= {key for key in makers[row.id] if key in said}
    return named
