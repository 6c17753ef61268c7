"""The straight line: upload → fit → predict, posterior, diagnostics, artifact, bundle, update — over HTTP."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ml_core.bundle import load_bundle
from ml_core.preprocessing.records import encode
from ml_core.progress import Tick
from service.ports import Report
from service.usecases.training import Stages
from service.work import KINDS

MEASURES = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
DROP = {"encoding": {"missing": "drop_rows"}}
SAMPLES = Path(__file__).parent.parent.parent / "service" / "samples"


def fit(client, **body):
    answer = client.post("/v1/models", json=body, headers={"Prefer": "wait=60"})
    assert answer.status_code == 201, answer.text
    assert answer.json()["state"] == "ready", answer.json()["error"]
    return answer.json()


def spec(name, **params):
    return {"algorithm": name, "params": params}


def sample_rows(name, columns):
    with (SAMPLES / name).open(newline="") as f:
        rows = [r for r in csv.DictReader(f) if "NA" not in r.values()]
    return [{c: float(r[c]) if r[c].replace(".", "").isdigit() else r[c] for c in columns} for r in rows]


def test_every_example_of_the_catalogue_fits_and_answers(client):
    items = client.get("/v1/algorithms").json()["items"]
    assert items
    for item in items:
        example = client.get(f"/v1/algorithms/{item['name']}").json()["example"]
        model = fit(client, **example)
        report = client.get(model["links"]["diagnostics"]).json()
        assert report["certificates"], item["name"]
        assert all(c["holds"] for c in report["certificates"]), (item["name"], report["certificates"])
        assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_every_example_of_a_function_computes(client):
    items = client.get("/v1/functions").json()["items"]
    assert items
    for item in items:
        one = client.get(f"/v1/functions/{item['name']}").json()
        answer = client.post(f"/v1/functions/{item['name']}", json=one["example"])
        assert answer.status_code == 200, answer.text
        assert answer.json()["result"]
        wrong = client.post(f"/v1/functions/{item['name']}", json={"no_such_argument": 1})
        assert wrong.status_code == 422


def test_regression_from_file_to_interval(client):
    text = (SAMPLES / "diabetes_raw.tsv").read_bytes()
    data = client.post("/v1/datasets", params={"name": "diabetes"}, content=text)
    assert data.status_code == 201, data.text
    model = fit(client, estimator=spec("linear_regression"), dataset=data.json()["id"], target="progression")
    names = [f["name"] for f in model["features"]]
    rows = np.genfromtxt(io.BytesIO(text), names=True, delimiter="\t")
    X = np.column_stack([np.ones(len(rows)), *[rows[c] for c in names]])
    w = np.linalg.lstsq(X, rows["progression"], rcond=None)[0]
    body = {"rows": [{c: float(r[c]) for c in names} for r in rows[:7]], "interval": 0.9}
    answer = client.post(f"/v1/models/{model['id']}/predict", json=body).json()
    np.testing.assert_allclose(answer["predictions"], X[:7] @ w, rtol=1e-10)
    assert all(lo < p < hi for p, (lo, hi) in zip(answer["predictions"], answer["intervals"], strict=True))
    one = client.post(f"/v1/models/{model['id']}/posterior", json={"rows": body["rows"][:2], "level": 0.5}).json()
    assert [d["level"] for d in one["distributions"]] == [0.5, 0.5]
    np.testing.assert_allclose([d["mean"] for d in one["distributions"]], answer["predictions"][:2], rtol=1e-12)


def test_rows_columns_and_dataset_give_the_same_bits_in_any_order(client, penguins):
    chosen = spec("logistic_regression")
    model = fit(client, estimator=chosen, dataset=penguins, target="species", features=MEASURES, **DROP)
    rows = sample_rows("penguins.csv", MEASURES)
    here = f"/v1/models/{model['id']}/predict"
    by_rows = client.post(here, json={"rows": rows}).json()
    turned = [{k: r[k] for k in reversed(MEASURES)} | {"note": "x"} for r in rows]
    extra = client.post(here, json={"rows": turned}).json()
    by_columns = client.post(here, json={"columns": {c: [r[c] for r in rows] for c in MEASURES}}).json()
    table = "\n".join([",".join(MEASURES), *[",".join(str(r[c]) for c in MEASURES) for r in rows]])
    uploaded = client.post("/v1/datasets", content=table.encode()).json()["id"]
    by_dataset = client.post(here, json={"dataset": uploaded}).json()
    for other in (extra, by_columns, by_dataset):
        assert other["predictions"] == by_rows["predictions"]
        assert other["probabilities"] == by_rows["probabilities"]
    assert "note" in extra["warnings"][0]
    single = [client.post(here, json={"rows": [r]}).json()["probabilities"]["values"][0] for r in rows[:5]]
    np.testing.assert_allclose(single, by_rows["probabilities"]["values"][:5], rtol=1e-12)


@pytest.mark.parametrize(("row", "pointer", "code"), [
    ({"island": "Dream"}, "/rows/1/body_mass_g", "missing_column"),
    ({"island": "Dream", "body_mass_g": "3750"}, "/rows/1/body_mass_g", "wrong_type"),
    ({"island": "Dream", "body_mass_g": True}, "/rows/1/body_mass_g", "wrong_type"),
    ({"island": "Dream", "body_mass_g": None}, "/rows/1/body_mass_g", "null_not_allowed"),
    ({"island": "Atlantis", "body_mass_g": 3750}, "/rows/1/island", "unknown_level"),
    ({"island": 3, "body_mass_g": 3750}, "/rows/1/island", "wrong_type"),
])  # fmt: skip
def test_bad_rows_point_at_the_cell(row, pointer, code, client, penguins):
    model = fit(client, estimator=spec("logistic_regression", alpha=1.0), dataset=penguins, target="species",
                features=["island", "body_mass_g"], **DROP)  # fmt: skip
    good = {"island": "Dream", "body_mass_g": 3750}
    answer = client.post(f"/v1/models/{model['id']}/predict", json={"rows": [good, row]})
    assert answer.status_code == 422, answer.text
    assert (answer.json()["errors"][0]["pointer"], answer.json()["errors"][0]["code"]) == (pointer, code)
    assert client.post(f"/v1/models/{model['id']}/predict", json={"rows": [good]}).status_code == 200


def test_unlabelled_and_empty_bodies_are_refused(client, scaler):
    here = f"/v1/models/{scaler['id']}/transform"
    ragged = {"columns": {"bill_length_mm": [1], "body_mass_g": [1, 2]}}
    for body in ({}, {"rows": []}, {"rows": [{}], "columns": {}}, ragged):
        assert client.post(here, json=body).status_code == 422
    assert client.post(f"/v1/models/{scaler['id']}/predict", json={"rows": [{"a": 1}]}).status_code == 409


def test_same_request_same_bits_and_joblib_artifact_verifies(client, penguins, services):
    chosen = spec("logistic_regression")
    body = {"estimator": chosen, "dataset": penguins, "target": "species", "features": MEASURES, **DROP}
    one, two = fit(client, **body), fit(client, **body)
    assert one["artifact"]["sha256"] == two["artifact"]["sha256"]
    file = client.get(one["links"]["artifact"])
    assert hashlib.sha256(file.content).hexdigest() == one["artifact"]["sha256"]
    assert file.headers["etag"] == f'"{one["artifact"]["sha256"]}"'


def test_a_changed_artifact_is_never_opened(client, scaler, services):
    key = services.models.get(scaler["id"])["result"]["artifact"]["key"]
    path = services.objects.path(key)
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    row = {"bill_length_mm": 1, "body_mass_g": 2}
    answer = client.post(f"/v1/models/{scaler['id']}/transform", json={"rows": [row]})
    assert answer.status_code == 500
    assert answer.json()["type"] == "/problems/artifact-rejected"


def test_bundle_loads_with_ml_core_alone(client, scaler):
    file = client.get(scaler["links"]["bundle"])
    assert file.headers["content-type"] == "application/zip"
    model = load_bundle(io.BytesIO(file.content))
    X, _ = encode(model.encoder, [{"bill_length_mm": 40.0, "body_mass_g": 4000}])
    sent = {"rows": [{"bill_length_mm": 40.0, "body_mass_g": 4000}]}
    answer = client.post(f"/v1/models/{scaler['id']}/transform", json=sent).json()
    assert answer["values"] == model.estimator.transform(X).tolist()
    back = client.post(f"/v1/models/{scaler['id']}/inverse_transform", json={"values": answer["values"]}).json()
    np.testing.assert_allclose(back["values"], [[40.0, 4000.0]], rtol=1e-12)


def test_update_in_two_steps_equals_one_fit(client):
    r = np.random.default_rng(0)
    X = r.normal(size=(60, 2))
    y = X @ [1.0, -2.0] + 0.1 * r.normal(size=60)
    lines = [f"{a!r},{b!r},{t!r}" for (a, b), t in zip(X.tolist(), y.tolist(), strict=True)]
    ids = [client.post("/v1/datasets", content=("a,b,y\n" + "\n".join(part)).encode()).json()["id"]
           for part in (lines, lines[:25], lines[25:])]  # fmt: skip
    chosen = spec("bayesian_linear_regression", noise_variance=0.01)
    whole = fit(client, estimator=chosen, dataset=ids[0], target="y")
    first = fit(client, estimator=chosen, dataset=ids[1], target="y", name="blr")
    answer = client.post(f"/v1/models/{first['id']}/update", json={"dataset": ids[2]}, headers={"Prefer": "wait=60"})
    assert answer.status_code == 201, answer.text
    second = answer.json()
    assert (second["name"], second["version"], second["state"]) == ("blr", 2, "ready")
    rows = {"rows": [{"a": 0.3, "b": -1.0}]}
    want = client.post(f"/v1/models/{whole['id']}/posterior", json=rows).json()["distributions"][0]
    got = client.post("/v1/models/blr/posterior", json=rows).json()["distributions"][0]
    for figure in ("mean", "standard_deviation"):
        np.testing.assert_allclose(got[figure], want[figure], rtol=1e-9)
    old = client.post("/v1/models/blr@1/posterior", json=rows).json()
    assert old["model"] == first["id"]
    blocks = client.get("/v1/models/blr/posterior", params={"level": 0.5}).json()["parameters"]
    assert blocks
    assert client.get("/v1/models", params={"name": "blr"}).json()["items"][0]["id"] == second["id"]


def test_validation_scores_are_apart_from_training_scores(client, penguins):
    model = fit(client, estimator=spec("logistic_regression", alpha=1.0), dataset=penguins, target="species",
                features=MEASURES, validation={"method": "k_fold", "k": 4}, **DROP)  # fmt: skip
    held, train = model["metrics"]["validation"], model["metrics"]["train"]
    assert held["rows"] == train["rows"] == 342
    assert len(held["folds"]) == 4
    assert 0.9 < held["accuracy"] <= 1
    again = client.post(f"/v1/models/{model['id']}/score", json={"dataset": penguins})
    assert again.status_code == 422, "penguins has empty cells"


def test_memory_beyond_the_limit_is_refused_with_both_numbers(client, penguins):
    limits = {"memory_bytes": 1000}
    body = {"estimator": spec("standard_scaler"), "dataset": penguins, "features": ["year"], "limits": limits}
    answer = client.post("/v1/models", json=body)
    assert answer.status_code == 413
    assert "1000" in answer.json()["detail"]


def test_validate_stores_nothing(client, penguins):
    body = {"estimator": spec("standard_scaler"), "dataset": penguins, "features": ["year"]}
    answer = client.post("/v1/models/validate", json=body).json()
    assert answer["estimate"]["queue"] == "instant"
    assert answer["request"]["estimator"]["params"]["ddof"] == 0
    assert client.get("/v1/models").json()["items"] == []


def test_jobs_tell_and_stop(client, penguins, runner):
    runner.paused.set()
    body = {"estimator": spec("standard_scaler"), "dataset": penguins, "features": ["year"]}
    model = client.post("/v1/models", json=body, headers={"Prefer": "respond-async"}).json()
    job = client.get(f"/v1/jobs/{model['job']}").json()
    assert (job["state"], job["queue_position"], job["resource"]) == ("queued", 1, model["id"])
    assert client.post(f"/v1/jobs/{job['id']}/cancel").status_code == 202
    assert client.post(f"/v1/jobs/{job['id']}/cancel").status_code == 202
    assert client.get(f"/v1/models/{model['id']}").json()["state"] == "cancelled"
    runner.paused.clear()
    done = client.post("/v1/models", json=body).json()
    assert client.post(f"/v1/jobs/{done['job']}/cancel").status_code == 409
    events = client.get(f"/v1/jobs/{done['job']}/events").text
    assert events.startswith("event: state")
    assert "event: done" in events
    assert [j["id"] for j in client.get("/v1/jobs", params={"state": "cancelled"}).json()["items"]] == [job["id"]]


def test_a_filter_that_matches_nothing_ever_is_a_mistake(client, penguins):
    states = ["queued", "running", "succeeded", "failed", "cancelled"]
    for path, pointer, words in (
        ("/v1/jobs?state=nonsense", "/query/state", states), ("/v1/jobs?kind=nonsense", "/query/kind", [*KINDS]),
        ("/v1/models?state=nonsense", "/query/state", ["ready"]),
    ):  # fmt: skip
        answer = client.get(path)
        (issue,) = answer.json()["errors"]
        assert (answer.status_code, issue["pointer"]) == (422, pointer)
        assert all(word in issue["detail"] for word in words), issue
    document = client.get("/openapi.json").json()["paths"]["/v1/jobs"]["get"]
    (kind,) = [p for p in document["parameters"] if p["name"] == "kind"]
    assert all(word in kind["description"] for word in KINDS)
    fit(client, estimator=spec("gaussian_naive_bayes"), dataset=penguins, target="species", features=MEASURES, **DROP)
    for query, n in (("state=succeeded", 1), ("state=failed", 0), ("kind=fit", 1), ("kind=sweep&state=queued", 0)):
        assert len(client.get(f"/v1/jobs?{query}").json()["items"]) == n, query


def test_dataset_pages_and_exports(client, penguins):
    asked = {"offset": 3, "limit": 2, "columns": "species,year"}
    page = client.get(f"/v1/datasets/{penguins}/rows", params=asked).json()
    assert page["items"][0] == {"species": "Adelie", "year": 2007}
    assert page["total"] == 344
    arrow = client.get(f"/v1/datasets/{penguins}/content", headers={"accept": "application/vnd.apache.arrow.stream"})
    assert pa.ipc.open_stream(arrow.content).read_all().num_rows == 344
    again = client.post("/v1/datasets", content=arrow.content)
    assert again.json()["sha256"] == client.get(f"/v1/datasets/{penguins}").json()["sha256"]
    form = client.post("/v1/datasets", files={"file": ("tiny.csv", b"a;b\n1,5;2\n2,5;3\n")}, data={"name": "tiny"})
    assert form.status_code == 201, form.text
    assert form.json()["name"] == "tiny"
    assert form.json()["columns"][0]["mean"] == 2.0
    assert client.post("/v1/datasets", files={"other": b"a"}).status_code == 422
    assert client.post("/v1/datasets", content=b"").status_code == 422


def test_a_full_queue_answers_429_and_leaves_nothing(services, runner, penguins, client, monkeypatch):
    runner.paused.set()
    monkeypatch.setattr(services.ledger, "_settings", services.settings.model_copy(update={"max_queued": 1}))
    body = {"estimator": spec("standard_scaler"), "dataset": penguins, "features": ["year"]}
    wait = {"Prefer": "respond-async"}
    assert client.post("/v1/models", json=body, headers=wait).status_code == 202
    answer = client.post("/v1/models", json=body, headers=wait)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert len(client.get("/v1/models").json()["items"]) == 1


def test_progress_of_a_fit_and_its_validation_never_goes_back():
    told = []
    stages = Stages(Report(progress=told.append, cores=1), fits=3)
    for _ in range(3):
        for step in (1, 5, 2, 10):
            stages.tell(Tick(step, 10))
        stages.next()
    fractions = [p["fraction"] for p in told]
    assert fractions == sorted(fractions)
    assert fractions[3] == pytest.approx(1 / 3)
    assert fractions[-1] == 1.0
    assert told[4]["message"] == "fit 2 of 3, 1 of 10 iterations"


def test_a_column_name_with_a_slash_is_escaped_in_pointers(client):
    text = "a/b,c~d,y\n" + "\n".join(f"{i},{i % 7},{i * 2.5}" for i in range(20))
    data = client.post("/v1/datasets", content=text.encode()).json()["id"]
    model = fit(client, estimator=spec("linear_regression"), dataset=data, target="y")
    for row, pointer in (({"a/b": "x", "c~d": 1}, "/rows/0/a~1b"), ({"a/b": 1}, "/rows/0/c~0d")):
        answer = client.post(f"/v1/models/{model['id']}/predict", json={"rows": [row]})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == pointer


def test_rows_of_a_dataset_are_bounded_like_rows_in_the_body(client, scaler, penguins, monkeypatch):
    monkeypatch.setattr("service.usecases.inference.MAX_ROWS", 100)
    here = f"/v1/models/{scaler['id']}/transform"
    assert client.post(here, json={"dataset": penguins}).status_code == 413
    assert client.post(here, json={"rows": [{"bill_length_mm": 1, "body_mass_g": 2}] * 101}).status_code == 413
