"""Spread fits through the real service, its runner and a real Dask cluster, parts of which are killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from service.settings import Settings
from tests.dask_cluster import START_SECONDS, Cluster, encryption, running
from tests.faults.bench import ROOT, eventually, gone
from tests.faults.service import Served, free_port, table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the runner uses prctl, /proc and flock of Linux"),
]
ROWS = [{f"x{j}": 0.25 * j - 0.1 * i for j in range(6)} for i in range(20)]
TREES = 500
PIDS = """
import os, sys
from service.adapters.dask_spread import DaskSpread
from service.adapters.objects import LocalObjects
from service.ports import Report
from service.settings import Settings
from tests.spread_work import pid
from tests.test_spread import job
settings = Settings.from_env(os.environ, dask=sys.argv[1])
with DaskSpread(settings, LocalObjects(settings.data)).session(job(), Report(lambda progress: None, 1)) as engine:
    print(*engine.mapper(pid, range(3), ()))
"""


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


@pytest.fixture(scope="module")
def local(served: Served) -> dict[str, Any]:
    """The model that one host fits."""
    made = fit(served, spread=False)
    assert served.ended(made["job"])["state"] == "succeeded"
    return made


def assert_like_local(cluster: Cluster, served: Served, model: dict[str, Any], local: dict[str, Any]) -> None:
    """One true end, the bits of the local fit, and nothing left on the way."""
    job = served.ended(model["job"])
    assert (job["state"], job["attempts"]) == ("succeeded", 1), job
    assert answers(served, model) == answers(served, local)
    assert artifact(cluster, model) == artifact(cluster, local)
    warnings = served.http.get(f"/v1/models/{model['id']}").json()["warnings"]
    assert not [w for w in warnings if w["code"].startswith("engine")]
    eventually(lambda: cluster.tasks() == 0)
    assert not list((cluster.settings.data / "objects").glob(f"spread/{model['job']}/{job['attempts']}/*"))


def test_a_spread_fit_stores_the_bytes_of_a_local_one(
    cluster: Cluster, served: Served, local: dict[str, Any]
) -> None:
    assert_like_local(cluster, served, fit(served), local)


def test_a_killed_job_runs_again_and_leaves_the_cluster_no_tasks(cluster: Cluster, served: Served) -> None:
    model = fit(served)
    pid = under_way(served, model["job"])
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: gone(pid))
    job = served.ended(model["job"])
    assert (job["state"], job["attempts"]) == ("succeeded", 2)
    eventually(lambda: cluster.tasks() == 0)


def test_a_cancelled_fit_leaves_neither_process_nor_tasks(cluster: Cluster, served: Served) -> None:
    model = fit(served, trees=5000)
    pid = under_way(served, model["job"])
    assert served.http.post(f"/v1/jobs/{model['job']}/cancel").status_code == 202
    assert served.ended(model["job"])["state"] == "cancelled"
    eventually(lambda: gone(pid))
    eventually(lambda: cluster.tasks() == 0)


def test_a_frozen_worker_loses_its_tasks_to_others(cluster: Cluster, served: Served, local: dict[str, Any]) -> None:
    model = fit(served)
    under_way(served, model["job"])
    with cluster.frozen_worker():
        assert_like_local(cluster, served, model, local)


def test_a_fit_outlives_its_scheduler(cluster: Cluster, served: Served, local: dict[str, Any]) -> None:
    model = fit(served)
    under_way(served, model["job"])
    cluster.lose_scheduler()
    eventually(lambda: served.job(model["job"])["state"] == "queued" or not served.at_work())
    cluster.restart()
    assert_like_local(cluster, served, model, local)


def test_without_a_scheduler_local_cores_do_the_work_and_the_model_says_so(tmp_path: Path) -> None:
    nobody = f"tcp://127.0.0.1:{free_port()}"
    alone = Served(tmp_path / "data", POSTFIT_DASK=nobody, POSTFIT_ENGINE_WAIT_SECONDS="0.5")
    try:
        alone.upload(table(200), "blobs")
        model = fit(alone, trees=5)
        assert alone.ended(model["job"])["state"] == "succeeded"
        warnings = alone.http.get(f"/v1/models/{model['id']}").json()["warnings"]
        assert [nobody in w["message"] for w in warnings if w["code"] == "engine_away"] == [True]
    finally:
        assert alone.stop() == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_a_cluster_behind_tls_serves_who_has_the_certificate_and_hears_nobody_else(tmp_path: Path) -> None:
    tls, settings = encryption(tmp_path), Settings(data=tmp_path / "data")
    with running(tmp_path, settings, workers=1, preload="service.adapters.spread_payload", tls=tls) as cluster:
        work = [sys.executable, "-c", PIDS, cluster.address]
        env = {**os.environ, **tls, **settings.to_env()}
        found = subprocess.run(work, env=env, cwd=ROOT, check=True, capture_output=True, text=True)
        with cluster.client() as client:
            assert set(found.stdout.split()) == {str(pid) for pid in client.run(os.getpid).values()}
        with pytest.raises(OSError, match="closed"):
            Client(cluster.address.replace("tls", "tcp"), timeout=5.0, set_as_default=False)
