"""The OpenAPI document: valid, complete, closed; and the documentation page in a real browser."""

from __future__ import annotations

import os
import shutil

import pytest
from openapi_spec_validator import validate

from ml_core.kernels import KERNELS
from ml_core.losses.every import LOSSES
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
        "call_function", "cancel_job", "create_dataset", "create_from_sample", "create_model", "delete_alias",
        "delete_dataset", "delete_model", "follow_job", "forget_rows", "get_algorithm", "get_alias",
        "get_artifact", "get_bundle",
        "get_content", "get_dataset", "get_diagnostics", "get_function", "get_job", "get_model", "get_rows",
        "inverse_transform", "list_algorithms", "list_aliases", "list_datasets", "list_functions", "list_jobs",
        "list_models", "list_samples", "live", "metrics", "parameter_posterior", "posterior", "predict", "put_alias",
        "ready", "sample", "score", "transform", "update_dataset", "update_model", "update_model_labels",
        "validate_model",
    ]  # fmt: skip


def test_union_holds_every_algorithm_with_bounds(document):
    union = document["components"]["schemas"]["EstimatorSpec"]
    assert set(union["discriminator"]["mapping"]) == set(algorithms())
    assert len(union["oneOf"]) == len(algorithms())
    params = document["components"]["schemas"]["KMeansSpec"]["properties"]["params"]["properties"]
    assert params["n_clusters"]["description"]
    assert "x-spec" not in str(document)


def test_kernels_and_losses_are_unions_that_nest(document):
    parts = document["components"]["schemas"]
    assert set(parts["KernelSpec"]["discriminator"]["mapping"]) == set(KERNELS)
    assert parts["ScaleKernel"]["properties"]["term"] == {"$ref": "#/components/schemas/KernelSpec"}
    assert parts["RbfKernel"]["properties"]["kernel"]["const"] == "rbf"
    assert "kernel" in parts["RbfKernel"]["required"]
    kernel = parts["KernelSvmSpec"]["properties"]["params"]["properties"]["kernel"]
    assert kernel["$ref"] == "#/components/schemas/KernelSpec"
    assert set(parts["LossSpec"]["anyOf"][0]["enum"]) == set(LOSSES)
    for name in ("KernelSpec", "LossWithParameters", "EstimatorSpec"):
        assert all(member["$ref"].rpartition("/")[2] in parts for member in parts[name]["oneOf"])


def body_of(document, operation):
    """The documented example of a JSON body, or None where the operation takes none."""
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" not in content:
        return None
    shown = content["application/json"]
    ref = shown["schema"].get("$ref", "").rpartition("/")[2]
    component = document["components"]["schemas"].get(ref, {})
    return component["example"] if "example" in component else (shown["schema"].get("examples") or shown["examples"])[0]


def path_of(path, operation):
    """The path with the documented example of each of its parameters."""
    for p in operation.get("parameters", []):
        if p["in"] == "path":
            path = path.replace("{" + p["name"] + "}", (p.get("examples") or p["schema"]["examples"])[0])
    assert "{" not in path
    return path


def test_every_documented_example_works(client, document):
    fits = document["paths"]["/v1/models"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    for name, example in fits.items():
        model = client.post("/v1/models", json=example["value"], headers={"Prefer": "wait=60"})
        assert (model.status_code, model.json()["state"]) == (201, "ready"), (name, model.text)
    todo = sorted(operations(document), key=lambda o: o[2]["operationId"].startswith("delete_"))
    for path, method, operation in todo:
        name, url, body = operation["operationId"], path_of(path, operation), body_of(document, operation)
        if name == "create_dataset":
            text = operation["requestBody"]["content"]["text/csv"]["example"]
            answer = client.post(url, content=text, headers={"content-type": "text/csv"})
        else:
            answer = client.request(method, url, json=body, headers={"Prefer": "wait=60"})
        if name == "cancel_job":  # the job of a model that is ready has ended, and says so
            assert answer.status_code == 409, answer.text
            continue
        assert answer.status_code < 300, (name, url, body, answer.status_code, answer.text)
    left = client.get("/v1/models", params={"name": "iris-species"}).json()["items"]
    assert [m["version"] for m in left] == [1], "the examples fitted it twice and deleted the newest"


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
