"""A fit in chunks whose process is killed midway: the next attempt gives the bits of an undisturbed one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

from service.container import Services, build
from service.ports import TERMINAL, Job
from service.settings import Settings
from service.usecases import chunked, out_of_core
from tests.faults.bench import ROOT, eventually
from tests.faults.service import FIT_SECONDS, WORKING, environ

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the runner uses prctl, /proc and flock of Linux"),
]
ROWS, CHUNKS = 20_000, 500


def store(services: Services, folder: Path) -> str:
    """A table of two features, a target and its noise."""
    r = np.random.default_rng(2)
    a, b = r.normal(size=ROWS), r.normal(size=ROWS)
    table = pa.table({"a": a, "b": b, "y": a - 2.0 * b + r.normal(size=ROWS)})
    path = folder / "table.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return str(services.datasets.add_file(path)["id"])


def ended(services: Services, job: Job) -> Job:
    eventually(lambda: services.ledger.get(job.id).state in TERMINAL, FIT_SECONDS)
    return services.ledger.get(job.id)


def worker(runner: int, services: Services, job: Job) -> int:
    """The process that works on the job, once it has read some chunks and before it has read them all."""

    def midway() -> bool:
        now = services.ledger.get(job.id)
        assert now.state not in TERMINAL, now
        return now.state == "running" and (now.progress or {}).get("fraction", 0.0) > 0.1

    eventually(midway, FIT_SECONDS)
    below = psutil.Process(runner).children(recursive=True)
    (pid,) = [p.pid for p in below if p.is_running() and p.nice() == WORKING]
    return pid


def test_a_killed_fit_in_chunks_has_the_bits_of_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 8 * 2 * ROWS // CHUNKS)
    monkeypatch.setattr(out_of_core, "memory_of", lambda *_: 1 << 60)
    settings = Settings(data=tmp_path / "data", cores=2, slots=1)
    services = build(settings)
    request = {"estimator": {"algorithm": "bayesian_linear_regression", "params": {}}, "target": "y",
               "dataset": store(services, tmp_path)}  # fmt: skip
    env = {**environ(), **settings.to_env()}
    runner = subprocess.Popen([sys.executable, "-m", "service", "runner"], env=env, cwd=ROOT)
    try:
        disturbed = services.training.submit("mdl_a", request)
        os.kill(worker(runner.pid, services, disturbed), signal.SIGKILL)
        second = ended(services, disturbed)
        calm = ended(services, services.training.submit("mdl_b", request))
    finally:
        runner.terminate()
        runner.wait(60)
        services.db.close()
    assert (second.state, second.attempts) == ("succeeded", 2), second
    assert (calm.state, calm.attempts) == ("succeeded", 1), calm
    assert (second.result or {})["artifact"]["sha256"] == (calm.result or {})["artifact"]["sha256"]
    assert "fitted_in_chunks" in {w["code"] for w in (calm.result or {})["warnings"]}
