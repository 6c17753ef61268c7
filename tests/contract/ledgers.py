"""Ledgers to test: the same contract on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy

from service.adapters.database import Database, connect
from service.adapters.job_tables import jobs
from service.adapters.ledger import SqlLedger
from service.adapters.memory import MemoryLedger
from service.adapters.migrations import migrate
from service.ports import Claim, Ledger, Limits, NewJob
from service.settings import Settings

POSTGRES = "postgresql+psycopg://postgres@127.0.0.1:5432/test"
LIMITS = Limits(wall_seconds=60.0, memory_bytes=1 << 30, cores=1)
NEW = NewJob("fit", "mdl_1", {"alpha": 1.5, "name": "ä\u2028"}, "long", LIMITS)
Make = Callable[..., Ledger]


def without_postgres() -> str | None:
    """Why PostgreSQL is not tested here, or None when it is."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg (extra [postgres]) is not installed"
    engine = sqlalchemy.create_engine(POSTGRES, connect_args={"connect_timeout": 2})
    try:
        engine.connect().close()
    except sqlalchemy.exc.OperationalError as failed:
        return f"no PostgreSQL server answers: {failed.orig}"
    finally:
        engine.dispose()
    return None


@contextmanager
def postgres_schema() -> Iterator[str]:
    """URL of a fresh schema that is dropped afterwards."""
    name = f"ledger_{uuid4().hex}"
    engine = sqlalchemy.create_engine(POSTGRES, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE SCHEMA {name}"))
        try:
            yield f"{POSTGRES}?options=-csearch_path%3D{name}&application_name={name}"
        finally:
            connection.execute(sqlalchemy.text(f"DROP SCHEMA {name} CASCADE"))
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        opened = connect(f"sqlite:///{tmp_path / 'deep' / 'service.db'}")
        migrate(opened)
        yield opened
        opened.close()
        return
    if reason := without_postgres():
        pytest.skip(reason)
    with postgres_schema() as url:
        opened = connect(url)
        migrate(opened)
        yield opened
        opened.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes ledgers on one store with given settings."""
    if request.param == "memory":
        yield lambda **kw: MemoryLedger(Settings(data=tmp_path, **kw))
        return
    if request.param == "postgresql" and (reason := without_postgres()):
        pytest.skip(reason)
    with postgres_schema() if request.param == "postgresql" else _file(tmp_path) as url:
        opened = connect(url)
        migrate(opened)
        yield lambda **kw: SqlLedger(opened, Settings(data=tmp_path, **kw))
        opened.close()


@contextmanager
def _file(folder: Path) -> Iterator[str]:
    yield f"sqlite:///{folder / 'service.db'}"


def eventually(probe: Callable[[], object], seconds: float = 10.0) -> object:
    """The first true value of the probe; fails after the deadline, which no passing test comes near."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := probe():
            return value
    raise AssertionError("did not happen in time")


def claim(ledger: Ledger, owner: str = "A", lane: str = "long") -> Claim:
    """One claim, waiting out the back-off of an earlier attempt."""
    return eventually(lambda: ledger.claim(owner, {lane: 1}))[0]  # type: ignore[index, dict-item]


def claim_of(ledger: Ledger) -> Claim:
    """A fresh job, claimed by A."""
    ledger.put(NEW)
    return claim(ledger)


def hurry(ledger: Ledger) -> None:
    """End every back-off now."""
    if isinstance(ledger, MemoryLedger):
        for row in ledger._rows.values():
            row.run_after = 0.0
    elif isinstance(ledger, SqlLedger):
        with ledger.db.write() as connection:
            connection.execute(sqlalchemy.update(jobs).values(run_after=0.0))
