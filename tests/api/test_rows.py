"""The same rows in any format: the same bits, the same refusals; answers in the format that is accepted."""

from __future__ import annotations

import gzip
import io
import json
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from service.usecases import inference
from tests.api.rows import (
    CSV,
    FEATURES,
    FILE,
    NDJSON,
    PARQUET,
    STREAM,
    arrow,
    ask,
    bodies,
    csv,
    fitted,
    mixed,
    parquet,
    records,
    small,
    upload,
)
from tests.api.test_conventions import check_problem
from tests.api.test_models import spec

ALGORITHMS = [
    ("logistic_regression", {"alpha": 1.0}, "kind"), ("ridge_regression", {}, "y"),
    ("bayesian_linear_regression", {}, "y"), ("random_forest_classifier", {"n_estimators": 5}, "kind"),
    ("k_means", {"n_clusters": 3}, None), ("gaussian_naive_bayes", {}, "kind"),
    ("linear_discriminant_analysis", {"regularization": "epsilon"}, "kind"),
]  # fmt: skip
POSTS = "application/json, text/csv, application/x-ndjson, " + ", ".join([STREAM, FILE, PARQUET])


def bits(values):
    """Numbers as their 64 bits, anything else as it is."""
    return [np.float64(v).tobytes() if isinstance(v, float) else v for v in np.ravel(np.array(values, dtype=object))]


def expect_same_bits(got, want, name):
    assert got.status_code == 200, (name, got.text)
    for part in ("predictions", "intervals"):
        assert bits(got.json().get(part) or []) == bits(want.get(part) or []), (name, part)
    if "probabilities" in want:
        assert got.json()["probabilities"]["classes"] == want["probabilities"]["classes"]
        assert bits(got.json()["probabilities"]["values"]) == bits(want["probabilities"]["values"]), name


@pytest.fixture
def data(client):
    return upload(client, mixed(), types=json.dumps({"code": "category", "colour": "category"}))


def test_the_same_rows_have_the_same_bits_in_every_format(client, data):
    table = mixed(300, seed=8)
    rows = records(table)
    other = upload(client, table)
    for algorithm, params, target in ALGORITHMS:
        model = fitted(client, spec(algorithm, **params), data, target)
        here = f"/v1/models/{model}/predict"
        want = client.post(here, json={"rows": [{f: r[f] for f in FEATURES} for r in rows]}).json()
        assert len(want["predictions"]) == 300, want
        columns = {f: [r[f] for r in rows] for f in reversed(FEATURES)}
        expect_same_bits(client.post(here, json={"columns": columns}), want, "columns")
        expect_same_bits(client.post(here, json={"dataset": other}), want, "dataset")
        for name, (media, body) in bodies(table).items():
            expect_same_bits(ask(client, model, body, media), want, (algorithm, name))


def test_order_and_extra_columns_do_not_matter_and_the_extra_ones_are_named(client, data):
    model = fitted(client, spec("ridge_regression"), data, "y")
    table = mixed(9).append_column("nested", pa.array([[1]] * 9))
    want = client.post(f"/v1/models/{model}/predict", json={"rows": records(mixed(9).select(FEATURES))}).json()
    for media, body in ((STREAM, arrow(table)), (PARQUET, parquet(table.select(table.column_names[::-1])))):
        got = ask(client, model, body, media)
        expect_same_bits(got, want, media)
        assert all(name in got.json()["warnings"][0] for name in ("kind", "y", "nested"))
    assert "kind" in ask(client, model, csv(mixed(9)), CSV).json()["warnings"][0]


