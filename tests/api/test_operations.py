"""What operators rely on: health, metrics, keys, whose requests are served, how attempts ended."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ml_core.registry import functions
from service.container import Services, build
from service.errors import NotReady
from service.ports import Attempt, RunnerFacts
from tests.api.replicas import FIT, ROW, Wire, events, fit
from tests.api.test_conventions import check_problem
from tests.conftest import ThreadRunner, serving
from tests.contract.ledgers import postgres_schema, without_postgres

FACTS = RunnerFacts("r1", "host", 7, "1", slots=2, busy=1)


def with_settings(services: Services, **changes: object) -> Services:
    return type(services)(**{**vars(services), "settings": services.settings.model_copy(update=changes)})


Labels = frozenset[tuple[str, str]]


def labels(name: str, **values: str) -> Labels:
    return frozenset({"name": name, **values}.items())


def figures(client: httpx.Client) -> dict[Labels, float]:
    """Every sample by its name and labels."""
    text = client.get("/metrics").text
    return {labels(f"postfit_{s.name}".replace("postfit_postfit_", ""), **s.labels): s.value
            for f in text_string_to_metric_families(text) for s in f.samples}  # fmt: skip


def test_without_a_runner_of_its_own_it_is_ready_while_one_is_alive(services):
    with serving(with_settings(services, runner="none")) as c:
        assert "no runner is alive" in check_problem(c.get("/v1/health/ready"), 503, "not-ready")["detail"]
        services.runners.beat(RunnerFacts("r0", "host", 6, "1", slots=2, busy=0, state="the disk is full"))
        assert "the disk is full" in check_problem(c.get("/v1/health/ready"), 503, "not-ready")["detail"]
        services.runners.beat(FACTS)
        assert c.get("/v1/health/ready").status_code == 200
        services.runners.leave("r1")
        check_problem(c.get("/v1/health/ready"), 503, "not-ready")


def test_metrics_count_what_happened(client, services, runner):
    before = figures(client)
    services.runners.beat(FACTS)
    model = fit(client)
    for _ in range(3):
        assert client.post(f"/v1/models/{model['id']}/predict", json=ROW).status_code == 200
    client.get("/v1/models/mdl_none")
    client.get("/v1/nowhere")
    client.post("/v1/models", json=FIT | {"estimator": {"algorithm": "none"}})
    runner.paused.set()
    client.post("/v1/models", json=FIT, headers={"Prefer": "respond-async"})
    _until(lambda: figures(client)[labels("queue_depth", lane="instant")] == 1)  # read once a second
    now = figures(client)
    runner.paused.clear()

    def value(name: str, **given: str) -> float:
        return now[labels(name, **given)]

    def grown(name: str, **given: str) -> float:
        return value(name, **given) - before.get(labels(name, **given), 0.0)

    predict, count = "/v1/models/{model_id}/predict", "http_requests_total"
    assert grown(count, route=predict, method="POST", status="200") == 3
    assert grown("http_request_seconds_count", route=predict) == 3
    assert grown("http_request_seconds_bucket", route=predict, le="+Inf") == 3
    assert grown(count, route="/v1/models/{model_id}", method="GET", status="404") == 1
    assert grown(count, route="(none)", method="GET", status="404") == 1
    assert grown(count, route="/v1/models", method="POST", status="422") == 1
    assert value("http_requests_in_flight") == 1
    assert grown("jobs_ended_total", kind="fit", state="succeeded", code="") == 1
    assert grown("job_run_seconds_count", lane="instant") == 1
    assert value("queue_depth", lane="instant") == value("jobs", state="queued", lane="instant") == 1
    assert value("queue_oldest_seconds", lane="instant") > 0
    assert [value(name) for name in ("runners", "runner_slots", "runner_busy")] == [1, 2, 1]
    assert grown("model_cache_misses_total") == 1
    assert grown("model_cache_hits_total") == 2
    assert value("models_in_memory") == 1
    assert value("postfit_process_resident_memory_bytes") > 0


def test_foreign_methods_and_paths_make_no_new_series(client):
    for n, method in enumerate(("LOCK", "SEARCH", "PURGE")):
        client.request(method, f"/v1/{n}")
    found = [dict(k) for k in figures(client)]
    assert {(k["route"], k["method"]) for k in found if k["name"] == "http_requests_total"} == {("(none)", "OTHER")}


def test_metrics_need_a_key_where_everything_does(services, runner):
    _, secret = services.keys.create("prometheus")
    with serving(with_settings(services, require_keys=True)) as c:
        check_problem(c.get("/metrics"), 401, "unauthenticated")
        assert c.get("/metrics", headers={"Authorization": f"Bearer {secret}"}).status_code == 200


def test_a_key_revoked_by_another_process_is_refused_at_once(services, runner, settings):
    key, secret = services.keys.create("short-lived")
    headers = {"Authorization": f"Bearer {secret}"}
    other = build(settings)
    with serving(with_settings(services, require_keys=True)) as c:
        c.headers.update(headers)
        model = fit(c)
        for _ in range(3):
            assert c.post(f"/v1/models/{model['id']}/predict", json=ROW).status_code == 200
        other.keys.revoke(key)
        check_problem(c.post(f"/v1/models/{model['id']}/predict", json=ROW), 401, "unauthenticated")
    other.db.close()


def test_keys_of_different_callers_never_meet(services, runner):
    secrets = [services.keys.create(name) for name in ("one", "two")]
    with serving(with_settings(services, require_keys=True)) as c:
        made = [
            c.post("/v1/models", json=FIT, headers={"Authorization": f"Bearer {s}", "Idempotency-Key": "k" * 255})
            for _, s in secrets for _ in range(2)
        ]  # fmt: skip
        assert [m.status_code for m in made] == [201] * 4
        ids = [m.json()["id"] for m in made]
        assert (ids[0], ids[2]) == (ids[1], ids[3])
        assert ids[0] != ids[2]
        tenants = [services.ledger.of_resource(i).tenant for i in ids[::2]]
        assert tenants == [key for key, _ in secrets]


@pytest.mark.parametrize("headers", [
    {"Host": "evil.example"}, {"Host": "evil.example:8000"}, {"Host": "127.0.0.1.evil.example"}, {"Host": "10.0.0.1"},
    {"Host": "[::2]:80"}, {"Host": "["}, {"Origin": "https://evil.example"}, {"Origin": "null"},
    {"Origin": "http://localhost.evil.example"},
])  # fmt: skip
def test_pages_of_others_are_refused_on_loopback_without_keys(headers, client):
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/samples/iris"), ("GET", "/"), ("GET", "/v1/health/live")):
        told = check_problem(client.request(method, path, headers=headers), 403, "forbidden")
        assert "127.0.0.1" in told["detail"]
    assert client.get("/v1/datasets").json()["items"] == []


@pytest.mark.parametrize("headers", [
    {"Host": "localhost"}, {"Host": "LOCALHOST.:1"}, {"Host": "[::1]:8000"}, {"Host": "127.8.9.1"},
    {"Origin": "http://127.0.0.1:3000"}, {"Origin": "http://app.localhost"},
])  # fmt: skip
def test_programs_and_pages_of_this_machine_are_served(headers, client):
    assert client.get("/v1/models", headers=headers).status_code == 200


def test_beyond_loopback_any_name_is_served(services, runner):
    with serving(with_settings(services, host="0.0.0.0")) as c:
        assert c.get("/v1/models", headers={"Host": "fits.example"}).status_code == 200


def test_the_prediction_path_refuses_them_too(client):
    model = fit(client)
    path = f"/v1/models/{model['id']}/predict"
    assert client.post(path, json=ROW).status_code == 200
    check_problem(client.post(path, json=ROW, headers={"Host": "evil.example"}), 403, "forbidden")


def test_one_job_tells_how_its_attempts_ended(client, services, runner):
    runner.paused.set()
    model = client.post("/v1/models", json=FIT, headers={"Prefer": "respond-async"}).json()
    ledger = services.ledger
    crash = {"code": "worker_crashed", "detail": "signal 11"}
    for n, (state, error) in enumerate((("queued", crash), ("succeeded", None))):
        (claim,) = _claim(ledger)
        ended = Attempt("host", 7, -11 if error else 0, 1000 + n, 0.5)
        ledger.finish(claim, state, error=error, attempt=ended, log_tail=f"line {n}", result={} if n else None)
    job = client.get(f"/v1/jobs/{model['job']}").json()
    assert [(a["attempt"], a["exit_code"], a["error"]) for a in job["attempt_records"]] == [
        (1, -11, "worker_crashed"), (2, 0, None),
    ]  # fmt: skip
    for a in job["attempt_records"]:
        assert set(a) == {"attempt", "host", "exit_code", "peak_rss_bytes", "cpu_seconds", "error", "finished_at"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", a["finished_at"])
    assert job["log_tail"] == "line 1"
    assert job["progress"]["fraction"] == 1.0
    assert "attempt_records" not in client.get("/v1/jobs").json()["items"][0]


def _claim(ledger):
    while not (claims := ledger.claim("test", {"instant": 1, "long": 1})):
        time.sleep(0.01)
    return claims


def test_the_digest_is_the_one_of_rfc_3230(client):
    answer = client.get(fit(client)["links"]["artifact"])
    assert answer.headers["digest"] == "sha-256=" + base64.b64encode(hashlib.sha256(answer.content).digest()).decode()


def test_slow_functions_leave_threads_to_others(client, monkeypatch):
    begun, ends = threading.Semaphore(0), threading.Event()

    class Slow:
        name = "slow"

        def __call__(self, body: object) -> dict:
            begun.release()
            ends.wait(60)
            return {}

    monkeypatch.setattr("service.api.routes.algorithms.functions", lambda: {**functions(), "slow": Slow()})
    url = f"{client.base_url}/v1/functions/slow"
    with ThreadPoolExecutor(60) as pool:
        slow = [pool.submit(httpx.post, url, json={}, timeout=60.0) for _ in range(60)]
        assert begun.acquire(timeout=30)
        assert client.get("/v1/models").status_code == 200, "a route that needs a thread"
        ends.set()
        assert {f.result().status_code for f in slow} == {200}


def test_a_database_that_goes_away_is_503_until_it_is_back(settings):
    if reason := without_postgres():
        pytest.skip(reason)
    with postgres_schema() as url:
        wire = Wire(5432)
        services = build(settings.model_copy(update={"database": url.replace(":5432", f":{wire.port}")}))
        worker = ThreadRunner(services)
        worker.thread.start()
        with serving(services) as c:
            model = fit(c)
            assert c.post(f"/v1/models/{model['id']}/predict", json=ROW).status_code == 200
            worker.stopping.set()
            worker.thread.join()
            wire.cut()
            _until(lambda: c.post(f"/v1/models/{model['id']}/predict", json=ROW).status_code == 503)  # it is heard of
            for method, path, body in _asked(model):
                answer = c.request(method, path, json=body)
                check_problem(answer, 503, "not-ready")
                assert int(answer.headers["retry-after"]) >= 1
            assert c.get("/v1/health/live").status_code == 200
            assert c.get("/docs").status_code == 200
            wire.mend()
            _until(lambda: c.get(f"/v1/models/{model['id']}").status_code == 200)
            assert c.post(f"/v1/models/{model['id']}/predict", json=ROW).status_code == 200
            assert c.get("/metrics").status_code == 200
        wire.cut()
        services.db.close()


def _asked(model: dict) -> list[tuple[str, str, object]]:
    here = f"/v1/models/{model['id']}"
    return [
        ("GET", "/v1/models", None), ("GET", here, None), ("POST", f"{here}/predict", ROW), ("POST", "/v1/models", FIT),
        ("GET", "/v1/jobs", None), ("GET", f"/v1/jobs/{model['job']}", None), ("DELETE", here, None),
        ("GET", f"/v1/jobs/{model['job']}/events", None), ("GET", "/v1/datasets", None), ("GET", "/v1/aliases", None),
        ("PUT", "/v1/aliases/a", {"model": model["id"]}), ("POST", "/v1/samples/iris", None),
        ("GET", "/v1/health/ready", None),
    ]  # fmt: skip


def _until(probe) -> None:
    deadline = time.monotonic() + 30.0
    while not probe():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_stream_whose_database_goes_away_ends_quietly(client, services, runner, monkeypatch, caplog):
    runner.paused.set()
    queued = client.post("/v1/models", json=FIT, headers={"Prefer": "respond-async"}).json()

    def away() -> int:
        raise NotReady

    with client.stream("GET", f"/v1/jobs/{queued['job']}/events") as answer:
        lines = answer.iter_lines()
        assert next(events(lines))["event"] == "state"
        monkeypatch.setattr(services.ledger, "version", away)
        assert list(events(lines)) == []
    assert "Traceback" not in caplog.text
