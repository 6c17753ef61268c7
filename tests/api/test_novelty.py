"""`novelty`: how far rows lie from the training rows, against plain numpy and scipy, over HTTP and under the null."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from ml_core.preprocessing.reference import Reference
from ml_core.preprocessing.table import Column
from service.usecases import chunked
from service.usecases.novelty import novelty
from tests.api.test_chunks import SMALL, body, table
from tests.api.test_chunks import upload as upload_table
from tests.api.test_conventions import check_problem
from tests.api.test_lenient import LENIENT, csv_of, training, upload
from tests.api.test_models import fit, spec

FEATURES = ["a", "whole", "k", "yes"]


@pytest.fixture
def model(client):
    made = fit(client, estimator=spec("logistic_regression", alpha=1.0), dataset=upload(client, training()),
               target="kind", features=FEATURES, name="kinds")  # fmt: skip
    return f"/v1/models/{made['id']}/predict"


def report(answer):
    assert answer.status_code == 200, answer.text
    told = answer.json()["novelty"]
    return told, {c["name"]: c for c in told["columns"]}


def asked_rows(n=40, shift=0.0, seed=4):
    r = np.random.default_rng(seed)
    return [{"a": float(v), "whole": int(w), "k": str(k), "yes": bool(y)} for v, w, k, y in zip(
        r.normal(3.0 + shift, 2.0, n), r.integers(0, 9, n), r.choice(["blue", "green", "red"], n), r.random(n) < 0.4,
        strict=True)]  # fmt: skip


def test_figures_are_those_of_scipy_on_the_whole_training_table(client, model):
    rows, train = asked_rows(), training().to_pandas()
    told, columns = report(client.post(model, json={"rows": rows, "novelty": True}))
    assert (told["rows"], told["training_rows"]) == (40, 240)
    for name in ("a", "whole"):
        values, known = [r[name] for r in rows], train[name].to_numpy(float)
        test, want = columns[name]["test"], stats.ks_2samp(values, known, method="exact")
        assert test["statistic"] - 1e-12 <= want.statistic <= test["statistic"] + test["error_bound"] + 1e-12
        assert (test["error_bound"], test["p_value"]) == (0.0, pytest.approx(want.pvalue, rel=1e-6))
        below, above = int((values < known.min()).sum()), int((values > known.max()).sum())
        assert columns[name]["range"] == {"training": [known.min(), known.max()], "below": below, "above": above,
                                          "share": (below + above) / 40}  # fmt: skip
    counts = [[sum(r["k"] == v for r in rows) for v in ("blue", "green", "red")],
              train["k"].value_counts().sort_index().tolist()]  # fmt: skip
    want = stats.chi2_contingency(counts, correction=False)
    assert columns["k"]["test"]["statistic"] == pytest.approx(want.statistic)
    assert columns["k"]["test"]["p_value"] == pytest.approx(want.pvalue)
    yes = [sum(r["yes"] for r in rows), int(train["yes"].sum())]
    want = stats.fisher_exact([[yes[0], 40 - yes[0]], [yes[1], 240 - yes[1]]])
    assert columns["yes"]["test"]["p_value"] == pytest.approx(want.pvalue, rel=1e-6)
    p = np.array([c["test"]["p_value"] for c in told["columns"]])
    assert told["overall"]["tests"] == 4
    assert told["overall"]["smallest_p_adjusted"] == pytest.approx(min(1.0, 4 * p.min()))


def test_the_same_rows_have_the_same_report_in_every_format(client, model):
    rows = asked_rows()
    want, _ = report(client.post(model, json={"rows": rows, "novelty": True}))
    given = pa.Table.from_pylist(rows)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, given.schema) as writer:
        writer.write_table(given)
    answers = [
        client.post(model, json={"columns": {c: [r[c] for r in rows] for c in FEATURES}, "novelty": True}),
        client.post(model, json={"dataset": upload(client, given), "novelty": True}),
        client.post(model, content=csv_of(rows), headers={"Content-Type": "text/csv"}, params={"novelty": "true"}),
        client.post(model, content=sink.getvalue(), params={"novelty": "true"},
                    headers={"Content-Type": "application/vnd.apache.arrow.stream"}),
    ]  # fmt: skip
    assert [report(a)[0] for a in answers] == [want] * 4
    strict = client.post(model, json={"rows": rows}).json()
    got = client.post(model, json={"rows": rows, "novelty": True}).json()
    assert {k: v for k, v in got.items() if k != "novelty"} == strict


def test_shifted_rows_are_found_and_named(client, model):
    told, columns = report(client.post(model, json={"rows": asked_rows(shift=6.0), "novelty": True}))
    assert told["overall"]["differ"] == ["a"]
    assert columns["a"]["range"]["above"] > 5
    assert "1 column differs" in told["overall"]["statement"]


def test_unseen_levels_are_told_with_leniency_and_refused_without(client, model):
    rows = asked_rows()
    for i in (3, 7, 8):
        rows[i] = rows[i] | {"k": "violet"}
    rows[9] = rows[9] | {"k": "mauve", "a": None}
    rows[10] = rows[10] | {"a": "high"}
    check_problem(client.post(model, json={"rows": rows, "novelty": True}), 422, "invalid-data")
    answer = client.post(model, json={"rows": rows, "novelty": True}, headers=LENIENT)
    told, columns = report(answer)
    assert len(answer.json()["errors"]) == 5
    assert columns["k"]["unseen"] == {"count": 4, "share": 0.1, "distinct": 2, "levels": [
        {"level": "violet", "count": 3}, {"level": "mauve", "count": 1}]}  # fmt: skip
    assert (columns["a"]["unreadable"], columns["a"]["missing"]["count"]) == (1, 1)
    assert columns["a"]["missing"]["share"] == 1 / 39
    assert told["overall"]["differ"] == ["k"]
    assert columns["k"]["test"]["method"] == "permutation"


def test_one_row_is_placed_cell_by_cell(client, model):
    known = training().to_pandas()
    a = float(np.sort(known["a"])[60])
    told, columns = report(client.post(model, json={"rows": [{"a": a, "whole": 12, "k": "red", "yes": True}],
                                                    "novelty": True}))  # fmt: skip
    assert {c["test"] for c in told["columns"]} == {None}
    assert columns["a"]["position"] == {"below": [60 / 240] * 2, "up_to": [61 / 240] * 2}
    assert columns["whole"]["position"] == {"below": [1.0, 1.0], "up_to": [1.0, 1.0]}
    assert columns["whole"]["range"]["above"] == 1
    assert columns["k"]["position"] == {"training_share": float((known["k"] == "red").mean())}
    assert columns["yes"]["position"] == {"training_share": float(known["yes"].mean())}
    assert "position" in told["overall"]["statement"]
    told, columns = report(client.post(model, json={"rows": [{"a": 1.0}], "novelty": True}, headers=LENIENT))
    assert (columns["k"]["position"], columns["k"]["unreadable"]) == (None, 1)


def test_missing_cells_are_compared_with_those_of_training(client):
    data = training().to_pylist()
    for i in range(0, 240, 10):
        data[i]["a"] = None
    made = fit(client, estimator=spec("ridge_regression"), target="y", features=["a", "k"],
               dataset=upload(client, pa.Table.from_pylist(data)), encoding={"missing": "mean"})  # fmt: skip
    rows = [{"a": None if i % 2 else 3.0 + 0.1 * i, "k": "red" if i % 3 else "blue"} for i in range(20)]
    _, columns = report(client.post(f"/v1/models/{made['id']}/predict", json={"rows": rows, "novelty": True}))
    missing = columns["a"]["missing"]
    assert (missing["count"], missing["share"], missing["training_share"]) == (10, 0.5, 0.1)
    want = stats.fisher_exact([[10, 10], [24, 216]]).pvalue
    assert missing["test"]["p_value"] == pytest.approx(want, rel=1e-6)
    assert columns["k"]["missing"]["test"] is None


def test_dates_have_a_range_of_dates(client):
    days = np.datetime64("2020-01-01") + np.arange(60)
    data = pa.table({"day": pa.array(days, pa.date32()), "at": pa.array(days.astype("datetime64[us]")),
                     "y": np.arange(60.0)})  # fmt: skip
    made = fit(client, estimator=spec("ridge_regression"), dataset=upload(client, data), target="y",
               features=["day", "at"])  # fmt: skip
    rows = [{"day": "2019-12-31", "at": "2020-01-05T10:00:00"}, {"day": "2020-01-03", "at": "2022-01-05T10:00:00Z"}]
    _, columns = report(client.post(f"/v1/models/{made['id']}/predict", json={"rows": rows, "novelty": True}))
    assert columns["day"]["range"] == {"training": ["2020-01-01", "2020-02-29"], "below": 1, "above": 0, "share": 0.5}
    assert columns["at"]["range"]["training"] == ["2020-01-01T00:00:00Z", "2020-02-29T00:00:00Z"]


def test_a_model_of_before_says_what_to_do(client, services, model):
    key = model.split("/")[3]
    loaded = services.inference.load(key)
    services.inference.memory._loaded[key] = dataclasses.replace(
        loaded, fitted=dataclasses.replace(loaded.fitted, reference=None))  # fmt: skip
    refused = client.post(model, json={"rows": asked_rows(), "novelty": True})
    check_problem(refused, 409, "conflict")
    assert "fit it again" in refused.json()["detail"]
    assert client.post(model, json={"rows": asked_rows()}).status_code == 200


def test_novelty_is_of_json_answers(client, model):
    rows = {"rows": asked_rows(), "novelty": True}
    check_problem(client.post(model, json=rows, headers={"Accept": "text/csv"}), 406, "not-acceptable")


def test_models_fitted_in_chunks_and_updated_ones_know_too(client, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 8192)
    data = table()
    made = fit(client, **body(upload_table(client, data), limits=SMALL))
    assert "fitted_in_chunks" in {w["code"] for w in made["warnings"]}
    rows = data.slice(500, 50).select(["a", "b", "whole", "k", "yes"]).to_pylist()
    told, columns = report(client.post(f"/v1/models/{made['id']}/predict", json={"rows": rows, "novelty": True}))
    assert (told["training_rows"], told["overall"]["differ"]) == (3000, [])
    want = stats.ks_2samp([r["a"] for r in rows], data["a"].to_numpy(), method="exact")
    test = columns["a"]["test"]
    assert test["statistic"] <= want.statistic + 1e-12 <= test["statistic"] + test["error_bound"] + 2e-12
    assert test["p_value"] >= want.pvalue * (1 - 1e-9)
    far = [{**r, "a": r["a"] + 50.0, "y": 1.0} for r in rows]
    grown = client.post(f"/v1/models/{made['id']}/update", json={"rows": far}, headers={"Prefer": "wait=60"}).json()
    _, columns = report(client.post(f"/v1/models/{grown['id']}/predict", json={"rows": rows, "novelty": True}))
    assert columns["a"]["range"]["training"][1] == max(r["a"] for r in far)


def drawn(r, n, shift=0.0, word=None):
    """Columns of five kinds, with empty cells; the same distribution for any n."""
    a = r.normal(shift, 1.0, n)
    a[r.random(n) < 0.1] = np.nan
    k = r.choice(["w", "x", "y", "z"], n, p=[0.6, 0.3, 0.08, 0.02]).astype(object)
    if word is not None:
        k[: n // 5] = word
    k[r.random(n) < 0.05] = None
    return {"a": Column("number", a), "b": Column("number", r.standard_cauchy(n)),
            "c": Column("integer", r.integers(0, 6, n).astype(float)), "k": Column("category", k),
            "t": Column("boolean", (r.random(n) < 0.2).astype(float))}  # fmt: skip


def reports(seeds, m=30, n=900, **more):
    for seed in range(seeds):
        r = np.random.default_rng([31, seed])
        yield novelty("mdl_1", Reference.of(drawn(r, n)), drawn(r, m, **more), {})


def test_rows_of_the_training_distribution_are_called_novel_as_seldom_as_stated():
    told = list(reports(300))
    for level in (0.01, 0.05, 0.2):
        most = stats.binom.ppf(0.9999, len(told), level)
        assert sum(t["overall"]["smallest_p_adjusted"] <= level for t in told) <= most
        for i in range(5):
            assert sum(t["columns"][i]["test"]["p_value"] <= level for t in told) <= most
    assert {t["overall"]["tests"] for t in told} == {7}


def test_shifted_columns_and_new_levels_are_found():
    shifted = list(reports(40, m=60, shift=1.0))
    assert np.mean([t["overall"]["differ"] == ["a"] for t in shifted]) > 0.9
    worded = list(reports(20, m=60, word="new"))
    assert np.mean(["k" in t["overall"]["differ"] for t in worded]) > 0.9
    assert all(t["columns"][3]["unseen"]["levels"][0]["level"] == "new" for t in worded)
