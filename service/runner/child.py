"""What runs in the child: one attempt of one job, then the end of the process.

The child and the runner speak lines of JSON over a socket: `{"hello": pid, …}` when ready, one job comes back,
`{"progress": …}` at most five times a second, and at last `{"result": …}` or `{"error": …, "state": …}`.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

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
)
from service.ports import Job, Json, Report, State
from service.runner.process import die_with_parent, status_bytes
from service.settings import Settings

Work = Callable[[Settings, Job, Report], Json]
PROGRESS_SECONDS = 0.2
CPU_SLACK_SECONDS = 60
LONGEST_CPU_SECONDS = 2.0**31
NICENESS = 10


class Order(msgspec.Struct):
    """What the runner sends: the job and which attempt it is."""

    job: Job
    attempt: int


_ORDERS = msgspec.json.Decoder(Order)  # made before the fork, used once in each child


def live(work: Work, settings: Settings, pipe: socket.socket, log: int, parent: int) -> None:
    """Wait for one job, work on it, answer, and end; never returns."""
    try:
        _settle_in(log, parent)
        _send(pipe, {"hello": os.getpid(), "anonymous_bytes": _anonymous()})
        line = pipe.makefile("rb").readline()
        if line:
            os.nice(NICENESS)
            order = _ORDERS.decode(line)
            _limit(order.job)
            _send(pipe, {**_answer(work, settings, order, pipe), **_usage()})
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _settle_in(log: int, parent: int) -> None:
    """A process group of its own, tied to the parent's life, polite to the server, its output in the job's log."""
    os.setsid()
    die_with_parent(parent)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("900")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nowhere)
    os.close(log)
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    faulthandler.enable()


def _limit(job: Job) -> None:
    """Memory as a limit on data pages above today's, which gives a clean MemoryError; CPU as a backstop."""
    data = min(status_bytes("self", "VmData") + job.limits.memory_bytes, sys.maxsize)
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    cpu = int(min(job.limits.wall_seconds * (os.cpu_count() or 1), LONGEST_CPU_SECONDS)) + CPU_SLACK_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(work: Work, settings: Settings, order: Order, pipe: socket.socket) -> Json:
    """Run the work; every exception becomes an error that tells whose fault it was."""
    voice = _Voice(pipe)
    report = Report(voice.progress, order.job.limits.cores, order.attempt)
    try:
        result = work(settings, order.job, report)
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
    if isinstance(fault, (EngineLost, NotReady, StorageFull, QueueFull)):
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


def _usage() -> Json:
    own, below = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    seconds = own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime
    return {"cpu_seconds": seconds, "peak_rss_bytes": max(own.ru_maxrss, below.ru_maxrss) * 1024}


def _anonymous() -> int:
    return status_bytes("self", "RssAnon", "RssShmem")


def _send(pipe: socket.socket, message: Json) -> None:
    pipe.sendall(msgspec.json.encode(message, enc_hook=_plain) + b"\n")


def _plain(value: Any) -> Any:
    """numpy scalars and arrays as JSON values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a job's answer must be JSON, not {type(value).__name__}")
