"""Fit times against scikit-learn in one run: same data, equal quality, interleaved rounds, medians.

    python -m benchmarks.fit [--rounds 5] [--only forest,ols] [--threads 2]

Each topic file gives `cases()`. The thread budget is the same for both sides; OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE
are removed before NumPy is loaded. First calls (compiling, loading) are reported apart, never in a median. Prints JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import statistics
import sys
import time
import warnings
from typing import Any


def timed(make: Any, X: Any, y: Any) -> tuple[float, Any]:
    """Seconds of one fit, and the model."""
    model = make()
    started = time.perf_counter()
    model.fit(X) if y is None else model.fit(X, y)
    return time.perf_counter() - started, model


def run(case: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Medians of both sides, their ratio, and their quality (larger is better)."""
    X, y = case["X"], case["y"]
    first, ours_model = timed(case["make_ours"], X, y)
    peer_first, peer_model = timed(case["make_peer"], X, y)
    pairs = [(timed(case["make_ours"], X, y)[0], timed(case["make_peer"], X, y)[0]) for _ in range(rounds)]
    ours, peer = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    return {
        "name": case["name"], "ours_seconds": ours, "peer_seconds": peer,
        "ratio": statistics.median(a / b for a, b in pairs), "first_seconds": first, "peer_first_seconds": peer_first,
        "ours_quality": case["quality"](ours_model), "peer_quality": case["quality"](peer_model),
    }  # fmt: skip


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    import benchmarks
    from ml_core.parallel import use_threads

    warnings.simplefilter("ignore")
    out = []
    for module in pkgutil.iter_modules(benchmarks.__path__):
        topic = importlib.import_module(f"benchmarks.{module.name}") if module.name.startswith("fit_") else None
        for case in topic.cases() if topic else ():
            if given.only and not any(word in case["name"] for word in given.only.split(",")):
                continue
            with use_threads(given.threads):
                row = run(case, given.rounds)
            print(f"{row['name']:<36} {row['ratio']:6.2f}x  ours {row['ours_seconds'] * 1e3:9.2f} ms"
                  f"  quality {row['ours_quality']:.6g} / {row['peer_quality']:.6g}", file=sys.stderr, flush=True)
            out.append(row)
    print(json.dumps({"threads": given.threads, "rounds": given.rounds, "cases": out}, indent=1))


if __name__ == "__main__":
    for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        if variable in os.environ:
            os.environ.pop(variable)
            os.execv(sys.executable, [sys.executable, "-m", "benchmarks.fit", *sys.argv[1:]])
    main()
