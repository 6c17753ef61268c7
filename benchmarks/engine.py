"""Latency and throughput of the job engine: `python -m benchmarks.engine [jobs]` prints one JSON object.

start_ms: from the submitting call to the first line of the work; wait_ms: until the submitter has the answer;
kill_noticed_ms: from SIGKILL of a child to its next attempt; cancel_ms: from the request to the process being gone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psutil

from service.adapters.database import connect
from service.adapters.ledger import SqlLedger
from service.adapters.migrations import migrate
from service.ports import Job, Limits, NewJob, Report
from service.runner.embedded import Embedded
from service.runner.loop import main as run_runner
from service.settings import Settings
from service.usecases.waiting import settle

LIMITS = Limits(100.0, 4 << 30, 1)
COMMAND = (sys.executable, "-m", "benchmarks.engine", "runner")
LATENCIES = 100


class Worker:
    """The work: nothing, or an endless loop that says who it is."""

    def __init__(self, settings: Settings) -> None:
        """It needs no services."""

    def run(self, job: Job, report: Report) -> dict[str, Any]:
        """Do it."""
        began = time.time()
        if job.kind == "loop":
            with Path(job.spec["mark"]).open("a") as file:
                file.write(f"{os.getpid()} {began}\n")
            while True:
                began += 1.0
        return {"began": began}

    def rest(self) -> None:
        """Nothing is held."""


def quantiles(values: list[float]) -> dict[str, float]:
    """Median and 99 % quantile in milliseconds."""
    ordered = sorted(1e3 * v for v in values)
    return {"p50": round(statistics.median(ordered), 2), "p99": round(ordered[int(0.99 * (len(ordered) - 1))], 2)}


async def latencies(ledger: SqlLedger) -> dict[str, Any]:
    """One job at a time, on an idle engine."""
    starts, waits = [], []
    for _ in range(LATENCIES):
        began = time.time()
        job = ledger.put(NewJob("noop", "mdl_x", {}, "instant", LIMITS))
        done = await settle(ledger, job.id, 60.0)
        waits.append(time.time() - began)
        starts.append((done.result or {})["began"] - began)
        await asyncio.sleep(0.02)
    return {"start_ms": quantiles(starts), "wait_ms": quantiles(waits)}


async def throughput(ledger: SqlLedger, n: int) -> dict[str, float]:
    """Many jobs at once."""
    began = time.monotonic()
    ids = [ledger.put(NewJob("noop", "mdl_x", {}, "instant", LIMITS)).id for _ in range(n)]
    submitted = time.monotonic() - began
    for job_id in ids:
        await settle(ledger, job_id, 600.0)
    return {"jobs": n, "submit_s": round(submitted, 2), "done_s": round(time.monotonic() - began, 2)}


async def deaths(ledger: SqlLedger, folder: Path) -> dict[str, float]:
    """Kill a child, then cancel its successor."""
    mark = folder / "mark"
    job = ledger.put(NewJob("loop", "mdl_x", {"mark": str(mark)}, "long", LIMITS))
    pid = int((await lines(mark, 1))[0].split()[0])
    killed = time.time()
    os.kill(pid, signal.SIGKILL)
    while ledger.get(job.id).attempts == 1 and ledger.get(job.id).state == "running":
        await asyncio.sleep(0.001)
    noticed = time.time() - killed
    pid, again = (await lines(mark, 2))[1].split()
    asked = time.time()
    ledger.cancel(job.id)
    await settle(ledger, job.id, 60.0)
    ended = time.time() - asked
    while psutil.pid_exists(int(pid)):
        await asyncio.sleep(0.001)
    return {
        "kill_noticed_ms": round(1e3 * noticed, 1), "kill_to_next_attempt_ms": round(1e3 * (float(again) - killed), 1),
        "cancel_ms": round(1e3 * ended, 1), "cancel_process_gone_ms": round(1e3 * (time.time() - asked), 1),
    }  # fmt: skip


async def lines(file: Path, n: int) -> list[str]:
    """The lines of the file once there are n."""
    while not file.exists() or file.read_text().count("\n") < n:
        await asyncio.sleep(0.001)
    return file.read_text().splitlines()


def warm(runner: psutil.Process) -> bool:
    """Whether nothing compiles any more: its process, like those that worked lately, is the only nice one."""
    return not any(process.nice() for process in runner.children(recursive=True))


def idle(family: list[psutil.Process], seconds: float = 5.0) -> dict[str, float]:
    """Share of a core and memory (PSS) of processes when there is nothing to do."""
    before = sum(sum(p.cpu_times()[:2]) for p in family)
    time.sleep(seconds)
    used = sum(sum(p.cpu_times()[:2]) for p in family) - before
    pss = sum(p.memory_full_info().pss for p in family)
    return {"cpu_percent": round(100 * used / seconds, 2), "pss_mb": round(pss / 1e6, 1), "processes": len(family)}


def served(environ: dict[str, str]) -> dict[str, float]:
    """The idle cost of a real server's processes beside the server itself."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        command = [sys.executable, "-m", "service", "--data", name, "serve", "--port", str(port)]
        server = subprocess.Popen(command, env={**os.environ, **environ})
        try:
            while not _ready(port):
                if server.poll() is not None:
                    raise SystemExit(f"the server ended with {server.returncode}")
                time.sleep(0.1)
            here = psutil.Process(server.pid)
            while not (here.children() and warm(here)):
                time.sleep(0.1)
            time.sleep(3.0)
            return idle(here.children(recursive=True))
        finally:
            server.terminate()
            server.wait()


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/v1/health/ready").status_code == 200
    except httpx.TransportError:
        return False


async def measure(n: int, url: str | None) -> dict[str, Any]:
    """Everything once, on an embedded runner."""
    with tempfile.TemporaryDirectory() as name:
        secret = secrets.token_hex(64)  # one key for both data folders below
        settings = Settings(data=Path(name), database=url, secret=secret)
        db = connect(settings.database_url)
        migrate(db)
        ledger = SqlLedger(db, settings)
        embedded = Embedded(settings, COMMAND)
        began = time.monotonic()
        embedded.start()
        try:
            await settle(ledger, ledger.put(NewJob("noop", "mdl_x", {}, "instant", LIMITS)).id, 60.0)
            ready = time.monotonic() - began
            while not warm(psutil.Process(embedded.pid)):
                await asyncio.sleep(0.01)
            since = {"first_job_done_s": round(ready, 2), "warm_s": round(time.monotonic() - began, 2)}
            found = {**since, **await latencies(ledger), **await deaths(ledger, Path(name))}
            found["flood"] = await throughput(ledger, n)
        finally:
            embedded.stop()
            db.close()
    return {**found, "idle": served({"POSTFIT_SECRET": secret, **({"POSTFIT_DATABASE": url} if url else {})})}


if __name__ == "__main__":
    if sys.argv[1:] == ["runner"]:
        run_runner(Settings.from_env(os.environ), work="benchmarks.engine:Worker")
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("jobs", type=int, nargs="?", default=1000)
        parser.add_argument("--database", help="URL of an empty PostgreSQL schema; SQLite when not given")
        given = parser.parse_args()
        json.dump(asyncio.run(measure(given.jobs, given.database)), sys.stdout, indent=2)
