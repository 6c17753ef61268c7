"""Aliases: what they may be called, where they point, and what that protects."""

from __future__ import annotations

import pytest

from tests.api.replicas import FIT, ROW, fit
from tests.api.test_conventions import check_problem


@pytest.fixture
def model(client) -> dict:
    return fit(client, name="wing")


def put(client, alias: str, model: str, **headers: str):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.put(f"/v1/aliases/{alias}", json={"model": model}, headers=named)


def test_an_alias_stands_where_an_id_stands(client, model):
    made = put(client, "live", model["id"])
    assert made.status_code == 201
    assert made.headers["location"] == "/v1/aliases/live"
    assert made.json()["model"] == model["id"]
    for method, path, body in (
        ("GET", "", None), ("GET", "/diagnostics", None), ("GET", "/artifact", None), ("GET", "/bundle", None),
        ("PATCH", "", {"labels": {"a": "b"}}), ("POST", "/predict", ROW), ("POST", "/score", {"dataset": "iris"}),
    ):  # fmt: skip
        answer = client.request(method, f"/v1/models/live{path}", json=body)
        assert answer.status_code == 200, (path, answer.text)
    assert client.get("/v1/jobs/live").json()["resource"] == model["id"]
    assert put(client, "also", "live").json()["model"] == model["id"], "an alias stands for its model, not for itself"


def test_the_order_of_meanings(client, model):
    """Id, alias, name, name@version; an alias hides no model's name, and keeps its meaning when a model takes it."""
    other = fit(client, seed=1, name="tail")
    check_problem(put(client, "wing", other["id"]), 409, "conflict")
    assert put(client, "future", other["id"]).status_code == 201
    late = fit(client, seed=2, name="future")
    assert client.get("/v1/models/future").json()["id"] == other["id"]
    assert client.get("/v1/models/future@1").json()["id"] == late["id"]
    assert client.get("/v1/models/wing").json()["id"] == model["id"]


@pytest.mark.parametrize("name", ["mdl_x", "job_1", "a@1", "x" * 201, "a%0Ab"])
def test_names_that_no_alias_may_have(name, client, model):
    check_problem(put(client, name, model["id"]), 422, "invalid")


@pytest.mark.parametrize("name", ["ä ö", "a.b", "100%25", "%E2%82%AC"])
def test_names_that_an_alias_may_have(name, client, model):
    made = put(client, name, model["id"])
    assert made.status_code == 201, made.text
    assert client.get(made.headers["location"]).json() == made.json()
    assert client.post(f"/v1/models/{name}/predict", json=ROW).json()["model"] == model["id"]


def test_an_alias_points_at_ready_models_only(client, model, runner):
    check_problem(put(client, "live", "mdl_none"), 404, "not-found")
    runner.paused.set()
    queued = client.post("/v1/models", json=FIT, headers={"Prefer": "respond-async"}).json()
    check_problem(put(client, "live", queued["id"]), 409, "conflict")
    check_problem(client.get("/v1/aliases/live"), 404, "not-found")
    runner.paused.clear()


def test_an_aliased_model_is_not_deleted(client, model):
    for alias in ("two", "one"):
        put(client, alias, "wing")
    told = check_problem(client.delete("/v1/models/wing"), 409, "conflict")
    assert "one, two" in told["detail"]
    assert client.get(model["links"]["artifact"]).status_code == 200, "nothing of it is gone"
    for alias in ("two", "one"):
        assert client.delete(f"/v1/aliases/{alias}").status_code == 204
    check_problem(client.delete("/v1/aliases/one"), 404, "not-found")
    assert client.delete("/v1/models/wing").status_code == 204


def test_conditional_moves(client, model):
    other = fit(client, seed=1)
    check_problem(put(client, "live", "wing", If_Match='"x"'), 412, "stale")
    tag = put(client, "live", "wing", If_None_Match="*").headers["etag"]
    check_problem(put(client, "live", other["id"], If_None_Match="*"), 412, "stale")
    assert put(client, "live", "wing").headers["etag"] == tag, "nothing moved"
    assert client.get("/v1/aliases/live", headers={"If-None-Match": tag}).status_code == 304
    moved = put(client, "live", other["id"], If_Match=tag)
    assert moved.status_code == 200
    assert moved.headers["etag"] != tag
    check_problem(put(client, "live", "wing", If_Match=tag), 412, "stale")
    check_problem(client.delete("/v1/aliases/live", headers={"If-Match": tag}), 412, "stale")
    assert client.delete("/v1/aliases/live", headers={"If-Match": moved.headers["etag"]}).status_code == 204
    assert put(client, "live", "wing").headers["etag"] != tag, "a new alias is not the old one"


def test_the_list_is_paged_by_name_and_filtered_by_model(client, model):
    other = fit(client, seed=1)
    for n in range(5):
        put(client, f"a{n}", model["id"] if n % 2 else other["id"])
    page = client.get("/v1/aliases", params={"limit": 3}).json()
    rest = client.get("/v1/aliases", params={"limit": 3, "cursor": page["next_cursor"]}).json()
    assert [a["alias"] for a in page["items"] + rest["items"]] == [f"a{n}" for n in range(5)]
    assert rest["next_cursor"] is None
    mine = client.get("/v1/aliases", params={"model": "wing"}).json()["items"]
    assert [a["alias"] for a in mine] == ["a1", "a3"]
