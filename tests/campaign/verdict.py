"""What must be true after a campaign, read from the outside: over HTTP, in the stores, and in the process table."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import create_engine, text

from tests.campaign.work import Clients, Promise

TERMINAL = {"succeeded", "failed", "cancelled"}


@dataclass
class Verdict:
    """Counts, and everything that is wrong."""

    states: Counter[str] = field(default_factory=Counter)
    attempts: Counter[int] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    artifacts: int = 0
    orphans: int = 0
    wrong: list[str] = field(default_factory=list)


def settled(clients: Clients, seconds: float) -> bool:
    """Whether every accepted job ended within so many seconds."""
    rng, deadline = random.Random(0), time.monotonic() + seconds
    waiting = {p.job for p in clients.promises}
    while waiting and time.monotonic() < deadline:
        for job in sorted(waiting):
            if clients.call(rng, "GET", f"/v1/jobs/{job}").json().get("state") in TERMINAL:
                waiting.discard(job)
            elif time.monotonic() > deadline:
                break
        time.sleep(0.2)
    return not waiting


def judge(clients: Clients, database: str, objects: dict[str, str] | Path) -> Verdict:
    """Look at every promise, at the ledger and at the stored objects."""
    found, rng = Verdict(wrong=list(clients.wrong)), random.Random(1)
    for promise in clients.promises:
        _promise(found, clients, rng, promise)
    models = [p.model for p in clients.promises]
    if len(set(models)) != len(models):
        found.wrong.append("two accepted requests share a model")
    _ledger(found, database, len(models))
    _objects(found, clients, rng, objects)
    return found


def _promise(found: Verdict, clients: Clients, rng: random.Random, promise: Promise) -> None:
    job = clients.call(rng, "GET", f"/v1/jobs/{promise.job}").json()
    found.states[job.get("state")] += 1
    found.attempts[job.get("attempts")] += 1
    if job["state"] == "failed":
        found.ends[job["error"].get("code", "?")] += 1
        found.wrong.append(f"{promise.job} failed: {job['error']}")
    elif job["state"] == "cancelled" and not promise.cancelled:
        found.wrong.append(f"{promise.job} was cancelled and nobody asked")
    elif promise.cancelled and job["state"] != "cancelled":
        found.wrong.append(f"{promise.job} was promised to end cancelled and is {job['state']}")
    elif job["state"] == "succeeded":
        _model(found, clients, rng, promise)


def _model(found: Verdict, clients: Clients, rng: random.Random, promise: Promise) -> None:
    model = clients.call(rng, "GET", f"/v1/models/{promise.model}").json()
    if model["state"] != "ready" or model["job"] != promise.job:
        found.wrong.append(f"{promise.model} is {model['state']}, job {model['job']}, after {promise.job} succeeded")
        return
    artifact = clients.call(rng, "GET", f"/v1/models/{promise.model}/artifact")
    if hashlib.sha256(artifact.content).hexdigest() != model["artifact"]["sha256"]:
        found.wrong.append(f"the artifact of {promise.model} is not the one in its record")
    found.artifacts += 1
    row: dict[str, Any] = {"a": 1, "b": 0, "c": 1} if promise.body["estimator"]["algorithm"] == "beta_bernoulli" else {
        **{f"x{j}": 0.25 for j in range(6)}, "y": "up"}  # fmt: skip
    ask = "posterior" if "a" in row else "predict"
    answer = clients.call(rng, "POST", f"/v1/models/{promise.model}/{ask}", json={"rows": [row]})
    if answer.status_code != 200:
        found.wrong.append(f"{promise.model} does not answer: {answer.status_code} {answer.text[:200]}")


def _ledger(found: Verdict, database: str, models: int) -> None:
    engine = create_engine(database)
    with engine.connect() as connection:
        def count(query: str) -> int:
            return int(connection.execute(text(query)).scalar_one())

        if (n := count("SELECT count(*) FROM jobs WHERE state IN ('queued', 'running') AND kind <> 'sweep'")) > 0:
            found.wrong.append(f"{n} jobs have not ended")
        if (n := count("SELECT count(*) FROM jobs WHERE state <> 'running' AND lease_until IS NOT NULL")) > 0:
            found.wrong.append(f"{n} ended jobs hold a lease")
        if (n := count("SELECT count(*) FROM models")) != models:
            found.wrong.append(f"there are {n} models for {models} accepted requests")
        if (n := count("SELECT count(*) FROM jobs WHERE kind = 'fit'")) != models:
            found.wrong.append(f"there are {n} fits for {models} accepted requests")
        if (n := count("SELECT count(*) FROM (SELECT resource FROM jobs GROUP BY resource HAVING count(*) > 1) AS d")):
            found.wrong.append(f"{n} models have several jobs")
        twice = ("SELECT count(*) FROM (SELECT job_id FROM job_attempts WHERE exit_code = 0 AND error IS NULL "
                 "GROUP BY job_id HAVING count(*) > 1) AS d")  # fmt: skip
        if (n := count(twice)) > 0:
            found.wrong.append(f"{n} jobs succeeded twice")
    engine.dispose()


def _objects(found: Verdict, clients: Clients, rng: random.Random, objects: dict[str, str] | Path) -> None:
    """Every stored model file is whole: named by a record with its size, or an orphan that the sweep will take."""
    named = {}
    for promise in clients.promises:
        artifact = clients.call(rng, "GET", f"/v1/models/{promise.model}").json().get("artifact")
        if artifact:
            named[promise.model] = artifact["bytes"]
    sizes = _sizes(objects)
    kept: Counter[str] = Counter()
    for key, size in sizes.items():
        model = key.split("/")[1] if key.startswith("models/") else ""
        if model in named and size == named[model]:
            kept[model] += 1
        elif model:
            found.orphans += 1
    for model in named:
        if not kept[model]:
            found.wrong.append(f"no object of {model} has the size in its record")


def _sizes(objects: dict[str, str] | Path) -> dict[str, int]:
    if isinstance(objects, Path):
        files = [p for p in objects.rglob("*") if p.is_file() and ".scratch" not in p.parts]
        return {p.relative_to(objects).as_posix(): p.stat().st_size for p in files}
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        "postfit", endpoint=objects["AWS_ENDPOINT_URL"], access_key_id=objects["AWS_ACCESS_KEY_ID"],
        secret_access_key=objects["AWS_SECRET_ACCESS_KEY"], region="us-east-1", client_options={"allow_http": True},
    )  # fmt: skip
    return {o["path"].partition("campaign/")[2]: o["size"] for page in obstore.list(store, "campaign/") for o in page}


def leftovers(folder: Path) -> list[str]:
    """Processes that still belong to the campaign."""
    found = []
    for process in psutil.process_iter():
        try:
            mine = process.environ().get("POSTFIT_DATA", "").startswith(str(folder))
            if mine and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid}: {' '.join(process.cmdline()[:6])}")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
