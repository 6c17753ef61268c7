"""A forest on Dask workers beside the same forest on as many local threads, and what a task costs.

    python -m benchmarks.spread [--rounds 3] [--rows 100000] [--trees 100] [--workers 2]

Starts a scheduler and one-thread workers on this machine. Bits are compared in every round. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

COLUMNS, EMPTY = 20, 2000


def bits(forest: Any) -> bytes:
    """Everything learned."""
    return forest.nodes_.tobytes() + forest.values_.tobytes() + forest.feature_importances_.tobytes()


def main() -> None:
    """Run the comparison."""
    from benchmarks.fit_forest import table
    from ml_core.ensemble.random_forest import RandomForestClassifier
    from ml_core.parallel import use_mapper, use_threads
    from service.adapters import dask_spread
    from service.container import open_objects
    from service.settings import Settings
    from tests import spread_work
    from tests.dask_cluster import running
    from tests.test_spread import SILENT, job

    parser = argparse.ArgumentParser()
    for name, value in (("rounds", 3), ("rows", 100_000), ("trees", 100), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    X, y = table(given.rows, COLUMNS, 2)

    def fit() -> tuple[float, bytes]:
        started = time.perf_counter()
        forest = RandomForestClassifier(n_estimators=given.trees, oob_score=False).fit(X, y)
        return time.perf_counter() - started, bits(forest)

    with tempfile.TemporaryDirectory() as name:
        settings = Settings(data=Path(name) / "data")
        with running(Path(name), settings, workers=given.workers) as cluster, use_threads(given.workers):
            wired = settings.model_copy(update={"dask": cluster.address})
            engine = dask_spread.DaskSpread(wired, open_objects(wired))
            local, spread, same, start = [], [], [], []
            for _ in range(given.rounds):
                seconds, here = fit()
                local.append(seconds)
                began = time.perf_counter()
                with engine.session(job(), SILENT) as found, use_mapper(found.mapper):
                    start.append(time.perf_counter() - began)
                    seconds, there = fit()
                spread.append(seconds)
                same.append(here == there)
            dask_spread.TASK_SECONDS = 0.0
            with engine.session(job(), SILENT) as found:
                began = time.perf_counter()
                list(found.mapper(spread_work.nothing, range(EMPTY), ()))
                task = (time.perf_counter() - began) / EMPTY
    ratios = [a / b for a, b in zip(spread, local, strict=True)]
    print(json.dumps({
        "rows": given.rows, "columns": COLUMNS, "trees": given.trees, "workers": given.workers,
        "local_seconds": local, "spread_seconds": spread, "ratio": statistics.median(ratios), "same_bits": all(same),
        "session_seconds": start, "empty_task_seconds": task,
    }, indent=1))  # fmt: skip


if __name__ == "__main__":
    for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        if variable in os.environ:
            os.environ.pop(variable)
            os.execv(sys.executable, [sys.executable, "-m", "benchmarks.spread", *sys.argv[1:]])
    main()
