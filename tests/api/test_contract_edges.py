"""Edges of the contract of tables and predictions: leniency everywhere, times too fine, infinities, quick refusals."""

from __future__ import annotations

import datetime as dt
import io
import json
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.api.test_models import spec

ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
NDJSON = "application/x-ndjson"
LENIENT = {"Prefer": "handling=lenient"}
START = dt.datetime(1970, 1, 1)
ROWS = [
    {"x": float(i % 7), "day": (dt.date(2020, 1, 1) + dt.timedelta(days=3 * i)).isoformat(),
     "at": (START + dt.timedelta(hours=i - 20, microseconds=i)).isoformat(), "y": float(i % 5)}
    for i in range(40)
]  # fmt: skip
FEATURES = ["x", "day", "at"]
GOOD = [{name: row[name] for name in FEATURES} for row in ROWS[:4]]
MIXED = [GOOD[0], GOOD[1] | {"x": "bad"}, GOOD[2] | {"at": "yesterday"}, GOOD[3]]
FINE = "1969-12-31T23:59:59.999999001"


def arrow(table: pa.Table) -> bytes:
    """The table as a stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.fixture
def models(client):
    """Ids of a model with posteriors and of one with a transform, on dates, times and numbers."""
    dataset = client.post("/v1/datasets", content=json.dumps(ROWS)).json()["id"]
    found = {}
    for name, target in (("bayesian_linear_regression", "y"), ("principal_component_analysis", None)):
        body = {"estimator": spec(name), "dataset": dataset, "features": FEATURES, "target": target,
                "encoding": {"scale": "standard"}}  # fmt: skip
        answer = client.post("/v1/models", json=body, headers={"Prefer": "wait=60"})
        assert answer.status_code == 201, answer.text
        found["posterior" if target else "transform"] = answer.json()["id"]
    return found


@pytest.mark.parametrize(("what", "key"), [("posterior", "distributions"), ("transform", "values")])
def test_leniency_of_posteriors_and_transforms(client, models, what, key):
    url = f"/v1/models/{models[what]}/{what}"
    strict = client.post(url, json={"rows": [GOOD[0], GOOD[3]]}).json()[key]
    answer = client.post(url, json={"rows": MIXED}, headers=LENIENT)
    assert answer.status_code == 200
    assert answer.headers["Preference-Applied"] == "handling=lenient"
    body = answer.json()
    assert body[key] == [strict[0], None, None, strict[1]]
    assert [e["row"] for e in body["errors"]] == [1, 2]
    assert body["errors"][0]["problem"]["errors"][0]["pointer"] == "/rows/1/x"
    assert body["errors"][1]["problem"]["errors"][0]["pointer"] == "/rows/2/at"
    lines = "\n".join(map(json.dumps, MIXED))
    again = client.post(url, content=lines, headers=LENIENT | {"Content-Type": NDJSON}).json()
    assert again[key] == body[key]
    none = client.post(url, json={"rows": MIXED[1:3]}, headers=LENIENT).json()
    assert none[key] == [None, None]
    assert [e["row"] for e in none["errors"]] == [0, 1]
    assert client.post(url, json={"rows": MIXED}).status_code == 422
    missing = client.post(url, json={"columns": {"x": [1.0]}}, headers=LENIENT)
    assert missing.status_code == 422


def test_lenient_draws_and_no_joint(client, models):
    url = f"/v1/models/{models['posterior']}/posterior"
    strict = client.post(url, json={"rows": [GOOD[0], GOOD[3]], "samples": 3}).json()["samples"]
    lenient = client.post(url, json={"rows": MIXED, "samples": 3}, headers=LENIENT).json()
    assert lenient["samples"] == [[a, None, None, b] for a, b in strict]
    none = client.post(url, json={"rows": MIXED[1:2], "samples": 2}, headers=LENIENT).json()
    assert none["samples"] == [[None], [None]]
    refused = client.post(url, json={"rows": MIXED, "joint": True}, headers=LENIENT)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/joint"


def test_a_lenient_transform_as_a_table(client, models):
    url = f"/v1/models/{models['transform']}/transform"
    answer = client.post(url, json={"rows": MIXED}, headers=LENIENT | {"Accept": ARROW})
    table = pa.ipc.open_stream(answer.content).read_all()
    strict = client.post(url, json={"rows": [GOOD[0], GOOD[3]]}).json()["values"]
    assert [row for row in zip(*table.to_pydict().values(), strict=True) if row[-1] is None] == [
        (*values, None) for values in strict
    ]
    assert [bool(text) for text in table["problem"].to_pylist()] == [False, True, True, False]


def test_times_finer_than_microseconds_are_cut_alike_and_told(client, models):
    url = f"/v1/models/{models['posterior']}/predict"
    row = GOOD[0] | {"at": FINE}
    table = pa.table({"x": [row["x"]], "day": [dt.date.fromisoformat(row["day"])],
                      "at": pa.array([-999], pa.timestamp("ns"))})  # fmt: skip
    sink = io.BytesIO()
    pq.write_table(table, sink)
    csv = ",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n"
    bodies = [
        ("application/json", json.dumps({"rows": [row]})), (NDJSON, json.dumps(row)), ("text/csv", csv),
        ("application/json", json.dumps({"columns": {k: [v] for k, v in row.items()}})),
        (ARROW, arrow(table)), (PARQUET, sink.getvalue()),
    ]  # fmt: skip
    answers = [client.post(url, content=body, headers={"Content-Type": kind}) for kind, body in bodies]
    assert [a.status_code for a in answers] == [200] * len(bodies), [a.text for a in answers]
    assert {a.json()["predictions"][0] for a in answers} == {answers[0].json()["predictions"][0]}
    said = ["times finer than microseconds were cut off in: at"]
    assert [a.json()["warnings"] for a in answers] == [said] * len(bodies)
    exact = client.post(url, json={"rows": [GOOD[0] | {"at": "1969-12-31T23:59:59.999999000"}]}).json()
    assert exact["warnings"] == []
    assert exact["predictions"] == answers[0].json()["predictions"]
    lenient = client.post(url, json={"rows": [row]}, headers=LENIENT).json()
    assert lenient["warnings"] == said


@pytest.mark.parametrize(("day", "status"), [(18_000, 200), (18_000.0, 200), (18_000.5, 422), (True, 422)])
def test_days_are_whole(client, models, day, status):
    url = f"/v1/models/{models['posterior']}/predict"
    answer = client.post(url, json={"rows": [GOOD[0] | {"day": day}]})
    assert answer.status_code == status
    assert status == 200 or answer.json()["errors"][0]["pointer"] == "/rows/0/day"


def test_many_bad_rows_are_refused_about_as_fast_as_good_ones_are_answered(client):
    names = [f"c{i}" for i in range(12)]
    r = np.random.default_rng(0)
    rows = [dict(zip(names, row, strict=True)) | {"k": "ab"[i % 2]} for i, row in enumerate(r.normal(size=(50, 12)))]
    dataset = client.post("/v1/datasets", content=json.dumps([row | {"y": 1.0 + row["c0"]} for row in rows])).json()
    body = {"estimator": spec("linear_regression"), "dataset": dataset["id"], "target": "y"}
    model = client.post("/v1/models", json=body, headers={"Prefer": "wait=60"}).json()["id"]
    url = f"/v1/models/{model}/predict"
    spent = {}
    for kind, cell in (("good", 1.5), ("text", "x"), ("null", None)):
        sent = json.dumps({"rows": [dict.fromkeys(names, cell) | {"k": "a"}] * 20_000})
        started = time.process_time()
        answer = client.post(url, content=sent, headers={"Content-Type": "application/json"})
        spent[kind] = time.process_time() - started
        assert answer.status_code == (200 if kind == "good" else 422)
        assert kind == "good" or len(answer.json()["errors"]) == 20
    assert max(spent["text"], spent["null"]) < 3 * spent["good"] + 0.5


def test_infinities_are_told_where_json_has_null(client):
    made = client.post("/v1/datasets", content="a,b\n1.5,1\ninf,2\n-inf,3\n").json()
    said = ["column 'a' has 2 infinite values, which JSON cannot write: they are null here"]
    page = client.get(made["links"]["rows"])
    assert page.json()["warnings"] == said
    assert [row["a"] for row in page.json()["items"]] == [1.5, None, None]
    assert client.get(made["links"]["rows"], params={"columns": "b"}).json()["warnings"] == []
    for media in ("application/json", NDJSON):
        answer = client.get(made["links"]["content"], headers={"Accept": media})
        assert json.loads(answer.headers["X-Postfit-Warnings"]) == said
    assert "X-Postfit-Warnings" not in client.get(made["links"]["content"], headers={"Accept": "text/csv"}).headers


def test_the_charset_of_an_upload_counts_and_unread_encodings_are_415(client):
    csv = "a,b\n表,1\n".encode("shift_jis")
    made = client.post("/v1/datasets", content=csv, headers={"Content-Type": "text/csv; charset=shift_jis"})
    assert made.status_code == 201, made.text
    assert client.get(made.json()["links"]["rows"]).json()["items"] == [{"a": "表", "b": 1}]
    table = arrow(pa.table({"a": [1]}))
    assert client.post("/v1/datasets", content=table, headers={"Content-Type": "x/y; charset=utf-8"}).status_code == 201
    refused = client.post("/v1/datasets", content=b"a\n1\n", headers={"Content-Encoding": "br"})
    assert refused.status_code == 415


@pytest.mark.parametrize(
    ("cells", "form", "want"),
    [
        (["31/12/99", "01/02/68", "01/02/69"], "%d/%m/%y", ["1999-12-31", "2068-02-01", "1969-02-01"]),
        (["20-12-31", "21-01-02", "21-01-03"], "%y-%m-%d", ["2020-12-31", "2021-01-02", "2021-01-03"]),
        (["5-Jan-2020", "6-september-2021", "7-MAY-2022"], "%d-%b-%Y", ["2020-01-05", "2021-09-06", "2022-05-07"]),
    ],
)
def test_dates_of_two_digits_and_of_words_are_read_by_a_stated_format(client, cells, form, want):
    made = client.post("/v1/datasets", content="d,x\n" + "".join(f"{c},1\n" for c in cells)).json()
    assert made["columns"][0]["type"] in {"category", "text"}
    assert {w["code"] for w in made["warnings"]} & {"two_digit_years", "named_months"}
    change = {"columns": {"d": {"type": "date", "format": form}}}
    fixed = client.patch(made["links"]["self"], json=change)
    assert fixed.status_code == 200, fixed.text
    assert [row["d"] for row in client.get(made["links"]["rows"]).json()["items"]] == want
    wrong = client.post("/v1/datasets", content="d,x\n5-01-2020,1\n6-Foo-2020,2\n").json()
    refused = client.patch(wrong["links"]["self"], json={"columns": {"d": {"type": "date", "format": "%d-%b-%Y"}}})
    assert refused.status_code == 422


def test_a_correction_that_loses_something_says_so(client):
    text = "i,t\n9007199254740993,2020-01-01T10:00:00\n1,2020-01-02T00:00:00\n"
    made = client.post("/v1/datasets", content=text).json()
    change = {"columns": {"i": {"type": "number"}, "t": {"type": "date"}}}
    fixed = client.patch(made["links"]["self"], json=change).json()
    found = {w["code"]: w for w in fixed["warnings"]}
    assert found["rounded_integers"]["cells"] == [{"row": 1, "value": "9007199254740993"}]
    assert found["times_left_out"]["count"] == 1
