"""`Prefer: handling=lenient`: a result per row, in every format; the strict answer of the good rows, bit for bit."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_core.errors import InvalidData
from ml_core.preprocessing.policies import Encoding
from ml_core.preprocessing.records import encode
from ml_core.preprocessing.table import Column
from ml_core.preprocessing.table_fit import fit_encoder
from service.api.preferences import preferences
from service.api.schemas import FIT_EXAMPLES, Prediction
from service.usecases import bulk, lenient
from service.usecases.given import Records
from tests.api.test_conventions import check_problem
from tests.api.test_models import fit, spec

LENIENT = {"Prefer": "handling=lenient"}
BAD = {2: {"a": None}, 5: {"k": "violet"}, 6: {"a": "1.5"}, 9: {"whole": 2.5, "k": None}}


def training(rows=240):
    r = np.random.default_rng(11)
    k, a, whole = r.choice(["blue", "green", "red"], rows), r.normal(3.0, 2.0, rows), r.integers(0, 9, rows)
    noise = 0.1 * r.normal(size=rows)
    kind = np.where(a + (k == "red") + noise > 3.0, "high", "low")
    return pa.table({"a": a, "whole": whole, "k": k, "yes": r.random(rows) < 0.4, "kind": kind,
                     "y": 1 + 2 * a - whole + 3 * noise})  # fmt: skip


def upload(client, table):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    answer = client.post("/v1/datasets", content=sink.getvalue())
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


@pytest.fixture
def model(client):
    made = fit(client, estimator=spec("logistic_regression", alpha=1.0), dataset=upload(client, training()),
               target="kind", features=["a", "whole", "k", "yes"])  # fmt: skip
    return f"/v1/models/{made['id']}/predict"


def rows_of(n=12):
    rows = training().slice(100, n).select(["a", "whole", "k", "yes"]).to_pylist()
    for i, change in BAD.items():
        rows[i] = rows[i] | change
    del rows[11]["yes"]
    return rows


def check_lenient(client, url, rows, answer, bad):
    """Good rows have the strict answer's bits, bad ones null and the problem of a strict request of that row alone."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["preference-applied"] == "handling=lenient"
    got = answer.json()
    good = [i for i in range(len(rows)) if i not in bad]
    strict = client.post(url, json={"rows": [rows[i] for i in good]}).json()
    assert [got["predictions"][i] for i in good] == strict["predictions"]
    assert [got["probabilities"]["values"][i] for i in good] == strict["probabilities"]["values"]
    assert got["probabilities"]["classes"] == strict["probabilities"]["classes"]
    assert {got["predictions"][i] for i in bad} <= {None}
    assert [e["row"] for e in got["errors"]] == sorted(bad)
    for entry in got["errors"]:
        alone = client.post(url, json={"rows": [rows[entry["row"]]]})
        assert alone.status_code == entry["problem"]["status"] == 422
        want = alone.json() | {"detail": None}
        for issue in want["errors"]:
            issue["pointer"] = issue["pointer"].replace("/rows/0/", f"/rows/{entry['row']}/")
        assert entry["problem"] | {"detail": None} == want
        assert entry["problem"]["errors"][0]["pointer"] in entry["problem"]["detail"]
    return got


def test_json_rows(client, model):
    rows = rows_of()
    got = check_lenient(client, model, rows, client.post(model, json={"rows": rows}, headers=LENIENT), {*BAD, 11})
    assert got["warnings"] == []
    refused = client.post(model, json={"rows": rows})
    check_problem(refused, 422, "invalid-data")
    assert {e["pointer"] for e in refused.json()["errors"]} >= {"/rows/6/a", "/rows/9/whole", "/rows/11/yes"}


def test_rows_that_are_all_good_have_no_errors_and_extra_columns_are_named(client, model):
    rows = [r | {"colour": 1} for r in training().select(["a", "whole", "k", "yes"]).to_pylist()[:5]]
    got = check_lenient(client, model, rows, client.post(model, json={"rows": rows}, headers=LENIENT), set())
    strict = client.post(model, json={"rows": rows})
    assert "preference-applied" not in strict.headers
    assert got == strict.json() | {"errors": []}
    assert "colour" in got["warnings"][0]


