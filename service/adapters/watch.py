"""Hearing of commits: a number that changes, and a descriptor that becomes readable when it may have changed."""

from __future__ import annotations

import ctypes
import logging
import os
import selectors
import threading
import time
from contextlib import closing, suppress
from typing import Any, Literal, Protocol
from zlib import crc32

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from service.adapters.postgres import pooled
from service.errors import NotReady

log = logging.getLogger("postfit.database")
CHANNEL = "left('postfit_' || current_schema(), 63)"  # PostgreSQL cuts longer names
WORK = "left('postfit_work_' || current_schema(), 63)"  # of commits that give runners something to do
Tell = Literal["all", "work", "cancel"]
TELLING: dict[Tell, str] = {
    "all": f"SELECT pg_notify({CHANNEL}, '')",
    "work": f"SELECT pg_notify({CHANNEL}, ''), pg_notify({WORK}, '')",
    "cancel": f"SELECT pg_notify({CHANNEL}, ''), pg_notify({WORK}, 'cancel')",
}
_IN_MODIFY = 0x2
_BYTES = 65_536
OPEN_SECONDS = 1.0  # who asks first waits so long for the connection; a silent host may take far longer to refuse
PROOF_SECONDS = 0.5
POLL_SECONDS = 0.5
PROVE_SECONDS = 10.0  # who hears nothing for so long asks whether the server is still there
FLOOD_SECONDS = 0.002  # changes that follow each other faster are told together
AGAIN_SECONDS = (0.1, 1.0)  # until then a database that came back is still "away"


class Watch(Protocol):
    """What a process knows of the commits of others."""

    def version(self) -> int:
        """A number that differs after others have committed; NotReady while the database is away."""

    def cancels(self) -> int:
        """A number that differs after others may have asked to cancel a job; asked after `version`."""

    def fileno(self) -> int:
        """A descriptor that is readable when `version` should be asked again; -1 when there is none."""

    def close(self) -> None:
        """Give back connection and descriptor."""


class FileWatch:
    """SQLite: `PRAGMA data_version` (4 µs) tells exactly, inotify on the write-ahead log tells when to ask.

    The log is written a moment before the commit can be seen, so who is woken and sees nothing new asks again soon.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._connection: Any = None
        self._inotify: int | None = None
        self._version = 0

    def version(self) -> int:
        """The file's data version; a connection that went stale is replaced once."""
        with self._lock:
            self._drain()
            self._version = self._look(again=self._connection is not None)
            return self._version

    def cancels(self) -> int:
        """The version: what a commit was about cannot be heard."""
        return self._version

    def fileno(self) -> int:
        """The inotify descriptor; -1 where the kernel grants none."""
        with self._lock:
            if self._inotify is None:
                self._look(again=False)  # the log exists from the first look on
                self._inotify = _modified(f"{self._engine.url.database}-wal")
            return self._inotify

    def close(self) -> None:
        """Close the connection and the descriptor."""
        with self._lock:
            self._forget()
            if self._inotify is not None and self._inotify >= 0:
                os.close(self._inotify)
            self._inotify = None

    def _look(self, again: bool) -> int:
        try:
            if self._connection is None:
                self._connection = _driver(self._engine)
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        except (self._engine.dialect.loaded_dbapi.Error, DBAPIError) as broken:
            self._forget()
            if again:
                return self._look(again=False)
            raise NotReady(f"the database cannot be reached: {broken}") from broken

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _drain(self) -> None:
        if self._inotify is None or self._inotify < 0:
            return
        try:
            while len(os.read(self._inotify, _BYTES)) == _BYTES:
                pass
        except BlockingIOError:
            return


