"""Intake of CSV files beside Arrow's own reader: seconds over HTTP, of each stage, and the server's anonymous memory.

`python -m benchmarks.ingest [MEGABYTES …]` makes a table of 18 decimals, a whole number and a text per row of each size
(300 and 2000), then one of 15 mixed columns, and prints a JSON object for each. Upload and bare reader take turns, so
that what else the machine does falls on both; ratios are of their medians, in seconds and in processor seconds. The
first upload of a server is a cold one; the server's runner has compiled its loops before.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv as pacsv

from service.intake.canonical import content_hash
from service.intake.findings import ReadOptions
from service.intake.profile import profile
from service.intake.read import read
from service.usecases.tablefiles import write_mapped, write_parquet

REPEATS = 7
CAP = 1 << 36
STEP = 200_000
BARE = """
import sys, time, pyarrow.csv as c
for _ in range(2):
    start, used = time.perf_counter(), time.process_time()
    c.read_csv(sys.argv[1], parse_options=c.ParseOptions(newlines_in_values=True))
print(time.perf_counter() - start, time.process_time() - used)
"""
PORT = 8101


def plain(r: np.random.Generator, rows: int, first: int) -> pa.Table:
    """18 decimals, a whole number and a text: 181 bytes a row."""
    columns: dict[str, Any] = {f"x{i}": r.normal(size=rows).round(6) for i in range(18)}
    return pa.table(columns | {"k": r.integers(0, 1000, rows), "s": pa.array([f"u{i % 5000}" for i in range(rows)])})


def mixed(r: np.random.Generator, rows: int, first: int) -> pa.Table:
    """8 doubles of all digits, 3 whole numbers, a level, a unique text, a boolean and a date: 210 bytes a row."""
    columns: dict[str, Any] = {f"x{i}": r.normal(size=rows) for i in range(8)}
    columns |= {f"k{i}": r.integers(0, 10 ** (3 + 2 * i), rows) for i in range(3)}
    columns["level"] = pa.array([f"lv{i % 7}" for i in range(rows)])
    columns["user"] = pa.array([f"user{first + i}" for i in range(rows)])
    columns["flag"] = pa.array(r.integers(0, 2, rows) == 1)
    columns["day"] = pa.array(r.integers(0, 20000, rows).astype("int32"), pa.date32())
    return pa.table(columns)


def make(path: Path, kind: Callable[..., pa.Table], megabytes: float) -> int:
    """Write a table of about this size; how many rows it has."""
    r, rows = np.random.default_rng(0), 0
    with path.open("wb") as sink:
        while sink.tell() < megabytes * 1e6:
            pacsv.write_csv(kind(r, STEP, rows), sink, pacsv.WriteOptions(include_header=rows == 0))
            rows += STEP
    return rows


def bare(path: Path) -> tuple[float, ...]:
    """Seconds and processor seconds of Arrow's reader in a process of its own, the second time."""
    answer = subprocess.run([sys.executable, "-c", BARE, path], capture_output=True, check=True)
    return tuple(map(float, answer.stdout.split()))


def processor(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def anonymous(pid: int) -> int:
    """Bytes of private memory that no file backs."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} has no RssAnon")


def settle(pid: int) -> None:
    """Wait until the runner has compiled the loops that were not in its cache, for at most five minutes."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for _ in range(150):
        used = {one.pid: sum(one.cpu_times()[:2]) for one in family if one.is_running()}
        time.sleep(2)
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        if sum(sum(one.cpu_times()[:2]) - used.get(one.pid, 0.0) for one in family) < 0.1:
            return


@contextmanager
def server(folder: Path) -> Iterator[int]:
    """A service on PORT; its process id."""
    command = [sys.executable, "-m", "service", "--data", str(folder), "serve", "--port", str(PORT)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"POSTFIT_UPLOAD_BYTES": str(CAP)})
    try:
        for _ in range(1200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/health/ready").read()
                break
            except OSError:
                time.sleep(0.1)
        settle(process.pid)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def upload(path: Path, pid: int) -> tuple[float, float, int]:
    """Seconds of one upload by curl, the server's processor seconds, its peak of anonymous memory above that before."""
    before, peak, done, used = anonymous(pid), [0], threading.Event(), processor(pid)

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], anonymous(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    url = f"http://127.0.0.1:{PORT}/v1/datasets"
    answer = subprocess.run(
        ["curl", "-s", "-T", path, "-X", "POST", "-H", "content-type: text/csv", "-H", "expect:", url],
        capture_output=True, check=True,
    )  # fmt: skip
    seconds, used = time.perf_counter() - start, processor(pid) - used
    done.set()
    watcher.join()
    record = json.loads(answer.stdout)
    request = urllib.request.Request(f"{url}/{record['id']}", method="DELETE")
    urllib.request.urlopen(request).read()
    return seconds, used, peak[0] - before


def timed(call: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Seconds and processor seconds of a call, and its result."""
    start, used = time.perf_counter(), time.process_time()
    result = call()
    return {"s": round(time.perf_counter() - start, 3), "cpu_s": round(time.process_time() - used, 3)}, result


def stages(path: Path, folder: Path) -> dict[str, Any]:
    """Seconds of each stage alone, in this process."""
    options = pacsv.ParseOptions(newlines_in_values=True)
    found = {"bare": timed(lambda: pacsv.read_csv(path, parse_options=options).num_rows)[0]}
    with TemporaryDirectory(dir=folder) as scratch:
        work = Path(scratch)
        found["read"], got = timed(lambda: read(path, ReadOptions(), work, CAP))
        found["hash"], _ = timed(lambda: content_hash(got.table))
        found["profile"], _ = timed(lambda: profile(got.table, got.types, work))
        found["parquet"], _ = timed(lambda: write_parquet(got.table, work / "parquet"))
        found["arrow"], _ = timed(lambda: write_mapped(got.table, work / "mapped"))
    return found


def main(sizes: list[float]) -> None:
    """All tables, one after the other."""
    tables = [("plain", plain, size) for size in sizes] + [("mixed", mixed, 166)]
    for name, kind, size in tables:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            rows = make(path, kind, size)
            with server(Path(folder)) as pid:
                turns = [(*bare(path), *upload(path, pid)) for _ in range(REPEATS)]
            reader, reader_cpu, ours, ours_cpu, memory = zip(*turns, strict=True)
            told = {
                "table": name, "megabytes": round(path.stat().st_size / 1e6), "rows": rows,
                "bare_s": [round(s, 2) for s in reader], "upload_s": [round(s, 2) for s in ours],
                "ratio": round(statistics.median(ours) / statistics.median(reader), 2),
                "cpu_ratio": round(statistics.median(ours_cpu) / statistics.median(reader_cpu), 2),
                "memory_mb": [round(m / 1e6) for m in memory],
            }  # fmt: skip
            if size <= 500:
                told["stages"] = [stages(path, Path(folder)) for _ in range(2)][1]
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main([float(size) for size in sys.argv[1:]] or [300, 2000])
