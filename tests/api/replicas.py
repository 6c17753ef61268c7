"""Two server processes on one database, a writer that never rests, and a database that can be cut off."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from service.adapters.database import connect
from service.adapters.facts import tell
from service.settings import Settings
from tests.contract.ledgers import postgres_schema
from tests.faults.service import Served

FIT = {"estimator": {"algorithm": "linear_regression", "params": {}}, "dataset": "iris", "target": "petal_width",
       "features": ["sepal_length", "petal_length"]}  # fmt: skip
ROW = {"rows": [{"sepal_length": 5.1, "petal_length": 1.4}]}


@contextmanager
def database(kind: str, data: Path) -> Iterator[str]:
    """URL of a fresh database."""
    if kind == "postgresql":
        with postgres_schema() as url:
            yield url
    else:
        yield Settings(data=data).database_url


@contextmanager
def pair(kind: str, folder: Path) -> Iterator[tuple[Served, Served, str]]:
    """A server with the runner, one without, and the URL of the database they share."""
    with database(kind, folder / "data") as url:
        first = Served(folder / "data", POSTFIT_DATABASE=url)
        try:
            second = Served(folder / "data", POSTFIT_DATABASE=url, POSTFIT_RUNNER="none")
            try:
                yield first, second, url
            finally:
                second.stop()
        finally:
            first.stop()


@contextmanager
def restless(url: str) -> Iterator[None]:
    """Somebody commits all the time, so that no look at the version finds it unchanged for long."""
    db, stop = connect(url), threading.Event()

    def write() -> None:
        n = 0
        while not stop.wait(0.01):
            n += 1
            with db.write() as c:
                tell(c, "noise", n)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        db.close()


def fit(http: httpx.Client, **more: object) -> dict:
    """A model, ready."""
    answer = http.post("/v1/models", json=FIT | more, headers={"Prefer": "wait=60"})
    assert (answer.status_code, answer.json().get("state")) == (201, "ready"), answer.text
    return answer.json()


def events(lines: Iterator[str]) -> Iterator[dict]:
    """The events of a stream: name, id and data."""
    event: dict = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if not line:
            if event:
                yield event
            event = {}
            continue
        key, _, value = line.partition(": ")
        event[key] = json.loads(value) if key == "data" else value


class Wire:
    """A port that leads to another one until it is cut."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.whole = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open: list[socket.socket] = []
        self.mend()

    def mend(self) -> None:
        """Let connections through."""
        self.whole.set()
        if self.listener.fileno() < 0:
            self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def cut(self) -> None:
        """End all connections and refuse new ones."""
        self.whole.clear()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for s in self.open:
            with suppress(OSError):  # its carrier may have closed it
                s.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while self.whole.is_set():
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target))
            self.open += [near, far]
            threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        with near, far:
            while self.whole.is_set():
                for source in select.select([near, far], [], [], 1.0)[0]:
                    try:
                        data = source.recv(1 << 16)
                        (far if source is near else near).sendall(data)
                    except OSError:
                        return
                    if not data:
                        return
