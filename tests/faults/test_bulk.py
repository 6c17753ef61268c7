"""Predictions of a dataset whose process is killed or cancelled midway, with the real runner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.container import Services, build
from service.errors import NotFound
from service.settings import Settings
from service.usecases import bulk
from tests.faults.bench import ROOT
from tests.faults.service import environ
from tests.faults.test_chunks import ended, store, worker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the runner uses prctl, /proc and flock of Linux"),
]


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    """Services whose predictions go in small chunks, which takes some seconds."""
    monkeypatch.setattr(bulk, "MOST_ROWS", 5)
    made = build(Settings(data=tmp_path / "data", cores=2, slots=1))
    yield made
    made.db.close()


@pytest.fixture
def runner(services: Services) -> Iterator[int]:
    env = {**environ(), **services.settings.to_env()}
    running = subprocess.Popen([sys.executable, "-m", "service", "runner"], env=env, cwd=ROOT)
    yield running.pid
    running.terminate()
    running.wait(60)


@pytest.fixture
def asked(services: Services, runner: int, tmp_path: Path) -> dict[str, str]:
    """A model and the dataset it is to predict."""
    dataset = store(services, tmp_path)
    request = {"estimator": {"algorithm": "bayesian_linear_regression", "params": {}}, "target": "y"}
    fit = ended(services, services.training.submit("mdl_a", request | {"dataset": dataset}))
    assert fit.state == "succeeded", fit
    return {"model": "mdl_a", "dataset": dataset}


def test_a_killed_prediction_has_the_rows_of_an_undisturbed_one(
    services: Services, runner: int, asked: dict[str, str]
) -> None:
    body = {"dataset": asked["dataset"], "keep": ["a"], "interval": 0.5}
    disturbed = services.bulk.submit(asked["model"], "ds_a", body)
    os.kill(worker(runner, services, disturbed), signal.SIGKILL)
    second = ended(services, disturbed)
    calm = ended(services, services.bulk.submit(asked["model"], "ds_b", body))
    assert (second.state, second.attempts, calm.attempts) == ("succeeded", 2, 1), second
    assert services.datasets.get("ds_a")["sha256"] == services.datasets.get("ds_b")["sha256"]


def test_a_prediction_cancelled_midway_leaves_nothing(services: Services, runner: int, asked: dict[str, str]) -> None:
    job = services.bulk.submit(asked["model"], "ds_a", {"dataset": asked["dataset"]})
    tables = set(services.objects.keys("tables/"))
    worker(runner, services, job)
    services.bulk.discard(services.ledger.cancel(job.id))
    assert ended(services, job).state == "cancelled"
    with pytest.raises(NotFound):
        services.datasets.get("ds_a")
    assert set(services.objects.keys("tables/")) == tables
