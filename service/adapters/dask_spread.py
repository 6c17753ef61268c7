"""One fit over many machines: `spread_map` on a Dask cluster, whose scheduler and workers others keep running.

A task takes about `TASK_SECONDS`; a job has at most `IN_FLIGHT` unfinished tasks per thread of the cluster, so that
those of jobs that come later get their turn. Retries after the death of a worker are Dask's (`allowed-failures`), for
tasks are pure; a lost scheduler is EngineLost, and the ledger runs the job again.
"""

from __future__ import annotations

import logging
import time
from asyncio import run_coroutine_threadsafe
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from socket import gethostname
from threading import Thread
from typing import Any

from ml_core import progress
from ml_core.certificates import Notice
from ml_core.numerics.memory import granted
from service.adapters.spread_payload import Shelf, compare, facts, work
from service.errors import EngineLost, EngineMismatch
from service.ports import Job, Objects, Report
from service.settings import Settings
from service.spread_port import Engine

TASK_SECONDS = 0.4
IN_FLIGHT = 2
HELD = 4
GATHERED = 16
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
LOOK_SECONDS = 1.0
BROKEN = (OSError, TimeoutError)


class TaskKilled(RuntimeError):
    """A task ended several workers, one after the other: it needs more memory than they have, or crashes them."""


class DaskSpread:
    """Sessions on the scheduler that the settings name."""

    def __init__(self, settings: Settings, objects: Objects) -> None:
        self._settings = settings
        self._objects = objects

    @contextmanager
    def session(self, job: Job, report: Report) -> Iterator[Engine]:
        """The engine of one attempt; EngineMismatch. Without a cluster the notice tells why the host works alone."""
        address = self._settings.dask
        if not job.spread:
            yield Engine()
            return
        if address is None:
            yield Engine(notice=Notice("engine_absent", "no Dask cluster is configured, so one host did the work",
                                       "set POSTFIT_DASK to spread; the answer is the same"))  # fmt: skip
            return
        client = self._connected(address, job, report)
        if client is None:
            waited = f"{self._settings.engine_wait_seconds:g} s"
            yield Engine(notice=Notice("engine_away", f"the Dask cluster at {address} was away for {waited}, so one "
                                       "host did the work", "the answer is the same"))  # fmt: skip
            return
        shelf = Shelf(self._objects, f"spread/{job.id}/{report.attempt}")
        try:
            yield Engine(DaskMapper(client, shelf, job, self._settings.engine_wait_seconds))
        finally:
            _close(client)
            with suppress(EngineLost):  # a store that is away now keeps them until the sweep of orphans
                shelf.clear()

    def _connected(self, address: str, job: Job, report: Report) -> Any | None:
        """A client of a scheduler that has a worker, or None when there was none for the waiting time."""
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        if job.engine_losses + 1 >= self._settings.max_engine_losses:
            return None
        _check_certificate(address)
        deadline = time.monotonic() + self._settings.engine_wait_seconds
        while (left := deadline - time.monotonic()) > 0:
            report.progress({"fraction": 0.0, "message": f"waiting for the Dask cluster at {address}"})
            client = None
            try:
                client = _client(address, job.id, min(CONNECT_SECONDS, left))
                if client.nthreads(callback_timeout=ANSWER_SECONDS):
                    theirs = client.run_on_scheduler(facts, callback_timeout=ANSWER_SECONDS)
                    compare(facts(), theirs, f"the scheduler at {address}")
                    return client
            except ImportError as absent:
                _close(client)
                raise EngineMismatch(f"the scheduler at {address} lacks this service: {absent}") from absent
            except BROKEN:
                pass  # asked again until the deadline
            except BaseException:
                _close(client)
                raise
            _close(client)
            time.sleep(min(0.2, max(0.0, left)))
        return None


def _check_certificate(address: str) -> None:
    """EngineMismatch where the address wants TLS and Dask's settings of this process give no certificate to show."""
    if not address.startswith("tls:"):
        return
    from distributed.security import Security  # noqa: PLC0415 - an optional engine, loaded by the jobs that use it

    try:
        usable = Security().get_connection_args("client").get("ssl_context")
        cause = "Dask's settings name none"
    except (OSError, ValueError) as unreadable:
        usable, cause = None, str(unreadable)
    if usable is None:
        raise EngineMismatch(f"{address} asks for a certificate: {cause}; set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
                             "…__CLIENT__CERT and …__CLIENT__KEY for runners too")  # fmt: skip


def _client(address: str, name: str, seconds: float) -> Any:
    """A connected client, made in a thread of its own: with a frozen scheduler distributed waits beyond its limit."""
    from distributed import Client  # noqa: PLC0415 - an optional engine, loaded by the jobs that use it

    made: Future[Any] = Future()

    def connect() -> None:
        try:
            client = Client(address, timeout=seconds, set_as_default=False, name=name)
        except Exception as error:
            with suppress(InvalidStateError):  # nobody waits any more
                made.set_exception(error)
            return
        try:
            made.set_result(client)
        except InvalidStateError:
            _close(client)

    Thread(target=connect, daemon=True).start()
    if not wait([made], timeout=CONNECT_SECONDS + seconds).done and made.cancel():
        raise TimeoutError(f"the Dask scheduler at {address} takes connections but says nothing")
    return made.result()


