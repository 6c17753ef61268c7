"""What runs in the child: one attempt of a job, and another one only after a short job that left nothing behind.

The child and the runner speak lines of JSON over a socket: `{"hello": pid, …}` when ready, a job comes back,
`{"progress": …}` at most five times a second, and at last `{"result": …}` or `{"error": …, "state": …}` with `again`.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import gc
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec

from ml_core.errors import Cancelled, MLError
from service.errors import (
    ArtifactRejected,
    EngineLost,
    EngineMismatch,
    NotReady,
    QueueFull,
    ServiceError,
    StorageFull,
    WrongKey,
)
from service.ports import Job, Json, Report, State
from service.runner.process import children, die_with_parent, status_bytes
from service.settings import Settings


class Worker(Protocol):
    """What works on the jobs of one process."""

    def run(self, job: Job, report: Report) -> Json:
        """Do the job; the return value becomes its result."""

    def rest(self) -> None:
        """Nothing to do for a while: give back what can be had again."""


Work = Callable[[Settings], Worker]
SHORT_SECONDS = 1.0  # a process that did a longer job is not used again
MOST_JOBS = 100
GROWTH_BYTES = 200 << 20
REST_SECONDS = 1.0
PROGRESS_SECONDS = 0.2
CPU_SLACK_SECONDS = 60
LONGEST_CPU_SECONDS = 2.0**31
NICENESS = 10
AT_WORK, IDLE = 900, 1000


class Order(msgspec.Struct):
    """What the runner sends: the job and which attempt it is."""

    job: Job
    attempt: int


_ORDERS = msgspec.json.Decoder(Order)  # made before the fork, used once in each child


def live(
    work: Work, settings: Settings, pipe: socket.socket, log: int, parent: int, worker: Worker | None = None
) -> None:
    """Work on jobs as long as they are short and leave nothing behind, then end; never returns.

    `worker` was made before the fork and holds nothing that processes cannot share; without it the first job makes one.
    """
    try:
        _settle_in(log, parent)
        _Life(work, settings, pipe, worker).run()
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _Life:
    """What the process does between its first and its last job."""

    def __init__(self, work: Work, settings: Settings, pipe: socket.socket, worker: Worker | None) -> None:
        self._work, self._settings, self._pipe, self._worker = work, settings, pipe, worker
        self._jobs = 0
        self._own = _anonymous()

    def run(self) -> None:
        """Say hello, then take one order after the other."""
        _send(self._pipe, {"hello": os.getpid(), "anonymous_bytes": self._own})
        orders = self._pipe.makefile("rb")
        while line := self._next(orders):
            if self._jobs == 0:
                os.nice(NICENESS)
            self._jobs += 1
            answer = self._attempt(_ORDERS.decode(line))
            sys.stdout.flush()
            sys.stderr.flush()
            _send(self._pipe, answer)
            if not answer["again"]:
                return

    def _next(self, orders: BinaryIO) -> bytes:
        if self._jobs and not select.select([self._pipe], [], [], REST_SECONDS)[0]:
            if self._worker is not None:
                self._worker.rest()
            gc.collect()
        return orders.readline()

    def _attempt(self, order: Order) -> Json:
        began, before = time.monotonic(), _cpu_seconds()
        _expendable(AT_WORK)
        _limit(order.job)
        answer = _answer(lambda report: self._ready().run(order.job, report), order, self._pipe)
        _expendable(IDLE)
        now = _anonymous()
        again = (
            "result" in answer and self._jobs < MOST_JOBS and time.monotonic() - began < SHORT_SECONDS
            and threading.active_count() == 1 and not children(os.getpid()) and now - self._own < GROWTH_BYTES
        )  # fmt: skip
        usage = {"cpu_seconds": _cpu_seconds() - before, "peak_rss_bytes": status_bytes("self", "VmHWM")}
        return {**answer, **usage, "again": again, "anonymous_bytes": now}

    def _ready(self) -> Worker:
        if self._worker is None:
            self._worker = self._work(self._settings)
        return self._worker


def _settle_in(log: int, parent: int) -> None:
    """A process group of its own, tied to the parent's life, polite to the server, its output in the job's log."""
    os.setsid()
    die_with_parent(parent)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    _expendable(IDLE)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nowhere)
    os.close(log)
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    faulthandler.enable()


def _expendable(score: int) -> None:
    """How soon the kernel may pick this process when memory runs out: an idle one first, any before the server."""
    Path("/proc/self/oom_score_adj").write_text(str(score))


def _limit(job: Job) -> None:
    """Memory as a limit on data pages above today's, which gives a clean MemoryError; CPU as a backstop.

    Only the soft limits are set, so that the next job of this process can have its own.
    """
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory starts again
    _soft(resource.RLIMIT_DATA, min(status_bytes("self", "VmData") + job.limits.memory_bytes, sys.maxsize))
    cpu = min(_cpu_seconds() + job.limits.wall_seconds * (os.cpu_count() or 1), LONGEST_CPU_SECONDS)
    _soft(resource.RLIMIT_CPU, int(cpu) + CPU_SLACK_SECONDS)
    _soft(resource.RLIMIT_CORE, 0)


def _soft(what: int, limit: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _answer(work: Callable[[Report], Json], order: Order, pipe: socket.socket) -> Json:
    """Run the work; every exception becomes an error that tells whose fault it was."""
    voice = _Voice(pipe)
    report = Report(voice.progress, order.job.limits.cores, order.attempt)
    try:
        result = work(report)
        return {"result": msgspec.Raw(msgspec.json.encode(result, enc_hook=_plain)), **voice.rest()}
    except MemoryError as hunger:
        return {**_failed(memory_error(order.job, _text(hunger), peak=status_bytes("self", "VmHWM"))), **voice.rest()}
    except Exception as fault:
        return {**verdict_of(fault), **voice.rest()}


class _Voice:
    """Sends progress, but not more often than it is stored."""

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._next = 0.0
        self._held: Json | None = None

    def progress(self, progress: Json) -> None:
        """Tell how far the work is; raises Cancelled when nobody listens any more."""
        self._held = progress
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + PROGRESS_SECONDS
        try:
            _send(self._pipe, self.rest())
        except BrokenPipeError as gone:
            raise Cancelled("the runner is gone") from gone

    def rest(self) -> Json:
        """The last progress that was not sent yet."""
        held, self._held = self._held, None
        return {} if held is None else {"progress": held}


def verdict_of(fault: Exception) -> Json:
    """State and error of a job whose work raised: the caller's mistake, the surroundings', or ours."""
    if isinstance(fault, (EngineLost, NotReady, StorageFull, QueueFull, WrongKey)):
        return _failed({"code": "engine_lost", "detail": _text(fault), "kind": type(fault).__name__}, "queued")
    if isinstance(fault, EngineMismatch):
        return _failed({"code": "engine_mismatch", "detail": _text(fault), "kind": type(fault).__name__})
    if isinstance(fault, (MLError, ServiceError)) and not isinstance(fault, (Cancelled, ArtifactRejected)):
        return _failed(user_error(fault))
    trace = "".join(traceback.format_exception(fault))
    sys.stderr.write(trace)
    last = _text(trace.strip().splitlines()[-1])
    return _failed({"code": "worker_crashed", "detail": last, "kind": type(fault).__name__})


def _text(value: object) -> str:
    """As text that is valid Unicode: file names in messages may carry stray bytes."""
    return str(value).encode(errors="backslashreplace").decode()


def user_error(fault: Exception) -> Json:
    """The caller's mistake with the places it points at and its own stable code."""
    issues = [dataclasses.asdict(issue) for issue in getattr(fault, "issues", ())]
    own = getattr(fault, "code", None)
    return {
        "code": "user_error", "detail": _text(fault), "kind": type(fault).__name__,
        **({"problem": own} if isinstance(own, str) else {}), **({"issues": issues} if issues else {}),
    }  # fmt: skip


def memory_error(job: Job, what: str, peak: int) -> Json:
    """The error of an attempt that wanted more memory than it was granted."""
    limit = job.limits.memory_bytes
    detail = f"the job may use {limit / 2**20:.0f} MiB" + (f": {what}" if what else " and needed more")
    return {"code": "memory_limit", "detail": detail, "limit_bytes": limit, "peak_bytes": peak}


def _failed(error: Json, state: State = "failed") -> Json:
    return {"error": error, "state": state}


def _cpu_seconds() -> float:
    own, below = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime


def _anonymous() -> int:
    return status_bytes("self", "RssAnon", "RssShmem")


def _send(pipe: socket.socket, message: Json) -> None:
    pipe.sendall(msgspec.json.encode(message, enc_hook=_plain) + b"\n")


def _plain(value: Any) -> Any:
    """numpy scalars and arrays as JSON values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a job's answer must be JSON, not {type(value).__name__}")
