"""Bringing a database to the schema of this version; the revisions are the files of `service/migrations`.

`migrate` at every start costs one SELECT when nothing is to do. Otherwise one process upgrades, under a lock and in one
transaction, while the others wait for it; there is no way back but a backup.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sqlalchemy import inspect, text
from sqlalchemy.exc import ProgrammingError

from service.adapters.database import Database
from service.errors import NotReady

log = logging.getLogger("postfit.migrations")
SCRIPTS = Path(__file__).parent.parent / "migrations"
TABLE = "alembic_version"
REVISION = text("SELECT version_num FROM alembic_version")


def revisions() -> list[str]:
    """The revisions that this version of the service knows, oldest first."""
    return sorted(script.stem[1:5] for script in SCRIPTS.glob("r[0-9]*.py"))


def current(db: Database) -> str:
    """The revision of the database; "" when it has none. NotReady when it cannot be reached."""
    try:
        with db.read() as connection:
            return str(connection.execute(REVISION).scalar() or "")
    except (ProgrammingError, NotReady):
        with db.read() as connection:
            if inspect(connection).has_table(TABLE):
                raise
        return ""


def migrate(db: Database) -> tuple[str, str]:
    """Upgrade to the newest revision; returns the revisions before and after ("" is an empty database).

    NotReady when a newer version of the service wrote the database, ServiceError when an unreleased one did.
    """
    before = current(db)
    if before == revisions()[-1]:
        return before, before
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of every plugin when it is imported
    from service.adapters.upgrade import upgrade  # noqa: PLC0415 - alembic takes 0.2 s and is seldom needed

    done = upgrade(db, revisions())
    log.info("the database went from revision %s to %s", *(name or "none" for name in done))
    return done
