"""A caller's mistakes are told at once, with the place and the remedy; no fit fails later for one of them."""

from __future__ import annotations

import json

import pytest

from tests.api.test_models import fit, spec

ROWS = "\n".join(
    f"{i},{i * i},{2 * i + i % 3},{'abc'[i % 3]},5,same,{i - 2},0,{'' if i == 3 else 1},{'uv'[i % 2]},"
    f"{'' if i % 4 else 'g'},"
    for i in range(12)
)
TABLE = f"x,z,y,c,k,one,negative,zero,gap,text,groups,empty\n{ROWS}\n"
LINEAR, LOGISTIC = spec("linear_regression"), spec("logistic_regression", alpha=1.0)


@pytest.fixture
def table(client):
    return client.post("/v1/datasets", content=TABLE.encode()).json()["id"]


@pytest.mark.parametrize(("change", "pointer", "code"), [
    ({"target": "c"}, "/target", "not_numeric"),
    ({"target": "empty"}, "/target", "missing_values"),
    ({"target": "k", "estimator": LOGISTIC}, "/target", "one_class"),
    ({"target": "one", "estimator": spec("quadratic_discriminant_analysis")}, "/target", "one_class"),
    ({"target": "one", "estimator": spec("random_forest_classifier", n_estimators=2)}, "/target", "one_class"),
    ({"target": "one", "estimator": spec("pipeline", steps=[spec("standard_scaler"), LOGISTIC])},
     "/target", "one_class"),
    ({"target": ["y", "k"], "estimator": spec("bayesian_linear_regression")}, "/target", "one_expected"),
    ({"target": ["y", "y"]}, "/target", "duplicate"),
    ({"features": ["x", "x"]}, "/features", "duplicate"),
    ({"features": []}, "/features", "empty"),
    ({"features": ["x", "y"]}, "/features", "target_leak"),
    ({"exclude": ["x"]}, "/exclude", "contradiction"),
    ({"weights": "negative"}, "/weights", "negative"),
    ({"weights": "zero"}, "/weights", "all_zero"),
    ({"weights": "gap"}, "/weights", "missing_values"),
    ({"weights": "text"}, "/weights", "not_numeric"),
    ({"groups": "groups", "validation": {"method": "k_fold", "k": 3}}, "/groups", "missing_values"),
    ({"groups": "k", "validation": {"method": "holdout"}}, "/validation", "too_few_rows"),
    ({"validation": {"method": "k_fold", "k": 13}}, "/validation", "too_few_rows"),
    ({"rows": {"sample": 1}, "target": "c", "estimator": LOGISTIC}, "/target", "one_class"),
    ({"features": ["x", "empty"], "encoding": {"missing": "mean"}}, "/features/empty", "empty"),
])  # fmt: skip
def test_mistakes_are_refused_before_anything_is_queued(change, pointer, code, client, table):
    body = {"estimator": LINEAR, "dataset": table, "target": "y", "features": ["x", "z"]} | change
    for path in ("/v1/models/validate", "/v1/models"):
        answer = client.post(path, json=body)
        assert answer.status_code == 422, answer.text
        assert (pointer, code) in {(e["pointer"], e["code"]) for e in answer.json()["errors"]}, answer.text
        assert "np." not in answer.text
    assert client.get("/v1/jobs").json()["items"] == []


@pytest.mark.parametrize(("estimator", "target", "pointer"), [
    (spec("k_means", n_clusters=50), None, "/estimator/params/n_clusters"),
    (spec("gaussian_mixture", n_components=50), None, "/estimator/params/n_components"),
    (spec("principal_component_analysis", n_components=9), None, "/estimator/params/n_components"),
    (spec("pipeline", steps=[spec("principal_component_analysis", n_components=9), LINEAR]), "y",
     "/estimator/params/steps/0/params/n_components"),
    (spec("random_forest_classifier", n_estimators=2, max_features=99), "c", "/estimator/params/max_features"),
    (spec("quadratic_discriminant_analysis"), "c", "/columns/k"),
])  # fmt: skip
def test_what_only_the_fit_can_find_is_a_problem_too(estimator, target, pointer, client, table):
    body = {"estimator": estimator, "dataset": table, "features": ["x", "k"]} | ({"target": target} if target else {})
    answer = client.post("/v1/models", json=body, headers={"Prefer": "wait=60", "Idempotency-Key": "again"})
    assert answer.status_code == 422, answer.text
    assert [e["pointer"] for e in answer.json()["errors"]] == [pointer]
    assert client.get("/v1/models").json()["items"] == []
    assert (
        client.post("/v1/models", json=body, headers={"Prefer": "wait=60", "Idempotency-Key": "again"}).status_code
        == 422
    )


