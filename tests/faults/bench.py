"""A data folder with real runners on it, and ways to see what they do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from service.adapters.database import Database, connect
from service.adapters.ledger import SqlLedger
from service.adapters.migrations import migrate
from service.ports import TERMINAL, Job, Limits, NewJob
from service.settings import Settings
from service.usecases.waiting import settle

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tests.faults.runner")
LIMITS = Limits(wall_seconds=100.0, memory_bytes=4 << 30, cores=1)


class Bench:
    """A data folder, its ledger, and the runners started on it."""

    def __init__(self, folder: Path, **values: object) -> None:
        secret = "ab" * 32  # runners with folders of their own sign with one key
        given = {"secret": secret, "data": folder, "slots": 1, "cores": 2, "lease_seconds": 3.0, "grace_seconds": 0.5}
        self.settings = Settings(**{**given, **values})  # type: ignore[arg-type]
        self.db: Database = connect(self.settings.database_url)
        migrate(self.db)
        self.ledger = SqlLedger(self.db, self.settings)
        self.runners: list[subprocess.Popen[bytes]] = []

    def run(self, **changes: str) -> subprocess.Popen[bytes]:
        """Start a runner."""
        env = {**os.environ, **self.settings.to_env(), **changes}
        self.runners.append(subprocess.Popen(COMMAND, env=env, cwd=ROOT))
        return self.runners[-1]

    def put(self, kind: str, *, lane: str = "long", limits: Limits = LIMITS, **spec: object) -> str:
        """Queue a job of tests.faults.jobs."""
        return self.ledger.put(NewJob(kind, f"mdl_{kind}", spec, lane, limits)).id  # type: ignore[arg-type]

    def ended(self, job_id: str, seconds: float = 60.0) -> Job:
        """The job when it has ended."""
        job = asyncio.run(settle(self.ledger, job_id, seconds))
        assert job.state in TERMINAL, job
        return job

    def running(self, job_id: str) -> Job:
        """The job once it runs."""
        eventually(lambda: self.ledger.get(job_id).state == "running")
        return self.ledger.get(job_id)

    def close(self) -> None:
        """End every runner."""
        for runner in self.runners:
            runner.terminate()
        for runner in self.runners:
            runner.wait(30)
        self.db.close()


def eventually(probe: Callable[[], object], seconds: float = 60.0) -> float:
    """Seconds until the probe was true."""
    began = time.monotonic()
    while not probe():
        assert time.monotonic() - began < seconds, "did not happen in time"
        time.sleep(0.005)
    return time.monotonic() - began


def pids(mark: Path, n: int) -> list[int]:
    """The processes that worked on a job, once there are n."""
    eventually(lambda: mark.exists() and mark.read_text().count("\n") >= n)
    return [int(line.split()[0]) for line in mark.read_text().splitlines()]


def gone(pid: int) -> bool:
    """Whether the process has ended (a zombie has)."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
