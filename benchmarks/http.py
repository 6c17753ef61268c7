"""One-row JSON prediction through HTTP against a bare ASGI echo on the same server and cores, in one run.

    python -m benchmarks.http [--seconds 4] [--rounds 5]

Needs `wrk` (Debian package) for the load; without it a small asyncio client is used, which costs more of the machine.
Prints JSON: requests per second and server CPU per request of both, and their ratio. Loopback only, bounded in time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psutil

COLUMNS = [f"x{i}" for i in range(30)]
ECHO = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            m = await receive()
            await send({"type": m["type"] + ".complete"})
            if m["type"] == "lifespan.shutdown":
                return
    body = b""
    while True:
        m = await receive()
        body += m.get("body", b"")
        if not m.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait(url: str) -> None:
    for _ in range(600):
        try:
            if httpx.get(url, timeout=1).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


async def own_load(port: int, path: str, body: bytes, seconds: float) -> int:
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
             f"Content-Length: {len(body)}")  # fmt: skip
    head = "\r\n".join(lines) + "\r\n\r\n"
    message, end, done = head.encode() + body, time.perf_counter() + seconds, [0]

    async def one() -> None:
        r, w = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            w.write(message)
            answer = await r.readuntil(b"\r\n\r\n")
            assert b" 200 " in answer[:20], answer
            await r.readexactly(int(re.search(rb"content-length: *(\d+)", answer, re.I)[1]))
            done[0] += 1
        w.close()

    await asyncio.gather(*[one() for _ in range(8)])
    return done[0]


def load(port: int, path: str, body: bytes, seconds: float, pid: int) -> dict[str, float]:
    """Requests per second and server CPU microseconds per request."""
    process = psutil.Process(pid)
    before, started = sum(process.cpu_times()[:2]), time.perf_counter()
    if shutil.which("wrk"):
        with tempfile.TemporaryDirectory() as folder:
            lua = Path(folder) / "s.lua"
            lua.write_text("wrk.method='POST'\nwrk.headers['Content-Type']='application/json'\n"
                           f"wrk.body={json.dumps(body.decode())}\n")
            out = subprocess.run(["wrk", "-t1", "-c8", f"-d{seconds:.0f}s", "-s", str(lua), f"http://127.0.0.1:{port}{path}"],
                                 capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in out:
            raise SystemExit(out)
        n = int(re.search(r"(\d+) requests in", out)[1])
    else:
        n = asyncio.run(own_load(port, path, body, seconds))
    spent = time.perf_counter() - started
    return {"requests_per_second": n / spent, "cpu_us": (sum(process.cpu_times()[:2]) - before) / n * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    environ = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "echo.py").write_text(ECHO)
        ports = free_port(), free_port()
        echo = subprocess.Popen([sys.executable, "-m", "uvicorn", "echo:app", "--port", str(ports[0]),
                                 "--no-access-log",
                                 "--log-level", "warning"], cwd=folder, env=environ)
        ours = subprocess.Popen([sys.executable, "-m", "service", "--data", f"{folder}/data", "serve",
                                 "--port", str(ports[1])],
                                env=environ, stderr=subprocess.DEVNULL)
        try:
            print(json.dumps(run(ports, (echo.pid, ours.pid), given), indent=1))
        finally:
            for process in (echo, ours):
                process.terminate()
                process.wait(30)


def run(ports, pids, given) -> dict:
    base = f"http://127.0.0.1:{ports[1]}"
    wait(f"{base}/v1/health/live")
    import random

    r = random.Random(0)
    rows = [[r.gauss(0, 1) for _ in COLUMNS] for _ in range(400)]
    labels = ["yes" if v[0] + r.gauss(0, 1) > 0 else "no" for v in rows]
    lines = [",".join([*map(repr, v), label]) for v, label in zip(rows, labels, strict=True)]
    text = "\n".join([",".join([*COLUMNS, "y"]), *lines])
    data = httpx.post(f"{base}/v1/datasets", content=text.encode(), timeout=60).json()["id"]
    results = {}
    body = json.dumps({"rows": [dict(zip(COLUMNS, [round(v, 6) for v in rows[0]], strict=True))]}).encode()
    for algorithm in ("logistic_regression", "random_forest_classifier"):
        fit = {"estimator": {"algorithm": algorithm, "params": {}}, "dataset": data, "target": "y"}
        model = httpx.post(f"{base}/v1/models", json=fit, headers={"Prefer": "wait=60"}, timeout=90).json()
        path = f"/v1/models/{model['id']}/predict"
        assert httpx.post(base + path, content=body, headers={"content-type": "application/json"}).status_code == 200
        pairs = []
        for _ in range(given.rounds):
            a = load(ports[0], "/", body, given.seconds, pids[0])
            b = load(ports[1], path, body, given.seconds, pids[1])
            pairs.append((a, b))
        median = lambda i, k: statistics.median(p[i][k] for p in pairs)  # noqa: E731
        results[algorithm] = {
            "echo": {k: median(0, k) for k in pairs[0][0]}, "ours": {k: median(1, k) for k in pairs[0][1]},
            "rate_ratio": statistics.median(b["requests_per_second"] / a["requests_per_second"] for a, b in pairs),
            "cpu_ratio": statistics.median(a["cpu_us"] / b["cpu_us"] for a, b in pairs),
        }
    return results


if __name__ == "__main__":
    main()
