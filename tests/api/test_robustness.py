"""Odd but possible requests: each is answered or refused with a 4xx problem, and conditions mean what they say."""

from __future__ import annotations

import logging
import threading

import pytest
from sqlalchemy import delete

from service.adapters import access
from service.adapters.artifacts import AllowList
from service.api.accept import choose
from service.api.bodies import strict_json
from service.api.routes import models
from service.errors import ArtifactRejected, Malformed, NotAcceptable, NotReady
from tests.api.test_conventions import FIT, PROBLEM, check_problem
from tests.conftest import serving

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("text", [rb'{"\ud800":1}', rb'["\uDFFF"]', b'"\xed\xa0\x80"', '{"a":1}'.encode("utf-16")])
def test_text_that_is_not_unicode_is_malformed(text, client, scaler):
    with pytest.raises(Malformed):
        strict_json(text)
    check_problem(client.post(f"/v1/models/{scaler['id']}/transform", content=text, headers=JSON), 400, "malformed")
    assert strict_json(rb'"\ud83d\ude00"') == "\U0001f600"


@pytest.mark.parametrize("limits", [{"memory_bytes": 2**70}, {"wall_seconds": 1e300}])
def test_limits_beyond_any_machine_are_refused(limits, client, penguins):
    body = check_problem(client.post("/v1/models", json=FIT | {"dataset": penguins, "limits": limits}), 422, "invalid")
    assert body["errors"][0]["pointer"] == f"/limits/{next(iter(limits))}"


def test_ragged_values_are_refused(client, scaler):
    here = f"/v1/models/{scaler['id']}/inverse_transform"
    body = check_problem(client.post(here, json={"values": [[1.0], [1.0, 2.0]]}), 422, "invalid")
    assert body["errors"][0]["pointer"] == "/values"


def test_draws_are_bounded(client, penguins):
    fitted = {"estimator": {"algorithm": "gaussian_mixture", "params": {}}, "dataset": penguins,
              "features": FIT["features"] + ["flipper_length_mm", "year"], "encoding": FIT["encoding"]}  # fmt: skip
    model = client.post("/v1/models", json=fitted, headers={"Prefer": "wait=60"}).json()
    assert client.post(f"/v1/models/{model['id']}/sample", json={"n": 3}).status_code == 200
    blr = fitted | {"estimator": {"algorithm": "bayesian_linear_regression", "params": {}}, "target": "year",
                    "features": ["body_mass_g"]}  # fmt: skip
    model = client.post("/v1/models", json=blr, headers={"Prefer": "wait=60"}).json()
    ask = {"columns": {"body_mass_g": [1.0] * 1001}, "samples": 10_000}
    check_problem(client.post(f"/v1/models/{model['id']}/posterior", json=ask), 413, "too-large")


def test_quality_values_that_are_no_numbers_are_ignored():
    assert choose("text/csv;q=1.2.3", ["application/json", "text/csv"]) == "text/csv"
    assert choose("text/csv;Q=0.1, */*", ["application/json", "text/csv"]) == "application/json"
    with pytest.raises(NotAcceptable):
        choose("text/csv;q=0", ["text/csv"])


@pytest.mark.parametrize(("columns", "pointer"), [
    ({"a/b~c": 3}, "/columns/a~1b~0c"), ({"year": {"role": []}}, "/columns/year/role"),
])  # fmt: skip
def test_pointers_are_json_pointers(columns, pointer, client, penguins):
    body = check_problem(client.patch(f"/v1/datasets/{penguins}", json={"columns": columns}), 422, "invalid")
    assert body["errors"][0]["pointer"] == pointer


def test_a_preference_that_is_refused_queues_nothing(client, penguins):
    answer = client.post("/v1/models", json=FIT | {"dataset": penguins}, headers={"Prefer": "wait=61"})
    check_problem(answer, 422, "invalid")
    assert client.get("/v1/jobs").json()["items"] == []


