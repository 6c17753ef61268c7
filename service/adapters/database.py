"""The metadata database: one engine, one set of tables, the same statements on SQLite and PostgreSQL.

Each adapter file places its tables on `metadata`; `migrations` brings a database to them.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import (
    URL,
    Connection,
    Double,
    Engine,
    ExceptionContext,
    MetaData,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, InterfaceError, InvalidatePoolError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.functions import FunctionElement

from service.adapters.postgres import know_server
from service.adapters.watch import TELLING, FileWatch, Listener, Tell, Watch
from service.errors import Invalid, NotReady, ServiceError, StorageFull

BUSY_MILLISECONDS = 10_000
RESTED_SECONDS = 0.2
DRIVERS = ("psycopg", "sqlite3")
ADDRESSES = "use postgresql+psycopg://USER:PASSWORD@HOST:PORT/NAME, or leave it unset for SQLite in the data folder"
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
DISK_FULL, READ_ONLY = "53100", "25006"  # PostgreSQL's codes
PATIENCE = {
    "connect_timeout": 10, "keepalives_idle": 5, "keepalives_interval": 3, "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}  # fmt: skip
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Now(FunctionElement[float]):
    """Seconds since 1970 by the database's clock, so that leases do not depend on the clocks of the runners."""

    type = Double()
    inherit_cache = True


@compiles(Now, "sqlite")
def _now_sqlite(element: Now, compiler: Any, **kw: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(Now, "postgresql")
def _now_postgresql(element: Now, compiler: Any, **kw: Any) -> str:
    # Of the statement, not clock_timestamp(): that is volatile, so no index would ever be searched with it.
    return "CAST(extract(epoch FROM statement_timestamp()) AS double precision)"


class Database:
    """An engine with short read and write transactions; a runner's hears only of `work`."""

    def __init__(self, engine: Engine, work: bool = False) -> None:
        self.engine = engine
        self._work = work
        one = engine.dialect.name == "postgresql"  # each statement has a view of its own there: BEGIN would add nothing
        self._reader = engine.execution_options(isolation_level="AUTOCOMMIT") if one else engine
        self._lock = threading.Lock()
        self._watch: Watch | None = None

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """What is committed: on SQLite one view for the block, on PostgreSQL one for each statement."""
        with translated(), self._reader.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self, tell: Tell | None = "all") -> Iterator[Connection]:
        """A write transaction; on SQLite it takes the write lock at once, so it never fails half-way.

        On PostgreSQL its commit wakes `all` who watch but runners, who hear of `work` and `cancel` only; with None
        nobody: it is nothing that anybody waits for.
        """
        with translated(), self.engine.connect() as connection:
            connection.execution_options(write=True)
            with connection.begin():
                yield connection
                if tell is not None and self.dialect == "postgresql":
                    connection.exec_driver_sql(f"{TELLING[tell]}; COMMIT")  # in one round trip

    def version(self) -> int:
        """A number that changes when others have committed; costs no round trip."""
        return self._watching().version()

    def cancels(self) -> int:
        """A number that changes when others may have asked to cancel a job; costs no round trip."""
        return self._watching().cancels()

    def fileno(self) -> int:
        """A descriptor that is readable when others may have committed; `version` resets it. -1: there is none."""
        return self._watching().fileno()

    def _watching(self) -> Watch:
        with self._lock:
            if self._watch is None:
                sqlite = self.dialect == "sqlite"
                self._watch = FileWatch(self.engine) if sqlite else Listener(self.engine, self._work)
            return self._watch

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            if self._watch is not None:
                self._watch.close()
            self._watch = None
        self.engine.dispose()


def connect(url: str, *, work: bool = False) -> Database:
    """Open the database; a SQLite file and its folder are made when absent. `work`: for a runner."""
    target = address(url)
    if target.get_backend_name() == "sqlite":
        if not target.database or target.database == ":memory:":
            raise ServiceError("the database must be a file: several processes share it")
        Path(target.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        target, connect_args=_unless_given(target), pool_size=20, max_overflow=20,
        json_serializer=lambda value: msgspec.json.encode(value).decode(), json_deserializer=msgspec.json.decode,
    )  # fmt: skip
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure)
        event.listen(engine, "begin", _begin)
    else:
        event.listen(engine, "handle_error", _give_up_read_only)
        _ping_rested(engine)
        know_server(engine)
    return Database(engine, work)


