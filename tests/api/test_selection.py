"""Fits of some rows, and scores on rows that were held out, over HTTP: a choice of rows is the table of these rows."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from service.usecases import chunked
from service.usecases.out_of_core import BASE_MEMORY
from tests.api.test_models import MEASURES, fit, spec
from tests.api.test_openapi import operations

LOGISTIC = spec("logistic_regression", alpha=1.0)
LEAST_SQUARES = spec("linear_regression")
QUADRATIC = spec("quadratic_discriminant_analysis")
NO_ROWS = {"where": None, "sample": None}
SMALL = {"memory_bytes": BASE_MEMORY + 1_250_000}


def mixed(rows=400):
    """A table with a column of each type, gaps, a split and folds."""
    r = np.random.default_rng(11)
    a, b = r.normal(size=rows), r.normal(size=rows)
    kind = r.choice(["x", "y", "z"], rows)
    columns = {
        "a": pa.array(a, mask=r.random(rows) < 0.1), "b": b, "kind": kind, "id": r.integers(2**53, 2**53 + 9, rows),
        "flag": r.random(rows) < 0.5, "day": pa.array(r.integers(19000, 19100, rows).astype("int32"), pa.date32()),
        "when": pa.array(r.integers(0, 10**9, rows) * 1_000_000, pa.timestamp("us", "UTC")),
        "label": np.where(a + r.normal(size=rows) > 0, "hi", "lo"),
        "y": 2 * a - b + (kind == "y") + r.normal(size=rows),
        "w": r.integers(1, 4, rows).astype(float), "fold": r.integers(0, 3, rows),
        "split": r.choice(["train", "val", "test"], rows), "shop": r.integers(0, 30, rows),
    }  # fmt: skip
    return pa.table(columns)


def upload(client, table):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    answer = client.post("/v1/datasets", content=sink.getvalue())
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def refused(client, place="/v1/models", **body):
    answer = client.post(place, json=body)
    assert 400 <= answer.status_code < 500, answer.text
    return answer.status_code, [(e["pointer"], e["code"]) for e in answer.json()["errors"]], answer.json()["detail"]


def expect_same_fit(one, two):
    for name in ("target", "features", "metrics", "rows"):
        assert one[name] == two[name], name
    assert one["estimator"] == two["estimator"]


WHERES = {
    "numbers": ([{"column": "b", "op": ">", "value": 0.25}], lambda t: pc.greater(t["b"], 0.25)),
    "big": ([{"column": "id", "op": "<=", "value": "9007199254740995"}], lambda t: pc.less_equal(t["id"], 2**53 + 3)),
    "text": ([{"column": "kind", "op": "in", "value": ["x", "z"]}], lambda t: pc.not_equal(t["kind"], "y")),
    "gaps": ([{"column": "a", "op": "not_null"}, {"not": {"column": "flag", "op": "==", "value": True}}],
             lambda t: pc.and_(t["a"].is_valid(), pc.invert(t["flag"]))),
    "times": ([{"or": [{"column": "day", "op": "<", "value": "2022-02-01"},
                       {"column": "when", "op": "between",
                        "value": ["1975-01-01T02:00:00+02:00", "1980-01-01T00:00:00Z"]}]}],
              lambda t: pc.or_(pc.less(pc.cast(t["day"], pa.int32()), 19024), pc.and_(
                  pc.greater_equal(pc.cast(t["when"], pa.int64()), 157766400 * 10**6),
                  pc.less_equal(pc.cast(t["when"], pa.int64()), 315532800 * 10**6)))),
}  # fmt: skip


@pytest.mark.parametrize("name", WHERES)
def test_a_fit_where_conditions_hold_is_the_fit_of_their_table(client, name):
    table = mixed()
    where, by_hand = WHERES[name]
    part = table.filter(by_hand(table))
    assert 20 < len(part) < len(table)
    more = {"encoding": {"missing": "mean", "scale": "standard"}, "weights": "w", "groups": "shop",
            "exclude": ["split"], "validation": {"method": "k_fold", "k": 3}}  # fmt: skip
    whole, alone = upload(client, table), upload(client, part)
    for estimator, target in ((LOGISTIC, "label"), (LEAST_SQUARES, "y"), (QUADRATIC, "kind")):
        asked = {"estimator": estimator, "target": target, "features": ["a", "b", "fold"]} | more
        if estimator is QUADRATIC:
            asked.pop("weights")
        one = fit(client, dataset=whole, rows={"where": where}, **asked)
        two = fit(client, dataset=alone, **asked)
        expect_same_fit(one, two)
        assert one["artifact"]["sha256"] == two["artifact"]["sha256"]
        assert one["selection"] == {"where": where, "sample": None, "rows_in_table": 400, "rows_selected": len(part)}
        assert two["selection"] == {**NO_ROWS, "rows_in_table": len(part), "rows_selected": len(part)}


def test_features_by_default_are_those_of_the_selected_rows(client):
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0, None, None, None], "t": list("aabbcde"),
                      "z": [5.0, 1.0, 2.0, 2.0, 1.0, 3.0, 4.0], "y": [1.0, 3.0, 2.0, 4.0, 5.0, 1.0, 0.0]})  # fmt: skip
    asked = {"estimator": spec("ridge_regression"), "target": "y"}
    one = fit(client, dataset=upload(client, table), rows={"where": [{"column": "x", "op": "is_null"}]}, **asked)
    two = fit(client, dataset=upload(client, table.slice(4)), **asked)
    assert [f["name"] for f in one["features"]] == [f["name"] for f in two["features"]] == ["z"]
    assert one["artifact"]["sha256"] == two["artifact"]["sha256"]


def test_gaps_and_classes_outside_of_the_selected_rows_do_not_matter(client, penguins):
    where = [{"column": "species", "op": "!=", "value": "Gentoo"}, {"column": "body_mass_g", "op": "not_null"}]
    asked = {"estimator": LOGISTIC, "dataset": penguins, "target": "species", "features": MEASURES}
    assert refused(client, **asked)[0] == 422
    model = fit(client, rows={"where": where}, **asked)
    assert model["target"]["classes"] == ["Adelie", "Chinstrap"]
    assert model["rows"] == model["selection"]["rows_selected"] == 219


def test_samples_repeat_themselves_and_come_after_the_conditions(client):
    data = upload(client, mixed())
    asked = {"estimator": LEAST_SQUARES, "dataset": data, "target": "y", "features": ["b", "kind"]}
    rows = {"sample": 40, "where": WHERES["numbers"][0]}
    one, two = fit(client, rows=rows, **asked), fit(client, rows=rows, **asked)
    other = fit(client, rows=rows, seed=1, **asked)
    assert one["artifact"]["sha256"] == two["artifact"]["sha256"] != other["artifact"]["sha256"]
    assert (one["rows"], one["selection"]["rows_selected"], one["selection"]["sample"]) == (40, 40, 40)
    count = pc.sum(WHERES["numbers"][1](mixed())).as_py()
    status, issues, detail = refused(client, rows=rows | {"sample": count + 1}, **asked)
    assert (status, issues) == (422, [("/rows/sample", "too_few_rows")])
    assert f"{count + 1} rows" in detail
    assert f"{count} rows" in detail
    assert fit(client, rows=rows | {"sample": count}, **asked)["rows"] == count


NO_CHOICES = [
    ({"where": [{"column": "b", "op": ">", "value": 99}]}, "/rows/where", "no_rows"),
    ({"where": [{"column": "b", "op": ">", "value": "3"}]}, "/rows/where/0/value", "wrong_type"),
    ({"where": [{"column": "nope", "op": ">", "value": 3}]}, "/rows/where/0/column", "unknown_column"),
    ({"where": [{"and": [{"column": "flag", "op": "==", "value": 1}]}]}, "/rows/where/0/and/0/value", "wrong_type"),
    ({"where": [{"column": "b", "op": "~", "value": 3}]}, "/rows/where/0/op", "unknown_operation"),
    ({"where": [{"column": "b", "op": "==", "value": None}]}, "/rows/where/0/value", "null_not_allowed"),
    ({"where": [{"column": "b", "op": "==", "value": [1]}]}, "/rows/where/0/value", "scalar_type"),
    ({"where": [{"column": "b", "op": "=="}]}, "/rows/where/0/value", "missing"),
    ({"where": [{"column": "b", "op": "is_null", "value": 1}]}, "/rows/where/0/value", "extra_forbidden"),
    ({"where": [{"column": "b", "op": "in", "value": []}]}, "/rows/where/0/value", "too_short"),
    ({"where": [{"column": "b", "op": "between", "value": [1]}]}, "/rows/where/0/value", "too_short"),
    ({"where": [{"column": "b", "op": "==", "value": 10**25}]}, "/rows/where/0/value", "too_large"),
    ({"where": [{"not": [{"column": "b", "op": "is_null"}]}]}, "/rows/where/0/not", "condition_type"),
    ({"where": [{"not": {"column": "b", "op": "is_null"}, "column": "b"}]}, "/rows/where/0/column", "extra_forbidden"),
    ({"where": ["b > 3"]}, "/rows/where/0", "condition_type"),
    ({"where": [{"or": []}]}, "/rows/where/0/or", "too_short"),
    ({"where": [{"column": "b", "op": "is_null"}] * 1001}, "/rows/where", "too_many"),
    ({"sample": 0}, "/rows/sample", "greater_than_equal"),
    ({"sample": 401}, "/rows/sample", "too_few_rows"),
]  # fmt: skip


def test_choices_that_choose_nothing_or_make_no_sense_are_pointed_at(client):
    asked = {"estimator": LEAST_SQUARES, "dataset": upload(client, mixed()), "target": "y", "features": ["b"]}
    for rows, place, code in NO_CHOICES:
        for here in ("/v1/models", "/v1/models/validate"):
            assert refused(client, here, rows=rows, **asked)[:2] == (422, [(place, code)])
    assert client.get("/v1/models").json()["items"] == []


def test_conditions_nested_without_end_are_refused(client, penguins):
    one = {"column": "year", "op": "is_null"}
    for _ in range(200):
        one = {"not": one}
    asked = {"estimator": spec("standard_scaler"), "dataset": penguins, "features": ["year"], "rows": {"where": [one]}}
    assert refused(client, **asked)[:2] == (422, [("/rows/where", "too_deep")])


def test_a_split_column_holds_rows_out_for_good(client):
    table = mixed()
    asked = {"estimator": LOGISTIC, "target": "label", "exclude": ["id", "when", "a"],
             "encoding": {"scale": "standard"}}  # fmt: skip
    plan = {"method": "split_column", "column": "split", "validation": ["val", "test"]}
    model = fit(client, dataset=upload(client, table), validation=plan, **asked)
    train = table.filter(pc.equal(table["split"], "train"))
    held = table.filter(pc.not_equal(table["split"], "train"))
    alone = fit(client, dataset=upload(client, train), **asked | {"exclude": [*asked["exclude"], "split"]})
    assert model["artifact"]["sha256"] == alone["artifact"]["sha256"]
    assert model["metrics"]["train"] == alone["metrics"]["train"]
    score = client.post(f"/v1/models/{alone['id']}/score", json={"dataset": upload(client, held)}).json()["metrics"]
    assert model["metrics"]["validation"] == {**score, "folds": [score]}
    assert "split" not in [f["name"] for f in model["features"]]
    assert [w["code"] for w in model["warnings"]].count("split_column") == 1
    assert (model["rows"], model["selection"]["rows_selected"]) == (len(train), 400)
    named = fit(client, dataset=upload(client, table), validation=plan, estimator=LOGISTIC, target="label",
                features=["b", "split"], encoding={"unknown_level": "ignore"})  # fmt: skip
    assert "split_column" not in [w["code"] for w in named["warnings"]]


def test_given_folds_are_scored_one_by_one(client):
    table = mixed()
    asked = {"estimator": LEAST_SQUARES, "dataset": upload(client, table), "target": "y", "features": ["b", "kind"]}
    model = fit(client, validation={"method": "k_fold", "column": "fold"}, **asked)
    found = model["metrics"]["validation"]
    assert found["rows"] == 400
    for number, one in enumerate(found["folds"]):
        by = [{"column": "fold", "op": "!=", "value": number}]
        rest = fit(client, rows={"where": by}, **asked)
        held = upload(client, table.filter(pc.equal(table["fold"], number)))
        score = client.post(f"/v1/models/{rest['id']}/score", json={"dataset": held}).json()["metrics"]
        assert one.pop("fold") == number
        assert one == pytest.approx(score, rel=1e-12)
    assert model["rows"] == 400, "the model itself learns from all folds"


def test_rows_left_out_one_by_one_are_scored_together(client):
    table = mixed(30)
    asked = {"estimator": LEAST_SQUARES, "dataset": upload(client, table), "target": "y", "features": ["b", "kind"],
             "encoding": {"scale": "standard"}}  # fmt: skip
    found = fit(client, validation={"method": "leave_one_out"}, **asked)["metrics"]["validation"]
    X = np.column_stack([np.ones(30), table["b"].to_numpy(), *(np.array(table["kind"]) == k for k in "xy")])
    y = table["y"].to_numpy()
    left = []
    for i in range(30):
        keep = np.arange(30) != i
        left.append(X[i] @ np.linalg.lstsq(X[keep], y[keep], rcond=None)[0])
    e = y - left
    want = {"rows": 30, "mean_squared_error": np.mean(e**2), "mean_absolute_error": np.mean(np.abs(e)),
            "root_mean_squared_error": np.sqrt(np.mean(e**2)),
            "r2": 1 - (e**2).sum() / ((y - y.mean()) ** 2).sum()}  # fmt: skip
    assert found == pytest.approx(want, rel=1e-9)


def test_folds_by_any_type_of_column_carry_its_values(client):
    table = mixed(60).append_column("part", pa.array([19000 + i % 2 for i in range(60)], pa.date32()))
    asked = {"estimator": LEAST_SQUARES, "dataset": upload(client, table), "target": "y", "features": ["b"]}
    for column, want in (("part", ["2022-01-08", "2022-01-09"]), ("flag", [False, True]), ("kind", ["x", "y", "z"])):
        found = fit(client, validation={"method": "k_fold", "column": column}, **asked)["metrics"]["validation"]
        assert [f["fold"] for f in found["folds"]] == want


def test_scores_updates_and_oblivion_of_chosen_rows_are_those_of_their_table(client):
    table = mixed(200)
    whole = upload(client, table)
    where, by_hand = WHERES["numbers"]
    part, rest = table.filter(by_hand(table)), table.filter(pc.invert(by_hand(table)))
    other, left = upload(client, part), upload(client, rest)
    asked = {"estimator": spec("bayesian_linear_regression", noise_variance=1.0), "target": "y",
             "features": ["b", "kind"]}  # fmt: skip
    model, small = fit(client, dataset=whole, **asked), fit(client, dataset=left, **asked)
    here = f"/v1/models/{model['id']}"
    one = client.post(f"{here}/score", json={"dataset": whole, "where": where}).json()
    two = client.post(f"{here}/score", json={"dataset": other}).json()
    assert one["metrics"] == two["metrics"]
    row = {"rows": [{"b": 0.3, "kind": "z"}]}

    def mean(of):
        return client.post(f"/v1/models/{of['id']}/posterior", json=row).json()["distributions"][0]["mean"]

    changed = []
    for place in (f"{here}/forget", f"/v1/models/{small['id']}/update"):
        by_where, by_table = (client.post(place, json=body, headers={"Prefer": "wait=60"})
                              for body in ({"dataset": whole, "where": where}, {"dataset": other}))  # fmt: skip
        assert (by_where.status_code, by_where.json()["state"]) == (201, "ready"), by_where.text
        assert by_where.json()["artifact"]["sha256"] == by_table.json()["artifact"]["sha256"]
        changed.append(by_where.json())
    assert [m["rows"] for m in changed] == [len(rest), 200]
    assert [m["selection"] for m in changed] == [None, None]
    assert mean(changed[0]) == pytest.approx(mean(small), rel=1e-9)
    assert mean(changed[1]) == pytest.approx(mean(model), rel=1e-9)
    for place in (f"{here}/score", f"{here}/forget", f"{here}/update"):
        none = [{"column": "b", "op": ">", "value": 99}]
        assert refused(client, place, dataset=whole, where=none)[:2] == (422, [("/where", "no_rows")])
        wrong = [{"column": "b", "op": ">", "value": "99"}]
        assert refused(client, place, dataset=whole, where=wrong)[:2] == (422, [("/where/0/value", "wrong_type")])
    both = {"rows": [{"b": 0.3, "kind": "z", "y": 1.0}], "where": where}
    assert refused(client, f"{here}/forget", **both)[:2] == (422, [("/where", "not_expected")])


@pytest.mark.parametrize("estimator", [LEAST_SQUARES, spec("ridge_regression", alpha=3.0)])
def test_one_fit_scores_like_fits_without_each_row(client, monkeypatch, estimator):
    table = mixed(40)
    lone = pa.array(["only", *table["kind"].to_pylist()[1:]])
    table = table.set_column(table.column_names.index("kind"), "kind", lone)
    asked = {"estimator": estimator, "dataset": upload(client, table), "target": "y", "weights": "w",
             "features": ["b", "kind", "flag"], "validation": {"method": "leave_one_out"}}  # fmt: skip
    told = fit(client, **asked)["metrics"]["validation"]
    monkeypatch.setattr("service.usecases.partition.in_one_fit", lambda *_: False)
    monkeypatch.setattr("service.usecases.validation.in_one_fit", lambda *_: False)
    assert told == pytest.approx(fit(client, **asked)["metrics"]["validation"], rel=1e-9)


def test_rows_beyond_the_limit_of_fits_are_left_out_in_one_fit_or_refused(client):
    asked = {"dataset": upload(client, mixed(3000)), "target": "y", "features": ["b", "kind"],
             "validation": {"method": "leave_one_out"}}  # fmt: skip
    told = fit(client, estimator=LEAST_SQUARES, **asked)["metrics"]
    assert told["validation"]["rows"] == 3000
    assert 1 < told["validation"]["mean_squared_error"] / told["train"]["mean_squared_error"] < 1.01
    for more in ({"estimator": spec("bayesian_linear_regression")},
                 {"estimator": LEAST_SQUARES, "encoding": {"scale": "standard"}}):  # fmt: skip
        assert refused(client, **asked | more)[:2] == (422, [("/validation", "too_many_fits")])


def test_repetitions_and_table_order_are_taken_as_asked(client, penguins):
    asked = {"estimator": LOGISTIC, "dataset": penguins, "target": "species", "features": MEASURES,
             "encoding": {"missing": "drop_rows"}}  # fmt: skip
    once = fit(client, validation={"method": "k_fold", "k": 3}, **asked)["metrics"]["validation"]
    thrice = fit(client, validation={"method": "k_fold", "k": 3, "repeats": 3}, **asked)["metrics"]["validation"]
    assert len(thrice["folds"]) == 9
    assert thrice["folds"][:3] == once["folds"]
    assert thrice["rows"] == 3 * 342
    in_order = {"method": "holdout", "shuffle": False, "stratify": False, "fraction": 0.1}
    status, issues, _ = refused(client, validation=in_order | {"repeats": 2}, **asked)
    assert (status, issues[0][0]) == (422, "/validation/repeats")
    last = fit(client, validation=in_order, **asked)["metrics"]["validation"]
    assert (last["rows"], last["accuracy"] < 1) == (34, True)


NO_VALIDATIONS = [
    ({"validation": {"method": "nope"}}, "/validation/method", "unknown_method"),
    ({"validation": {"method": "k_fold", "fraction": 0.5}}, "/validation/fraction", "extra_forbidden"),
    ({"validation": {"method": "split_column", "column": "nope", "validation": ["x"]}}, "/validation/column",
     "unknown_column"),
    ({"validation": {"method": "split_column", "column": "y", "validation": [1]}}, "/validation/column", "target_leak"),
    ({"validation": {"method": "split_column", "column": "split", "validation": [1]}}, "/validation/validation/0",
     "wrong_type"),
    ({"validation": {"method": "split_column", "column": "split", "validation": ["val", "tset"]}},
     "/validation/validation/1", "no_rows"),
    ({"validation": {"method": "split_column", "column": "split", "validation": ["val", "test", "train"]}},
     "/validation/validation", "no_rows"),
    ({"validation": {"method": "split_column", "column": "a", "validation": [0.5]}}, "/validation/validation/0",
     "no_rows"),
    ({"validation": {"method": "split_column", "column": "split", "validation": ["val"]}, "groups": "shop"},
     "/validation", "too_few_rows"),
    ({"validation": {"method": "k_fold", "column": "fold", "repeats": 2}}, "/validation/repeats", "contradiction"),
    ({"validation": {"method": "k_fold", "column": "a"}}, "/validation/column", "missing_values"),
    ({"validation": {"method": "k_fold", "column": "fold"}, "rows": {"where": [
        {"column": "fold", "op": "==", "value": 1}]}}, "/validation/column", "too_few_rows"),
    ({"validation": {"method": "k_fold", "k": 500, "repeats": 3}}, "/validation", "too_many_fits"),
]  # fmt: skip


def test_validations_that_cannot_be_made_are_pointed_at(client):
    asked = {"estimator": LEAST_SQUARES, "dataset": upload(client, mixed()), "target": "y", "features": ["b"]}
    for more, place, code in NO_VALIDATIONS:
        status, issues, _ = refused(client, **asked | more)
        assert (status, issues[0]) == (422, (place, code))


@pytest.mark.parametrize(("name", "missing"), [("numbers", "mean"), ("gaps", "median"), ("big", "drop_rows"),
                                               ("times", "drop_rows"), ("text", "indicator")])  # fmt: skip
def test_choices_in_chunks_are_those_of_memory(client, monkeypatch, name, missing):
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 2048)
    estimator = spec("bayesian_linear_regression", noise_variance=1.0)
    asked = {"estimator": estimator, "dataset": upload(client, mixed(3000)), "target": "y",
             "features": ["a", "b", "kind", "flag"], "encoding": {"missing": missing, "scale": "standard"},
             "rows": {"where": WHERES[name][0], "sample": 300}, "weights": "w",
             "validation": {"method": "split_column", "column": "split", "validation": ["test"]}}  # fmt: skip
    whole = fit(client, **asked)
    monkeypatch.setattr("service.usecases.out_of_core.memory_of", lambda *_: 1 << 60)
    parts = fit(client, **asked)
    assert "fitted_in_chunks" in {w["code"] for w in parts["warnings"]}
    for field in ("rows", "rows_dropped", "selection", "features"):
        assert parts[field] == whole[field], field
    for part in ("train", "validation"):
        figures = {k: v for k, v in whole["metrics"][part].items() if k != "folds"}
        assert {k: parts["metrics"][part][k] for k in figures} == pytest.approx(figures, rel=1e-9)
    row = {"rows": [{"a": 0.3, "b": -1.0, "kind": "z", "flag": True}]}
    means = [client.post(f"/v1/models/{m['id']}/posterior", json=row).json()["distributions"][0]["mean"]
             for m in (whole, parts)]  # fmt: skip
    assert means[0] == pytest.approx(means[1], rel=1e-9)


def test_chunks_without_a_chosen_row_are_passed_over(client, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 1024)
    monkeypatch.setattr("service.usecases.out_of_core.memory_of", lambda *_: 1 << 60)
    table = mixed(600).append_column("n", pa.array(range(600)))
    data, where = upload(client, table), [{"column": "n", "op": "between", "value": [300, 420]}]
    for estimator, target in ((LEAST_SQUARES, "y"), (LOGISTIC, "kind"), (spec("k_means", n_clusters=2), None),
                              (spec("principal_component_analysis"), None),
                              (QUADRATIC, "kind")):  # fmt: skip
        model = fit(client, estimator=estimator, dataset=data, target=target, features=["b", "fold"],
                    rows={"where": where})  # fmt: skip
        assert model["rows"] == 121, estimator


def test_the_document_describes_conditions_and_its_examples_select(client, penguins):
    document = client.get("/openapi.json").json()
    parts = document["components"]["schemas"]
    for name in ("Comparison", "Membership", "Between", "Emptiness", "And", "Or", "Not", "RowChoice", "SplitColumn"):
        assert parts[name]["description"], name
        assert all(p.get("description") for p in parts[name]["properties"].values()), name
    example = parts["RowChoice"]["example"]
    asked = {"estimator": spec("standard_scaler"), "dataset": penguins, "features": ["year"]}
    assert fit(client, rows=example, **asked)["rows"] == example["sample"]
    assert any(path == "/v1/models" for path, _, _ in operations(document))


def test_penguins_are_chosen_as_a_reader_of_the_file_would(client, penguins):
    where = [{"column": "sex", "op": "==", "value": "female"}, {"column": "island", "op": "!=", "value": "Dream"}]
    text = client.get(f"/v1/datasets/{penguins}/content", headers={"Accept": "text/csv"}).text
    rows = [r for r in csv.DictReader(io.StringIO(text)) if r["sex"] == "female" and r["island"] != "Dream"]
    model = fit(client, estimator=spec("standard_scaler"), dataset=penguins, features=["year"], rows={"where": where})
    assert model["rows"] == len(rows)