def test_the_tag_of_a_name_changes_with_the_model_behind_it(client, penguins):
    body = FIT | {"dataset": penguins, "name": "twice"}
    assert client.post("/v1/models", json=body).status_code == 201
    tag = client.get("/v1/models/twice").headers["etag"]
    assert client.get("/v1/models/twice", headers={"If-None-Match": f'"x", W/{tag}'}).status_code == 304
    assert client.post("/v1/models", json=body | {"seed": 1}).status_code == 201
    assert client.get("/v1/models/twice", headers={"If-None-Match": tag}).json()["version"] == 2
    check_problem(client.delete("/v1/models/twice", headers={"If-Match": tag}), 412, "stale")


def test_if_match_takes_lists_and_no_foreign_tag(client, penguins):
    here = f"/v1/datasets/{penguins}"
    tag = client.get(here).headers["etag"]
    foreign = '"ffff-' + tag.rpartition("-")[2]
    check_problem(client.patch(here, json={"description": "x"}, headers={"If-Match": foreign}), 412, "stale")
    check_problem(client.delete(here, headers={"If-Match": foreign}), 412, "stale")
    told = client.patch(here, json={"description": "x"}, headers={"If-Match": f'"other", {tag}'})
    assert (told.status_code, told.json()["description"]) == (200, "x")
    check_problem(client.patch(here, json={"description": "y"}, headers={"If-Match": f"W/{tag}"}), 412, "stale")


def test_each_form_of_the_content_has_its_own_tag(client, penguins):
    here = f"/v1/datasets/{penguins}/content"
    tags = {a: client.get(here, headers={"accept": a}).headers["etag"] for a in ("text/csv", "application/x-ndjson")}
    assert len(set(tags.values())) == 2
    for accept, tag in tags.items():
        assert client.get(here, headers={"accept": accept, "If-None-Match": tag}).status_code == 304


def test_a_model_that_a_queued_update_needs_stays(client, penguins, runner):
    body = {"estimator": {"algorithm": "bayesian_linear_regression", "params": {}}, "dataset": penguins,
            "target": "year", "features": ["island"], "name": "old"}  # fmt: skip
    model = client.post("/v1/models", json=body, headers={"Prefer": "wait=60"}).json()
    runner.paused.set()
    queued = client.post("/v1/models/old/update", json={"dataset": penguins}, headers={"Prefer": "respond-async"})
    assert queued.status_code == 202, queued.text
    check_problem(client.delete(f"/v1/models/{model['id']}"), 409, "conflict")
    assert client.post(f"/v1/jobs/{queued.json()['job']}/cancel").status_code == 202
    assert client.delete(f"/v1/models/{model['id']}").status_code == 204


