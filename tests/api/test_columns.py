"""Parameters that name columns, over HTTP: a name gives the bits of its number, whatever the order and the encoding."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from ml_core.bundle import load_bundle
from service.usecases import chunked
from service.usecases.out_of_core import BASE_MEMORY
from tests.api.rows import CSV, records, upload
from tests.api.test_models import fit, spec

TERM = {"kernel": "rbf", "length_scale": 1.5}
FEATURES = ["city", "x", "time", "day", "z"]
SMALL = {"memory_bytes": BASE_MEMORY + 700_000}
TIME, PLACE = "time", 4  # the matrix is city=a, city=b, city=c, x, time, four parts of the day, z


def trips(rows=90, seed=4):
    r = np.random.default_rng(seed)
    x, time = r.normal(size=rows), r.integers(2, 9, rows).astype(float)
    return pa.table({
        "city": pa.array([*"abc", *r.choice(list("abc"), rows - 3)]), "x": x, "time": time, "z": r.normal(size=rows),
        "day": pa.array(np.datetime64("2024-01-01") + r.integers(0, 300, rows), pa.date32()),
        "count": pa.array(r.poisson(time * np.exp(0.3 * x))), "won": pa.array(r.binomial(time.astype(int), 0.4)),
        "y": np.sin(x) + 0.1 * r.normal(size=rows), "kind": pa.array(np.where(x > 0, "warm", "cold").tolist()),
    })  # fmt: skip


@pytest.fixture
def data(client):
    return upload(client, trips())


def gaussian(**kernel):
    return {"kernel": {"kernel": "sum", "terms": [TERM, kernel]}, "noise_variance": 0.1, "hyperparameters": "given"}


def subset(*columns):
    return {"kernel": "subset", "columns": list(columns), "term": TERM}


def warp(column):
    return {"kernel": "warp", "function": "column", "value": column, "term": TERM}


def count_model(column):
    return spec("generalized_linear_model", family="poisson", exposure=column)


GP = "gaussian_process_regression"
CASES: dict[str, Any] = {  # target, and the estimator by a column
    "exposure": ("count", count_model),
    "trials": ("won", lambda c: spec("generalized_linear_model", family="binomial", exposure=c)),
    "noise_column": ("y", lambda c: spec(GP, noise_column=c, noise_variance=0.1, hyperparameters="given")),
    "subset": ("y", lambda c: spec(GP, **gaussian(**subset(c)))),
    "warp": ("y", lambda c: spec(GP, **gaussian(**warp(c)))),
    "kernel of a classifier": ("kind", lambda c: spec("kernel_svm", kernel=subset(c))),
    "member of a wrapper": ("kind", lambda c: spec("one_vs_rest", estimator=spec("kernel_svm", kernel=subset(c)))),
    "calibrated": ("kind", lambda c: spec("calibrated", estimator=spec("kernel_perceptron", kernel=warp(c)))),
    "first step": ("y", lambda c: spec("pipeline", steps=[spec("nystroem_features", kernel=subset(c)),
                                                          spec("linear_regression")])),
}  # fmt: skip


def asked(data, target, estimator, features=FEATURES, **more):
    return {"estimator": estimator, "dataset": data, "target": target, "features": features,
            "encoding": {"date": "parts"}} | more  # fmt: skip


def answers(client, model, data, table=None):
    """Predictions of the same rows as JSON in another order, CSV and a stored dataset; and what else the model says."""
    url, table, sink = f"{model['links']['self']}/predict", table or trips(), io.BytesIO()
    pacsv.write_csv(table, sink)
    rows = [dict(reversed(row.items())) for row in records(table)]
    found = [
        client.post(url, json={"rows": rows}), client.post(url, json={"dataset": data}),
        client.post(url, content=sink.getvalue(), headers={"content-type": CSV}),
    ]  # fmt: skip
    assert [r.status_code for r in found] == [200] * 3, found[0].text
    first, *others = (r.json()["predictions"] for r in found)
    assert others == [first, first]
    report = client.get(model["links"]["diagnostics"]).json()
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]
    posterior = None
    if "predictive_posterior" in model["capabilities"]:
        posterior = client.post(f"{model['links']['self']}/posterior", json={"rows": rows}).json()["distributions"]
    return first, posterior, report["tables"], report["summary"]


@pytest.mark.parametrize("case", CASES)
def test_a_name_gives_the_bits_of_its_number(case, client, data):
    target, estimator = CASES[case]
    named = fit(client, **asked(data, target, estimator(TIME)))
    columns = [c for f in named["features"] for c in f["columns"]]
    assert columns.index(TIME) == PLACE
    numbered = fit(client, **asked(data, target, estimator(PLACE)))
    assert answers(client, named, data) == answers(client, numbered, data)
    assert json.dumps(TIME) in json.dumps(named["estimator"])
    moved = fit(client, **asked(data, target, estimator(TIME), ["time", "z", "day", "x", "city"]))
    again = fit(client, **asked(data, target, estimator(0), ["time", "z", "day", "x", "city"]))
    assert answers(client, moved, data) == answers(client, again, data)
    if target == "kind":
        assert answers(client, moved, data)[0] == answers(client, named, data)[0]
    else:
        np.testing.assert_allclose(answers(client, moved, data)[0], answers(client, named, data)[0], rtol=1e-7)


def test_the_name_of_a_category_is_all_columns_that_it_became(client, data):
    by = [fit(client, **asked(data, "y", spec(GP, **gaussian(**subset(*columns)))))
          for columns in (["city", "x"], ["city=a", "city=b", "city=c", "x"], [0, 1, 2, 3])]  # fmt: skip
    first, *others = (answers(client, model, data) for model in by)
    assert others == [first, first]


def test_names_after_a_step_are_those_that_it_gives(client, data):
    """Of a pipeline in memory and in chunks: the square of a column is a column, with a name."""
    def pipe(column):
        return spec("pipeline", steps=[spec("polynomial_features", include_bias=False), count_model(column)])

    named, numbered = (fit(client, **asked(data, "count", pipe(c), ["x", "time"])) for c in ("time^2", 4))
    assert answers(client, named, data) == answers(client, numbered, data)
    wrong = client.post("/v1/models", json=asked(data, "count", pipe("time²"), ["x", "time"]))
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["pointer"] == "/estimator/params/steps/1/params/exposure"
    assert "near names: 'time'" in wrong.json()["detail"]


@pytest.mark.parametrize("pipe", [False, True])
def test_chunks_find_the_column(pipe, client, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 8192)
    table = trips(3000)
    data = upload(client, table)

    def model(column):
        steps = [spec("polynomial_features", degree=1, include_bias=False), count_model(column)]
        return spec("pipeline", steps=steps) if pipe else count_model(column)

    body = asked(data, "count", model(TIME), limits=SMALL)
    assert client.post("/v1/models/validate", json=body).json()["estimate"]["chunks"]
    named, numbered = fit(client, **body), fit(client, **asked(data, "count", model(PLACE), limits=SMALL))
    found = answers(client, named, data, table)
    assert found == answers(client, numbered, data, table)
    whole = fit(client, **asked(data, "count", model(TIME)))
    np.testing.assert_allclose(found[0], answers(client, whole, data, table)[0], rtol=1e-8)


def test_each_fold_finds_the_column_in_its_own_encoding(client):
    """A level that one row alone has: without that row every number behind it is another column's."""
    table = trips()
    city = ["rare", *table["city"].to_pylist()[1:]]
    data = upload(client, table.set_column(0, "city", pa.array(city)))
    plan = {"validation": {"method": "k_fold", "k": 5}}
    behind, before = (fit(client, **asked(data, "count", count_model(TIME), features, **plan))["metrics"]["validation"]
                      for features in (["city", "x", "time"], ["time", "city", "x"]))  # fmt: skip
    name = "root_mean_squared_error"
    np.testing.assert_allclose([f[name] for f in behind["folds"]], [f[name] for f in before["folds"]], rtol=1e-7)


