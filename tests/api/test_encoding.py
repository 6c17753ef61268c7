"""Encodings over HTTP: what may be asked, what is told of it, that chunks agree with memory and folds leak nothing."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

from ml_core.preprocessing.policies import Encoding
from ml_core.selection.splits import folds
from service.usecases import chunked
from tests.api.test_chunks import SMALL, body, table, upload
from tests.api.test_models import fit, spec

LINEAR = spec("linear_regression")
FIVE = {"method": "k_fold", "k": 5}
RNG = np.random.default_rng(11)
CSV = "id,day,at,city,age,y\n" + "".join(
    f"c{i},2024-0{1 + i % 9}-1{i % 7},2024-03-0{1 + i % 9}T{i % 24:02d}:30:00Z,{'abc'[i % 3]},"
    f"{'' if i % 10 == 4 else 20 + i % 17},{i % 17 + i % 3}\n"
    for i in range(60)
)


@pytest.fixture
def data(client):
    return client.post("/v1/datasets", content=CSV.encode()).json()["id"]


def asked(data, **encoding):
    return {"estimator": LINEAR, "dataset": data, "target": "y", "exclude": ["id"], "encoding": encoding}


@pytest.mark.parametrize(("encoding", "pointer", "code"), [
    ({"columns": {"nobody": {"missing": "mean"}}}, "/encoding/columns/nobody", "unknown_column"),
    ({"columns": {"a/b": {"missing": "mean"}}}, "/encoding/columns/a~1b", "unknown_column"),
    ({"columns": {"id": {"missing": "mean"}}}, "/encoding/columns/id", "not_a_feature"),
    ({"columns": {"city": {"missing": "median"}}}, "/encoding/columns/city/missing", "not_applicable"),
    ({"columns": {"age": {"categorical": "ordinal"}}}, "/encoding/columns/age/categorical", "not_applicable"),
    ({"columns": {"age": {"unknown_level": "ignore"}}}, "/encoding/columns/age/unknown_level", "not_applicable"),
    ({"columns": {"city": {"date": "parts"}}}, "/encoding/columns/city/date", "not_applicable"),
    ({"columns": {"day": {"date": ["parts", "parts"]}}}, "/encoding/columns/day/date", "duplicate"),
    ({"columns": {"y": {"missing": "mean"}}}, "/encoding/columns/y/missing", "not_applicable"),
    ({"columns": {"y": {"scale": "none"}}}, "/encoding/columns/y/scale", "not_applicable"),
    ({"date": ["epoch", "epoch"]}, "/encoding/date", "duplicate"),
    ({"columns": {"age": {"missing": "guess"}}}, "/encoding/columns/age/missing", None),
    ({"columns": {"age": {"fill": 3}}}, "/encoding/columns/age/fill", None),
    ({"columns": {"age": "median"}}, "/encoding/columns/age", None),
    ({"columns": []}, "/encoding/columns", None),
    ({"date": []}, "/encoding/date", "date_forms"),
    ({"date": None}, "/encoding/date", "date_forms"),
    ({"date": ["epoch", {}]}, "/encoding/date", "date_forms"),
    ({"columns": {"day": {"date": "week"}}}, "/encoding/columns/day/date", "date_forms"),
    ({"columns": {"age": {"missing": "error"}}, "missing": "mean"}, "/features/age", "missing_values"),
])  # fmt: skip
def test_what_cannot_be_meant_is_pointed_at(encoding, pointer, code, client, data):
    for path in ("/v1/models/validate", "/v1/models"):
        answer = client.post(path, json=asked(data, **encoding))
        assert answer.status_code == 422, answer.text
        found = {e["pointer"]: e["code"] for e in answer.json()["errors"]}
        at = next((p for p in found if p == pointer or (code is None and p.startswith(pointer))), None)
        assert at is not None, found
        assert code in (None, found[at])
    assert client.get("/v1/jobs").json()["items"] == []


OVERRIDES = {"age": {"missing": "median", "scale": "standard"}, "city": {"categorical": "ordinal"},
             "day": {"date": "parts"}, "at": {"date": ["epoch", "cyclic"]}}  # fmt: skip


def test_every_default_is_told_and_the_completed_request_means_the_same(client, data):
    answer = client.post("/v1/models/validate", json=asked(data, unknown_level="ignore", columns=OVERRIDES)).json()
    full = answer["request"]["encoding"]
    assert full == {
        "missing": "error", "categorical": "one_hot", "unknown_level": "ignore", "scale": "none", "date": "epoch",
        "columns": {
            "age": {"missing": "median", "scale": "standard"},
            "city": {"missing": "error", "categorical": "ordinal", "unknown_level": "ignore", "scale": "none"},
            "day": {"missing": "error", "date": "parts", "scale": "none"},
            "at": {"missing": "error", "date": ["epoch", "cyclic"], "scale": "none"},
        },
    }  # fmt: skip
    assert client.post("/v1/models/validate", json=answer["request"]).json() == answer
    assert client.post("/v1/models/validate", json=asked(data, missing="drop_rows")).json()["request"]["encoding"] == {
        "missing": "drop_rows", "categorical": "one_hot", "unknown_level": "error", "scale": "none", "date": "epoch",
        "columns": {},
    }  # fmt: skip


def test_the_model_tells_what_became_of_each_column(client, data):
    model = fit(client, **asked(data, columns=OVERRIDES))
    assert model["encoding"]["columns"]["city"]["unknown_level"] == "error"
    told = {f["name"]: f for f in model["features"]}
    ages = pd.read_csv(io.StringIO(CSV))["age"]
    assert told["age"]["encoding"] == {"missing": "median", "fill": ages.median(), "scale": "standard"}
    assert told["city"]["columns"] == ["city"]
    assert told["city"]["levels"] == ["a", "b", "c"]
    assert told["day"]["columns"] == ["day: year", "day: month", "day: day", "day: weekday"]
    assert told["at"]["columns"][:3] == ["at", "at: sin(day of year)", "at: cos(day of year)"]
    assert told["at"]["encoding"]["date"] == ["epoch", "cyclic"]
    row = {"day": "2024-01-10", "at": "2024-03-01T00:30:00Z", "city": "a", "age": None}
    filled = [row, row | {"age": ages.median()}]
    answer = client.post(f"/v1/models/{model['id']}/predict", json={"rows": filled})
    assert answer.status_code == 200, answer.text
    assert answer.json()["predictions"][0] == answer.json()["predictions"][1]


def test_identifiers_are_left_out_and_that_is_said(client, data):
    request = asked(data, missing="mean")
    del request["exclude"]
    checked = client.post("/v1/models/validate", json=request).json()
    assert "id" not in checked["request"]["features"]
    model = fit(client, **request)
    for warnings in (checked["estimate"]["warnings"], model["warnings"]):
        (note,) = [w for w in warnings if w["code"] == "columns_left_out"]
        assert note["message"] == "not learned from: 'id' (all of its 60 values differ: an identifier)"
    assert not [w for w in fit(client, **asked(data, missing="mean"))["warnings"] if w["code"] == "columns_left_out"]


@pytest.mark.parametrize("limits", [{}, SMALL])
def test_the_target_has_a_way_of_its_own_with_empty_cells(limits, client, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 8192)
    data = upload(client, table(gaps=True))
    y = table(gaps=True).column("y")
    request = body(data, limits=limits, encoding={"missing": "mean"})
    assert client.post("/v1/models", json=request).json()["errors"][0]["pointer"] == "/target"
    own = {"y": {"missing": "drop_rows"}}
    model = fit(client, **request | {"encoding": {"missing": "mean", "columns": own}})
    assert model["encoding"]["columns"] == own
    assert (model["rows"], model["rows_dropped"]) == (len(y) - y.null_count, y.null_count)


def test_columns_of_nearly_as_many_levels_as_rows_are_warned_of(client):
    rows = "k,y\n" + "".join(f"v{i // 2 * 2 if i < 9 else i},{i % 5}\n" for i in range(20))
    data = client.post("/v1/datasets", content=rows.encode()).json()["id"]
    model = fit(client, dataset=data, target="y", estimator=LINEAR)
    assert "'k' (16)" in {w["code"]: w["message"] for w in model["warnings"]}["many_levels"]


def test_too_many_levels_are_refused_with_the_way_out(client):
    many = "k,y\n" + "".join(f"v{i % 1001},{i % 7}\n" for i in range(2002))
    data = client.post("/v1/datasets", content=many.encode()).json()["id"]
    request = {"estimator": LINEAR, "dataset": data, "target": "y"}
    answer = client.post("/v1/models", json=request)
    assert answer.status_code == 422
    (issue,) = answer.json()["errors"]
    assert (issue["pointer"], issue["code"]) == ("/features/k", "too_many_levels")
    assert issue["detail"].startswith("1001 levels, at most 1000; exclude it, take /encoding/columns/k/categorical")
    fit(client, **request, encoding={"columns": {"k": {"categorical": "ordinal"}}})


def test_whitening_is_undone_in_draws_and_inverses(client):
    X = RNG.normal(size=(300, 2)) @ [[3.0, 1.0], [0.0, 0.2]] + [100.0, -5.0]
    data = upload(client, pa.table({"a": X[:, 0], "b": X[:, 1]}))
    request = {"dataset": data, "encoding": {"scale": "whiten"}}
    mixture = fit(client, **request, estimator=spec("gaussian_mixture", n_components=1))
    drawn = client.post(f"/v1/models/{mixture['id']}/sample", json={"n": 20_000}).json()
    np.testing.assert_allclose(np.cov(np.array(drawn["values"]).T), np.cov(X.T, ddof=0), rtol=0.05)
    np.testing.assert_allclose(np.mean(drawn["values"], axis=0), X.mean(axis=0), atol=0.1)
    scaler = fit(client, **request, estimator=spec("standard_scaler"))
    sent = [{"a": 101.0, "b": -5.5}]
    values = client.post(f"/v1/models/{scaler['id']}/transform", json={"rows": sent}).json()["values"]
    back = client.post(f"/v1/models/{scaler['id']}/inverse_transform", json={"values": values}).json()
    assert (back["columns"], back["values"][0]) == (["a", "b"], pytest.approx([101.0, -5.5]))


MIXED = {"missing": "median", "scale": "whiten", "columns": {
    "a": {"missing": "drop_rows", "scale": "min_max"}, "k": {"missing": "indicator", "scale": "none"},
    "whole": {"missing": "mean", "scale": "standard"},
}}  # fmt: skip


@pytest.mark.parametrize("encoding", [{"missing": "median", "scale": "whiten"}, MIXED])
def test_in_chunks_the_encoding_is_that_of_memory(encoding, client, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 8192)
    data = table(gaps=True)
    request = body(upload(client, data.set_column(data.column_names.index("y"), "y", [table().column("y")])),
                   encoding=encoding)  # fmt: skip
    whole, parts = fit(client, **request), fit(client, **request, limits=SMALL)
    assert "fitted_in_chunks" in {w["code"] for w in parts["warnings"]}
    assert (parts["features"], parts["rows"]) == (whole["features"], whole["rows"])
    row = {"a": 1.0, "b": 0.5, "whole": 3, "k": "red", "yes": True}
    rows = [row, row | {"k": None, "b": None}, row | {"whole": None}]
    found = [client.post(f"/v1/models/{m['id']}/predict", json={"rows": rows}).json() for m in (whole, parts)]
    np.testing.assert_allclose(found[0]["predictions"], found[1]["predictions"], rtol=1e-9)


def test_a_whitened_rank_below_the_columns_is_told(client):
    a = RNG.normal(size=40)
    data = upload(client, pa.table({"a": a, "b": 2 * a + 1, "c": RNG.normal(size=40)}))
    model = fit(client, dataset=data, estimator=spec("standard_scaler"), encoding={"scale": "whiten"})
    (note,) = [w for w in model["warnings"] if w["code"] == "whitened_rank_deficient"]
    assert note["message"].startswith("the 3 whitened columns have rank 2")


def penguin_like(n=90):
    """Skewed numbers with gaps, a category of which one level is rare, and a regression on both."""
    a = np.exp(RNG.normal(size=n) * 1.5)
    k = RNG.choice(["x", "y", "z"], n)
    k[5] = "rare"
    y = 2 * np.log(a) + (k == "y") + 0.1 * RNG.normal(size=n)
    a[RNG.random(n) < 0.3] = np.nan
    return a, k, y


def encoded(a, k, seen):
    """By hand: the median and the moments of the rows in `seen`, and one column per level that they have."""
    filled = np.where(np.isnan(a), np.median(a[seen][~np.isnan(a[seen])]), a)
    X = np.column_stack([filled, *((k == level).astype(float) for level in sorted({*k[seen]}))])
    low, size = X[seen].mean(axis=0), X[seen].std(axis=0)
    return (X - low) / np.where(size == 0, 1.0, size)


def by_hand(a, k, y, seed, *, leak):
    errors = []
    for train, test in folds(len(y), 5, seed=seed):
        X = encoded(a, k, np.arange(len(y)) if leak else train)
        model = Ridge(alpha=1.0).fit(X[train], y[train])
        errors.append(float(np.mean((model.predict(X[test]) - y[test]) ** 2)))
    return errors


def test_each_fold_learns_its_own_encoding(client):
    a, k, y = penguin_like()
    sink = io.StringIO()
    rows = csv.writer(sink)
    rows.writerow(["a", "k", "y"])
    cells = ["" if np.isnan(v) else repr(float(v)) for v in a]
    rows.writerows(zip(cells, k, map(repr, map(float, y)), strict=True))
    data = client.post("/v1/datasets", content=sink.getvalue().encode()).json()["id"]
    model = fit(client, dataset=data, target="y", estimator=spec("ridge_regression", alpha=1.0), seed=3,
                encoding={"missing": "median", "scale": "standard"}, validation=FIVE)  # fmt: skip
    found = [fold["mean_squared_error"] for fold in model["metrics"]["validation"]["folds"]]
    inside, outside = (by_hand(a, k, y, 3, leak=leak) for leak in (False, True))
    np.testing.assert_allclose(found, inside, rtol=1e-6)
    assert np.abs(np.array(outside) / inside - 1).max() > 1e-3


def test_a_gap_that_only_the_held_out_rows_have_is_filled_there(client):
    rows = "a,b,y\n" + "".join(f"{'' if i == 7 else i},{i * i % 11},{i % 5}\n" for i in range(30))
    data = client.post("/v1/datasets", content=rows.encode()).json()["id"]
    model = fit(client, dataset=data, target="y", estimator=LINEAR, encoding={"missing": "indicator"},
                validation=FIVE)  # fmt: skip
    assert len(model["metrics"]["validation"]["folds"]) == 5
    assert Encoding(missing="indicator").held_out().column("a").lenient
