"""Spread fits through the real service, its runner and a real Dask cluster, parts of which are killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.settings import Settings
from tests.dask_cluster import START_SECONDS, Cluster, running
from tests.faults.bench import eventually, gone
from tests.faults.service import Served, table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the runner uses prctl, /proc and flock of Linux"),
]
ROWS = [{f"x{j}": 0.25 * j - 0.1 * i for j in range(6)} for i in range(20)]
TREES = 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spread")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    with running(folder, Settings(data=folder / "data")) as made:
        yield made


def serve(cluster: Cluster, wait_seconds: float) -> Served:
    return Served(cluster.settings.data, POSTFIT_DASK=cluster.address, POSTFIT_ENGINE_WAIT_SECONDS=str(wait_seconds))


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> Iterator[Served]:
    made = serve(cluster, START_SECONDS)
    made.upload(table(1500), "blobs")
    yield made
    assert made.stop() == 0


def fit(served: Served, *, trees: int = TREES, spread: bool = True) -> dict[str, Any]:
    estimator = {"algorithm": "random_forest_classifier", "params": {"n_estimators": trees}}
    body = {"estimator": estimator, "dataset": "blobs", "target": "y", "seed": 5, "spread": spread}
    answer = served.http.post("/v1/models", json=body, headers={"Prefer": "respond-async"})
    assert answer.status_code in (201, 202), answer.text
    return answer.json()


def under_way(served: Served, job_id: str) -> int:
    """The process that works on the job once trees have come from the cluster."""

    found: list[int] = []

    def begun() -> bool:
        job = served.job(job_id)
        assert job["state"] in ("queued", "running"), job
        found[:] = served.at_work() if (job["progress"] or {}).get("unit") == "trees" else []
        return len(found) == 1

    eventually(begun, START_SECONDS)
    return found[0]


def answers(served: Served, model: dict[str, Any]) -> Any:
    """Predictions, train and validation scores."""
    found = served.http.get(f"/v1/models/{model['id']}").json()
    told = served.http.post(f"/v1/models/{model['id']}/predict", json={"rows": ROWS})
    assert told.status_code == 200, told.text
    return {k: v for k, v in told.json().items() if "model" not in k}, found["metrics"]


def artifact(cluster: Cluster, model: dict[str, Any]) -> bytes:
    (file,) = (cluster.settings.data / "objects" / "models" / model["id"]).rglob("*.joblib")
    return file.read_bytes()


def test_a_spread_fit_stores_the_bytes_of_a_local_one(cluster: Cluster, served: Served) -> None:
    here, there = fit(served, spread=False), fit(served)
    ends = [served.ended(m["job"]) for m in (here, there)]
    assert [end["state"] for end in ends] == ["succeeded"] * 2
    assert answers(served, there) == answers(served, here)
    assert artifact(cluster, there) == artifact(cluster, here)
    assert not list((cluster.settings.data / "objects").glob("spread/*/*/*"))


def test_a_killed_job_runs_again_and_leaves_the_cluster_no_tasks(cluster: Cluster, served: Served) -> None:
    model = fit(served)
    pid = under_way(served, model["job"])
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: gone(pid))
    job = served.ended(model["job"])
    assert (job["state"], job["attempts"]) == ("succeeded", 2)
    eventually(lambda: cluster.tasks() == 0)