def test_rows_are_learned_and_forgotten_by_the_columns_of_the_fit(client, data):
    def pipe(column):
        kernel = spec("nystroem_features", kernel=subset(column), n_components=5)
        return spec("pipeline", steps=[kernel, spec("bayesian_linear_regression", noise_variance=0.1)])

    rows = {"rows": [{**row, "y": row["y"] + 1.0} for row in records(trips(5, seed=9))]}
    both = []
    for column in (TIME, PLACE):
        model = fit(client, **asked(data, "y", pipe(column)))
        for change in ("update", "forget"):
            changed = client.post(f"{model['links']['self']}/{change}", json=rows, headers={"Prefer": "wait=60"})
            assert changed.status_code == 201, changed.text
            model = changed.json()
            both.append(answers(client, model, data)[:2])
    assert both[:2] == both[2:]
    assert both[0] != both[1]


def test_an_exported_model_needs_no_names(client, data):
    model = fit(client, **asked(data, "count", count_model(TIME)))
    bundle = load_bundle(io.BytesIO(client.get(f"{model['links']['self']}/bundle").content))
    X = np.zeros((2, 10))
    X[:, PLACE] = [2.0, 4.0]
    low, high = bundle.estimator.predict(X)
    assert high == 2.0 * low


BAD: list[Any] = [  # estimator, target, pointer, code, what is said
    (count_model("tme"), "count", "/estimator/params/exposure", "unknown_column", "near names: 'time'"),
    (count_model("Time"), "count", "/estimator/params/exposure", "unknown_column", "near names: 'time'"),
    (count_model("won"), "count", "/estimator/params/exposure", "unknown_column", "among the features"),
    (count_model("city"), "count", "/estimator/params/exposure", "several_columns", "'city=a', 'city=b', 'city=c'"),
    (count_model(10), "count", "/estimator/params/exposure", "no_column", "counted from 0"),
    (count_model(-1), "count", "/estimator/params/exposure", "value_error", "its number"),
    (count_model(True), "count", "/estimator/params/exposure", "value_error", "its number"),
    (count_model(""), "count", "/estimator/params/exposure", "value_error", "its number"),
    (spec(GP, noise_column="city=d"), "y", "/estimator/params/noise_column", "unknown_column", "'city=a'"),
    (spec(GP, kernel=subset("x", "zz")), "y", "/estimator/params/kernel/columns/1", "unknown_column", "there are"),
    (spec(GP, noise_column="time", kernel=subset("time")), "y", "/estimator/params/kernel/columns/0",
     "unknown_column", "'time'"),
    (spec(GP, **gaussian(**warp("tim"))), "y", "/estimator/params/kernel/terms/1/value", "unknown_column", "'time'"),
    (spec(GP, **gaussian(**warp(0.5))), "y", "/estimator/params/kernel/terms/1/value", "value_error", "a name"),
    (spec(GP, kernel={"kernel": "warp", "function": "norm", "value": "x", "term": TERM}), "y",
     "/estimator/params/kernel/value", "value_error", "takes a number"),
    (spec(GP, kernel={"kernel": "subset", "columns": ["x", "z"], "term": subset("time")}), "y",
     "/estimator/params/kernel/term/columns/0", "unknown_column", "there are 'x', 'z'"),
    (spec(GP, kernel={"kernel": "map", "features": "powers", "term": subset("x")}), "y",
     "/estimator/params/kernel/term/columns/0", "no_names", "give its number"),
    (spec("one_vs_rest", estimator=spec("kernel_svm", kernel=subset("xx"))), "kind",
     "/estimator/params/estimator/params/kernel/columns/0", "unknown_column", "there are"),
    (spec("pipeline", steps=[spec("kernel_pca", kernel=subset("xx")), spec("linear_regression")]), "y",
     "/estimator/params/steps/0/params/kernel/columns/0", "unknown_column", "there are"),
]  # fmt: skip


