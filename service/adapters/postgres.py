"""What a PostgreSQL may do to its connections: say nothing for long, or be a pooler that shares them out.

A server that is frozen, or whose disk is, keeps its connections open and its kernel acknowledges what is sent, so TCP
notices nothing and a statement would wait as long as the server sleeps: for ever, where a stand-by took over meanwhile.

Behind a pooler in transaction mode each transaction may have another server process, so nothing that lasts longer can
be left there: no prepared statement, no LISTEN. A pooler invents the process id that it tells its clients.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event

SILENT_SECONDS = 12.0
"""With a third of a lease, after which it is renewed, less than four fifths of it, when a runner stops its children."""


def know_server(engine: Engine) -> None:
    """Close each connection that waits longer than SILENT_SECONDS, and prepare no statements behind a pooler."""

    class Patient(engine.dialect.loaded_dbapi.Connection):  # type: ignore[misc, name-defined]
        """A connection whose waits have an end."""

        patience: float | None = None
        pooled = False

        def wait(self, gen: Any, *args: Any, **more: Any) -> Any:
            """Wait as psycopg does, but not for a server that is silent."""
            seconds = SILENT_SECONDS if self.patience is None else self.patience
            return super().wait(_heard(gen, self, seconds, engine.dialect.loaded_dbapi.OperationalError), *args, **more)

    known: list[bool] = []  # whether there is a pooler: the first connection tells

    def connect(dialect: Any, record: Any, args: Any, given: Any) -> Any:
        driver = Patient.connect(*args, **given)
        if not known:
            told = driver.execute("SELECT pg_backend_pid()").fetchone()[0]
            driver.rollback()
            known.append(told != driver.info.backend_pid)
        if known[0]:
            driver.pooled, driver.prepare_threshold = True, None
        return driver

    event.listen(engine, "do_connect", connect)


def pooled(driver: Any) -> bool:
    """Whether a connection of the driver leads to a pooler."""
    return bool(getattr(driver, "pooled", False))


def _heard(gen: Any, driver: Any, seconds: float, failed: type[Exception]) -> Generator[Any, Any, Any]:
    """The generator, which is told at least every tenth of a second whether there is something to read or write."""
    ready, heard = None, time.monotonic()
    while True:
        try:
            ready = yield gen.send(ready)
        except StopIteration as done:
            return done.value
        now = time.monotonic()
        if ready:
            heard = now
        elif now - heard > seconds:
            gen.close()
            driver.close()
            raise failed(f"the server has said nothing for {seconds:g} s and is given up")


@contextmanager
def patient(connection: Connection) -> Iterator[None]:
    """For statements that may take any time: to change a table, or to wait for somebody else who does."""
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name == "postgresql":
        driver.patience = float("inf")
    try:
        yield
    finally:
        if connection.dialect.name == "postgresql":
            driver.patience = None
