"""The real service, killed, stopped, broken and followed: accepted work is done, and health tells the truth."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.bench import eventually, gone
from tests.faults.service import FIT_SECONDS, Served, command, table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the runner uses prctl, /proc and flock of Linux"),
]
ROW = {f"x{j}": 0.25 * j - 0.5 for j in range(6)}
FOREST = "random_forest_classifier"
Serve = Callable[..., Served]
ENDLESS = 20_000  # trees that nobody waits for


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for the tests that leave it alive."""
    served = Served(tmp_path_factory.mktemp("service") / "data")
    served.upload(table(2000), "blobs")
    yield served
    assert served.stop() == 0


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts services on one folder; none outlives the test."""
    made: list[Served] = []

    def start(*words: str, **changes: str) -> Served:
        made.append(Served(tmp_path / "data", *words, **changes))
        return made[-1]

    yield start
    for served in made:
        served.stop()


@pytest.mark.parametrize("everything", [False, True])
def test_a_killed_service_loses_no_accepted_work(serve: Serve, everything: bool) -> None:
    served = serve()
    dataset = served.upload(table(2000), "blobs")
    kept = served.fit("quadratic_discriminant_analysis", dataset)
    assert served.ended(kept["job"])["state"] == "succeeded"
    ask = f"/v1/models/{kept['id']}/predict"
    before = served.http.post(ask, json={"rows": [ROW]}).json()
    stored = served.http.get(f"/v1/datasets/{dataset}").json()
    long = served.fit(FOREST, dataset, n_estimators=1500)
    queued = [served.fit(FOREST, dataset, n_estimators=10 + i) for i in range(3)]
    served.under_way(long["job"])
    assert [served.job(m["job"])["state"] for m in queued] == ["queued"] * 3
    served.kill(everything=everything)
    again = serve()
    assert again.http.get(f"/v1/datasets/{dataset}").json() == stored
    assert again.http.post(ask, json={"rows": [ROW]}).json() == before
    ends = [again.ended(m["job"]) for m in (long, *queued)]
    assert [end["state"] for end in ends] == ["succeeded"] * 4
    assert ends[0]["attempts"] == (2 if everything else 1)
    assert again.http.get(f"/v1/models/{long['id']}").json()["state"] == "ready"
    assert again.stop() == 0


def test_a_killed_worker_is_replaced_and_the_fit_run_again(shared: Served) -> None:
    model = shared.fit(FOREST, "blobs", n_estimators=1200)
    first = shared.under_way(model["job"])
    os.kill(first, signal.SIGKILL)
    eventually(lambda: gone(first), 10.0)
    job = shared.ended(model["job"])
    assert (job["state"], job["attempts"]) == ("succeeded", 2)
    assert shared.http.get(f"/v1/models/{model['id']}").json()["state"] == "ready"


def test_a_running_fit_is_cancelled_within_seconds(shared: Served) -> None:
    model = shared.fit(FOREST, "blobs", n_estimators=ENDLESS)
    worker = shared.under_way(model["job"])
    asked = time.monotonic()
    assert shared.http.post(f"/v1/jobs/{model['job']}/cancel").status_code == 202
    assert shared.ended(model["job"], 5.0 - (time.monotonic() - asked))["state"] == "cancelled"
    assert eventually(lambda: gone(worker), 5.0) < 5.0
    assert shared.http.get(f"/v1/models/{model['id']}").json()["state"] == "cancelled"


def test_events_tell_how_far_a_fit_is(shared: Served) -> None:
    model = shared.fit(FOREST, "blobs", n_estimators=1200)
    names, shares = [], []
    with shared.http.stream("GET", f"/v1/jobs/{model['job']}/events", timeout=FIT_SECONDS) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            kind, _, text = line.partition(": ")
            if kind == "event":
                names.append(text)
            elif kind == "data" and (progress := json.loads(text)["progress"]):
                shares.append(progress["fraction"])
    assert names[0] == "state"
    assert names[-1] == "done"
    assert names.count("progress") >= 2
    assert shares == sorted(shares)
    assert len(set(shares)) >= 3
    assert shares[-1] == 1.0


def test_sigterm_ends_everything_and_hands_back_what_is_running(serve: Serve) -> None:
    served = serve(POSTFIT_GRACE_SECONDS="1")
    dataset = served.upload(table(2000), "blobs")
    model = served.fit(FOREST, dataset, n_estimators=ENDLESS)
    served.under_way(model["job"])
    family = [p.pid for p in served.family()]
    assert served.stop() == 0
    assert all(gone(pid) for pid in family)
    again = serve()
    assert again.job(model["job"])["state"] in ("queued", "running")
    assert again.job(model["job"])["attempts"] <= 1
    assert again.http.post(f"/v1/jobs/{model['job']}/cancel").status_code == 202
    assert again.ended(model["job"], 10.0)["state"] == "cancelled"
    assert again.stop() == 0


BROKEN = """
import os, pathlib, sys
for part in ("runner", "service.runner.forkserver"):
    if part in sys.orig_argv and pathlib.Path(os.environ["BROKEN"], part).exists():
        sys.stderr.write("broken by the test\\n")
        os._exit(3)
"""


def test_readiness_tells_whether_jobs_can_be_worked_on(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BROKEN)  # Python imports it first of all
    forks, runs = tmp_path / "service.runner.forkserver", tmp_path / "runner"
    forks.touch()
    served = serve(PYTHONPATH=str(tmp_path), BROKEN=str(tmp_path))
    eventually(lambda: "lost its fork server" in served.fault())
    answer = served.http.get("/v1/health/ready")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert served.http.get("/v1/health/live").status_code == 200
    forks.unlink()
    eventually(served.ready)
    runs.touch()
    served.runner().kill()
    eventually(lambda: "the worker process is not running" in served.fault())
    runs.unlink()
    eventually(served.ready)
    served.runner().suspend()
    eventually(lambda: "silent" in served.fault())
    served.runner().resume()
    eventually(served.ready)
    assert served.stop() == 0


def test_beyond_loopback_a_key_is_needed_until_it_is_revoked(serve: Serve, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    refused = command("--data", data, "serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "keys create NAME" in refused.stderr
    assert "--no-keys" in refused.stderr
    made = command("--data", data, "keys", "create", "me")
    assert made.returncode == 0, made.stderr
    key, secret = made.stdout.split()[:2]
    served = serve("--host", "0.0.0.0")
    bearer = {"Authorization": f"Bearer {secret}"}

    def status(**headers: str) -> int:
        return served.http.get("/v1/datasets", headers=headers).status_code

    assert status() == 401
    assert status(Authorization="Bearer pf_wrong") == 401
    assert status(**bearer) == 200
    assert key in command("--data", data, "keys", "list").stdout
    assert command("--data", data, "keys", "revoke", key).returncode == 0
    assert eventually(lambda: status(**bearer) == 401, 10.0) < 10.0
    assert served.stop() == 0


def test_a_port_in_use_ends_the_start_with_its_reason(shared: Served, tmp_path: Path) -> None:
    port = str(shared.http.base_url.port)
    second = command("--data", str(tmp_path / "data"), "serve", "--port", port)
    assert second.returncode not in (0, None)
    assert "address already in use" in second.stderr
    assert shared.ready()
