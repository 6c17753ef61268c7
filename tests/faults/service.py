"""The real service as a subprocess on a free port, and ways to see what it does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from service.ports import TERMINAL
from tests.faults.bench import ROOT, eventually, gone

START_SECONDS = 120.0
FIT_SECONDS = 240.0  # kernels may have to be compiled first, on a busy machine
WORKING = 10  # the niceness of a process at work on a job


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def command(*words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m service …` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "service", *words], env=environ(**changes), cwd=ROOT, text=True, capture_output=True,
        timeout=START_SECONDS, check=False,
    )  # fmt: skip


def environ(**changes: str) -> dict[str, str]:
    """This environment without settings of the service."""
    return {**{k: v for k, v in os.environ.items() if not k.startswith("POSTFIT_")}, **changes}


class Served:
    """`python -m service serve` on a data folder."""

    def __init__(self, data: Path, *words: str, **changes: str) -> None:
        port = free_port()
        self.log = data.with_suffix(".log")
        with self.log.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service", "--data", str(data), "serve", "--port", str(port), *words],
                env=environ(**changes), cwd=ROOT, stdout=sink, stderr=sink,
            )  # fmt: skip
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=START_SECONDS)
        try:
            eventually(self._answers, START_SECONDS)
        except BaseException:
            self.stop()
            raise

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.http.get("/v1/health/live").status_code == 200
        except httpx.TransportError:
            return False

    def ready(self) -> bool:
        """Whether it says that it can work."""
        return self.http.get("/v1/health/ready").status_code == 200

    def fault(self) -> str:
        """Why it says that it cannot work; empty when it can."""
        answer = self.http.get("/v1/health/ready")
        return "" if answer.status_code == 200 else answer.json()["detail"]

    def family(self) -> list[psutil.Process]:
        """The runner, its fork servers and their children."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def runner(self) -> psutil.Process:
        """The runner."""
        (runner,) = psutil.Process(self.process.pid).children()
        return runner

    def at_work(self) -> list[int]:
        """The processes that work on a job."""
        return [p.pid for p in self.family() if p.is_running() and p.nice() == WORKING and _expendable(p.pid) == "900"]

    def upload(self, text: str, name: str) -> str:
        """Store a table."""
        answer = self.http.post("/v1/datasets", params={"name": name}, content=text.encode())
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def fit(
        self, algorithm: str, dataset: str, limits: dict[str, float] | None = None, **params: object
    ) -> dict[str, Any]:
        """Queue a fit; the model's document."""
        body = {"estimator": {"algorithm": algorithm, "params": params}, "dataset": dataset, "target": "y",
                "limits": limits or {}}  # fmt: skip
        answer = self.http.post("/v1/models", json=body, headers={"Prefer": "respond-async"})
        assert answer.status_code in (201, 202), answer.text
        return answer.json()

    def job(self, job_id: str) -> dict[str, Any]:
        """A job's document."""
        answer = self.http.get(f"/v1/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ended(self, job_id: str, seconds: float = FIT_SECONDS) -> dict[str, Any]:
        """The job when it has ended."""
        eventually(lambda: self.job(job_id)["state"] in TERMINAL, seconds)
        return self.job(job_id)

    def under_way(self, job_id: str) -> int:
        """The process that works on the job, once a part of the work is done."""

        def begun() -> bool:
            job = self.job(job_id)
            assert job["state"] in ("queued", "running"), job
            return job["state"] == "running" and (job["progress"] or {}).get("fraction", 0) > 0

        eventually(begun, FIT_SECONDS)
        (pid,) = self.at_work()
        return pid

    def kill(self, *, everything: bool = False) -> None:
        """SIGKILL the server, or all its processes; nothing of it goes on."""
        runner, family = self.runner().pid, [p.pid for p in self.family()]
        assert len(family) >= 3
        if everything:
            os.kill(runner, signal.SIGKILL)  # first, for it hands jobs back when it sees the server die
        self.process.kill()
        self.process.wait()
        eventually(lambda: all(gone(pid) for pid in family), 10.0)
        self.http.close()

    def stop(self) -> int:
        """SIGTERM, unless it has ended; the exit code."""
        self.http.close()
        self.process.terminate()
        return self.process.wait(60)


def table(rows: int, columns: int = 6) -> str:
    """A CSV of normal features and a class that depends on two of them."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(rows, columns))
    y = x[:, 0] * x[:, 1] + 0.5 * rng.normal(size=rows) > 0
    head = ",".join(f"x{j}" for j in range(columns)) + ",y\n"
    lines = [",".join(map(repr, row)) + (",yes\n" if c else ",no\n") for row, c in zip(x.tolist(), y, strict=True)]
    return head + "".join(lines)


def _expendable(pid: int) -> str:
    """The process's oom_score_adj: 900 at work, 1000 when it waits for another job."""
    try:
        return Path(f"/proc/{pid}/oom_score_adj").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
