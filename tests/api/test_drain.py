"""SIGTERM under load: what is under way ends, what only waits ends early, nobody new comes in, the exit is 0."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.api.replicas import FIT, events
from tests.api.test_conventions import check_problem
from tests.faults.bench import eventually
from tests.faults.service import Served

TEXT = b"a,b\n1,2\n3,4\n"


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """A server without a runner: a fit stays queued, so its caller and its follower wait for as long as they may."""
    made = Served(tmp_path / "data", POSTFIT_RUNNER="none", **getattr(request, "param", {}))
    yield made
    made.process.kill()
    made.process.wait()
    made.http.close()


def test_a_server_that_is_told_to_end_drains(served):
    base = str(served.http.base_url).rstrip("/")
    job = served.http.post("/v1/models", json=FIT, headers={"Prefer": "respond-async"}).json()["job"]
    following, told, codes = threading.Event(), threading.Event(), []

    def follow() -> list[str]:
        with httpx.stream("GET", f"{base}/v1/jobs/{job}/events", timeout=60.0) as answer:
            stream, names = events(answer.iter_lines()), []
            for event in stream:
                names.append(event["event"])
                following.set()
            return names

    def wait() -> httpx.Response:
        return httpx.post(f"{base}/v1/models", json=FIT, headers={"Prefer": "wait=60"}, timeout=90.0)

    def slow_body() -> Iterator[bytes]:
        yield TEXT
        assert told.wait(60)
        yield b"5,6\n"

    def upload() -> httpx.Response:
        return httpx.post(f"{base}/v1/datasets", content=slow_body(), timeout=90.0)

    def load() -> None:
        with httpx.Client(base_url=base, timeout=60.0) as client:
            while True:
                try:
                    codes.append(client.get("/v1/models").status_code)
                except httpx.TransportError:
                    return

    with ThreadPoolExecutor(8) as pool:
        followed, waited, uploaded = pool.submit(follow), pool.submit(wait), pool.submit(upload)
        busy = [pool.submit(load) for _ in range(3)]
        assert following.wait(60)
        eventually(lambda: len(served.http.get("/v1/models").json()["items"]) == 2)
        eventually(lambda: len(codes) > 20)
        served.process.send_signal(signal.SIGTERM)
        assert waited.result().status_code == 202, waited.result().text
        assert followed.result() == ["state"], "it ends without `done`, so its client asks another server"
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{base}/v1/health/live", timeout=60.0)
        told.set()
        assert uploaded.result().status_code == 201, uploaded.result().text
        assert uploaded.result().json()["rows"] == 3
        for b in busy:
            b.result()
    assert served.process.wait(60) == 0
    assert set(codes) == {200}
    assert "Traceback" not in served.log.read_text()


@pytest.mark.parametrize("served", [{"POSTFIT_GRACE_SECONDS": "0.5"}], indirect=True)
def test_a_request_that_never_ends_does_not_keep_the_server(served):
    """The drain is bounded: a body that does not come is answered without it, and the exit is still 0."""
    base = str(served.http.base_url).rstrip("/")
    begun, ends = threading.Event(), threading.Event()

    def never() -> Iterator[bytes]:
        yield TEXT
        begun.set()
        ends.wait(60)

    with ThreadPoolExecutor(1) as pool:
        hung = pool.submit(httpx.post, f"{base}/v1/datasets", content=never(), timeout=90.0)
        assert begun.wait(60)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0
        ends.set()
        check_problem(hung.result(), 503, "not-ready")
