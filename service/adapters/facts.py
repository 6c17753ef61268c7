"""Facts that every process of one service must agree on, as JSON under a name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import JSON, Column, Connection, Double, String, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from service.adapters.database import Database, Now, metadata
from service.adapters.postgres import pooled
from service.adapters.watch import POLL_SECONDS
from service.ids import new_id

facts = Table(
    "facts",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("value", JSON, nullable=False),
    Column("updated", Double, nullable=False),
)
INSERT: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
CATALOGUE = "catalogue"
HEARD_SECONDS = 0.05  # PostgreSQL's notification takes about 1 ms; so long is waited before the change is confirmed


def tell(connection: Connection, name: str, value: Any) -> None:
    """Write a fact; its row stays locked until the transaction ends, so writers of one fact queue for it."""
    values = {"value": value, "updated": Now()}
    new = INSERT[connection.dialect.name](facts).values(name=name, **values)
    connection.execute(new.on_conflict_do_update(index_elements=["name"], set_=values))


def tell_once(db: Database, name: str, value: Any) -> Any:
    """Write a fact that nobody told yet; returns what it is now, of many tellers the first one's value."""
    new = INSERT[db.dialect](facts).values(name=name, value=value, updated=Now()).on_conflict_do_nothing()
    with db.write(tell=None) as connection:
        connection.execute(new)
        return connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar_one()


def ask(db: Database, name: str) -> Any:
    """The value of a fact; None where nobody told it."""
    with db.read() as connection:
        return connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar_one_or_none()


@contextmanager
def catalogue_write(db: Database) -> Iterator[Connection]:
    """A transaction that takes away or moves a model, an alias or a key, which every process holds copies of.

    Such changes happen one after another: whoever comes first holds the row until its transaction ends.
    """
    with db.write() as connection:
        tell(connection, CATALOGUE, new_id("chg"))
        yield connection
        looked_for = pooled(connection.connection.driver_connection)
    if db.dialect == "postgresql":  # on SQLite the next look of any process sees the commit
        time.sleep(HEARD_SECONDS + POLL_SECONDS * looked_for)


def catalogue(db: Database) -> str | None:
    """A token that is another one after each such change."""
    return ask(db, CATALOGUE)
