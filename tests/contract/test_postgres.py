"""What stands between the service and PostgreSQL: a server that freezes with its connections open, a pooler."""

from __future__ import annotations

import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlalchemy

from service.adapters import postgres, watch
from service.adapters.database import Database, connect
from service.adapters.facts import catalogue_write
from service.adapters.ledger import SqlLedger
from service.adapters.migrations import migrate
from service.adapters.postgres import patient, pooled
from service.errors import NotReady
from service.settings import Settings
from tests.contract.ledgers import NEW, POSTGRES, eventually, postgres_schema, without_postgres

PROCESS = re.compile(rb"(K\0\0\0[\x0c-\xff]).{4}", re.DOTALL)  # BackendKeyData
SLEEP = sqlalchemy.text("SELECT pg_sleep(0.6)")


class Line:
    """The way to the server: it takes connections and, unless it is frozen, carries what is sent.

    As a `pooler` it tells its clients another process id than the server's.
    """

    def __init__(self, pooler: bool = False) -> None:
        self._pooler = pooler
        self._ends: list[socket.socket] = []
        self.flows = threading.Event()
        self.flows.set()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._open, daemon=True).start()

    def _open(self) -> None:
        while True:
            try:
                near = self._door.accept()[0]
            except OSError:
                return
            server = sqlalchemy.make_url(POSTGRES)
            far = socket.create_connection((server.host, server.port))
            self._ends += [near, far]
            for pair in ((near, far, False), (far, near, self._pooler)):
                threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, invents: bool) -> None:
        try:
            while data := source.recv(65_536):
                self.flows.wait()
                if invents:
                    data, found = PROCESS.subn(lambda m: m[1] + b"\0\0\0\7", data, count=1)
                    invents = not found
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def close(self) -> None:
        """Let everything through and end."""
        self.flows.set()
        for end in (self._door, *self._ends):
            end.close()


@pytest.fixture
def line() -> Iterator[Line]:
    with closing(Line()) as made:
        yield made


@pytest.fixture
def far(line: Line, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A database behind the line, given up after 0.3 s of silence."""
    if reason := without_postgres():
        pytest.skip(reason)
    monkeypatch.setattr(postgres, "SILENT_SECONDS", 0.3)
    with postgres_schema() as url, closing(connect(url.replace(":5432/", f":{line.port}/"))) as db:
        migrate(db)
        yield db
        line.flows.set()


def test_a_statement_does_not_wait_for_a_frozen_server(line: Line, far: Database) -> None:
    ledger = SqlLedger(far, Settings())
    job = ledger.put(NEW)
    for asked in (lambda: ledger.get(job.id), lambda: ledger.cancel(job.id)):
        line.flows.clear()
        began = time.monotonic()
        with pytest.raises(NotReady, match="said nothing"):
            asked()
        assert time.monotonic() - began < 5.0
        line.flows.set()
        assert ledger.get(job.id).id == job.id


def test_what_may_take_long_does(far: Database) -> None:
    with far.write() as connection, patient(connection):
        connection.execute(SLEEP)
    with pytest.raises(NotReady, match="said nothing"), far.write() as connection:
        connection.execute(SLEEP)


def test_who_only_listens_hears_that_the_server_froze_and_that_it_is_back(
    line: Line, far: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "PROVE_SECONDS", 0.1)

    def known() -> bool:
        try:
            return far.version() > 0
        except NotReady:
            return False

    eventually(known)
    line.flows.clear()
    eventually(lambda: not known())
    assert not known(), "while it is frozen"
    line.flows.set()
    eventually(known)
    assert far.version() > 0


def test_what_was_told_and_did_not_arrive_is_looked_for(far: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PROVE_SECONDS", 0.1)
    before, asked = far.version(), far.cancels()
    assert select.select([far.fileno()], [], [], 10.0)[0]
    eventually(lambda: far.version() > before)
    eventually(lambda: far.cancels() > asked)


@pytest.fixture
def shared() -> Iterator[Database]:
    """A database behind a pooler."""
    if reason := without_postgres():
        pytest.skip(reason)
    with (
        closing(Line(pooler=True)) as line,
        postgres_schema() as url,
        closing(connect(url.replace(":5432/", f":{line.port}/"))) as db,
    ):
        migrate(db)
        yield db


def test_behind_a_pooler_nothing_is_left_at_the_server(shared: Database) -> None:
    ledger, left = SqlLedger(shared, Settings()), sqlalchemy.text("SELECT count(*) FROM pg_prepared_statements")
    shared.version()
    job = ledger.put(NEW)
    for _ in range(9):
        ledger.get(job.id)
    for _ in range(20):
        with shared.read() as connection:
            assert pooled(connection.connection.driver_connection)
            assert connection.execute(left).scalar_one() == 0
    listening = sqlalchemy.text(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = :me AND query LIKE 'LISTEN%'"
    )
    with shared.read() as connection:
        assert connection.execute(listening, {"me": shared.engine.url.query["application_name"]}).scalar_one() == 0


def test_behind_a_pooler_commits_are_looked_for_and_changes_of_the_catalogue_wait_for_that(
    shared: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(connect(shared.engine.url.render_as_string(hide_password=False), work=True)) as other:
        before, asked = other.version(), other.cancels()
        SqlLedger(shared, Settings()).put(NEW)
        eventually(lambda: other.version() > before)
        eventually(lambda: other.cancels() > asked)
        for _ in range(3):
            before = other.version()
            with catalogue_write(shared):
                pass
            assert other.version() > before, "whoever asks after the change was confirmed sees it"


def test_a_direct_connection_is_no_pooler(db: Database) -> None:
    with db.read() as connection:
        assert not pooled(connection.connection.driver_connection)
