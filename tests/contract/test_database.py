"""What a database that refuses, is full or is busy means to callers, and that a look at the clock can use an index."""

from __future__ import annotations

import pytest
import sqlalchemy
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection

from service.adapters import figures, watch
from service.adapters.database import Database, Now, translated
from service.adapters.figures import SqlFigures
from service.adapters.job_tables import jobs
from service.adapters.ledger import SqlLedger
from service.adapters.models import SqlModels
from service.errors import Invalid, NotFound, NotReady, StorageFull
from service.settings import Settings
from tests.contract.ledgers import NEW, eventually


class Refusal(Exception):
    """What a driver raises."""

    sqlstate = "53100"


def test_a_text_that_the_database_cannot_hold_is_the_callers_mistake(db: Database) -> None:
    with pytest.raises((NotFound, Invalid)) as refused:
        SqlModels(db).get("a\0b")
    assert db.dialect == "sqlite" or "NUL" in str(refused.value)


def test_no_free_connection_is_not_ready() -> None:
    with pytest.raises(NotReady, match="in use"), translated():
        raise NoConnection("QueuePool limit of size 20 overflow 20 reached")


@pytest.mark.parametrize(
    ("cause", "meaning"),
    [
        (Exception("database or disk is full"), StorageFull),
        (Refusal("could not extend file: No space left on device"), StorageFull),
        (Exception('connection to server at "fulltext.example" failed'), NotReady),
    ],
)
def test_only_a_full_disk_is_full(cause: Exception, meaning: type[Exception]) -> None:
    with pytest.raises(meaning), translated():
        raise OperationalError("SELECT 1", {}, cause)


def test_a_server_that_became_read_only_is_left_for_another(db: Database) -> None:
    """As after a fail-over: SQLSTATE 25006 is "come again", and the connection to the old server is given up."""
    if db.dialect == "sqlite":
        return  # there is no other server
    backend = sqlalchemy.text("SELECT pg_backend_pid()")
    with db.read() as connection:
        before = connection.execute(backend).scalar_one()

    def refused() -> None:
        with db.write() as connection:
            assert connection.execute(backend).scalar_one() == before
            connection.execute(sqlalchemy.text("SET TRANSACTION READ ONLY"))
            connection.execute(sqlalchemy.update(jobs).values(state="queued"))

    with pytest.raises(NotReady, match=r"takes no writes now.*read-only transaction"):
        refused()
    with db.read() as connection:
        assert connection.execute(backend).scalar_one() != before
    SqlLedger(db, Settings()).put(NEW)


def test_a_mistake_in_a_statement_is_no_outage(db: Database) -> None:
    with pytest.raises(sqlalchemy.exc.IntegrityError), db.write() as connection:
        connection.execute(sqlalchemy.text("INSERT INTO facts (name) VALUES ('x')"))


def test_what_ended_since_a_moment_is_found_by_the_index(db: Database) -> None:
    if db.dialect == "sqlite":
        return  # the clock is a constant of the statement there
    late = sqlalchemy.select(jobs.c.id).where(jobs.c.finished > Now() - 60.0)
    with db.write() as connection:
        connection.execute(sqlalchemy.text("SET LOCAL enable_seqscan = off"))
        text = str(late.compile(db.engine, compile_kwargs={"literal_binds": True}))
        plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {text}").scalars())
    assert "Index Cond: (finished >" in plan


def test_every_end_is_told_once_however_many_there_are(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MOST", 3)
    told, ledger = SqlFigures(db), SqlLedger(db, Settings())
    assert told.ended() == []
    for batch in (7, 5, 3, 0, 1):
        for _ in range(batch):
            ledger.cancel(ledger.put(NEW).id)
        assert [end["state"] for end in told.ended()] == ["cancelled"] * batch
    for _ in range(7):
        ledger.cancel(ledger.put(NEW).id)
    with db.write() as connection:
        connection.execute(sqlalchemy.update(jobs).values(finished=sqlalchemy.select(Now()).scalar_subquery()))
    assert len(told.ended()) == 7, "though all ended at the same moment"


def test_a_watch_outlives_a_moment_without_connections(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    if db.dialect == "sqlite":
        return  # nothing listens there
    real, calls = watch._driver, []

    def driver(engine: sqlalchemy.Engine) -> object:
        if engine is not db.engine:
            return real(engine)  # of another test's services, which end in their own time
        calls.append(engine)
        if len(calls) == 1:
            raise NoConnection("QueuePool limit of size 20 overflow 20 reached")
        return real(engine)

    def heard() -> bool:
        try:
            return db.version() > 0
        except NotReady:
            return False

    monkeypatch.setattr(watch, "_driver", driver)
    eventually(heard)
    assert len(calls) == 2
