"""Fits of tables that do not fit in the memory granted, and rows learned and forgotten, over HTTP."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pyarrow as pa
import pytest

from ml_core import progress
from ml_core.parallel import use_mapper, use_threads
from ml_core.registry import algorithms, build
from ml_core.sums import chunkable, fit_chunks
from service.ports import Report
from service.usecases import chunked
from service.usecases.chunked import open_chunks
from service.usecases.out_of_core import BASE_MEMORY, Passes
from service.usecases.preparation import prepare
from service.work import KINDS
from tests.api.test_models import fit, spec

ROWS = 3000
SMALL = {"memory_bytes": BASE_MEMORY + 1_250_000}
BAYES = spec("bayesian_linear_regression", noise_variance=0.04)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of a few hundred rows."""
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 8192)


def table(rows=ROWS, gaps=False):
    r = np.random.default_rng(5)
    a, b, k = r.normal(3.0, 2.0, rows), r.normal(size=rows), r.choice(["blue", "green", "red"], rows)
    y = 1.0 + 2.0 * a - b + (k == "red") + 0.2 * r.normal(size=rows)
    columns = {"a": a, "b": b, "whole": r.integers(0, 9, rows), "k": k, "yes": r.random(rows) < 0.3, "y": y,
               "w": r.integers(0, 3, rows).astype(float)}  # fmt: skip
    if not gaps:
        return pa.table(columns)
    empty = {name: r.random(rows) < 0.05 for name in columns}
    empty["w"][:] = False
    return pa.table({name: pa.array(values, mask=empty[name]) for name, values in columns.items()})


def upload(client, data):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, data.schema) as writer:
        writer.write_table(data)
    answer = client.post("/v1/datasets", content=sink.getvalue())
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def body(dataset, **more):
    return {"estimator": BAYES, "dataset": dataset, "target": "y", "features": ["a", "b", "whole", "k", "yes"]} | more


def posterior(client, model, rows):
    answer = client.post(f"/v1/models/{model['id']}/posterior", json={"rows": rows})
    assert answer.status_code == 200, answer.text
    return [(d["mean"], d["standard_deviation"]) for d in answer.json()["distributions"]]


QUESTION = [{"a": 1.0, "b": 0.5, "whole": 3, "k": "red", "yes": True},
            {"a": 9.0, "b": -2.0, "whole": 0, "k": "blue", "yes": False}]  # fmt: skip


@pytest.mark.parametrize("encoding", [{}, {"scale": "standard"}, {"scale": "min_max", "categorical": "ordinal"},
                                      {"categorical": "reference"}])
@pytest.mark.parametrize("weights", [None, "w"])
def test_in_chunks_is_in_memory(client, encoding, weights):
    data = upload(client, table())
    asked = body(data, encoding=encoding, weights=weights)
    whole, parts = fit(client, **asked), fit(client, **asked, limits=SMALL)
    notes = {w["code"]: w["message"] for w in parts["warnings"]}
    assert f"{ROWS} rows in " in notes["fitted_in_chunks"]
    assert "fitted_in_chunks" not in {w["code"] for w in whole["warnings"]}
    np.testing.assert_allclose(posterior(client, parts, QUESTION), posterior(client, whole, QUESTION), rtol=1e-9)
    assert parts["features"] == whole["features"]
    assert (parts["rows"], parts["rows_dropped"]) == (whole["rows"], 0)
    for name, value in whole["metrics"]["train"].items():
        assert parts["metrics"]["train"][name] == pytest.approx(value, rel=1e-9), name
    report = client.get(parts["links"]["diagnostics"]).json()
    assert report["certificates"]
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]


@pytest.mark.parametrize("missing", ["drop_rows", "mean", "median", "most_frequent", "indicator"])
def test_empty_cells_are_treated_as_in_memory(client, missing):
    data = table(gaps=True)
    if missing != "drop_rows":
        data = data.set_column(data.column_names.index("y"), "y", [table().column("y")])
    asked = body(upload(client, data), encoding={"missing": missing, "scale": "standard"})
    whole, parts = fit(client, **asked), fit(client, **asked, limits=SMALL)
    assert (parts["rows"], parts["rows_dropped"]) == (whole["rows"], whole["rows_dropped"])
    assert (parts["rows_dropped"] > 0) == (missing == "drop_rows")
    np.testing.assert_allclose(posterior(client, parts, QUESTION), posterior(client, whole, QUESTION), rtol=1e-9)


def refused(client, asked):
    answer = client.post("/v1/models", json=asked, headers={"Prefer": "wait=60"})
    assert answer.status_code >= 400, answer.text
    return answer.status_code, answer.json()