def test_options_of_rows_stand_in_the_query(client, data):
    model = fitted(client, spec("bayesian_linear_regression"), data, "y")
    want = client.post(f"/v1/models/{model}/predict", json={"rows": records(mixed(5).select(FEATURES)),
                                                            "interval": 0.8}).json()  # fmt: skip
    expect_same_bits(ask(client, model, arrow(mixed(5)), STREAM, interval=0.8), want, "interval")
    plain = ask(client, fitted(client, spec("gaussian_naive_bayes"), data, "kind"), csv(mixed(5)), CSV, proba=False)
    assert "probabilities" not in plain.json()
    check_problem(ask(client, model, csv(mixed(5)), CSV, interval=2), 422, "invalid")
    check_problem(ask(client, model, csv(mixed(5)), CSV, intervall=0.5), 422, "invalid")
    answer = client.post(f"/v1/models/{model}/predict", json={"rows": [{}]}, params={"interval": 0.5})
    assert check_problem(answer, 422, "invalid")["errors"][0]["pointer"] == "/query/interval"


def test_posterior_and_transform_read_the_same_formats(client, data):
    bayes, axes = (fitted(client, spec(name), data, target) for name, target in
                   (("bayesian_linear_regression", "y"), ("principal_component_analysis", None)))  # fmt: skip
    table = mixed(20, seed=9)
    rows = {"rows": records(table.select(FEATURES))}
    for name, (media, body) in bodies(table).items():
        got = ask(client, bayes, body, media, "posterior", level=0.5).json()
        want = client.post(f"/v1/models/{bayes}/posterior", json=rows | {"level": 0.5}).json()
        assert got["distributions"] == want["distributions"], name
        got = ask(client, axes, body, media, "transform").json()
        want = client.post(f"/v1/models/{axes}/transform", json=rows).json()
        assert bits(got["values"]) == bits(want["values"]), name
    table = ask(client, axes, csv(mixed(20, seed=9)), CSV, "transform", accept=STREAM)
    read = pa.ipc.open_stream(table.content).read_all()
    assert read.column_names == want["columns"]
    assert bits(np.column_stack([c.to_numpy() for c in read.columns]).tolist()) == bits(want["values"])


def test_cells_of_text_are_read_by_the_type_of_the_feature(client):
    days = [date(2020, 1, 1), date(2021, 5, 3), date(2020, 1, 1), date(2022, 2, 2)]
    model = small(client, code=["01", "1", "01", "NA"], size=[1.5, 2.0, 3.25, 9.0], day=pa.array(days),
                  whole=[1, 2, 3, 2**53 + 1])  # fmt: skip
    rows = [{"code": "01", "size": 1.5, "day": "2020-01-01", "whole": 7},
            {"code": "1", "size": -2, "day": "2021-05-03", "whole": 2**60 + 1},
            {"code": "NA", "size": 1e-7, "day": "2022-02-02", "whole": 3}]  # fmt: skip
    want = client.post(f"/v1/models/{model}/predict", json={"rows": rows}).json()
    texts = [
        'code,size,day,whole\n01,1.5,2020-01-01,7\n1,-2,2021-05-03,1152921504606846977\nNA,1e-7,2022-02-02,3.0\n',
        'whole;day;size;code\n7;2020-01-01;1,5;01\n1152921504606846977;2021-05-03;-2;1\n+3;2022-02-02;1e-7;"NA"\n',
        "\ufeffcode\tsize\tday\twhole\r\n01\t1.5\t2020/01/01\t7\r\n1\t-2.0\t2021-05-03T00:00:00\t1152921504606846977"
        "\r\nNA\t0.0000001\t20220202\t3",
    ]  # fmt: skip
    for text in texts:
        expect_same_bits(ask(client, model, text.encode(), CSV), want, text)
    odd = "code|size|day|whole\n01|1,5|2020-01-01|7\n1|-2|2021-05-03|1152921504606846977\nNA|1e-7|2022-02-02|3"
    expect_same_bits(ask(client, model, odd.encode("utf-16"), CSV, delimiter="|", decimal=","), want, "options")
    one = ask(client, model, texts[0].splitlines()[0].encode() + b"\n01,1.5,2020-01-01,7", CSV)
    alone = client.post(f"/v1/models/{model}/predict", json={"rows": rows[:1]}).json()  # BLAS: bits go by request
    assert bits(one.json()["predictions"]) == bits(alone["predictions"])
    latin = small(client, name=["Å", "b", "Å"])
    body = "name\nÅ\n".encode("latin-1")
    assert ask(client, latin, body, "text/csv; charset=iso-8859-1").status_code == 200


