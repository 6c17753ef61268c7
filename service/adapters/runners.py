"""The runners that are at work, as rows that they renew with their leases."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Column, Double, Integer, String, Table, delete, insert, select, update

from service.adapters.database import Database, Now, metadata
from service.ports import RunnerFacts
from service.settings import Settings

runners = Table(
    "runners",
    metadata,
    Column("owner", String(120), primary_key=True),
    Column("host", String(120), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", String(40), nullable=False),
    Column("slots", Integer, nullable=False),
    Column("busy", Integer, nullable=False),
    Column("state", String(300), nullable=False),
    Column("started", Double, nullable=False),
    Column("beat", Double, nullable=False, index=True),
)
KEPT_LEASES = 20.0  # a silent runner's row is dropped after so many leases


class SqlRunners:
    """Presence of runners, by the database's clock."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self.db = db
        self._lease = settings.lease_seconds

    def beat(self, facts: RunnerFacts) -> None:
        """Write the row, and drop those of runners that fell silent long ago."""
        values = asdict(facts)
        with self.db.write(tell=None) as c:
            known = c.execute(update(runners).where(runners.c.owner == facts.owner).values(**values, beat=Now()))
            if not known.rowcount:
                c.execute(insert(runners).values(**values, started=Now(), beat=Now()))
                c.execute(delete(runners).where(runners.c.beat < Now() - KEPT_LEASES * self._lease))

    def leave(self, owner: str) -> None:
        """Remove the row of a runner that ends."""
        with self.db.write() as c:
            c.execute(delete(runners).where(runners.c.owner == owner))

    def alive(self) -> list[RunnerFacts]:
        """The runners that wrote within one lease."""
        columns = [c for c in runners.c if c.name not in ("started", "beat")]
        fresh = select(*columns).where(runners.c.beat > Now() - self._lease).order_by(runners.c.owner)
        with self.db.read() as c:
            return [RunnerFacts(**row) for row in c.execute(fresh).mappings()]
