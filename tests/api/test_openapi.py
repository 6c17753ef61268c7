"""The OpenAPI document: valid, complete, closed; and the documentation page in a real browser."""

from __future__ import annotations

import os
import shutil

import pytest
from openapi_spec_validator import validate

from ml_core.registry import algorithms

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


@pytest.fixture
def document(client):
    return client.get("/openapi.json").json()


def test_document_is_valid_openapi(document):
    validate(document)
    assert document["openapi"].startswith("3.1")


def test_every_operation_is_named_described_and_lists_its_problems(document):
    names = [o["operationId"] for _, _, o in operations(document)]
    assert len(names) == len(set(names))
    for path, method, operation in operations(document):
        assert operation["summary"], path
        assert operation["description"], path
        assert operation["tags"], path
        answers = operation["responses"].values()
        assert any("application/problem+json" in r.get("content", {}) for r in answers), (path, method)
        for p in operation.get("parameters", []):
            assert p["in"] == "path" or p.get("description"), (path, p["name"])


def test_operation_ids_are_stable(document):
    assert sorted(o["operationId"] for _, _, o in operations(document)) == [
        "call_function", "cancel_job", "create_dataset", "create_from_sample", "create_model", "delete_dataset",
        "delete_model", "follow_job", "get_algorithm", "get_artifact", "get_bundle", "get_content", "get_dataset",
        "get_diagnostics", "get_function", "get_job", "get_model", "get_rows", "inverse_transform", "list_algorithms",
        "list_datasets", "list_functions", "list_jobs", "list_models", "list_samples", "live", "parameter_posterior",
        "posterior", "predict", "ready", "sample", "score", "transform", "update_dataset", "update_model",
        "update_model_labels", "validate_model",
    ]  # fmt: skip


def test_union_holds_every_algorithm_with_bounds(document):
    union = document["components"]["schemas"]["EstimatorSpec"]
    assert set(union["discriminator"]["mapping"]) == set(algorithms())
    assert len(union["oneOf"]) == len(algorithms())
    params = document["components"]["schemas"]["KMeansSpec"]["properties"]["params"]["properties"]
    assert params["n_clusters"]["description"]
    assert "x-spec" not in str(document)


def test_request_bodies_have_examples_that_work(client, document):
    schemas = document["components"]["schemas"]
    example = schemas["FitRequest"]["example"]
    model = client.post("/v1/models", json=example)
    assert model.status_code == 201, model.text
    assert model.json()["state"] == "ready"
    here = f"/v1/models/{model.json()['id']}"
    answer = client.post(f"{here}/predict", json=schemas["PredictRequest"]["example"])
    assert answer.status_code == 200, answer.text
    assert answer.json()["predictions"] == ["Adelie"]
    for path, method, operation in operations(document):
        for media, content in operation.get("requestBody", {}).get("content", {}).items():
            if media == "application/json":
                ref = content["schema"].get("$ref", "").rpartition("/")[2]
                assert "example" in schemas.get(ref, {}) or content["schema"].get("examples"), (path, method)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="no Chromium on this machine; CI installs it")
def test_docs_page_fits_a_model_without_the_internet(client, tmp_path):
    from playwright.sync_api import sync_playwright

    base, foreign, faults = str(client.base_url), [], []
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 1600})
        page.on("request", lambda r: None if r.url.startswith((base, "data:")) else foreign.append(r.url))
        page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
        page.goto(f"{base}/docs")
        row = page.locator("#operations-Models-create_model")
        row.locator("button.opblock-summary-control").click()
        row.get_by_role("button", name="Try it out").click()
        row.get_by_role("button", name="Execute").click()
        row.locator(".live-responses-table tbody .response-col_status").first.wait_for(timeout=60_000)
        status = row.locator(".live-responses-table tbody .response-col_status").first.inner_text()
        text = row.locator(".live-responses-table").inner_text()
        page.screenshot(path=str(tmp_path / "docs.png"))
        browser.close()
    assert status.startswith("201"), text
    assert '"state": "ready"' in text
    assert not foreign
    assert not faults