def test_refusals_of_chunks_are_those_of_memory(client, monkeypatch):
    monkeypatch.setattr("service.usecases.training.CHECKED_CELLS", 0)
    gaps = upload(client, table(gaps=True))
    empty = upload(client, pa.table({"a": [1.0, None], "y": [None, 1.0]}))
    none = {"estimator": BAYES, "dataset": empty, "target": "y", "features": ["a"]}
    for asked in (body(gaps), body(gaps, encoding={"missing": "mean"}), body(gaps, encoding={"categorical": "error"}),
                  none | {"encoding": {"missing": "drop_rows"}}):  # fmt: skip
        whole = refused(client, asked)
        monkeypatch.setattr("service.usecases.out_of_core.memory_of", lambda *_: 1 << 60)
        assert refused(client, asked) == whole
        monkeypatch.undo()
        monkeypatch.setattr("service.usecases.training.CHECKED_CELLS", 0)
        monkeypatch.setattr(chunked, "CHUNK_BYTES", 8192)


def test_what_cannot_go_in_chunks_is_refused_with_what_to_do(client):
    data = upload(client, table())
    status, problem = refused(client, body(data, limits=SMALL, validation={"method": "holdout"}))
    assert status == 422
    assert problem["errors"][0]["pointer"] == "/validation/method"
    assert "limits.memory_bytes" in problem["detail"]
    status, problem = refused(client, body(data, limits={"memory_bytes": BASE_MEMORY + 1000}))
    assert status == 413
    assert "in chunks already" in problem["detail"]
    tight = {"memory_bytes": BASE_MEMORY + 1000}
    forest = spec("random_forest_classifier", n_estimators=10)
    status, problem = refused(client, body(data, estimator=forest, target="k", features=["a", "b"], limits=tight))
    assert status == 413
    assert all(text in problem["detail"] for text in (str(tight["memory_bytes"]), "take fewer rows"))


@pytest.mark.parametrize(("name", "option"), [
    ("kernel_ridge_regression", {"approximation": "auto", "n_landmarks": 40}),
    ("gaussian_process_regression", {"exact_rows": 5000, "n_inducing": 20, "n_restarts": 0}),
])  # fmt: skip
def test_kernel_methods_switch_where_the_limit_forbids_all_kernel_values(client, name, option):
    data, tight = upload(client, table()), {"memory_bytes": BASE_MEMORY + 60_000_000}
    asked = body(data, estimator=spec(name, **option), features=["a", "b"], limits=tight)
    estimate = client.post("/v1/models/validate", json=asked).json()["estimate"]
    assert BASE_MEMORY < estimate["memory_bytes"] < tight["memory_bytes"]
    model = fit(client, **asked)
    assert {"nystroem", "sparse"} & {w["code"] for w in model["warnings"]}
    if name == "kernel_ridge_regression":
        status, problem = refused(client, asked | {"estimator": spec(name)})
        assert status == 413
        assert "set approximation to nystroem or auto" in problem["detail"]


