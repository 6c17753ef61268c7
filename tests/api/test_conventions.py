"""What every route keeps: problems, strictness, request ids, media types, paging, idempotency, conditional requests."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard

from service.api.bodies import strict_json
from service.errors import Malformed
from tests.conftest import serving

FIT = {"estimator": {"algorithm": "standard_scaler", "params": {}}, "features": ["bill_length_mm", "body_mass_g"],
       "encoding": {"missing": "drop_rows"}}  # fmt: skip
PROBLEM = {"type", "title", "status", "detail", "instance", "errors"}


def check_problem(answer, status, slug):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert set(body) >= PROBLEM
    assert body["status"] == status
    assert body["type"] == f"/problems/{slug}"
    assert body["detail"]
    return body


@pytest.mark.parametrize("text", [b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":Infinity}', b'{"a":-Infinity}', b'{"a":1e999}',
                                  b"{", b'{"a":[{"b":1,"b":1}]}', b"\xff\xfe", b"[" * 100_000,
                                  b'{"a":1' + b"0" * 500 + b"}"])  # fmt: skip
def test_loose_json_is_refused(text, client):
    with pytest.raises(Malformed):
        strict_json(text)
    answer = client.post("/v1/models", content=text, headers={"content-type": "application/json"})
    check_problem(answer, 400, "malformed")


def test_unknown_path_and_method_are_problems(client):
    check_problem(client.get("/v1/nothing"), 404, "not-found")
    check_problem(client.put("/v1/models"), 405, "method-not-allowed")


@pytest.mark.parametrize("path", ["/v1/models/mdl_0", "/v1/jobs/job_0", "/v1/datasets/ds_0", "/v1/algorithms/none",
                                  "/v1/functions/none", "/v1/models/mdl_0/diagnostics",
                                  "/v1/jobs/job_0/events"])  # fmt: skip
def test_unknown_ids_are_404(path, client):
    check_problem(client.get(path), 404, "not-found")


def test_wrong_media_type_names_the_right_one(client):
    answer = client.post("/v1/models", content=b"a,b\n1,2\n", headers={"content-type": "text/csv"})
    check_problem(answer, 415, "unknown-media-type")
    assert answer.headers["accept-post"] == "application/json"


def test_accept_that_cannot_be_met_is_406(client, penguins):
    answer = client.get(f"/v1/datasets/{penguins}/content", headers={"accept": "image/png"})
    body = check_problem(answer, 406, "not-acceptable")
    assert "parquet" in body["detail"]


def test_request_id_comes_back(client):
    assert client.get("/v1/health/live", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert client.get("/v1/health/live", headers={"x-request-id": "a\tb" * 99}).headers["x-request-id"] != "a\tb" * 99
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert client.get("/v1/health/live", headers={"traceparent": trace}).headers["x-request-id"] == trace.split("-")[1]


@pytest.mark.parametrize("change", [
    ({"bogus": 1}, "/bogus"), ({"seed": True}, "/seed"), ({"seed": "1"}, "/seed"), ({"seed": -1}, "/seed"),
    ({"encoding": {"missing": "guess"}}, "/encoding/missing"), ({"limits": {"cores": 0}}, "/limits/cores"),
    ({"priority": 11}, "/priority"), ({"features": ["nope"]}, "/features"), ({"target": "species"}, "/target"),
    ({"weights": "nope"}, "/weights"), ({"validation": {"method": "holdout"}}, "/validation/method"),
    ({"name": "a@1"}, "/name"),
    ({"estimator": {"algorithm": "standard_scaler", "params": {"ddof": 2}}}, "/estimator/params/ddof"),
    ({"estimator": {"algorithm": "standard_scaler", "params": {"with_mean": 1}}}, "/estimator/params/with_mean"),
    ({"estimator": {"algorithm": "standard_scaler", "params": {"new": 1}}}, "/estimator/params/new"),
    ({"estimator": {"algorithm": "no_such"}}, "/estimator/algorithm"),
    ({"estimator": {"params": {}}}, "/estimator/algorithm"),
    ({"estimator": {"algorithm": "standard_scaler", "extra": 1}}, "/estimator/extra"),
])  # fmt: skip
def test_invalid_fit_requests_point_at_the_field(change, client, penguins):
    fields, pointer = change
    answer = client.post("/v1/models", json=FIT | {"dataset": penguins} | fields)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert any(e["pointer"] == pointer for e in answer.json()["errors"]), answer.json()
    assert client.get("/v1/models").json()["items"] == []


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)])
def test_encoded_bodies_are_decoded_under_a_cap(encoding, pack, client, penguins):
    body = pack(json.dumps(FIT | {"dataset": penguins}).encode())
    headers = {"content-type": "application/json", "content-encoding": encoding}
    assert client.post("/v1/models/validate", content=body, headers=headers).status_code == 200
    bomb = pack(b" " * (65 << 20))
    check_problem(client.post("/v1/models/validate", content=bomb, headers=headers), 413, "too-large")
    check_problem(client.post("/v1/models/validate", content=b"junk", headers=headers), 400, "malformed")


def test_idempotency_key_answers_once(client, penguins):
    body, headers = FIT | {"dataset": penguins}, {"Idempotency-Key": "k1"}
    first = client.post("/v1/models", json=body, headers=headers)
    again = client.post("/v1/models", json=body, headers=headers)
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert len(client.get("/v1/models").json()["items"]) == 1
    check_problem(client.post("/v1/models", json=body | {"seed": 1}, headers=headers), 422, "invalid")
    refused = client.post("/v1/models", json=body | {"features": ["nope"]}, headers={"Idempotency-Key": "k2"})
    assert refused.status_code == 422
    assert client.post("/v1/models", json=body, headers={"Idempotency-Key": "k2"}).status_code == 201


def test_idempotent_upload(client):
    one = client.post("/v1/datasets", content=b"a,b\n1,2\n3,4\n", headers={"Idempotency-Key": "u"})
    assert one.status_code == 201, one.text
    two = client.post("/v1/datasets", content=b"a,b\n1,2\n3,4\n", headers={"Idempotency-Key": "u"})
    assert two.json()["id"] == one.json()["id"]
    assert client.post("/v1/datasets", content=b"a,b\n1,2\n3,5\n", headers={"Idempotency-Key": "u"}).status_code == 422
    assert len(client.get("/v1/datasets").json()["items"]) == 1


def test_paging_goes_through_everything_newest_first(client, penguins):
    ids = [client.post("/v1/models", json=FIT | {"dataset": penguins, "seed": i}).json()["id"] for i in range(5)]
    seen, cursor = [], None
    while True:
        page = client.get("/v1/models", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [m["id"] for m in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ids[::-1]
    assert client.get("/v1/models", params={"limit": 501}).status_code == 422


def test_prefer_chooses_between_waiting_and_queueing(client, penguins, runner):
    runner.paused.set()
    body = FIT | {"dataset": penguins}
    queued = client.post("/v1/models", json=body, headers={"Prefer": "respond-async"})
    assert queued.status_code == 202
    assert queued.headers["location"] == f"/v1/models/{queued.json()['id']}"
    assert queued.json()["state"] == "queued"
    check_problem(client.post(f"/v1/models/{queued.json()['id']}/transform", json={"rows": [{}]}), 409, "conflict")
    check_problem(client.delete(f"/v1/datasets/{penguins}"), 409, "conflict")
    runner.paused.clear()
    waited = client.post("/v1/models", json=body, headers={"Prefer": "wait=20"})
    assert waited.status_code == 201
    assert waited.headers["preference-applied"] == "wait=20"
    assert waited.json()["state"] == "ready"
    assert client.post("/v1/models", json=body, headers={"Prefer": "wait=61"}).status_code == 422


def test_conditional_requests(client, scaler):
    here = f"/v1/models/{scaler['id']}"
    tag = client.get(here).headers["etag"]
    assert client.get(here, headers={"If-None-Match": tag}).status_code == 304
    assert client.patch(here, json={"labels": {"a": "b"}}, headers={"If-Match": tag}).json()["labels"] == {"a": "b"}
    check_problem(client.patch(here, json={"labels": {}}, headers={"If-Match": tag}), 412, "stale")
    check_problem(client.delete(here, headers={"If-Match": tag}), 412, "stale")
    assert client.delete(here).status_code == 204
    check_problem(client.delete(here), 404, "not-found")


def test_keys_are_asked_for_when_required(services, runner, settings):
    locked = settings.model_copy(update={"require_keys": True})
    _, secret = services.keys.create("tester")
    guarded = type(services)(**{**vars(services), "settings": locked})
    with serving(guarded) as c:
        answer = c.get("/v1/models")
        check_problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
        check_problem(c.get("/v1/models", headers={"Authorization": "Bearer wrong"}), 401, "unauthenticated")
        assert c.get("/v1/models", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
        assert c.get("/v1/health/live").status_code == 200
        check_problem(c.post("/v1/models/x/predict", json={"rows": [{"a": 1}]}), 401, "unauthenticated")
    assert secret not in str([dict(r) for r in services.keys.page()])


def test_an_internal_fault_is_a_problem_without_its_trace(client, services, monkeypatch):
    monkeypatch.setattr(services.models, "page", lambda **kw: 1 / 0)
    body = check_problem(client.get("/v1/models"), 500, "internal-error")
    assert "ZeroDivision" not in json.dumps(body)