@pytest.mark.parametrize(("estimator", "target", "pointer", "code", "said"), BAD)
def test_what_no_column_is_called_is_refused_at_its_place(estimator, target, pointer, code, said, client, data):
    for route in ("/v1/models", "/v1/models/validate"):
        answer = client.post(route, json=asked(data, target, estimator))
        assert answer.status_code == 422, answer.text
        assert (answer.json()["errors"][0]["pointer"], answer.json()["errors"][0]["code"]) == (pointer, code)
        assert said in answer.json()["detail"]


@pytest.mark.parametrize("scale", ["standard", "min_max", "whiten"])
@pytest.mark.parametrize("case", ["exposure", "noise_column"])
def test_a_scaled_column_holds_no_exposures_and_no_variances(case, scale, client, data):
    target, estimator = CASES[case]
    for column in (TIME, PLACE):
        body = asked(data, target, estimator(column), encoding={"scale": scale, "date": "parts"})
        answer = client.post("/v1/models", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["code"] == "scaled_column"
        body["encoding"]["columns"] = {"time": {"scale": "none"}}
        assert fit(client, **body)["state"] == "ready"


def test_functions_have_points_without_names(client):
    body = {"points": [[1.0, 2.0]], "kernel": subset("x")}
    for name in ("composite_kernel", "gaussian_process_prior", "kernel_matrix_check"):
        answer = client.post(f"/v1/functions/{name}", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["pointer"] == "/kernel/columns/0"


def columns_in(schema, path=""):
    """Places of a schema that are a column, and those whose numbers sound like one."""
    for name, field in schema.get("properties", {}).items():
        text = json.dumps(field)
        if "x-column" in text or ("integer" in text and "Column of" in text):
            yield f"{path}{name}", "x-column" in text


def test_the_catalogue_and_openapi_mark_every_such_parameter(client):
    found = {}
    for item in client.get("/v1/algorithms").json()["items"]:
        schema = client.get(f"/v1/algorithms/{item['name']}").json()["params_schema"]
        found |= dict(columns_in(schema, f"{item['name']}."))
    document = client.get("/openapi.json").json()["components"]["schemas"]
    kernels = [name for name in document if name.endswith("Kernel")]
    found |= {k: v for name in kernels for k, v in columns_in(document[name], f"{name}.")}
    assert found == dict.fromkeys(["generalized_linear_model.exposure", "gaussian_process_regression.noise_column",
                                   "SubsetKernel.columns", "WarpKernel.value"], True)  # fmt: skip
