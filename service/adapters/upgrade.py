"""The upgrade itself, apart from `migrations` because only a database that is behind needs alembic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from service.adapters import access, aliases, datasets, facts, job_tables, models, runners
from service.adapters.database import Database, metadata, translated
from service.adapters.migrations import REVISION, SCRIPTS, TABLE
from service.adapters.postgres import patient
from service.errors import NotReady, ServiceError

LOCK = 0x706F7374
TABLES = (access, aliases, datasets, facts, job_tables, models, runners)
"""The files that place tables on `metadata`: imported here, all of them are."""


def upgrade(db: Database, known: Sequence[str]) -> tuple[str, str]:
    """Run the missing revisions in one transaction; whoever comes second finds nothing to do."""
    with _alone(db) as connection:
        before = _before(connection)
        if before not in ("", *known):
            raise NotReady(  # not ServiceError: during a rolling upgrade the job belongs to a newer runner
                f"the database is at revision {before}, which a newer version of the service wrote; this one knows "
                f"{known[0]} to {known[-1]}. Install the newer version, or restore a backup from before its upgrade"
            )
        if before != known[-1]:
            _run(connection)
    return before, known[-1]


def begin_at(db: Database, revision: str) -> None:
    """Make the tables of an earlier revision in an empty database, for rows of its time."""
    with _alone(db) as connection:
        _run(connection, revision)


@contextmanager
def _alone(db: Database) -> Iterator[Connection]:
    """A write transaction that no other upgrade shares, with references unchecked while tables are copied."""
    with translated(), db.engine.connect() as connection:
        connection.execution_options(write=True)
        driver: Any = connection.connection.driver_connection
        if db.dialect == "sqlite":  # dropping the old copy of a table would else delete what refers to it
            driver.execute("PRAGMA foreign_keys=OFF")
        try:
            with connection.begin(), patient(connection):
                if db.dialect == "postgresql":
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
                yield connection
        finally:
            if db.dialect == "sqlite":
                driver.execute("PRAGMA foreign_keys=ON")


def _before(connection: Connection) -> str:
    """The revision, also of a database from before they were counted: that has the tables of 0001."""
    here = inspect(connection)
    if here.has_table(TABLE):
        return str(connection.execute(REVISION).scalar() or "")
    if not here.has_table("jobs"):
        return ""
    if "lost" in {column["name"] for column in here.get_columns("jobs")}:
        raise ServiceError(
            "the database has tables of an unreleased version and no revision; start with a new data folder"
        )
    return "0001"


def _run(connection: Connection, to: str = "head") -> None:
    """From the recorded revision, or from none: 0001 makes the tables that are not there yet."""
    scripts = ScriptDirectory(SCRIPTS, version_locations=[str(SCRIPTS)])
    with EnvironmentContext(Config(), scripts, fn=lambda at, _: scripts._upgrade_revs(to, at)) as steps:
        steps.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
        steps.run_migrations()