def test_numbers_that_have_no_squares_are_refused_by_column(client):
    text = "big,y\n" + "\n".join(f"{i}e300,{i}" for i in range(1, 9))
    dataset = client.post("/v1/datasets", content=text.encode()).json()["id"]
    for estimator, target in (
        (spec("bayesian_linear_regression"), "y"),
        (spec("k_means", n_clusters=2), None),
    ):
        answer = client.post("/v1/models", json={"estimator": estimator, "dataset": dataset, "target": target})
        assert answer.status_code == 422, answer.text
        assert "big" in json.dumps(answer.json()["errors"])
    turned = {"estimator": LINEAR, "dataset": dataset, "target": "big", "features": ["y"]}
    answer = client.post("/v1/models", json=turned)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/target")


def test_weights_and_groups_with_gaps_go_with_drop_rows(client, table):
    body = {
        "estimator": LINEAR,
        "dataset": table,
        "target": "y",
        "features": ["x"],
        "encoding": {"missing": "drop_rows"},
    }
    assert fit(client, **body, weights="gap")["rows_dropped"] == 1


def test_notices_tables_and_errors_speak_of_the_callers_columns(client):
    names = ["größe/x~1", "名前", "a,b", "fest"]
    cells = "\n".join(f"{i},{i * i % 7},{i % 2},5,{'ja' if i % 3 else 'nein'},{i % 5}" for i in range(12))
    text = f'größe/x~1,名前,"a,b",fest,antwort,zahl\n{cells}\n'
    dataset = client.post("/v1/datasets", params={"name": "ñ/名"}, content=text.encode()).json()["id"]
    scaled = spec("pipeline", steps=[spec("standard_scaler"), LINEAR])
    for estimator, target, table in (
        (LOGISTIC, "antwort", "coefficients"), (LINEAR, "zahl", "coefficients"), (scaled, "zahl", "coefficients"),
        (spec("random_forest_classifier", n_estimators=2), "antwort", None), (spec("standard_scaler"), None, "columns"),
    ):  # fmt: skip
        body = {"estimator": estimator, "dataset": dataset, "features": names} | ({"target": target} if target else {})
        report = client.get(fit(client, **body)["links"]["diagnostics"]).json()
        tables = [report["tables"][table]] if table else report["tables"].values()
        told = {cell for t in tables for row in t["rows"] for cell in row if isinstance(cell, str)}
        assert set(names) <= told, (estimator, told)
        fixed = [w["message"] for w in report["warnings"] if w["code"] in ("constant_column", "rank_deficient")]
        assert all("'fest'" in message for message in fixed)
        assert fixed or "forest" in estimator["algorithm"]
    body = {"estimator": spec("beta_bernoulli"), "dataset": dataset, "features": names}
    answer = client.post("/v1/models", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/rows/0/fest"


def test_a_sampled_fit_is_estimated_by_its_sample(client, table):
    body = {"estimator": spec("k_means", n_clusters=2), "dataset": table, "features": ["x", "z"]}
    whole, few = (client.post("/v1/models/validate", json=body | more).json()["estimate"]["memory_bytes"]
                  for more in ({}, {"rows": {"sample": 2}}))  # fmt: skip
    assert few < whole


@pytest.mark.parametrize(("prefer", "applied"), [
    ("wait=5", "wait=5"), ('wait="5"', "wait=5"), ("WAIT=5", "wait=5"), ("wait=5; x=y", "wait=5"), ("wait=-1", None),
    ("wait=abc", None), ("wait=1e3", None), ("nonsense", None),
])  # fmt: skip
def test_preferences_that_cannot_be_read_are_ignored(prefer, applied, client, table):
    body = {"estimator": spec("standard_scaler"), "dataset": table, "features": ["x"]}
    answer = client.post("/v1/models", json=body, headers={"Prefer": prefer})
    assert answer.status_code == 201, answer.text
    assert answer.headers.get("preference-applied") == applied


@pytest.mark.parametrize(("path", "methods"), [
    ("/v1/models", {"GET", "HEAD", "POST", "OPTIONS"}), ("/v1/health/live", {"GET", "HEAD", "OPTIONS"}),
    ("/v1/models/mdl_0", {"GET", "HEAD", "PATCH", "DELETE", "OPTIONS"}),
])  # fmt: skip
def test_every_path_tells_its_methods(path, methods, client):
    told = client.options(path)
    assert (told.status_code, set(told.headers["allow"].split(", "))) == (204, methods)
    refused = client.put(path)
    assert (refused.status_code, set(refused.headers["allow"].split(", "))) == (405, methods)


def test_head_is_get_without_a_body(client, table):
    for path in (f"/v1/datasets/{table}", f"/v1/datasets/{table}/content", "/docs", "/v1/models/mdl_0"):
        full, head = client.get(path), client.head(path)
        assert (head.status_code, head.headers["content-type"]) == (full.status_code, full.headers["content-type"])
        assert head.content == b""
        assert head.headers["x-request-id"]
    model = fit(client, estimator=spec("standard_scaler"), dataset=table, features=["x"])
    assert client.head(f"/v1/jobs/{model['job']}/events").status_code == 200
    assert client.head("/nothing").status_code == 404