class Listener:
    """PostgreSQL: one connection with LISTEN, read by a thread of its own, so that `version` never waits for the net.

    Where notifications do not arrive (a transaction pooler) the thread looks at the snapshot twice a second instead.
    With `work` it hears only of commits that give runners something to do.
    """

    def __init__(self, engine: Engine, work: bool = False) -> None:
        self._engine = engine
        self._work = work
        self._open_until = self._changed = 0.0
        self._lock = threading.Lock()
        self._count = self._notifications = self._cancels = 0
        self._fault: str | None = "the database has not answered yet"
        self._told = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def version(self) -> int:
        """How many commits were heard of; NotReady at once, but for the first moment of this watch."""
        self._start()
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)
        if not self._told.wait(max(0.0, self._open_until - time.monotonic())) or self._fault is not None:
            raise NotReady(f"the database cannot be reached: {self._fault}")
        return self._count

    def cancels(self) -> int:
        """How many commits were heard of that were, or may have been, a request to cancel."""
        return self._cancels

    def fileno(self) -> int:
        """The descriptor of an event counter."""
        self._start()
        return self._event

    def close(self) -> None:
        """End the thread and with it the connection."""
        self._stopping.set()
        os.eventfd_write(self._wake, 1)
        if self._thread is not None:
            self._thread.join()
        os.close(self._event)
        os.close(self._wake)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._open_until = time.monotonic() + OPEN_SECONDS
                self._thread = threading.Thread(target=self._run, name="database watch", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        pause = AGAIN_SECONDS[0]
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                with closing(_driver(self._engine)) as driver:
                    self._hear(driver)
            except (self._engine.dialect.loaded_dbapi.Error, SQLAlchemyError) as broken:
                log.warning("the database cannot be watched: %s", broken)
                self._change(str(broken))
            lasted = time.monotonic() - began > AGAIN_SECONDS[1]
            pause = AGAIN_SECONDS[0] if lasted else min(2 * pause, AGAIN_SECONDS[1])
            self._stopping.wait(pause)

    def _hear(self, driver: Any) -> None:
        driver.autocommit = True
        listening = not pooled(driver) and self._proved(driver)
        with selectors.DefaultSelector() as selector:
            selector.register(driver.fileno(), selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            look, pause = (self._notified, PROVE_SECONDS) if listening else (self._snapshot, POLL_SECONDS)
            seen = None
            while not self._stopping.is_set():
                now = look(driver)
                if now != seen:
                    seen = now
                    self._cancels += not listening
                    self._change(None)
                if not selector.select(pause) and listening:
                    self._prove(driver)
                self._stopping.wait(FLOOD_SECONDS if time.monotonic() - self._changed < FLOOD_SECONDS else 0.0)

    def _proved(self, driver: Any) -> bool:
        """Whether what is told arrives here."""
        channel = driver.execute(f"SELECT {WORK if self._work else CHANNEL}").fetchone()[0].replace('"', '""')
        driver.execute(f'LISTEN "{channel}"')
        with self._engine.connect() as other:
            other.exec_driver_sql(TELLING["cancel" if self._work else "all"])
            other.commit()
        with selectors.DefaultSelector() as selector:
            selector.register(driver.fileno(), selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            return bool(selector.select(PROOF_SECONDS))

    def _notified(self, driver: Any) -> int:
        """How many notifications have come."""
        driver.pgconn.consume_input()
        while (told := driver.pgconn.notifies()) is not None:
            self._notifications += 1
            self._cancels += told.extra == b"cancel"
        return self._notifications

    def _prove(self, driver: Any) -> None:
        """Raise where the server is silent; one that lives may have told what did not arrive: look at everything."""
        driver.execute("SELECT 1")
        self._notifications += 1
        self._cancels += 1

    @staticmethod
    def _snapshot(driver: Any) -> int:
        """Names every transaction that is not visible yet: it differs exactly when something was committed."""
        return crc32(driver.execute("SELECT pg_current_snapshot()::text").fetchone()[0].encode())

    def _change(self, fault: str | None) -> None:
        self._fault, self._changed = fault, time.monotonic()
        self._cancels += fault is not None
        self._count += 1
        self._told.set()
        os.eventfd_write(self._event, 1)


def _driver(engine: Engine) -> Any:
    """A driver connection of its own, never inside a transaction."""
    pooled = engine.raw_connection()
    driver: Any = pooled.driver_connection
    pooled.detach()
    return driver


def _modified(path: str) -> int:
    """A descriptor that is readable after the file was written; -1 when the kernel grants none."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor >= 0 and libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) >= 0:
        return descriptor
    log.warning("writes to %s are looked for, not heard of: %s", path, os.strerror(ctypes.get_errno()))
    if descriptor >= 0:
        os.close(descriptor)
    return -1
