"""Speed of the ledger with 100,000 finished jobs, and its load with many claimers and submitters; prints JSON.

python -m benchmarks.ledger                                      # SQLite in a temporary folder
python -m benchmarks.ledger postgresql+psycopg://postgres@127.0.0.1:5432/test
python -m benchmarks.ledger URL --load --claimers 8 --submitters 4 --seconds 10
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import sqlalchemy
from sqlalchemy import insert, text

from service.adapters.database import Database, connect
from service.adapters.job_tables import job_attempts, job_needs, jobs
from service.adapters.ledger import SqlLedger
from service.adapters.migrations import migrate
from service.adapters.model_tables import models
from service.adapters.models import SqlModels
from service.ids import new_id
from service.ports import Attempt, Limits, NewJob
from service.settings import Settings

LIMITS = Limits(3600.0, 1 << 30, 1)
NEW = NewJob("fit", "mdl_x", {"estimator": {"algorithm": "ridge"}}, "long", LIMITS, needs=("ds_1",))
SETTINGS = Settings(max_queued=1_000_000, lease_seconds=60.0)
RESULT = {
    "artifact": {"key": "models/mdl_x/1/model.joblib", "bytes": 1, "sha256": "0" * 64},
    "diagnostics": {"curves": [[i / 7 for i in range(60)] for _ in range(9)]}, "metrics": {"train": {"r2": 0.9}},
}  # fmt: skip
RECORD = {"estimator": {"algorithm": "ridge", "params": {}}, "dataset": "ds_1", "features": ["a", "b"], "encoding": {}}


@contextmanager
def store(url: str | None) -> Iterator[str]:
    """A fresh file, or a fresh schema that is dropped afterwards."""
    if url is None:
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/service.db"
        return
    name = f"bench_{uuid4().hex}"
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
        try:
            yield f"{url}?options=-csearch_path%3D{name}"
        finally:
            connection.execute(text(f"DROP SCHEMA {name} CASCADE"))


def fill(db: Database, n: int, queued: int) -> list[str]:
    """Jobs that ended, one in a hundred failed, each with its model; and some that wait."""
    now, ids = time.time(), []
    for first in range(0, n + queued, 2000):
        many: dict[str, list[dict[str, Any]]] = {"jobs": [], "models": [], "attempts": [], "needs": []}
        for i in range(first, min(first + 2000, n + queued)):
            done, model, job = i < n, new_id("mdl"), new_id("job")
            ids.append(job)
            state = ("failed" if i % 100 == 0 else "succeeded") if done else "queued"
            many["jobs"].append(
                {"id": job, "kind": "update" if i % 50 == 0 else "fit", "resource": model, "spec": RECORD,
                 "lane": "long", "priority": 0, "rank": now + i * 1e-3, "run_after": now, "wall_seconds": 60.0,
                 "memory_bytes": 1 << 30, "cores": 1, "state": state, "attempt": int(done), "spared": 0, "lost": 0,
                 "spread": False, "tenant": "", "owner": "A" if done else None, "lease_until": None,
                 "cancel_requested": False, "progress": None, "error": {"code": "x"} if state == "failed" else None,
                 "result": RESULT if state == "succeeded" else None, "log_tail": "", "submitted": now,
                 "started": now if done else None, "finished": now - 3600 if done else None}
            )  # fmt: skip
            many["models"].append(
                {"id": model, "name": f"m{i % 1000}", "version": i, "algorithm": "ridge", "dataset": "ds_1",
                 "labels": {}, "record": RECORD, "created": now, "revision": 1}
            )  # fmt: skip
            many["needs"].append({"resource": "ds_1", "job_id": job})
            if done:
                many["attempts"].append(
                    {"job_id": job, "attempt": 1, "owner": "A", "host": "h", "pid": 1, "exit_code": 0,
                     "peak_rss_bytes": 1, "cpu_seconds": 1.0, "error": None, "finished": now}
                )  # fmt: skip
        with db.write() as connection:
            for table, rows in ((jobs, "jobs"), (models, "models"), (job_needs, "needs"), (job_attempts, "attempts")):
                if many[rows]:
                    connection.execute(insert(table), many[rows])
    return ids


def median_ms(call: Callable[[], object], times: int = 15) -> float:
    """Median milliseconds of a call."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return round(1000 * statistics.median(seconds), 3)