def test_validate_tells_of_chunks_and_its_request_can_be_sent(client):
    data = upload(client, table())
    answer = client.post("/v1/models/validate", json=body(data, limits=SMALL)).json()
    estimate = answer["estimate"]
    assert estimate["memory_bytes"] <= SMALL["memory_bytes"]
    assert estimate["queue"] == "long"
    assert estimate["chunks"]["count"] == -(-ROWS // estimate["chunks"]["rows"]) > 5
    assert client.post("/v1/models/validate", json=body(data)).json()["estimate"]["chunks"] is None
    assert fit(client, **answer["request"])["state"] == "ready"


def elsewhere(function, items, shared):
    """An engine that sends everything through pickle, last piece first."""
    sent = pickle.dumps((function, shared))
    answers = {}
    for item in reversed(items):
        f, given = pickle.loads(sent)
        answers[item] = pickle.dumps(f(item, *given))
    return iter([pickle.loads(answers[i]) for i in items])


def test_the_same_bits_wherever_chunks_are_read(client, services):
    request = body(upload(client, table(gaps=True)), encoding={"missing": "drop_rows", "scale": "standard"})
    fitted = []
    for threads, mapper in ((1, None), (2, None), (1, elsewhere)):
        estimator = build(BAYES)
        with use_threads(threads), use_mapper(mapper):
            chunks, dropped = open_chunks(services.datasets, request, estimator, 170)
            fit_chunks(estimator, chunks)
        fitted.append((chunks.encoder.shift.tobytes(), chunks.encoder.scale.tobytes(), estimator.coef_.tobytes(),
                       estimator.intercept_, estimator.log_evidence_, dropped))  # fmt: skip
    assert fitted[0] == fitted[1] == fitted[2]


def test_chunks_are_the_rows_of_the_table(client, services):
    request = body(upload(client, table(gaps=True)), encoding={"missing": "drop_rows"}, weights="w")
    estimator = build(BAYES)
    chunks, dropped = open_chunks(services.datasets, request, estimator, 257)
    parts = [pickle.loads(pickle.dumps(chunks)).read(i) for i in range(len(chunks))]
    whole = prepare(services.datasets, request, estimator)
    assert dropped == whole.dropped > 0
    assert chunks.encoder.features == whole.encoder.features
    for got, want in zip(zip(*parts, strict=True), (whole.X, whole.y, whole.weights), strict=True):
        np.testing.assert_array_equal(np.concatenate(got), want)


def test_labels_of_chunks_are_those_of_the_table(client, services):
    data = upload(client, table())
    estimator = build(spec("logistic_regression"))
    for target in ("k", "whole", "yes"):
        request = {"dataset": data, "target": target, "features": ["a", "b"]}
        chunks, _ = open_chunks(services.datasets, request, estimator, 500)
        got = np.concatenate([chunks.read(i)[1] for i in range(len(chunks))])
        want = prepare(services.datasets, request, estimator).y
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_a_second_attempt_has_the_same_bits(client, services, runner):
    """A worker that dies midway leaves nothing behind that the next one would go on from."""
    asked = body(upload(client, table()), limits=SMALL)
    first = fit(client, **asked)
    runner.paused.set()
    queued = client.post("/v1/models", json=asked, headers={"Prefer": "respond-async"}).json()
    (claim,) = services.ledger.claim("doomed", {"instant": 1, "long": 1})

    def die(progress):
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        KINDS["fit"](services, claim.job, Report(progress=die, cores=1, attempt=claim.attempt))
    assert services.ledger.reap("doomed") == 1
    runner.paused.clear()
    client.get(f"/v1/jobs/{queued['job']}/events")
    second = client.get(f"/v1/models/{queued['id']}").json()
    assert second["state"] == "ready", second["error"]
    assert second["artifact"]["sha256"] == first["artifact"]["sha256"]


def rows_of(data, at):
    return data.slice(at.start, at.stop - at.start).to_pylist()


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("weights", [None, "w"])
def test_forgotten_is_never_seen_and_learned_again_is_as_before(client, inline, weights):
    data = table(400)
    some = slice(100, 160)
    rest = pa.concat_tables([data.slice(0, 100), data.slice(160)])
    asked = {"weights": weights, "name": "memory", "encoding": {"unknown_level": "ignore"}}
    first = fit(client, **body(upload(client, data), **asked))
    refit = fit(client, **body(upload(client, rest), **asked | {"name": "other"}))
    change = {"rows": rows_of(data, some)} if inline else {"dataset": upload(client, data.slice(100, 60))}
    wait = {"Prefer": "wait=60"}
    less = client.post("/v1/models/memory/forget", json=change, headers=wait)
    assert less.status_code == 201, less.text
    assert (less.json()["version"], less.json()["state"], less.json()["rows"]) == (2, "ready", 340)
    np.testing.assert_allclose(posterior(client, less.json(), QUESTION), posterior(client, refit, QUESTION), rtol=1e-8)
    report = client.get(less.json()["links"]["diagnostics"]).json()
    assert [(c["name"], c["holds"]) for c in report["certificates"]] == [("forgotten_rows_return", True)]
    again = client.post("/v1/models/memory/update", json=change, headers=wait)
    assert again.status_code == 201, again.text
    assert (again.json()["version"], again.json()["rows"]) == (3, 400)
    report = client.get(again.json()["links"]["diagnostics"]).json()
    assert [(c["name"], c["holds"]) for c in report["certificates"]] == [("learned_rows_leave", True)]
    assert "rows_learned" in [w["code"] for w in report["warnings"]]
    assert [m["metrics"]["verdict"] for m in (less.json(), again.json())] == [None, None]
    assert "not at hand" in again.json()["metrics"]["verdict_reason"]
    np.testing.assert_allclose(posterior(client, again.json(), QUESTION), posterior(client, first, QUESTION), rtol=1e-8)


@pytest.mark.parametrize(("change", "pointer"), [
    ({}, "/rows"), ({"rows": [], "dataset": "iris"}, "/rows"), ({"rows": []}, "/rows"),
    ({"rows": [{"a": 1.0, "y": 1.0}]}, "/rows/0/b"), ({"rows": [{"a": 1.0, "b": 1.0}]}, "/rows/0/y"),
    ({"rows": [{"a": 1.0, "b": 1.0, "y": "1"}]}, "/rows/0/y"), ({"rows": [{"a": 1, "b": 1, "y": True}]}, "/rows/0/y"),
    ({"rows": [{"a": None, "b": 1.0, "y": 1}]}, "/rows/0/a"), ({"rows": [{"a": 1, "b": 1, "y": None}]}, "/rows/0/y"),
])  # fmt: skip
def test_bad_rows_to_forget_or_learn_are_pointed_at(client, change, pointer):
    model = fit(client, estimator=BAYES, dataset=upload(client, table(50)), target="y", features=["a", "b"])
    for what in ("forget", "update"):
        answer = client.post(f"/v1/models/{model['id']}/{what}", json=change)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["pointer"] == pointer
    assert len(client.get("/v1/models").json()["items"]) == 1


def test_rows_never_seen_are_not_forgotten(client):
    model = fit(client, estimator=BAYES, dataset=upload(client, table(50)), target="y", features=["a", "b"])
    everything = {"rows": [{"a": r["a"], "b": r["b"], "y": r["y"]} for r in table(50).to_pylist()] * 2}
    answer = client.post(f"/v1/models/{model['id']}/forget", json=everything, headers={"Prefer": "wait=60"})
    assert answer.status_code == 422, answer.text
    assert len(client.get("/v1/models").json()["items"]) == 1


def test_a_model_that_cannot_forget_says_why(client, penguins):
    model = fit(client, estimator=spec("logistic_regression"), dataset=penguins, target="species",
                features=["body_mass_g"], encoding={"missing": "drop_rows"})  # fmt: skip
    answer = client.post(f"/v1/models/{model['id']}/forget", json={"rows": [{"body_mass_g": 1, "species": "Adelie"}]})
    assert answer.status_code == 409
    assert "sums" in answer.json()["detail"]


@pytest.mark.parametrize("name", [name for name, a in algorithms().items() if chunkable(a.cls)])
def test_every_algorithm_that_says_so_fits_in_chunks(name, client, monkeypatch):
    example = client.get(f"/v1/algorithms/{name}").json()["example"]
    whole = fit(client, **example)
    monkeypatch.setattr("service.usecases.out_of_core.memory_of", lambda *_: 1 << 60)
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 3000)
    parts = fit(client, **example, limits={"memory_bytes": 1 << 30})
    assert "fitted_in_chunks" in {w["code"] for w in parts["warnings"]}
    report = client.get(parts["links"]["diagnostics"]).json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]
    for figure, value in whole["metrics"]["train"].items():
        assert parts["metrics"]["train"][figure] == pytest.approx(value, rel=1e-6), figure