TAKEN = [
    ("number", pa.array([1.5, 2.0], pa.float32())), ("number", pa.array([1, 2], pa.uint64())),
    ("number", pa.array([Decimal("1.5"), Decimal("2.25")])), ("number", pa.array([1, 2]).dictionary_encode()),
    ("number", pa.array([1.5, 2.0]).cast(pa.float16())), ("integer", pa.array([1.0, 2.0])),
    ("integer", pa.array([1, 2], pa.int8())), ("integer", pa.array([2**63 + 2**20, 3], pa.uint64())),
    ("text", pa.array(["a", "b"], pa.large_string())), ("text", pa.array(["a", "b"]).dictionary_encode()),
    ("text", pa.array(["a", "b"], pa.string_view())),
    ("day", pa.array([date(2020, 1, 1), date(1931, 2, 3)], pa.date64())),
    ("day", pa.array([datetime(2020, 1, 1), datetime(1931, 2, 3)], pa.timestamp("ns"))),
    ("time", pa.array([datetime(2020, 1, 1, 2), datetime(1960, 1, 1, 0, 0, 1)], pa.timestamp("s"))),
    ("time", pa.array([date(2020, 1, 1), date(1960, 5, 6)])),
]  # fmt: skip


def test_arrow_columns_that_hold_the_type_exactly_are_taken(client, everything):
    for column, values in TAKEN:
        check_taken(column, values, client, everything)


def check_taken(column, values, client, everything):
    row = everything.rows[0]
    table = pa.table({n: values if n == column else pa.array([row[n]] * 2) for n in row})
    plain = [row | {column: str(v) if hasattr(v, "isoformat") else float(v) if isinstance(v, Decimal) else v}
             for v in (v.isoformat() if hasattr(v, "isoformat") else v for v in values.to_pylist())]  # fmt: skip
    plain = [{k: v.isoformat() if hasattr(v, "isoformat") else v for k, v in r.items()} for r in plain]
    want = client.post(f"/v1/models/{everything.model}/predict", json={"rows": plain})
    assert want.status_code == 200, want.text
    for media, body in ((STREAM, arrow(table)), (PARQUET, parquet(table))):
        if media == PARQUET and pa.types.is_string_view(values.type):
            continue
        expect_same_bits(ask(client, everything.model, body, media), want.json(), media)


class Everything:
    """A model with a column of every type, and its rows."""

    def __init__(self, client):
        self.rows = [
            {"number": 1.5, "integer": 3, "flag": True, "text": "a", "day": date(2020, 1, 1),
             "time": datetime(2020, 1, 1, 12)},
            {"number": 2.5, "integer": 2, "flag": False, "text": "b", "day": date(2021, 1, 1),
             "time": datetime(2021, 1, 1, 12)},
            {"number": 3.0, "integer": 5, "flag": True, "text": "b", "day": date(1960, 1, 1),
             "time": datetime(1960, 1, 1, 0, 0, 1)},
        ]  # fmt: skip
        self.model = small(client, **{k: pa.array([r[k] for r in self.rows]) for k in self.rows[0]})


@pytest.fixture
def everything(client):
    return Everything(client)


