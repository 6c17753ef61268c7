"""Fits of a table larger than the memory granted: `python -m benchmarks.larger_than_memory [--gb 1]` prints JSON.

A synthetic table is streamed to an Arrow file and uploaded to an embedded service over HTTP; each algorithm that learns
from chunks then fits it with `limits.memory_bytes` of 2 GiB. Reported per fit: wall seconds, the peak of anonymous
memory of the job's process and of the server (mapped files are not counted: the kernel drops them at need), and the
largest distance of the answer from the known truth, in standard errors of an ideal estimate where there is one.
Needs about 5 times the table's size of free disk while it runs; everything is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pyarrow as pa

from benchmarks.http import free_port, wait
from ml_core.registry import algorithms
from ml_core.sums import chunkable
from service.runner.process import status_bytes

WIDTH = 14
COLUMNS = [f"x{j}" for j in range(WIDTH)]
BATCH = 1 << 19
NOISE = 0.5
MEANS = np.linspace(-3.0, 3.0, WIDTH)
SPREADS = np.linspace(0.5, 2.0, WIDTH)
SLOPES = np.linspace(1.0, -1.0, WIDTH)
LIMIT = 2 << 30
POLL_SECONDS = 0.02
WORKING = 10  # niceness of a process at work on a job
FITS: dict[str, dict[str, Any]] = {
    "standard_scaler": {}, "linear_regression": {"target": "y"}, "bayesian_linear_regression": {"target": "y"},
    "logistic_regression": {"target": "c"}, "k_means": {}, "principal_component_analysis": {},
}  # fmt: skip
PARAMS: dict[str, Any] = {"k_means": {"n_clusters": 4, "n_init": 1, "max_iter": 20}}


def make(path: Path, rows: int) -> None:
    """Independent normal columns, a linear target with noise and a class with the same log odds; a batch at a time."""
    r = np.random.default_rng(0)
    schema = pa.schema([*((c, pa.float64()) for c in COLUMNS), ("y", pa.float64()), ("c", pa.bool_())])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for start in range(0, rows, BATCH):
            m = min(BATCH, rows - start)
            X = MEANS + SPREADS * r.normal(size=(m, WIDTH))
            f = X @ SLOPES
            c = r.random(m) < 1.0 / (1.0 + np.exp(-f))
            y = f + NOISE * r.normal(size=m)
            writer.write_batch(pa.record_batch([*(np.ascontiguousarray(X[:, j]) for j in range(WIDTH)), y, c],
                                               schema=schema))  # fmt: skip


class Peaks:
    """The most anonymous memory that the server, and any process at work below it, had since the last look."""

    def __init__(self, pid: int) -> None:
        self.server = psutil.Process(pid)
        self.top = {"server": 0, "job": 0}
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while not self.stopping.wait(POLL_SECONDS):
            self._top("server", self.server.pid)
            for p in self.server.children(recursive=True):
                try:
                    if p.nice() == WORKING:
                        self._top("job", p.pid)
                except psutil.NoSuchProcess:
                    continue

    def _top(self, who: str, pid: int) -> None:
        self.top[who] = max(self.top[who], status_bytes(pid, "RssAnon", "RssShmem"))

    def take(self) -> dict[str, float]:
        """The peaks in MB, which start anew."""
        found, self.top = self.top, {"server": 0, "job": 0}
        return {f"{who}_peak_anonymous_mb": round(value / 1e6, 1) for who, value in found.items()}


def sent(path: Path) -> Iterator[bytes]:
    """The file in pieces."""
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def fitted(http: httpx.Client, name: str, dataset: str) -> dict[str, Any]:
    """One fit to its end, and its figures."""
    body = {"estimator": {"algorithm": name, "params": PARAMS.get(name, {})}, "dataset": dataset, "features": COLUMNS,
            "limits": {"memory_bytes": LIMIT, "wall_seconds": 7200.0}, **FITS[name]}  # fmt: skip
    began = time.perf_counter()
    model = http.post("/v1/models", json=body, headers={"Prefer": "respond-async"}).raise_for_status().json()
    while model["state"] in ("queued", "running"):
        time.sleep(0.2)
        model = http.get(f"/v1/models/{model['id']}").raise_for_status().json()
    seconds = time.perf_counter() - began
    if model["state"] != "ready":
        return {"seconds": round(seconds, 1), "error": model["error"]}
    report = http.get(model["links"]["diagnostics"]).json()
    attempt = (http.get(f"/v1/jobs/{model['job']}").json().get("attempt_records") or [{}])[-1]
    return {
        "seconds": round(seconds, 1), "fit_seconds": round(model["fit_seconds"], 1),
        "in_chunks": "fitted_in_chunks" in {w["code"] for w in model["warnings"]},
        "attempt_peak_rss_mb": round((attempt.get("peak_rss_bytes") or 0) / 1e6, 1),
        "certificates_hold": all(c["holds"] for c in report["certificates"]), "train": model["metrics"]["train"],
        **off_truth(http, name, model, model["metrics"]["train"]["rows"]),
    }  # fmt: skip


def off_truth(http: httpx.Client, name: str, model: dict[str, Any], rows: int) -> dict[str, Any]:
    """How far the learned slopes, or means, lie from the truth, in ideal standard errors."""
    points = [dict(zip(COLUMNS, row, strict=True)) for row in np.vstack([np.zeros(WIDTH), np.eye(WIDTH)]).tolist()]
    here = f"/v1/models/{model['id']}"
    if FITS[name].get("target") == "y":
        f = np.array(http.post(f"{here}/predict", json={"rows": points}).raise_for_status().json()["predictions"])
        error = NOISE / (SPREADS * np.sqrt(rows))
        return {"slopes_off_in_standard_errors": round(float(np.max(np.abs(f[1:] - f[0] - SLOPES) / error)), 2)}
    if name == "logistic_regression":
        p = http.post(f"{here}/predict", json={"rows": points}).raise_for_status().json()["probabilities"]["values"]
        f = np.log(np.array(p)[:, 1] / np.array(p)[:, 0])
        return {"largest_slope_off": float(f"{np.max(np.abs(f[1:] - f[0] - SLOPES)):.2g}")}
    if name == "standard_scaler":
        z = np.array(http.post(f"{here}/transform", json={"rows": points}).raise_for_status().json()["values"])
        off = np.abs(-z[0] / np.diag(z[1:] - z[0]) - MEANS) / (SPREADS / rows**0.5)
        return {"means_off_in_standard_errors": round(float(np.max(off)), 2)}
    return {}


def main(gb: float, only: list[str]) -> None:
    """Make the table, upload it, fit, report, remove."""
    rows = int(gb * 1e9 / (8 * (WIDTH + 1)))
    port = free_port()
    names = [n for n in FITS if n in algorithms() and chunkable(algorithms()[n].cls) and (not only or n in only)]
    folder = Path(tempfile.mkdtemp(prefix="larger-than-memory-"))
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("POSTFIT_", "OPENBLAS_CORETYPE"))}
    limits = {"POSTFIT_UPLOAD_BYTES": str(int(2 * gb * 1e9) + (1 << 30)), "POSTFIT_DATA": str(folder / "data")}
    command = [sys.executable, "-m", "service", "serve", "--port", str(port)]
    server = subprocess.Popen(command, env=environ | limits, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        began = time.perf_counter()
        make(folder / "table.arrow", rows)
        out: dict[str, Any] = {"gb": gb, "rows": rows, "limit_mb": round(LIMIT / 1e6), "cores": os.cpu_count(),
                               "make_seconds": round(time.perf_counter() - began, 1), "fits": {}}  # fmt: skip
        wait(f"http://127.0.0.1:{port}/v1/health/ready")
        peaks = Peaks(server.pid)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=7200.0) as http:
            began = time.perf_counter()
            data = http.post("/v1/datasets", content=sent(folder / "table.arrow")).raise_for_status().json()
            out["upload"] = {"seconds": round(time.perf_counter() - began, 1), **peaks.take()}
            (folder / "table.arrow").unlink()
            print(json.dumps(out), file=sys.stderr)
            for name in names:
                out["fits"][name] = {**fitted(http, name, data["id"]), **peaks.take()}
                print(json.dumps({name: out["fits"][name]}), file=sys.stderr)
        peaks.stopping.set()
        print(json.dumps(out, indent=1))
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(folder)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--gb", type=float, default=1.0)
    arguments.add_argument("--only", nargs="*", default=[], choices=list(FITS))
    given = arguments.parse_args()
    main(given.gb, given.only)
