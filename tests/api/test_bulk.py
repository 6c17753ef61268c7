"""Predictions of a dataset as a job whose result is a dataset."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ml_core.errors import Cancelled
from service.adapters.datasets import SqlDatasets
from service.errors import NotFound
from service.ports import Report
from service.usecases import bulk
from service.work import KINDS
from tests.api.rows import FEATURES, fitted, mixed, records, upload
from tests.api.test_conventions import check_problem
from tests.api.test_models import fit, spec
from tests.api.test_rows import bits

ASYNC, WAIT = {"Prefer": "respond-async"}, {"Prefer": "wait=60"}


@pytest.fixture
def data(client):
    return upload(client, mixed(), name="source")


@pytest.fixture
def model(client, data):
    return fitted(client, spec("logistic_regression", alpha=1.0), data, "kind", name="kinds")


def predict(client, model, headers=WAIT, **body):
    return client.post(f"/v1/models/{model}/predict", json={"output": "dataset"} | body, headers=headers)


def content(client, dataset):
    answer = client.get(f"/v1/datasets/{dataset}/content", headers={"accept": "application/vnd.apache.parquet"})
    assert answer.status_code == 200, answer.text
    return pq.read_table(io.BytesIO(answer.content))


def test_the_result_is_a_dataset_with_the_bits_of_an_answer(client, data, model, monkeypatch):
    monkeypatch.setattr(bulk, "MOST_ROWS", 37)
    rows = records(mixed().select(FEATURES))
    want = [client.post(f"/v1/models/{model}/predict", json={"rows": rows[i : i + 37]}).json()
            for i in range(0, 160, 37)]  # fmt: skip
    answer = predict(client, model, dataset="source", keep=["code", "moment", "serial"], name="guesses")
    assert answer.status_code == 201, answer.text
    job = answer.json()
    assert (job["kind"], job["state"], answer.headers["preference-applied"]) == ("predict", "succeeded", "wait=60")
    assert answer.headers["location"] == f"/v1/datasets/{job['resource']}" == job["links"]["resource"]
    assert (job["progress"]["step"], job["progress"]["total"], job["progress"]["fraction"]) == (160, 160, 1.0)
    made = client.get(answer.headers["location"]).json()
    assert (made["name"], made["rows"], made["source"]["format"]) == ("guesses", 160, "prediction")
    assert (made["source"]["model"], made["source"]["dataset"]) == (model, data)
    types = {c["name"]: c["type"] for c in made["columns"]}
    assert types == {"code": "category", "moment": "datetime", "serial": "integer", "prediction": "category",
                     "probability_no": "number", "probability_yes": "number"}  # fmt: skip
    assert "y" in made["warnings"][0]["message"]
    table = content(client, job["resource"])
    assert table["prediction"].to_pylist() == [p for part in want for p in part["predictions"]]
    values = [v for part in want for v in part["probabilities"]["values"]]
    assert bits(np.column_stack([table["probability_no"], table["probability_yes"]]).tolist()) == bits(values)
    for name in ("code", "moment", "serial"):
        assert table[name].to_pylist() == mixed()[name].to_pylist()
    assert client.get(f"/v1/jobs/{job['resource']}").json()["id"] == job["id"]


def test_intervals_and_several_targets_stand_in_the_result(client):
    r = np.random.default_rng(0)
    data = upload(client, pa.table({name: r.normal(size=50) for name in "auv"}))
    both = fit(client, estimator=spec("linear_regression"), dataset=data, target=["u", "v"], features=["a"])["id"]
    job = predict(client, both, dataset=data, interval=0.5).json()
    table = content(client, job["resource"])
    want = client.post(f"/v1/models/{both}/predict", json={"dataset": data, "interval": 0.5}).json()
    assert table.column_names == ["prediction_u", "prediction_v", "lower_u", "lower_v", "upper_u", "upper_v"]
    assert bits(np.column_stack([table["lower_v"], table["upper_v"]]).tolist()) == bits(
        np.array(want["intervals"])[:, 1].tolist())  # fmt: skip
    assert client.get(f"/v1/datasets/{job['resource']}").json()["warnings"] == []


def test_respond_async_with_a_dataset_is_a_job_and_with_rows_is_not(client, data, model, runner):
    runner.paused.set()
    answer = client.post(f"/v1/models/{model}/predict", json={"dataset": data}, headers=ASYNC)
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    assert (job["state"], job["resource"][:3]) == ("queued", "ds_")
    check_problem(client.get(f"/v1/datasets/{job['resource']}"), 404, "not-found")
    rows = {"rows": records(mixed(2).select(FEATURES))}
    assert len(client.post(f"/v1/models/{model}/predict", json=rows, headers=ASYNC).json()["predictions"]) == 2
    for held in (f"/v1/datasets/{data}", f"/v1/models/{model}"):
        check_problem(client.delete(held), 409, "conflict")
    assert predict(client, model, {"Prefer": "wait=0.05"}, dataset=data).status_code == 202
    runner.paused.clear()
    assert predict(client, model, dataset=data).status_code == 201
    assert client.delete(f"/v1/datasets/{data}").status_code == 204
    assert client.delete(f"/v1/models/{model}").status_code == 204


def test_a_repeated_request_makes_one_dataset(client, data, model):
    answers = [predict(client, model, WAIT | {"Idempotency-Key": "k"}, dataset=data) for _ in range(2)]
    assert [a.status_code for a in answers] == [201, 201]
    assert len({a.json()["resource"] for a in answers}) == 1
    assert len(client.get("/v1/jobs", params={"kind": "predict"}).json()["items"]) == 1


SENSELESS = [
    ({"rows": [{"a": 1}]}, "/output"), ({"keep": ["none"]}, "/keep/0"), ({"keep": ["code", "code"]}, "/keep/0"),
    ({"output": "answer", "keep": ["code"]}, "/keep"), ({"output": "answer", "name": "x"}, "/name"),
    ({"output": "file"}, "/output"), ({"name": ""}, "/name"),
]  # fmt: skip


def test_what_makes_no_sense_is_refused_before_a_job_is_queued(client, data, model):
    for body, pointer in SENSELESS:
        answer = predict(client, model, **({} if "rows" in body else {"dataset": data}) | body)
        assert check_problem(answer, 422, "invalid")["errors"][0]["pointer"] == pointer
    assert client.get("/v1/jobs", params={"kind": "predict"}).json()["items"] == []
    assert predict(client, model, dataset=data, keep=[]).status_code == 201


def test_what_cannot_be_predicted_is_refused_before_a_job_is_queued(client, data, model, scaler):
    check_problem(predict(client, model, dataset="ds_0"), 404, "not-found")
    check_problem(predict(client, scaler["id"], dataset=data), 409, "unsupported")
    check_problem(predict(client, model, dataset=data, interval=0.5), 409, "unsupported")
    lacks = upload(client, mixed().drop_columns(["day"]))
    errors = check_problem(predict(client, model, dataset=lacks), 422, "invalid-data")["errors"]
    assert errors[0]["pointer"] == "/columns/day"
    named = upload(client, mixed().rename_columns([*mixed().column_names[:-1], "prediction"]))
    assert check_problem(predict(client, model, dataset=named, keep=["prediction"]), 422, "invalid")["errors"][0][
        "pointer"] == "/keep/0"  # fmt: skip
    answer = predict(client, model, WAIT | {"accept": "text/csv"}, dataset=data)
    check_problem(answer, 406, "not-acceptable")
    assert client.get("/v1/jobs", params={"kind": "predict"}).json()["items"] == []


def test_a_bad_cell_deep_in_the_table_is_pointed_at_by_its_own_row(client, data, monkeypatch):
    monkeypatch.setattr(bulk, "MOST_ROWS", 25)
    strict = fitted(client, spec("ridge_regression"), data, "y", features=["colour"],
                    encoding={"missing": "drop_rows"})  # fmt: skip
    colours = ["red"] * 100
    colours[77], colours[93] = "violet", None
    wrong = upload(client, pa.table({"colour": colours}))
    errors = check_problem(predict(client, strict, dataset=wrong), 422, "invalid")["errors"]
    assert [(e["pointer"], e["code"]) for e in errors] == [("/rows/77/colour", "unknown_level")]
    colours[77] = "red"
    wrong = upload(client, pa.table({"colour": colours}))
    errors = check_problem(predict(client, strict, dataset=wrong), 422, "invalid")
    assert [(e["pointer"], e["code"]) for e in errors["errors"]] == [("/rows/93/colour", "null_not_allowed")]
    assert "'colour' is empty here" in errors["errors"][0]["detail"]
    assert [d["name"] for d in client.get("/v1/datasets").json()["items"]] == ["dataset", "dataset", "source"]


def queued(client, services, runner, model, data):
    """A job that this test works on itself, and its claim."""
    runner.paused.set()
    job = predict(client, model, ASYNC, dataset=data).json()
    (claim,) = services.ledger.claim("mine", {"instant": 1, "long": 1})
    return job, claim


def work(services, claim, progress=lambda told: None):
    return KINDS["predict"](services, claim.job, Report(progress=progress, cores=1, attempt=claim.attempt))


def names(client):
    return {d["id"] for d in client.get("/v1/datasets").json()["items"]}


def test_a_killed_worker_leaves_nothing_and_the_next_one_has_the_same_bits(client, services, runner, data, model):
    calm = predict(client, model, dataset=data).json()
    job, claim = queued(client, services, runner, model, data)

    def die(told):
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        work(services, claim, die)
    assert job["resource"] not in names(client)
    assert services.ledger.reap("mine") == 1
    runner.paused.clear()
    client.get(f"/v1/jobs/{job['id']}/events")
    shas = {client.get(f"/v1/datasets/{j['resource']}").json()["sha256"] for j in (calm, job)}
    assert len(shas) == 1


def test_an_attempt_that_stored_but_could_not_tell_is_the_result_of_the_next(client, services, runner, data, model):
    job, claim = queued(client, services, runner, model, data)
    first = work(services, claim)
    made = client.get(f"/v1/datasets/{job['resource']}").json()
    assert services.ledger.reap("mine") == 1
    runner.paused.clear()
    client.get(f"/v1/jobs/{job['id']}/events")
    assert client.get(f"/v1/jobs/{job['id']}").json()["state"] == "succeeded"
    assert client.get(f"/v1/datasets/{job['resource']}").json() == made
    assert first["sha256"] == made["sha256"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_cancelled_job_leaves_no_dataset(moment, client, services, runner, data, model):
    before = names(client)
    job, claim = queued(client, services, runner, model, data)
    if moment == "after":
        work(services, claim)
        assert job["resource"] in names(client)
    assert client.post(f"/v1/jobs/{job['resource']}/cancel").status_code == 202
    if moment == "before":
        with pytest.raises(Cancelled):
            work(services, claim)
    services.ledger.finish(claim, "succeeded", result={})
    assert client.get(f"/v1/jobs/{job['id']}").json()["state"] == "cancelled"
    assert names(client) == before
    assert len(list(services.objects.keys("tables/"))) == len(before)


def test_only_the_attempt_that_is_held_stores_a_record(services, runner):
    runner.paused.set()
    store = SqlDatasets(services.db)
    record = {"id": "ds_made", "name": "n", "sha256": "0"}
    assert not store.add_made(record, "job_none", 1)
    with pytest.raises(NotFound):
        store.get("ds_made")


def test_memory_does_not_grow_with_the_table(client, services, data, monkeypatch):
    """No piece of the table that the model is given, or that is written, is larger than a chunk."""
    monkeypatch.setattr(bulk, "MOST_ROWS", 50)
    seen = []
    encoded = bulk.encoded

    def watched(model, table, **more):
        seen.append(table.num_rows)
        return encoded(model, table, **more)

    monkeypatch.setattr(bulk, "encoded", watched)
    linear = fitted(client, spec("ridge_regression"), data, "y")
    assert predict(client, linear, dataset=upload(client, mixed(1234))).status_code == 201
    assert max(seen) == 50
    assert sum(seen) == 1234