REFUSED = [
    ("number", ["1.5", "2"], "/columns/number", "wrong_type"),
    ("number", [True, False], "/columns/number", "wrong_type"),
    ("number", [1.0, float("inf")], "/rows/1/number", "not_finite"),
    ("number", [1.0, float("nan")], "/rows/1/number", "null_not_allowed"),
    ("number", pa.nulls(2), "/rows/0/number", "null_not_allowed"),
    ("integer", [1.0, 2.5], "/rows/1/integer", "wrong_type"), ("flag", [1, 0], "/columns/flag", "wrong_type"),
    ("text", [1, 2], "/columns/text", "wrong_type"), ("text", [["a"], ["b"]], "/columns/text", "wrong_type"),
    ("text", ["a", "z"], "/rows/1/text", "unknown_level"), ("text", [b"a", b"\xff"], "/columns/text", "wrong_type"),
    ("text", pa.array(["a", "z"]).dictionary_encode(), "/rows/1/text", "unknown_level"),
    ("day", [1, 2], "/columns/day", "wrong_type"), ("day", ["2020-01-01"] * 2, "/columns/day", "wrong_type"),
    ("day", [datetime(2020, 1, 1), datetime(2020, 1, 1, 1)], "/rows/1/day", "wrong_type"),
    ("time", [1.0, 2.0], "/columns/time", "wrong_type"), ("time", None, "/columns/time", "missing_column"),
]  # fmt: skip


def test_ill_typed_columns_and_cells_are_pointed_at(client, everything):
    for column, values, pointer, code in REFUSED:
        check_refused(column, values, (pointer, code), client, everything)
    row = everything.rows[0]
    assert ask(client, everything.model, arrow(pa.table({n: [row[n]] for n in row})), STREAM).status_code == 200


def check_refused(column, values, expected, client, everything):
    row = everything.rows[0]
    given = {n: values if n == column else [row[n]] * 2 for n in row if n != column or values is not None}
    table = pa.table(given)
    for media, body in ((STREAM, arrow(table)), (PARQUET, parquet(table))):
        answer = ask(client, everything.model, body, media)
        errors = check_problem(answer, 422, "invalid-data")["errors"]
        assert (errors[0]["pointer"], errors[0]["code"]) == expected, media


MISFITS = [
    ("number", "abc", "wrong_type"), ("number", "inf", "not_finite"), ("number", "1,5", "wrong_type"),
    ("number", "", "null_not_allowed"), ("number", "NA", "null_not_allowed"), ("integer", "2.5", "wrong_type"),
    ("flag", "maybe", "wrong_type"), ("text", "z", "unknown_level"), ("text", "01", "unknown_level"),
    ("text", "", "null_not_allowed"), ("day", "01/02/2020", "wrong_type"), ("day", "2020-02-30", "wrong_type"),
    ("day", "2020-01-01T01:00:00", "wrong_type"), ("time", "noon", "wrong_type"),
]  # fmt: skip


def test_cells_of_text_that_do_not_fit_are_pointed_at(client, everything):
    for column, cell, code in MISFITS:
        check_misfit(column, cell, code, client, everything)


def check_misfit(column, cell, code, client, everything):
    good = {"number": "1.5", "integer": "3", "flag": "true", "text": "a", "day": "2020-01-01",
            "time": "2020-01-01T12:00"}  # fmt: skip
    lines = [good, good | {column: f'"{cell}"' if cell == "1,5" else cell}]
    text = "\n".join([",".join(good), *(",".join(r.values()) for r in lines)])
    errors = check_problem(ask(client, everything.model, text.encode(), CSV), 422, "invalid-data")["errors"]
    assert [(e["pointer"], e["code"]) for e in errors] == [(f"/rows/1/{column}", code)]
    others = [name for name in good if name != column]
    lacks = ",".join(others) + "\n" + ",".join(good[name] for name in others)
    errors = check_problem(ask(client, everything.model, lacks.encode(), CSV), 422, "invalid-data")["errors"]
    assert [(e["pointer"], e["code"]) for e in errors] == [(f"/columns/{column}", "missing_column")]


def test_a_table_without_the_columns_tells_which_it_has(client, everything):
    answer = ask(client, everything.model, b"b;c\n1;2\n", CSV)
    assert "other columns there: b, c)" in check_problem(answer, 422, "invalid-data")["detail"]
    answer = ask(client, everything.model, b"text\na\n", CSV)
    assert "other columns" not in check_problem(answer, 422, "invalid-data")["detail"]