def large(url: str, n: int, queued: int) -> dict[str, Any]:
    """Start, listings and writes with n jobs that ended and some that wait."""
    db = connect(url)
    migrate(db)
    ids = fill(db, n, queued)
    if db.dialect == "postgresql":
        with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
    db.close()
    began = time.perf_counter()
    db = connect(url)
    migrate(db)
    ledger, catalogue = SqlLedger(db, SETTINGS), SqlModels(db)
    ledger.claim("A", {"long": 1, "instant": 1})
    ready = time.perf_counter() - began
    middle = ids[len(ids) // 2]
    page, lanes = ledger.page, {"long": 1}
    calls: dict[str, Callable[[], object]] = {
        "list": lambda: page(limit=50, cursor=None),
        "list_queued": lambda: page(limit=50, cursor=None, state="queued"),
        "list_succeeded": lambda: page(limit=50, cursor=None, state="succeeded"),
        "list_failed": lambda: page(limit=50, cursor=None, state="failed"),
        "list_kind": lambda: page(limit=50, cursor=None, kind="update"),
        "list_none": lambda: page(limit=50, cursor=None, kind="update", state="cancelled"),
        "list_kind_state": lambda: page(limit=50, cursor=None, kind="fit", state="failed"),
        "page_middle": lambda: page(limit=50, cursor=middle),
        "get": lambda: ledger.get(middle),
        "get_last_queued": lambda: ledger.get(ids[-1]),
        "models": lambda: catalogue.page(limit=50, cursor=None),
        "models_ready": lambda: catalogue.page(limit=50, cursor=None, state="ready"),
        "models_failed": lambda: catalogue.page(limit=50, cursor=None, state="failed"),
        "models_cancelled": lambda: catalogue.page(limit=50, cursor=None, state="cancelled"),
        "models_name": lambda: catalogue.page(limit=50, cursor=None, name="m7"),
        "model": lambda: catalogue.get("m7"),
        "put": lambda: ledger.put(NEW),
        "claim_and_finish": lambda: [ledger.finish(c, "succeeded", result=RESULT) for c in ledger.claim("A", lanes)],
        "needed": lambda: ledger.needed("ds_1"),
        "needed_not": lambda: ledger.needed("ds_2"),
    }  # fmt: skip
    out: dict[str, Any] = {"jobs": n, "queued": queued, "ready_seconds": round(ready, 3)}
    out["ms"] = {name: median_ms(call) for name, call in calls.items()}
    began = time.perf_counter()
    for _ in range(1000):
        ledger.put(NEW)
    out["1000_puts_seconds"] = round(time.perf_counter() - began, 3)
    out["bytes"] = sizes(db, n + queued)
    db.close()
    return out


def sizes(db: Database, n: int) -> dict[str, float]:
    """Bytes per job on PostgreSQL: the tables with their long values, and each index."""
    if db.dialect != "postgresql":
        return {}
    with db.read() as connection:
        found = connection.execute(text(
            "SELECT relname, pg_table_size(oid) FROM pg_class WHERE relkind = 'r' AND relname IN "
            "('jobs', 'job_attempts', 'job_needs', 'models') AND relnamespace = current_schema()::regnamespace "
            "UNION ALL "
            "SELECT indexrelname, pg_relation_size(indexrelid) FROM pg_stat_user_indexes "
            "WHERE schemaname = current_schema()"
        ))  # fmt: skip
        return {name: round(size / n, 1) for name, size in found if size / n >= 1}


def submit(url: str, seconds: float, gate: Any, done: Any) -> None:
    """Put jobs, one after another."""
    ledger, made = SqlLedger(connect(url), SETTINGS), 0
    gate.wait()
    until = time.time() + seconds
    while time.time() < until:
        ledger.put(NEW)
        made += 1
    done.put(("put", made))


def work(url: str, seconds: float, gate: Any, done: Any) -> None:
    """Claim, renew, report and finish, as a runner does but without the work."""
    ledger, owner, ended = SqlLedger(connect(url), SETTINGS), uuid4().hex, 0
    gate.wait()
    until = time.time() + seconds
    while time.time() < until:
        held = ledger.claim(owner, {"long": 4})
        ledger.renew(owner, held)
        for claim in held:
            ledger.report(claim, {"fraction": 0.5})
            ledger.finish(claim, "succeeded", result=RESULT, attempt=Attempt("h", 1, 0, 1, 1.0))
            ended += 1
        if not held:
            time.sleep(0.002)
    done.put(("done", ended))


def load(url: str, claimers: int, submitters: int, seconds: float) -> dict[str, Any]:
    """Jobs per second through the whole life of a job, from many processes."""
    db = connect(url)
    migrate(db)
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    gate = context.Barrier(claimers + submitters)
    roles = [submit] * submitters + [work] * claimers
    processes = [context.Process(target=role, args=(url, seconds, gate, done)) for role in roles]
    for process in processes:
        process.start()
    told = [done.get() for _ in processes]
    for process in processes:
        process.join()
    out: dict[str, Any] = {"claimers": claimers, "submitters": submitters, "seconds": seconds}
    for name in ("put", "done"):
        out[f"{name}_per_second"] = round(sum(count for role, count in told if role == name) / seconds, 1)
    out["twice"] = _twice(db)
    db.close()
    return out


def _twice(db: Database) -> int:
    with db.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM jobs WHERE attempt > 1")).scalar_one())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--claimers", type=int, default=4)
    parser.add_argument("--submitters", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    with store(given.url) as url:
        found = (
            load(url, given.claimers, given.submitters, given.seconds)
            if given.load
            else large(url, given.jobs, given.queued)
        )
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