def test_simultaneous_requests_with_one_key_make_one_dataset(client):
    answers = []

    def post() -> None:
        answers.append(client.post("/v1/samples/iris", headers={"Idempotency-Key": "same"}))

    threads = [threading.Thread(target=post) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert {a.status_code for a in answers} <= {201, 409}
    assert len({a.json()["id"] for a in answers if a.status_code == 201}) == 1
    assert len(client.get("/v1/datasets").json()["items"]) == 1


def test_a_key_released_between_two_looks_is_free(services, monkeypatch):
    keys = services.idempotency
    first, _ = keys.begin("k", b"x", "ds")
    look = keys._repeat

    def released(key, digest):
        with services.db.write() as c:
            c.execute(delete(access.answers))
        return look(key, digest)

    monkeypatch.setattr(keys, "_repeat", released)
    second, answer = keys.begin("k", b"x", "ds")
    assert answer is None
    assert second != first


def test_a_creation_whose_answer_was_lost_is_completed_under_its_id(client, services, monkeypatch):
    headers = {"Idempotency-Key": "lost"}
    monkeypatch.setattr(access, "TAKE_OVER_SECONDS", -1.0)
    monkeypatch.setattr(services.idempotency, "complete", lambda key, answer: None)
    one, two = (client.post("/v1/datasets", content=b"a,b\n1,2\n3,4\n", headers=headers) for _ in range(2))
    assert (one.status_code, two.status_code) == (201, 201)
    assert one.json()["id"] == two.json()["id"]


def test_a_creation_that_broke_off_after_it_was_queued_is_not_done_twice(client, penguins, monkeypatch):
    whole = models.settle

    async def broken(*given: object) -> object:
        raise NotReady("the database went away while the fit was waited for")

    body = {"estimator": {"algorithm": "standard_scaler", "params": {}}, "dataset": penguins,
            "features": ["year"]}  # fmt: skip
    headers = {"Idempotency-Key": "broken", "Prefer": "wait=60"}
    monkeypatch.setattr(models, "settle", broken)
    check_problem(client.post("/v1/models", json=body, headers=headers), 503, "not-ready")
    monkeypatch.setattr(models, "settle", whole)
    assert client.post("/v1/models", json=body, headers=headers).status_code == 201
    assert len(client.get("/v1/jobs", params={"kind": "fit"}).json()["items"]) == 1


def test_a_form_larger_than_an_upload_is_cut_off(services, runner, settings, monkeypatch):
    monkeypatch.setattr("service.api.uploads.FORM_BYTES", 1000)
    small = type(services)(**{**vars(services), "settings": settings.model_copy(update={"upload_bytes": 1000})})
    with serving(small) as c:
        check_problem(c.post("/v1/datasets", files={"file": ("a.csv", b"a\n" * 3_000_000)}), 413, "too-large")
        assert c.post("/v1/datasets", files={"file": ("a.csv", b"a,b\n1,2\n")}).status_code == 201


def test_a_database_that_is_away_is_503_for_callers_with_keys(services, runner, settings, monkeypatch):
    def away(secret: str) -> str:
        raise NotReady

    monkeypatch.setattr(services.keys, "owner", away)
    guarded = type(services)(**{**vars(services), "settings": settings.model_copy(update={"require_keys": True})})
    with serving(guarded) as c:
        answer = c.get("/v1/models", headers={"Authorization": "Bearer x"})
        check_problem(answer, 503, "not-ready")
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.headers["x-request-id"]


def test_the_log_names_the_request_of_an_internal_fault(client, services, monkeypatch, caplog):
    monkeypatch.setattr(services.models, "page", lambda **kw: 1 / 0)
    with caplog.at_level(logging.INFO, "postfit"):
        client.get("/v1/models", headers={"x-request-id": "find-me", "connection": "close"})
    assert "request_id=find-me" in caplog.text


@pytest.mark.parametrize(("module", "name"), [
    ("os", "system"), ("builtins", "eval"), ("ml_core.bundle", "zipfile.ZipFile"), ("ml_core.registry", "importlib"),
    ("ml_core.bundle", "Path"), ("numpy", "load"), ("joblib.numpy_pickle", "load"),
])  # fmt: skip
def test_the_unpickler_leads_nowhere_outside(module, name, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"")
    with path.open("rb") as f, pytest.raises((ArtifactRejected, AttributeError)):
        AllowList(str(path), f, ensure_native_byte_order=False, mmap_mode=None).find_class(module, name)


def test_every_function_example_works_and_the_page_shows_one(client):
    for f in client.get("/v1/functions").json()["items"]:
        example = client.get(f"/v1/functions/{f['name']}").json()["example"]
        assert client.post(f"/v1/functions/{f['name']}", json=example).status_code == 200, f["name"]
    operation = client.get("/openapi.json").json()["paths"]["/v1/functions/{name}"]["post"]
    shown = operation["requestBody"]["content"]["application/json"]["schema"]["examples"][0]
    assert client.post("/v1/functions/roc_curve", json=shown).status_code == 200


def test_targets_with_gaps_are_refused_by_score_and_update(client, penguins):
    text = "island,species,year\nDream,,\nDream,Adelie,2007\nDream,Gentoo,2008\n"
    gaps = client.post("/v1/datasets", content=text).json()["id"]
    for name, target in (("logistic_regression", "species"), ("bayesian_linear_regression", "year")):
        body = {"estimator": {"algorithm": name, "params": {}}, "dataset": penguins, "features": ["island"]}
        model = client.post("/v1/models", json=body | {"target": target}, headers={"Prefer": "wait=60"}).json()
        paths = ["score", "update"] if "update" in model["capabilities"] else ["score"]
        for path in paths:
            sent = client.post(f"/v1/models/{model['id']}/{path}", json={"dataset": gaps})
            told = check_problem(sent, 422, "invalid")
            assert told["errors"][0]["code"] == "missing_values"


@pytest.mark.parametrize("version", ["²", "9" * 30, "0", ""])
def test_versions_that_no_model_has_are_404(version, client, scaler):
    assert client.get("/v1/models/scaler@1").json()["id"] == scaler["id"]
    check_problem(client.get(f"/v1/models/scaler@{version}"), 404, "not-found")


def test_unknown_query_parameters_are_refused(client, penguins):
    for path in ("/v1/models?nmae=x", f"/v1/datasets/{penguins}/rows?nmae=1"):
        assert check_problem(client.get(path), 422, "invalid")["errors"][0]["pointer"] == "/query/nmae"
    check_problem(client.post("/v1/datasets?delimeter=;", content=b"a;b\n1;2\n"), 422, "invalid")
    assert len(client.get("/v1/datasets").json()["items"]) == 1


def test_an_accept_that_json_cannot_meet_is_406_and_does_nothing(client, penguins):
    for path in ("/v1/models", f"/v1/datasets/{penguins}", "/v1/algorithms"):
        told = check_problem(client.get(path, headers={"accept": "image/png"}), 406, "not-acceptable")
        assert "application/json" in told["detail"]
    answer = client.post("/v1/models", json=FIT | {"dataset": penguins}, headers={"accept": "text/csv"})
    check_problem(answer, 406, "not-acceptable")
    assert client.get("/v1/jobs").json()["items"] == []
    assert client.get("/v1/models", headers={"accept": "text/html, application/*;q=0.5"}).status_code == 200


def test_every_binary_answer_passes_its_own_accept(client, scaler):
    for link, media in (("artifact", "application/octet-stream"), ("bundle", "application/zip")):
        assert client.get(scaler["links"][link], headers={"accept": media}).status_code == 200
    events = client.get(f"/v1/jobs/{scaler['job']}/events", headers={"accept": "text/event-stream"})
    assert "event: done" in events.text


def test_operations_document_what_a_body_can_do_wrong(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert {"400", "406", "409", "413", "415", "422"} <= set(paths["/v1/models"]["post"]["responses"])
    assert {"406", "409", "413"} <= set(paths["/v1/datasets"]["post"]["responses"])
    assert "415" not in paths["/v1/datasets"]["post"]["responses"]
    assert "application/json" not in str(paths["/v1/models/{model_id}/bundle"]["get"]["responses"]["200"])


def test_the_page_of_problems_has_each_type_that_is_sent(client, services, monkeypatch):
    page = client.get("/problems").text
    monkeypatch.setattr(services.models, "page", lambda **kw: 1 / 0)
    for answer in (client.put("/v1/models"), client.get("/v1/nothing"), client.get("/v1/models")):
        assert f"<code>{answer.json()['type']}</code>" in page


@pytest.mark.parametrize(("code", "slug", "status"), [
    ("user_error", "invalid", 422), ("memory_limit", "job-failed", 500), ("worker_lost", "job-failed", 500),
])  # fmt: skip
def test_the_error_of_a_failed_job_is_a_problem_with_a_code(code, slug, status, client, services, penguins, runner):
    runner.paused.set()
    body = FIT | {"dataset": penguins}
    model = client.post("/v1/models", json=body, headers={"Prefer": "respond-async"}).json()
    (claim,) = services.ledger.claim("test", {"instant": 1, "long": 1})
    services.ledger.finish(claim, "failed", error={"code": code, "detail": "so it went"})
    for path in (f"/v1/jobs/{model['job']}", f"/v1/models/{model['id']}"):
        error = client.get(path).json()["error"]
        assert set(error) == PROBLEM | {"code"}
        assert (error["code"], error["type"], error["status"]) == (code, f"/problems/{slug}", status)
        assert (error["detail"], error["instance"]) == ("so it went", path)
