"""Intake of a CSV of about 100 MB: each stage in seconds, beside Arrow's own reader, as one JSON object."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from service.intake.canonical import content_hash
from service.intake.findings import ReadOptions
from service.intake.profile import profile
from service.intake.read import read

REPEATS = 3
CAP = 1 << 34


def make(path: Path, rows: int) -> None:
    """12 numbers, an integer, a level and a unique text in each row."""
    r = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{i}": r.normal(size=rows).round(6) for i in range(12)}
    columns["k"] = r.integers(0, 1000, rows)
    columns["level"] = pa.array([f"lv{i % 7}" for i in range(rows)])
    columns["user"] = pa.array([f"user{i}" for i in range(rows)])
    pacsv.write_csv(pa.table(columns), str(path))


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Median seconds of some calls, and the last result."""
    seconds, result = [], None
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return round(statistics.median(seconds), 3), result


def ours(path: Path) -> Any:
    """One complete reading."""
    with TemporaryDirectory() as scratch:
        return read(path, ReadOptions(), Path(scratch), CAP)


def main(rows: int) -> None:
    """Make the file, time the stages, print."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        make(path, rows)
        peer, _ = timed(lambda: pacsv.read_csv(str(path)))
        reading, got = timed(lambda: ours(path))
        hashing, _ = timed(lambda: content_hash(got.table))
        profiling, _ = timed(lambda: profile(got.table, got.types))
        writing, _ = timed(lambda: pq.write_table(got.table, f"{folder}/t.parquet", compression="zstd"))
        size = path.stat().st_size / 1e6
        print(json.dumps({"megabytes": round(size, 1), "rows": rows, "pyarrow_read_csv": peer, "read": reading,
                          "hash": hashing, "profile": profiling, "parquet": writing}))  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 740_000)
