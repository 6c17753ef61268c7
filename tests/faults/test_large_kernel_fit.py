"""A kernel machine on 50,000 rows over the service: within its memory, cancelled at once, run again when killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.faults.bench import eventually, gone
from tests.faults.service import FIT_SECONDS, Served, table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the runner uses prctl, /proc and flock of Linux"),
]
ROWS = 50_000
LIMIT = 3 << 29  # a kernel matrix would be 20 GB
KERNEL = {"kernel": "rbf", "length_scale": 2.0}


def at_work(served: Served, job_id: str) -> int:
    """The process that solves, once it has told of its gap."""
    eventually(lambda: "duality_gap" in str(served.job(job_id)["progress"]), FIT_SECONDS)
    (pid,) = served.at_work()
    return pid


def test_fifty_thousand_rows(tmp_path: Path) -> None:
    served = Served(tmp_path / "data", POSTFIT_MEMORY_BYTES=str(LIMIT))
    try:
        dataset = served.upload(table(ROWS), "many")
        endless = served.fit("kernel_svm", dataset, kernel={"kernel": "rbf", "length_scale": 0.05}, C=1e6)
        worker = at_work(served, endless["job"])
        asked = time.monotonic()
        assert served.http.post(f"/v1/jobs/{endless['job']}/cancel").status_code == 202
        assert served.ended(endless["job"], 5.0 - (time.monotonic() - asked))["state"] == "cancelled"
        eventually(lambda: gone(worker), 5.0)

        made = served.fit("kernel_svm", dataset, kernel=KERNEL, C=0.1, tol=1e-3)
        worker = at_work(served, made["job"])
        os.kill(worker, signal.SIGKILL)
        job = served.ended(made["job"])
        assert (job["state"], job["attempts"]) == ("succeeded", 2)
        assert max(a["peak_rss_bytes"] for a in job["attempt_records"]) < LIMIT
        told = served.http.get(f"/v1/models/{made['id']}/diagnostics").json()
        assert told["certificates"]
        assert all(c["holds"] for c in told["certificates"]), told["certificates"]
    finally:
        served.stop()