def test_a_row_without_a_key_is_its_own_problem_even_if_all_are(client, model):
    got = client.post(model, json={"rows": [{"a": 1.0}, {}]}, headers=LENIENT)
    assert got.status_code == 200
    assert got.json()["predictions"] == [None, None]
    assert got.json()["probabilities"] == {"classes": ["high", "low"], "values": [None, None]}
    assert [len(e["problem"]["errors"]) for e in got.json()["errors"]] == [3, 4]


@pytest.mark.parametrize(("body", "status"), [
    ({"rows": []}, 422), ({"columns": {"a": [1.0], "whole": [1, 2], "k": [], "yes": []}}, 422),
    ({"columns": {"a": [1.0]}}, 422), ({"rows": [{}], "columns": {}}, 422), ({"rows": [3]}, 422),
    ({"dataset": "no such"}, 404), ({"rows": [{}], "novel": True}, 422),
])  # fmt: skip
def test_mistakes_of_the_whole_body_are_refused(client, model, body, status):
    check_problem(client.post(model, json=body, headers=LENIENT), status, "not-found" if status == 404 else "invalid")


def test_columns_and_their_rows(client, model):
    rows = [{"yes": None} | r for r in rows_of()]
    columns = {c: [r.get(c) for r in rows] for c in ("a", "whole", "k", "yes")}
    check_lenient(client, model, rows, client.post(model, json={"columns": columns}, headers=LENIENT), {*BAD, 11})


def csv_of(rows):
    lines = ["a,whole,k,yes"]
    lines += [",".join("" if r.get(c) is None else json.dumps(r[c]).strip('"') for c in ("a", "whole", "k", "yes"))
              for r in rows]  # fmt: skip
    return "\n".join(lines) + "\n"


def test_rows_of_text(client, model):
    rows = rows_of()
    rows[6]["a"] = "twelve"
    answer = client.post(model, content=csv_of(rows), headers=LENIENT | {"Content-Type": "text/csv"})
    got = answer.json()
    bad = [*BAD, 11]
    assert [e["row"] for e in got["errors"]] == bad
    assert [e["problem"]["errors"][0]["pointer"] for e in got["errors"]] == [
        "/rows/2/a", "/rows/5/k", "/rows/6/a", "/rows/9/whole", "/rows/11/yes"]  # fmt: skip
    good = [r for i, r in enumerate(rows) if i not in bad]
    strict = client.post(model, json={"rows": good}).json()
    assert [p for p in got["predictions"] if p is not None] == strict["predictions"]
    assert [p for p in got["probabilities"]["values"] if p is not None] == strict["probabilities"]["values"]
    table = client.post(
        model, content=csv_of(rows), headers=LENIENT | {"Content-Type": "text/csv", "Accept": "text/csv"}
    )
    assert table.headers["preference-applied"] == "handling=lenient"
    lines = [line.split(",", 3) for line in table.text.strip().splitlines()]
    assert lines[0][-1].strip('"') == "problem"
    assert [i for i, line in enumerate(lines[1:]) if line[0] == ""] == bad
    assert "/rows/5/k" in lines[6][-1]
    check_problem(client.post(model, content="a,whole\n1,2\n", headers=LENIENT | {"Content-Type": "text/csv"}),
                  422, "invalid-data")  # fmt: skip


@pytest.mark.parametrize("form", ["stream", "dataset"])
def test_arrow_and_datasets(client, model, form):
    rows = [r for i, r in enumerate(rows_of()) if i not in (6, 9)]
    table = pa.Table.from_pylist(rows, pa.schema([("a", pa.float64()), ("whole", pa.int64()), ("k", pa.string()),
                                                  ("yes", pa.bool_())]))  # fmt: skip
    if form == "dataset":
        answer = client.post(model, json={"dataset": upload(client, table)}, headers=LENIENT)
    else:
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        media = "application/vnd.apache.arrow.stream"
        answer = client.post(model, content=sink.getvalue(), headers=LENIENT | {"Content-Type": media, "Accept": media})
        got = pa.ipc.open_stream(answer.content).read_all().to_pydict()
        assert [i for i, p in enumerate(got["problem"]) if p] == [2, 5, 9]
        assert [i for i, p in enumerate(got["prediction"]) if p is None] == [2, 5, 9]
        return
    check_lenient(client, model, [{"yes": None} | r for r in rows], answer, {2, 5, 9})


