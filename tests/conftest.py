"""Fixtures: the real application on a folder of its own, with a worker thread in place of worker processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from ml_core.errors import MLError
from service.api.app import create_asgi
from service.container import Services, build
from service.errors import ServiceError
from service.ports import Claim, Report
from service.runner.child import user_error
from service.settings import Settings
from service.work import KINDS

DATA = Path(__file__).parent / "data"


class ThreadRunner:
    """Runs queued jobs one after another in this process; the real runner has tests of its own in tests/faults."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.stopping = threading.Event()
        self.paused = threading.Event()
        self.thread = threading.Thread(target=self._loop, daemon=True)

    def _loop(self) -> None:
        while not self.stopping.wait(0.005):
            if self.paused.is_set():
                continue
            for claim in self.services.ledger.claim("thread", {"instant": 1, "long": 1}):
                self._run(claim)

    def _run(self, claim: Claim) -> None:
        ledger = self.services.ledger
        report = Report(progress=lambda p: ledger.report(claim, p), cores=2, attempt=claim.attempt)
        try:
            result = KINDS[claim.job.kind](self.services, claim.job, report)
        except (MLError, ServiceError) as e:
            ledger.finish(claim, "failed", error=user_error(e))
        else:
            ledger.finish(claim, "succeeded", result=result)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings on a fresh folder."""
    return Settings(data=tmp_path / "data")


@pytest.fixture
def services(settings: Settings) -> Services:
    """Services on a fresh folder."""
    made = build(settings)
    yield made
    made.db.close()


@pytest.fixture
def runner(services: Services) -> ThreadRunner:
    """A worker on those services."""
    worker = ThreadRunner(services)
    worker.thread.start()
    yield worker
    worker.stopping.set()
    worker.thread.join()


@contextmanager
def serving(services: Services) -> Iterator[httpx.Client]:
    """The whole application under uvicorn on a free loopback port, and a client of it."""
    server = uvicorn.Server(uvicorn.Config(create_asgi(services), port=0, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.005)
        assert thread.is_alive(), "the server did not start"
    port = server.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
        yield client
    server.should_exit = True
    thread.join(30)


@pytest.fixture
def client(services: Services, runner: ThreadRunner) -> Iterator[httpx.Client]:
    """A client of the whole application."""
    with serving(services) as made:
        yield made


@pytest.fixture
def penguins(client: httpx.Client) -> str:
    """Id of the penguins dataset."""
    return client.post("/v1/samples/penguins").json()["id"]


@pytest.fixture
def scaler(client: httpx.Client, penguins: str) -> dict:
    """A fitted model that transforms."""
    body = {
        "estimator": {"algorithm": "standard_scaler", "params": {}}, "dataset": penguins, "name": "scaler",
        "features": ["bill_length_mm", "body_mass_g"], "encoding": {"missing": "drop_rows"},
    }  # fmt: skip
    answer = client.post("/v1/models", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()