def test_an_ill_typed_column_of_a_dataset_is_pointed_at(client, everything):
    good = pa.table({n: [r[n] for r in everything.rows] for n in everything.rows[0]})
    wrong = good.set_column(0, "number", pa.array(["x", "y", "z"]))
    answer = client.post(f"/v1/models/{everything.model}/predict", json={"dataset": upload(client, wrong)})
    assert check_problem(answer, 422, "invalid-data")["errors"][0]["pointer"] == "/columns/number"
    codes = good.set_column(3, "text", pa.array([1, 2, 3]))
    answer = client.post(f"/v1/models/{everything.model}/predict", json={"dataset": upload(client, codes)})
    assert check_problem(answer, 422, "invalid-data")["errors"][0]["pointer"] == "/columns/text"


def cut(body):
    return [body[:n] for n in (len(body) - 1, len(body) - 4, len(body) - 8, len(body) * 2 // 3, len(body) // 3, 9, 1)]


def test_bodies_that_are_cut_off_or_damaged_are_refused_with_the_reason(client, everything):
    table = pa.table({n: [r[n] for r in everything.rows] for n in everything.rows[0]})
    for media, body in ((STREAM, arrow(table)), (FILE, arrow(table, pa.ipc.new_file)), (PARQUET, parquet(table))):
        r = np.random.default_rng(1)
        flipped = [bytes(b) for b in (bytearray(body) for _ in range(40))]
        for i, whole in enumerate(flipped):
            at = int(r.integers(len(whole)))
            flipped[i] = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
        for part in [*cut(body), b"", b"junk", body + b"more"]:
            answer = ask(client, everything.model, part, media)
            assert answer.status_code in (400, 422), (media, len(part), answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["detail"]
        for part in flipped:
            assert ask(client, everything.model, part, media).status_code in (200, 400, 413, 422)
    twice = pa.table([pa.array([1.0]), pa.array([2.0])], names=["number", "number"])
    check_problem(ask(client, everything.model, arrow(twice), STREAM), 422, "invalid-data")
    check_problem(ask(client, everything.model, arrow(table.slice(0, 0)), STREAM), 422, "invalid")
    check_problem(ask(client, everything.model, parquet(table.slice(0, 0)), PARQUET), 422, "invalid")


def test_lines_of_json_are_strict_and_tell_their_line(client, everything):
    row = json.dumps({k: v.isoformat() if hasattr(v, "isoformat") else v for k, v in everything.rows[0].items()})
    good = ask(client, everything.model, f"{row}\r\n\n{row}\n".encode(), NDJSON)
    assert len(good.json()["predictions"]) == 2
    for bad in ('{"number": NaN}', "[1]", '{"number": 1, "number": 2}', "{", "17"):
        answer = ask(client, everything.model, f"{row}\n{bad}\n".encode(), NDJSON)
        assert "line 2" in check_problem(answer, 400, "malformed")["detail"]
    check_problem(ask(client, everything.model, b"", NDJSON), 422, "invalid")
    short = ask(client, everything.model, f'{row}\n{{"number": 1}}\n'.encode(), NDJSON)
    assert check_problem(short, 422, "invalid-data")["errors"][0]["pointer"] == "/rows/1/integer"


def test_ragged_and_repeated_columns_of_text_are_refused(client, everything):
    check_problem(ask(client, everything.model, b"number,text\n1,a,b\n2,b\n", CSV), 422, "invalid")
    check_problem(ask(client, everything.model, b"", CSV), 422, "invalid")
    check_problem(ask(client, everything.model, b"number,text\n", CSV), 422, "invalid")
    answer = ask(client, everything.model, b"number,integer,number\n1,2,3\n", CSV)
    assert check_problem(answer, 422, "invalid-data")["errors"][0] | {"detail": ""} == {
        "pointer": "/columns/number", "code": "duplicate_column", "detail": ""}  # fmt: skip


def test_media_types_that_are_not_read_are_told_those_that_are(client, everything):
    for media in ("application/xml", "text/plain", ""):
        answer = ask(client, everything.model, b"a,b\n1,2\n", media)
        check_problem(answer, 415, "unknown-media-type")
        assert answer.headers["accept-post"] == POSTS
    answer = client.post("/v1/models", content=b"a", headers={"content-type": CSV})
    assert answer.headers["accept-post"] == "application/json"


def test_bodies_are_capped_however_they_are_packed(client, everything, services):
    table = pa.table({n: [r[n] for r in everything.rows] for n in everything.rows[0]})
    here = f"/v1/models/{everything.model}/predict"
    packed = client.post(here, content=gzip.compress(arrow(table)),
                         headers={"content-type": STREAM, "content-encoding": "gzip"})  # fmt: skip
    assert packed.status_code == 200, packed.text
    object.__setattr__(services.settings, "body_bytes", 300)
    check_problem(ask(client, everything.model, arrow(table), STREAM), 413, "too-large")


@pytest.mark.parametrize(("media", "new"), [(STREAM, pa.ipc.new_stream), (FILE, pa.ipc.new_file)])
def test_bodies_that_grow_when_they_are_decoded_are_refused_before_that(client, everything, media, new):
    """2 GiB of zeros in some 10 kB."""
    zeros = pa.record_batch([pa.array(np.zeros(1 << 26), pa.float64())] * 4, names=["number", "a", "b", "c"])
    sink = io.BytesIO()
    with new(sink, zeros.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(zeros)
    bomb = sink.getvalue()
    assert len(bomb) < 1 << 20
    before = psutil.Process().memory_info().rss
    answer = check_problem(ask(client, everything.model, bomb, media), 413, "too-large")
    assert "decodes to more" in answer["detail"]
    assert psutil.Process().memory_info().rss - before < 1 << 29


def test_too_many_rows_are_told_of_the_job_that_takes_them(client, everything, monkeypatch):
    monkeypatch.setattr(inference, "MAX_ROWS", 2)
    table = pa.table({n: [r[n] for r in everything.rows] for n in everything.rows[0]})
    here = f"/v1/models/{everything.model}/predict"
    answers = [ask(client, everything.model, body, media)
               for media, body in ((STREAM, arrow(table)), (PARQUET, parquet(table)))]  # fmt: skip
    answers.append(client.post(here, json={"dataset": upload(client, table)}))
    answers.append(ask(client, everything.model, b"number\n1\n2\n3\n", CSV))
    answers.append(ask(client, everything.model, b"{}\n{}\n{}\n", NDJSON))
    for answer in answers:
        assert "output" in check_problem(answer, 413, "too-large")["detail"]


def table_of(answer):
    """The table of an answer, whatever its format."""
    media = answer.headers["content-type"].partition(";")[0]
    if media == CSV:
        return pacsv.read_csv(io.BytesIO(answer.content))
    if media == STREAM:
        return pa.ipc.open_stream(answer.content).read_all()
    return pq.read_table(io.BytesIO(answer.content))


@pytest.mark.parametrize("accept", [CSV, STREAM, PARQUET])
def test_answers_are_tables_of_the_same_bits(accept, client, data):
    table = mixed(30, seed=4)
    rows = {"rows": records(table)}
    species = fitted(client, spec("logistic_regression", alpha=1.0), data, "kind")
    want = client.post(f"/v1/models/{species}/predict", json=rows).json()
    got = ask(client, species, parquet(table), PARQUET, accept=accept)
    assert got.status_code == 200, got.text
    read = table_of(got)
    assert read.column_names == ["prediction", "probability_no", "probability_yes"]
    assert read["prediction"].to_pylist() == want["predictions"]
    values = np.column_stack([read["probability_no"], read["probability_yes"]])
    assert bits(values.tolist()) == bits(want["probabilities"]["values"])
    assert json.loads(got.headers["x-postfit-warnings"]) == want["warnings"]
    assert got.headers["x-postfit-model"] == species
    bayes = fitted(client, spec("bayesian_linear_regression"), data, "y")
    want = client.post(f"/v1/models/{bayes}/predict", json=rows | {"interval": 0.5}).json()
    got = client.post(f"/v1/models/{bayes}/predict", json=rows | {"interval": 0.5}, headers={"accept": accept})
    read = table_of(got)
    assert read.column_names == ["prediction", "lower", "upper"]
    assert bits(read["prediction"].to_pylist()) == bits(want["predictions"])
    assert bits(np.column_stack([read["lower"], read["upper"]]).tolist()) == bits(want["intervals"])


def test_columns_of_several_targets_and_of_whole_classes_have_names(client):
    r = np.random.default_rng(0)
    data = upload(client, pa.table({"a": r.normal(size=40), "u": r.normal(size=40), "v": r.normal(size=40),
                                    "k": r.integers(-1, 2, 40)}))  # fmt: skip
    both = fitted(client, spec("linear_regression"), data, ["u", "v"], features=["a"], encoding={})
    read = table_of(ask(client, both, b"a\n1\n2\n", CSV, accept=STREAM, interval=0.5))
    assert read.column_names == ["prediction_u", "prediction_v", "lower_u", "lower_v", "upper_u", "upper_v"]
    want = ask(client, both, b"a\n1\n2\n", CSV, interval=0.5).json()
    assert bits(np.column_stack([read["prediction_u"], read["prediction_v"]]).tolist()) == bits(want["predictions"])
    intervals = np.array(want["intervals"])
    np.testing.assert_array_equal(np.column_stack([read["lower_u"], read["lower_v"]]), intervals[..., 0])
    whole = fitted(client, spec("gaussian_naive_bayes"), data, "k", features=["a"], encoding={})
    read = table_of(ask(client, whole, b"a\n1\n2\n", CSV, accept=PARQUET))
    assert read.column_names == ["prediction", "probability_-1", "probability_0", "probability_1"]
    assert pa.types.is_integer(read["prediction"].type)


PREFERENCES = [
    ("text/csv;q=0.2, application/json;q=0.1", CSV), ("application/json;q=0.2, */*;q=0.1", "application/json"),
    ("application/json;q=0, */*", CSV), (f"text/*;q=0.3, {PARQUET};q=0.9", PARQUET), ("*/*", "application/json"),
    (f"{STREAM}, application/json", STREAM),
]  # fmt: skip


def test_quality_values_decide(client, everything):
    table = pa.table({n: [r[n] for r in everything.rows] for n in everything.rows[0]})
    for accept, media in PREFERENCES:
        answer = ask(client, everything.model, arrow(table), STREAM, accept=accept)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].partition(";")[0] == media, accept


def test_formats_that_are_not_written_are_refused_before_any_work(client, everything):
    answer = ask(client, everything.model, b"junk", STREAM, accept="image/png, text/html;q=0.5")
    detail = check_problem(answer, 406, "not-acceptable")["detail"]
    assert all(media in detail for media in ("application/json", CSV, STREAM, PARQUET))
    table = pa.table({n: [r[n] for r in everything.rows] for n in everything.rows[0]})
    check_problem(ask(client, everything.model, arrow(table), STREAM, "posterior", accept=CSV), 406, "not-acceptable")


def test_long_warnings_fit_a_header(client, everything):
    row = everything.rows[0]
    extra = {f"col_{i}_" + "\u00e4" * 400: [1.0] for i in range(60)}
    answer = ask(client, everything.model, arrow(pa.table({n: [row[n]] for n in row} | extra)), STREAM, accept=CSV)
    assert answer.status_code == 200, answer.text
    said = json.loads(answer.headers["x-postfit-warnings"])
    assert "col_0_" in said[0]
    assert len(answer.headers["x-postfit-warnings"]) < 5000