def test_rows_with_empty_cells_of_a_model_that_dropped_such_rows(client):
    made = fit(client, estimator=spec("ridge_regression"), dataset=upload(client, training()), target="y",
               features=["a", "whole"], encoding={"missing": "drop_rows"})  # fmt: skip
    url = f"/v1/models/{made['id']}/predict"
    gaps = pa.table({"a": [1.0, None, 2.0, None], "whole": pa.array([1, 2, None, None], pa.int64())})
    got = client.post(url, json={"dataset": upload(client, gaps)}, headers=LENIENT)
    assert [p is None for p in got.json()["predictions"]] == [False, True, True, True]
    told = client.post(url, json={"dataset": upload(client, gaps), "novelty": True}, headers=LENIENT).json()["novelty"]
    assert told["columns"][0]["missing"] == {"count": 2, "share": 0.5, "training_share": None, "test": None}
    assert [[i["pointer"] for i in e["problem"]["errors"]] for e in got.json()["errors"]] == [
        ["/rows/1/a"], ["/rows/2/whole"], ["/rows/3/a", "/rows/3/whole"]]  # fmt: skip


def test_intervals_of_bad_rows_are_null(client):
    made = fit(client, estimator=spec("bayesian_linear_regression"), dataset=upload(client, training()), target="y",
               features=["a", "whole"])  # fmt: skip
    body = {"rows": [{"a": 1.0, "whole": 1}, {"a": "x", "whole": 1}], "interval": 0.9}
    got = client.post(f"/v1/models/{made['id']}/predict", json=body, headers=LENIENT).json()
    assert (len(got["intervals"][0]), got["intervals"][1], got["predictions"][1]) == (2, None, None)


def test_thousands_of_bad_rows_are_found_in_a_few_passes(client, model, monkeypatch):
    rows = [{"a": 1.0, "whole": 1, "k": "violet" if i % 2 else "red", "yes": True} for i in range(3000)]
    passes = []
    plain = lenient.sift
    monkeypatch.setattr("service.usecases.examined.sift", lambda n, encode, first: plain(
        n, lambda places: (passes.append(len(places)), encode(places))[1], first))  # fmt: skip
    got = client.post(model, json={"rows": rows}, headers=LENIENT).json()
    assert len(got["errors"]) == 1500
    assert passes == [3000, 1500]


@pytest.mark.parametrize(("lines", "want"), [
    (["handling=lenient, wait=5"], {"handling": "lenient", "wait": "5"}),
    (['Handling = "lenient" ; x=1, respond-async'], {"handling": "lenient", "respond-async": ""}),
    (["wait=5", "handling=strict, handling=lenient"], {"wait": "5", "handling": "strict"}),
    (['foo="a, b; handling=lenient"'], {"foo": "a, b; handling=lenient"}),
    (["", " , ,", "=,;", "handling"], {"handling": ""}),
])  # fmt: skip
def test_preferences_are_read_as_in_the_standard(lines, want):
    assert preferences(lines) == want


@pytest.mark.parametrize("prefer", ["handling=lenient, wait=5", 'wait=5, handling="Lenient"', "handling=lenient;q=1"])
def test_lenient_beside_other_preferences(client, model, prefer):
    answer = client.post(model, json={"rows": [{}]}, headers={"Prefer": prefer})
    assert (answer.status_code, answer.headers["preference-applied"]) == (200, "handling=lenient")
    assert client.post(model, json={"rows": [{}]}, headers={"Prefer": "handling=strict"}).status_code == 422
    assert client.post(model, json={"rows": [{}]}, headers={"Prefer": "handling=kind"}).status_code == 422


