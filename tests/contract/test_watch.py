"""Hearing of commits on both databases: the descriptor wakes, a cut connection is made again, deafness is noticed."""

from __future__ import annotations

import ctypes
import os
import select
import threading
import time
from contextlib import closing, suppress

import pytest
import sqlalchemy

from service.adapters import watch
from service.adapters.database import RESTED_SECONDS, Database, connect
from service.adapters.ledger import SqlLedger
from service.adapters.migrations import migrate
from service.adapters.watch import FileWatch
from service.errors import NotReady
from service.settings import Settings
from tests.contract.ledgers import NEW, claim, eventually


def test_the_descriptor_is_readable_after_a_commit_elsewhere(db: Database) -> None:
    elsewhere = connect(db.engine.url.render_as_string(hide_password=False))
    descriptor, before = db.fileno(), db.version()
    eventually(lambda: not select.select([descriptor], [], [], 0)[0] or db.version() is None)
    before = db.version()
    SqlLedger(elsewhere, Settings()).put(NEW)
    assert select.select([descriptor], [], [], 10.0)[0] == [descriptor]
    eventually(lambda: db.version() != before)
    eventually(lambda: not select.select([descriptor], [], [], 0)[0] or db.version() is None)
    elsewhere.close()


def test_a_quiet_write_wakes_nobody(db: Database) -> None:
    if db.dialect == "sqlite":
        return  # every commit can be seen there
    before = db.version()
    with db.write(tell=None) as connection:
        connection.execute(sqlalchemy.text("SELECT 1"))
    with db.write() as connection:
        connection.execute(sqlalchemy.text("SELECT 1"))
    eventually(lambda: db.version() != before)
    assert db.version() == before + 1


def test_runners_sleep_while_progress_and_ends_are_written(db: Database) -> None:
    if db.dialect == "sqlite":
        return  # every commit can be seen there
    ledger = SqlLedger(db, Settings())
    url = db.engine.url.render_as_string(hide_password=False)
    with closing(connect(url, work=True)) as runner, closing(connect(url)) as server:
        before, heard = server.version(), runner._watching()
        assert runner.version() == 1, "the proof that notifications arrive"
        ledger.put(NEW)
        held = claim(ledger)
        for step in range(9):
            assert ledger.report(held, {"step": step})
        ledger.release([held])
        held = claim(ledger)
        assert ledger.finish(held, "succeeded", result={})
        asked = runner.cancels()
        ledger.cancel(ledger.put(NEW).id)
        eventually(lambda: runner.cancels() == asked + 1)
        eventually(lambda: server.version() > before)
        eventually(lambda: heard._notifications >= 5)  # type: ignore[union-attr]
        assert heard._notifications == 5  # type: ignore[union-attr]


def test_a_request_to_cancel_is_told_apart_from_new_work_or_looked_for(db: Database) -> None:
    ledger = SqlLedger(db, Settings())
    with closing(connect(db.engine.url.render_as_string(hide_password=False), work=True)) as runner:
        runner.version()
        before = runner.cancels()
        job = ledger.put(NEW)
        if db.dialect == "postgresql":
            eventually(lambda: runner.version() > 1)
            assert runner.cancels() == before
        ledger.cancel(job.id)
        eventually(lambda: (runner.version(), runner.cancels())[1] != before)


def test_a_connection_that_rested_is_proved_and_one_in_use_is_not(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    if db.dialect == "sqlite":
        return  # a file closes no connections
    pings = []
    ping = db.engine.dialect.do_ping
    monkeypatch.setattr(db.engine.dialect, "do_ping", lambda driver: (pings.append(1), ping(driver))[1])

    def backend() -> int:
        with db.read() as connection:
            return connection.execute(sqlalchemy.text("SELECT pg_backend_pid()")).scalar_one()

    first = backend()
    for _ in range(50):
        backend()
    assert len(pings) <= 2
    with closing(connect(db.engine.url.render_as_string(hide_password=False))) as other, other.read() as connection:
        connection.execute(sqlalchemy.text(f"SELECT pg_terminate_backend({first})"))
    time.sleep(RESTED_SECONDS)
    assert backend() != first


def test_a_database_that_says_nothing_holds_nobody_up(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    if db.dialect == "sqlite":
        return  # nothing is connected to
    silent = threading.Event()
    real = watch._driver

    def driver(engine: sqlalchemy.Engine) -> object:
        silent.wait(60)
        return real(engine)

    monkeypatch.setattr(watch, "_driver", driver)
    monkeypatch.setattr(watch, "OPEN_SECONDS", 0.05)
    for _ in range(3):
        with pytest.raises(NotReady, match="has not answered yet"):
            db.version()
    silent.set()

    def heard() -> bool:
        try:
            return db.version() > 0
        except NotReady:
            return False

    eventually(heard)


def test_a_cut_connection_is_made_again_and_what_was_missed_is_not_lost(db: Database) -> None:
    if db.dialect == "sqlite":
        return  # there is no connection to cut
    before = db.version()
    name = db.engine.url.query["application_name"]
    cut = sqlalchemy.text(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE application_name = :name AND pid <> pg_backend_pid()"
    )
    with db.read() as connection:
        assert connection.execute(cut, {"name": name}).scalar_one() >= 1

    def moved() -> bool:
        try:
            return db.version() != before
        except NotReady:
            return False

    eventually(moved)
    before = db.version()
    SqlLedger(db, Settings()).put(NEW)
    eventually(lambda: db.version() != before)


def test_where_notifications_do_not_arrive_the_snapshot_is_looked_at(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    if db.dialect == "sqlite":
        return  # no notifications there
    monkeypatch.setattr(watch, "CHANNEL", "'postfit_elsewhere'")
    monkeypatch.setattr(watch, "PROOF_SECONDS", 0.01)
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.01)
    before = db.version()
    SqlLedger(db, Settings()).put(NEW)
    eventually(lambda: db.version() != before)
    assert db.version() != before


def test_without_inotify_there_is_no_descriptor_but_a_version(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    if db.dialect != "sqlite":
        return
    migrate(db)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: _NoInotify)
    seen = FileWatch(db.engine)
    assert seen.fileno() == -1
    before = seen.version()
    SqlLedger(db, Settings()).put(NEW)
    assert seen.version() != before
    seen.close()


class _NoInotify:
    @staticmethod
    def inotify_init1(flags: int) -> int:
        return -1


def _descriptors() -> list[str]:
    """Those of sockets, events and inotify; SQLite itself may keep those of files for a while."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(link for link in links if not link.startswith("/"))


def test_closing_gives_back_every_descriptor(db: Database) -> None:
    before = _descriptors()
    other = connect(db.engine.url.render_as_string(hide_password=False))
    assert (other.fileno(), other.version()) > (0, -1)
    other.close()
    assert _descriptors() == before