def test_progress_in_chunks_tells_the_pass_and_the_iterations_made():
    told = []
    with progress.listen(Passes(Report(told.append, cores=1)).tell):
        for made in range(3):
            for chunk in (1, 2):
                progress.tick(chunk, 2, "chunks")
            progress.tick(5, 9, "clusters")
            progress.tick(made + 1, 40, objective=0.5 * made)
    assert [t["message"] for t in told[2:6]] == [
        "1 of at most 40 iterations", "pass 2, chunk 1 of 2, after 1 of at most 40 iterations",
        "pass 2, chunk 2 of 2, after 1 of at most 40 iterations", "2 of at most 40 iterations",
    ]  # fmt: skip
    assert [t["metrics"] for t in told] == [{}] * 2 + [{"objective": 0.0}] * 3 + [{"objective": 0.5}] * 3 + [
        {"objective": 1.0}]  # fmt: skip
    assert [t["fraction"] for t in told] == [0.25, 0.5, 0.5, 0.625, 0.75, 0.75, 0.8125, 0.875, 0.875]


@pytest.mark.parametrize("name", ["linear_discriminant_analysis", "gaussian_naive_bayes"])
def test_classes_of_a_fit_in_chunks_have_the_verdict_of_memory(client, name):
    data = table()
    part = ["held" if i % 3 == 0 else "fit" for i in range(len(data))]
    dataset = upload(client, data.append_column("part", pa.array(part)))
    split = {"method": "split_column", "column": "part", "validation": ["held"]}
    asked = body(dataset, estimator=spec(name), target="k", features=["a", "b", "y"], weights="w", validation=split)
    chunks = fit(client, **asked, limits={"memory_bytes": BASE_MEMORY + 250_000})
    assert "fitted_in_chunks" in [w["code"] for w in chunks["warnings"]]
    memory = fit(client, **asked)
    assert chunks["metrics"]["verdict"] == memory["metrics"]["verdict"]
    assert chunks["metrics"]["verdict"]["code"] in ("fitting", "under_fitting")
    assert chunks["metrics"]["verdict_reason"] is None