def _close(client: Any) -> None:
    if client is not None:
        with suppress(*BROKEN):  # a scheduler that is silent now drops the client when the connection ends
            client.close(timeout=CONNECT_SECONDS)


class DaskMapper:
    """`ml_core.parallel.Mapper` on a connected client."""

    def __init__(self, client: Any, shelf: Shelf, job: Job, wait_seconds: float) -> None:
        self._client = client
        self._shelf = shelf
        self._job = job
        self._wait_seconds = wait_seconds
        self._pace: dict[Any, float] = {}
        self._threads, self._looked, self._manned = 1, float("-inf"), time.monotonic()
        self._tasks = 0

    def __call__(self, function: Callable[..., Any], items: Sequence[Any], shared: tuple[Any, ...]) -> Iterator[Any]:
        """Answers in the order of the items."""
        packet = self._shelf.pack(function, shared)
        todo, waiting, ended = deque(items), deque[Any](), SimpleQueue[Any]()
        flying = 0
        try:
            while todo or waiting:
                self._look()
                while todo and flying < IN_FLIGHT * self._threads and len(waiting) < HELD * self._threads:
                    group = [todo.popleft() for _ in range(self._group(function, len(todo)))]
                    waiting.append(self._submit(function.__name__, packet, group, len(todo)))
                    waiting[-1].add_done_callback(ended.put)
                    flying += 1
                if not waiting[0].done():
                    flying -= self._ended(ended)
                    continue
                for seconds, answers, cut in self._answers(waiting):
                    progress.heard(cut)
                    self._pace[function] = seconds / len(answers)
                    yield from answers
                while not ended.empty():
                    ended.get()
                    flying -= 1
        finally:
            for future in waiting:
                future.release()

    def _group(self, function: Any, left: int) -> int:
        """How many items the next task takes: enough for its overhead not to count, few enough to share the rest."""
        seconds = self._pace.get(function)
        enough = 1 if seconds is None else int(TASK_SECONDS / max(seconds, 1e-6)) or 1
        return max(1, min(enough, left, -(-left // (IN_FLIGHT * self._threads))))

    def _submit(self, name: str, packet: Any, group: list[Any], behind: int) -> Any:
        """With the part of the time that leaves as much for each of the items `behind`."""
        self._tasks += 1
        left = progress.left()
        end = float("inf") if left is None else time.time() + left
        waves = 1.0 + behind / (len(group) * self._threads)
        key = f"{name.strip('_')}-{self._job.id}-{self._job.attempts}-{self._tasks}"
        return self._client.submit(
            work, packet, group, facts(), gethostname(), None if left is None else left / waves, end, granted(),
            key=key, pure=False, priority=self._job.priority,
        )  # fmt: skip

    def _ended(self, ended: SimpleQueue[Any]) -> int:
        """Wait for tasks to end, but not for ever; how many did."""
        try:
            ended.get(timeout=LOOK_SECONDS)
        except Empty:
            self._looked = float("-inf")
            return 0
        return 1

    def _answers(self, waiting: deque[Any]) -> list[Any]:
        """What the tasks in front that have ended gave; their own errors, TaskKilled, EngineLost."""
        front: list[Any] = []
        while waiting and waiting[0].done() and len(front) < GATHERED:
            future = waiting.popleft()
            if future.status == "error":
                raise _told(future.exception())
            if future.status != "finished":
                raise EngineLost(f"the connection to the Dask scheduler broke: the tasks are {future.status}")
            front.append(future)
        try:
            return self._fetched(front)
        except EngineLost:
            raise
        except Exception as error:
            broken = [f for f in front if f.status == "error"]
            if broken:
                raise _told(broken[0].exception()) from error
            raise EngineLost(f"the answers of the Dask workers could not be fetched: {error}") from error

    def _fetched(self, front: list[Any]) -> list[Any]:
        """The answers: they may take long to travel, as long as the scheduler speaks."""
        coming = run_coroutine_threadsafe(
            self._client.gather(front, errors="raise", asynchronous=True), self._client.loop.asyncio_loop
        )
        try:
            while not wait([coming], timeout=LOOK_SECONDS).done:
                self._look()
            return list(coming.result())
        finally:
            coming.cancel()

    def _look(self) -> None:
        """Count the threads of the cluster now and then; EngineLost when nobody answers or nobody works."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        try:
            found = sum(self._client.nthreads(callback_timeout=ANSWER_SECONDS).values())
        except Exception as error:
            raise EngineLost(f"the Dask scheduler does not answer: {error!r}") from error
        self._looked = time.monotonic()
        self._manned = self._looked if found else self._manned
        if self._looked - self._manned > self._wait_seconds:
            raise EngineLost(f"the Dask cluster has had no worker for {self._wait_seconds:g} s")
        self._threads = max(1, found)


def _told(error: BaseException) -> BaseException:
    """The task's own error, with a word on what Dask says of killed workers."""
    if type(error).__name__ == "KilledWorker":
        return TaskKilled(f"{TaskKilled.__doc__} {error}")
    return error