def test_a_stored_result_holds_the_problems(client, model, monkeypatch):
    monkeypatch.setattr(bulk, "MOST_ROWS", 5)
    rows = [{"yes": None} | r for r in rows_of()]
    rows[6]["a"], rows[9]["whole"] = 0.5, 1
    data = upload(client, pa.Table.from_pylist(rows))
    body = {"dataset": data, "output": "dataset", "keep": ["a"]}
    made = client.post(model, json=body, headers={"Prefer": "handling=lenient, wait=30"})
    assert (made.status_code, made.headers["preference-applied"]) == (201, "handling=lenient, wait=30")
    got = client.get(f"{made.headers['location']}/rows").json()["items"]
    want = client.post(model, json={"dataset": data}, headers=LENIENT).json()
    assert [r["prediction"] for r in got] == want["predictions"]
    assert [i for i, r in enumerate(got) if r["problem"]] == [2, 5, 9, 11]
    assert "/rows/9/k" in got[9]["problem"]
    strict = client.post(model, json=body, headers={"Prefer": "wait=30"})
    check_problem(strict, 422, "invalid")
    check_problem(client.post(model, json=body | {"novelty": True}), 422, "invalid")


def test_the_documented_examples_are_what_is_answered(client):
    operation = client.get("/openapi.json").json()["paths"]["/v1/models/{model_id}/predict"]["post"]
    iris = FIT_EXAMPLES["classes"]["value"]
    assert client.post("/v1/models", json=iris, headers={"Prefer": "wait=60"}).status_code == 201
    got = {}
    for name, example in operation["requestBody"]["content"]["application/json"]["examples"].items():
        answer = client.post("/v1/models/iris-species/predict", json=example["value"],
                             headers=LENIENT if name == "lenient" else {})  # fmt: skip
        assert answer.status_code == 200, (name, answer.text)
        Prediction.model_validate(answer.json())
        got[name] = answer.json()
    shown = operation["responses"]["200"]["content"]["application/json"]["examples"]["lenient"]["value"]
    assert got["lenient"]["errors"] == shown["errors"]
    assert got["lenient"].keys() == shown.keys()
    assert got["lenient"]["predictions"] == shown["predictions"]
    assert got["novelty"]["novelty"]["columns"][2]["range"]["above"] == 1


@pytest.mark.parametrize("columns", [{"other": [1.0, 2.0]}, {"a": [], "whole": [], "k": [], "yes": []}, {"a": [1.0]}])
@pytest.mark.parametrize("novelty", ["true", "false"])
def test_tables_without_rows_or_features_are_refused_leniently_too(client, model, columns, novelty):
    table, sink = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    answer = client.post(model, content=sink.getvalue(), params={"novelty": novelty},
                         headers=LENIENT | {"Content-Type": "application/vnd.apache.arrow.stream"})  # fmt: skip
    check_problem(answer, 422, "invalid" if not table.num_rows else "invalid-data")


NAMES = ["a/b", "~k", "whole"]
CELLS = {
    "a/b": st.one_of(st.floats(-9, 9), st.just(None), st.just("1"), st.just(True), st.just(10**400)),
    "~k": st.sampled_from(["x", "y", "z", None, 3]),
    "whole": st.one_of(st.integers(-3, 3), st.just(0.5), st.just([1])),
}


@given(st.lists(st.fixed_dictionaries({}, optional=CELLS), min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_any_rows_are_sifted_as_one_by_one(rows):
    encoder = fit_encoder({"a/b": Column("number", np.array([1.0, 2.0])), "whole": Column("integer", np.arange(2.0)),
                           "~k": Column("category", np.array(["x", "y"], dtype=object))}, Encoding())  # fmt: skip
    given_rows = Records(SimpleNamespace(fitted=SimpleNamespace(encoder=encoder)), rows)
    found = lenient.sift(len(rows), given_rows.encode)
    for i, row in enumerate(rows):
        try:
            X, _ = encode(encoder, [row])
        except InvalidData as e:
            moved = [(issue.pointer.replace("/rows/0/", f"/rows/{i}/"), issue.code) for issue in e.issues]
            assert [(issue.pointer, issue.code) for issue in found.problems[i].issues] == moved
        else:
            np.testing.assert_array_equal(found.X[found.places.tolist().index(i)], X[0])
    assert sorted([*found.problems, *found.places.tolist()]) == list(range(len(rows)))
    table, unreadable = given_rows.columns()
    unread = ("wrong_type", "missing_column", "not_finite")
    for name in NAMES:
        end = "/" + name.replace("~", "~0").replace("/", "~1")
        bad = [e for p in found.problems.values() for e in p.issues if e.code in unread and e.pointer.endswith(end)]
        assert unreadable[name] == len(bad)
        assert len(table[name].values) == len(rows)
