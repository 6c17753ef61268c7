"""What an operator watches: the queue, and how jobs ended."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from sqlalchemy import func, select, tuple_

from service.adapters.database import Database, Now
from service.adapters.job_tables import jobs
from service.ports import Json

LATE_SECONDS = 60.0  # a commit may become visible so long after the time that it wrote
MOST = 5_000
REMEMBERED = 100_000


class SqlFigures:
    """Reads only unfinished jobs and those that ended since the last look, however many the ledger holds."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._since: float | None = None
        self._told: OrderedDict[str, None] = OrderedDict()

    def unfinished(self) -> list[Json]:
        """Jobs by state and lane: how many, and the seconds since the oldest was submitted."""
        waiting = (
            select(jobs.c.state, jobs.c.lane, func.count().label("jobs"),
                   (Now() - func.min(jobs.c.submitted)).label("oldest_seconds"))
            .where(jobs.c.state.in_(("queued", "running")))
            .group_by(jobs.c.state, jobs.c.lane)
        )  # fmt: skip
        with self.db.read() as connection:
            return [dict(row) for row in connection.execute(waiting).mappings()]

    def ended(self) -> list[Json]:
        """The jobs that ended since the last call, each once: kind, lane, state, code, seconds of work and of waiting.

        The first call only sets the beginning. Not for several threads at once.
        """
        with self.db.read() as connection:
            now = float(connection.execute(select(Now())).scalar_one())
            if self._since is None:
                self._since = now
                return []
        rows = list(self._after(self._since - LATE_SECONDS))
        self._since = now
        return [_ended(row) for row in rows if self._new(row["id"])]

    def _after(self, since: float) -> Iterator[Json]:
        """The jobs that ended after `since`, MOST at a time."""
        at, last = since, ""
        while True:
            query = (
                select(jobs.c.id, jobs.c.kind, jobs.c.lane, jobs.c.state, jobs.c.error, jobs.c.submitted,
                       jobs.c.started, jobs.c.finished)
                .where(jobs.c.finished >= at, tuple_(jobs.c.finished, jobs.c.id) > tuple_(at, last))
                .order_by(jobs.c.finished, jobs.c.id).limit(MOST)
            )  # fmt: skip
            with self.db.read() as connection:
                rows = [dict(row) for row in connection.execute(query).mappings()]
            yield from rows
            if len(rows) < MOST:
                return
            at, last = rows[-1]["finished"], rows[-1]["id"]

    def _new(self, job_id: str) -> bool:
        if job_id in self._told:
            return False
        self._told[job_id] = None
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        return True


def _ended(row: Json) -> Json:
    started = row["started"] or row["finished"]
    return {
        "kind": row["kind"], "lane": row["lane"], "state": row["state"], "code": (row["error"] or {}).get("code", ""),
        "run_seconds": max(0.0, row["finished"] - started), "wait_seconds": max(0.0, started - row["submitted"]),
    }  # fmt: skip
