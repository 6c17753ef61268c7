"""Work for the runner's tests: one function per kind of job, as bad as work can be."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pyarrow as pa

from ml_core.errors import InvalidData, Issue
from service.errors import NotReady
from service.ports import Job, Report
from service.settings import Settings


@numba.njit(nogil=False)  # type: ignore[untyped-decorator]
def _spin(n: int) -> int:
    total = 0
    while n > 0:
        total += n % 7
    return total


def warm() -> None:
    """Compile before the fork, as the service does, which may take long."""
    while "WARM_WHEN" in os.environ and not Path(os.environ["WARM_WHEN"]).exists():
        time.sleep(0.01)
    _spin(0)


class Worker:
    """Does what the kind says."""

    def __init__(self, settings: Settings) -> None:
        self.jobs, self.maker = 0, os.getpid()

    def run(self, job: Job, report: Report) -> dict[str, Any]:
        self.jobs += 1
        mark = job.spec.get("mark")
        if mark:
            with Path(mark).open("a") as file:
                file.write(f"{os.getpid()} {time.time()}\n")
        told = {"pid": os.getpid(), "jobs": self.jobs, "maker": self.maker} if job.kind == "echo" else {}
        return {**KINDS[job.kind](job, report), **told}

    def rest(self) -> None:
        """Nothing is held."""


def echo(job: Job, report: Report) -> dict[str, Any]:
    report.progress({"fraction": 1.0, "metrics": {"loss": np.float64(0.5)}})
    threads = {name: os.environ[name] for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
    return {
        "spec": job.spec, "attempt": report.attempt, "cores": report.cores, "nice": os.nice(0), "threads": threads,
        "warm": bool(_spin.signatures),
        "leader": os.getpid() == os.getpgid(0) == os.getsid(0), "array": np.arange(3), "not_finite": float("nan"),
    }  # fmt: skip


def loop(job: Job, report: Report) -> dict[str, Any]:
    n = 0
    while True:
        n += 1


def matrix_loop(job: Job, report: Report) -> dict[str, Any]:
    a = np.ones((600, 600))
    while True:
        a = a @ a / 600.0


def compiled_loop(job: Job, report: Report) -> dict[str, Any]:
    return {"sum": _spin(1)}


def with_family(job: Job, report: Report) -> dict[str, Any]:
    """Start a process in a session of its own that ignores SIGTERM, then loop."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    other = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    Path(job.spec["family"]).write_text(str(other.pid))
    if job.spec.get("leave"):
        os._exit(7)
    return loop(job, report)


def die_once(job: Job, report: Report) -> dict[str, Any]:
    if report.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"attempt": report.attempt}


def segfault(job: Job, report: Report) -> dict[str, Any]:
    print("about to read address zero")
    return {"impossible": ctypes.string_at(0)}


def leave(job: Job, report: Report) -> dict[str, Any]:
    os._exit(7)


def user_mistake(job: Job, report: Report) -> dict[str, Any]:
    raise InvalidData("3 values are missing in 'age'", [Issue("/rows/17/age", "missing", "fill or drop it")])


def our_mistake(job: Job, report: Report) -> dict[str, Any]:
    return {"impossible": {}["key \udc80"]}


def not_json(job: Job, report: Report) -> dict[str, Any]:
    return {"object": object()}


def away(job: Job, report: Report) -> dict[str, Any]:
    if report.attempt == 1:
        raise NotReady("the object store does not answer")
    return {}


def allocate(job: Job, report: Report) -> dict[str, Any]:
    return {"sum": float(np.ones(1 << 30).sum())}


def tabulate(job: Job, report: Report) -> dict[str, Any]:
    """Arrow first, as a fit that reads its table; then as many bytes as asked for, untouched."""
    held = pa.array(range(1 << 18))
    return {"bytes": np.empty(job.spec["bytes"], np.uint8).nbytes, "rows": len(held)}


def hog(job: Job, report: Report) -> dict[str, Any]:
    """Take memory in a child process, which the limit on this one's data pages does not see, and hold it.

    The child has such a limit too and may reach it between two looks of the watchdog, so it keeps what it got.
    """
    code = (
        "import signal\nx = []\ntry:\n    while True: x.append(bytearray(b'1') * (1 << 23))\n"
        "except MemoryError:\n    signal.pause()"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    return loop(job, report)


def steps(job: Job, report: Report) -> dict[str, Any]:
    for i in range(200_000):
        report.progress({"step": i, "total": 200_000, "fraction": i / 200_000})
    return {"done": True}


def until(job: Job, report: Report) -> dict[str, Any]:
    while not Path(job.spec["file"]).exists():
        time.sleep(0.01)
    return {}


def big(job: Job, report: Report) -> dict[str, Any]:
    return {"values": list(range(job.spec["n"]))}


KINDS = {
    f.__name__: f
    for f in (
        echo, loop, matrix_loop, compiled_loop, with_family, die_once, segfault, leave, user_mistake, our_mistake,
        not_json, away, allocate, tabulate, hog, steps, big, until,
    )
}  # fmt: skip