def address(url: str) -> URL:
    """The address, of a database and a driver that the service has; ServiceError."""
    try:
        target = make_url(url)
        known = target.get_dialect().import_dbapi().__name__.partition(".")[0] in DRIVERS
    except (ArgumentError, ValueError):  # without the text: it may hold a password
        raise ServiceError(f"POSTFIT_DATABASE is no URL of a database; {ADDRESSES}") from None
    except ImportError as absent:
        if absent.name in DRIVERS:
            raise ServiceError("PostgreSQL needs the driver psycopg: pip install 'postfit[postgres]'") from absent
        known = False
    if not known:
        raise ServiceError(f"{target.drivername!r} in POSTFIT_DATABASE is not supported; {ADDRESSES}")
    return target


def _unless_given(target: URL) -> dict[str, Any]:
    """A server that fell silent is noticed within seconds, not after the quarter of an hour that TCP is patient."""
    if target.get_backend_name() != "postgresql":
        return {}
    return {name: value for name, value in PATIENCE.items() if name not in target.query}


def _configure(driver: Any, record: object) -> None:
    driver.isolation_level = None
    driver.execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}")
    if driver.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        _switch_to_wal(driver)
    driver.execute("PRAGMA synchronous=NORMAL")
    driver.execute("PRAGMA foreign_keys=ON")


def _switch_to_wal(driver: Any) -> None:
    # The switch needs the file alone and does not honour busy_timeout; whoever loses the race finds it done.
    deadline = time.monotonic() + BUSY_MILLISECONDS / 1000
    while True:
        try:
            driver.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _ping_rested(engine: Engine) -> None:
    """A connection that its server may have closed meanwhile is proved on its way out of the pool.

    What SQLAlchemy's `pool_pre_ping` does, but not for a connection that was in use a moment ago: the ping costs as
    much as a statement.
    """

    def note(driver: Any, record: ConnectionPoolEntry) -> None:
        record.info["used"] = time.monotonic()

    def prove(driver: Any, record: ConnectionPoolEntry, proxy: object) -> None:
        now = time.monotonic()
        if now - record.info.get("used", now) < RESTED_SECONDS:
            return
        try:
            engine.dialect.do_ping(driver)
        except engine.dialect.loaded_dbapi.Error as broken:
            raise InvalidatePoolError from broken

    event.listen(engine, "checkin", note)
    event.listen(engine, "checkout", prove)


def _give_up_read_only(context: ExceptionContext) -> None:
    """After a fail-over the old server may still answer, but takes no writes: connections are made anew."""
    if _code(context.original_exception) == READ_ONLY:
        context.is_disconnect = True


@contextmanager
def translated() -> Iterator[None]:
    """Say "not ready", "full" or "invalid" in the service's own words; a mistake in a statement stays what it is."""
    try:
        yield
    except (OperationalError, InterfaceError) as failed:
        raise _meaning(failed) from failed
    except NoConnection as failed:
        raise NotReady(f"every connection to the database is in use: {failed}") from failed
    except DataError as failed:  # a value, which came from a caller: PostgreSQL has no NUL in texts
        raise Invalid(f"the database cannot hold a value of the request: {failed.orig}") from failed
    except DBAPIError as failed:
        if getattr(failed.orig, "sqlite_errorcode", 0) & 0xFF in DAMAGED:
            raise ServiceError(
                f"the database file is damaged ({failed.orig}): stop the service, keep the file, and restore a backup "
                "into a new data folder"
            ) from failed
        if _code(failed.orig) != READ_ONLY:
            raise
        raise NotReady(f"the database takes no writes now: {failed.orig}") from failed


def _code(error: BaseException | None) -> str | None:
    """PostgreSQL's five characters for what went wrong."""
    return getattr(error, "sqlstate", None)


def _meaning(failed: DBAPIError) -> ServiceError:
    if _code(failed.orig) == DISK_FULL or "disk is full" in str(failed.orig):
        return StorageFull(f"the database cannot grow: {failed.orig}")
    return NotReady(f"the database cannot be used now: {failed.orig}")
