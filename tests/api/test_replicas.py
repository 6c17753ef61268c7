"""Several API processes behave as one: what one of them changed, every other one knows."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.api.replicas import FIT, ROW, events, fit, pair, restless
from tests.api.test_conventions import check_problem
from tests.contract.ledgers import without_postgres
from tests.faults.service import Served, table

Pair = tuple[Served, Served, str]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def replicas(request, tmp_path_factory) -> Pair:
    if request.param == "postgresql" and (reason := without_postgres()):
        pytest.skip(reason)
    with pair(request.param, Path(tmp_path_factory.mktemp(request.param))) as made:
        yield made


def test_a_model_deleted_here_is_gone_there_at_once(replicas):
    a, b, url = replicas
    models = [fit(a.http, seed=i, name="doomed")["id"] for i in range(6)]
    with restless(url):
        for model in models:
            path = f"/v1/models/{model}/predict"
            for server in (a, b, b):
                assert server.http.post(path, json=ROW).json()["model"] == model
            assert a.http.delete(f"/v1/models/{model}").status_code == 204
            check_problem(b.http.post(path, json=ROW), 404, "not-found")
            check_problem(a.http.post(path, json=ROW), 404, "not-found")


def test_an_alias_moved_here_has_moved_there_at_once(replicas):
    a, b, url = replicas
    models = [fit(a.http, seed=i)["id"] for i in range(2)]
    with restless(url):
        for (here, there), model in itertools.product([(a, b), (b, a)], models * 4):
            moved = here.http.put("/v1/aliases/live", json={"model": model})
            assert moved.status_code in (200, 201), moved.text
            for _ in range(3):
                assert there.http.post("/v1/models/live/predict", json=ROW).json()["model"] == model
            assert there.http.get("/v1/models/live").json()["id"] == model
    told = check_problem(b.http.delete(f"/v1/models/{models[-1]}"), 409, "conflict")
    assert "alias live " in told["detail"]
    assert b.http.delete("/v1/aliases/live").status_code == 204
    check_problem(a.http.post("/v1/models/live/predict", json=ROW), 404, "not-found")
    assert a.http.delete(f"/v1/models/{models[-1]}").status_code == 204


def test_one_key_from_both_makes_one_model_and_gives_one_answer(replicas):
    a, b, _ = replicas
    before = len(a.http.get("/v1/jobs", params={"limit": 500}).json()["items"])
    urls = [str(s.http.base_url).rstrip("/") for s in (a, b)] * 10

    def post(url: str) -> httpx.Response:
        headers = {"Idempotency-Key": "race", "Prefer": "wait=30"}
        return httpx.post(f"{url}/v1/models", json=FIT, headers=headers, timeout=60.0)

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(post, urls))
    assert [r.status_code for r in answers] == [201] * 20, [r.text for r in answers if r.status_code != 201]
    assert len({r.content for r in answers}) == 1
    assert len({r.headers["etag"] for r in answers}) == 1
    assert sum("idempotency-replayed" not in r.headers for r in answers) == 1
    assert len(a.http.get("/v1/jobs", params={"limit": 500}).json()["items"]) == before + 1


def test_a_stream_is_taken_up_by_the_other_server(replicas):
    a, b, _ = replicas
    data = a.upload(table(2000), "forest")
    model = a.fit("random_forest_classifier", data, n_estimators=400)
    path = f"/v1/jobs/{model['job']}/events"
    first, second = [], []
    with a.http.stream("GET", path) as answer:
        for event in events(answer.iter_lines()):
            first.append(event)
            if event["event"] == "progress" or event["data"]["state"] == "succeeded":
                break
    with b.http.stream("GET", path, headers={"Last-Event-ID": first[-1]["id"]}) as answer:
        second = list(events(answer.iter_lines()))
    ids = [e["id"] for e in first + second]
    assert len(set(ids)) == len(ids), ids
    assert [e["data"]["state"] for e in first + second if e["event"] == "state"][-2:] == ["running", "succeeded"]
    assert second[-1]["event"] == "done"
    fractions = [e["data"]["progress"]["fraction"] for e in first + second if e["data"]["progress"]]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert a.http.get(path, headers={"Last-Event-ID": ids[-1]}).status_code == 204
