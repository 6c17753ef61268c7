"""Encoding of typed columns and of JSON records, against pandas and scikit-learn; both ways give the same."""

from __future__ import annotations

import io
import pickle
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from ml_core.bundle import load_bundle, save_bundle
from ml_core.errors import InvalidData
from ml_core.preprocessing.policies import Encoding
from ml_core.preprocessing.records import encode
from ml_core.preprocessing.standard_scaler import StandardScaler as Scaler
from ml_core.preprocessing.table import Column, TableEncoder, TabularModel
from ml_core.preprocessing.table_fit import MAX_LEVELS, fit_encoder

NAN = np.nan


def number(*values: float) -> Column:
    return Column("number", np.array(values, dtype=float))


def category(*values: str | None) -> Column:
    return Column("category", np.array(values, dtype=object))


def typed(kind: Any, *values: float) -> Column:
    return Column(kind, np.array(values, dtype=float))


def codes(error: pytest.ExceptionInfo[InvalidData]) -> list[tuple[str, str]]:
    return [(i.pointer, i.code) for i in error.value.issues]


def test_indicators_equal_those_of_pandas() -> None:
    values = ["b", "a", "c", "a"]
    encoder = fit_encoder({"x": category(*values), "n": number(1, 2, 3, 4)}, Encoding())
    X, keep = encoder.matrix({"x": category(*values), "n": number(1, 2, 3, 4)})
    np.testing.assert_array_equal(X[:, :3], pd.get_dummies(values).to_numpy(float))
    np.testing.assert_array_equal(X[:, 3], [1, 2, 3, 4])
    assert encoder.names == ["x=a", "x=b", "x=c", "n"]
    assert keep.all()


def test_two_levels_are_one_column_and_one_level_says_nothing() -> None:
    two = fit_encoder({"x": category("no", "yes", "no")}, Encoding())
    assert two.names == ["x=yes"]
    assert two.matrix({"x": category("yes", "no")})[0].ravel().tolist() == [1, 0]
    one = fit_encoder({"x": category("a", "a")}, Encoding())
    assert one.matrix({"x": category("a", "a")})[0].ravel().tolist() == [0, 0]


def test_ordinals_follow_the_order_of_the_levels() -> None:
    encoder = fit_encoder({"x": category("b", "a", "c")}, Encoding(categorical="ordinal"))
    assert encoder.matrix({"x": category("c", "a", "b")})[0].ravel().tolist() == [2, 0, 1]


@pytest.mark.parametrize(("policy", "fill"), [("mean", 4.0), ("median", 2.0), ("most_frequent", 2.0)])
def test_numeric_gaps_are_filled_from_the_training_rows(policy: Any, fill: float) -> None:
    encoder = fit_encoder({"a": number(2, NAN, 2, 8)}, Encoding(missing=policy))
    assert encoder.matrix({"a": number(NAN, 100)})[0].ravel().tolist() == [fill, 100]
    assert encode(encoder, [{"a": None}])[0].tolist() == [[fill]]


def test_categorical_gaps_take_the_commonest_level_the_first_of_equals() -> None:
    encoder = fit_encoder({"x": category("b", None, "b", "c", "c", "a")}, Encoding(missing="most_frequent"))
    assert encoder.matrix({"x": category(None)})[0].tolist() == [[0, 1, 0]]


def test_an_indicator_marks_what_was_filled() -> None:
    table = {"a": number(1, NAN, 3), "b": number(1, 2, 3)}
    encoder = fit_encoder(table, Encoding(missing="indicator"))
    assert encoder.names == ["a", "a is missing", "b"]
    assert encoder.matrix(table)[0].tolist() == [[1, 0, 1], [2, 1, 2], [3, 0, 3]]


def test_rows_with_gaps_leave_even_where_the_columns_pass_as_they_are() -> None:
    table = {"a": number(1, NAN, 3), "b": number(1, 2, 3)}
    encoder = fit_encoder(table, Encoding(missing="drop_rows"))
    assert encoder.plain
    X, keep = encoder.matrix(table)
    assert keep.tolist() == [True, False, True]
    assert X.tolist() == [[1, 1], [3, 3]]


def test_gaps_are_an_error_unless_a_policy_is_chosen() -> None:
    with pytest.raises(InvalidData, match="drop_rows, mean") as e:
        fit_encoder({"a": number(1, NAN), "x": category(None, "u")}, Encoding())
    assert codes(e) == [("/features/a", "missing_values"), ("/features/x", "missing_values")]


def test_gaps_that_training_did_not_have_are_an_error_later() -> None:
    encoder = fit_encoder({"a": number(1, 2)}, Encoding())
    with pytest.raises(InvalidData, match="'a' is empty here") as e:
        encoder.matrix({"a": number(1, NAN)})
    assert codes(e) == [("/rows/1/a", "null_not_allowed")]


def test_nothing_left_is_said_so() -> None:
    with pytest.raises(InvalidData, match="no row is complete"):
        fit_encoder({"a": number(1, NAN), "b": number(NAN, 2)}, Encoding(missing="drop_rows", scale="standard"))
    with pytest.raises(InvalidData, match="no value at all"):
        fit_encoder({"a": number(NAN, NAN)}, Encoding(missing="mean"))


@pytest.mark.parametrize(("kind", "peer"), [("standard", StandardScaler()), ("min_max", MinMaxScaler())])
def test_scales_equal_the_peer(kind: Any, peer: Any) -> None:
    X = np.random.default_rng(0).normal(5, 3, size=(50, 2))
    table = {"a": number(*X[:, 0]), "b": number(*X[:, 1])}
    ours = fit_encoder(table, Encoding(scale=kind)).matrix(table)[0]
    np.testing.assert_allclose(ours, peer.fit_transform(X), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", ["standard", "min_max"])
@pytest.mark.parametrize(
    "values", [[1e-200, 3e-200], [1e300, -1e300], [1e9 + 0.1, 1e9 + 0.3], [5e-324, 0.0], [0.1] * 3]
)
def test_scales_hold_in_every_unit(kind: Any, values: list[float]) -> None:
    table = {"a": number(*values)}
    X = fit_encoder(table, Encoding(scale=kind)).matrix(table)[0]
    assert np.isfinite(X).all()
    assert np.abs(X).max() <= 1 + 1e-6
    assert (X == 0).all() == (len(set(values)) == 1)


@pytest.mark.parametrize("kind", ["standard", "min_max"])
def test_numbers_too_large_to_scale_are_refused(kind: Any) -> None:
    with pytest.raises(InvalidData, match="column 'a' exceeds 1e"):
        fit_encoder({"a": number(1.7e308, -1.7e308)}, Encoding(scale=kind))


def test_means_of_huge_numbers_do_not_overflow() -> None:
    encoder = fit_encoder({"a": number(1.5e308, 1.5e308, NAN)}, Encoding(missing="mean"))
    assert encoder.features[0].fill == pytest.approx(1.5e308)


def test_unknown_levels_are_named_or_ignored_as_asked() -> None:
    strict = fit_encoder({"x": category("a", "b", "c")}, Encoding())
    with pytest.raises(InvalidData, match="'z' was never seen") as e:
        strict.matrix({"x": category("a", "z")})
    assert codes(e) == [("/rows/1/x", "unknown_level")]
    lax = fit_encoder({"x": category("a", "b", "c")}, Encoding(unknown_level="ignore"))
    assert lax.matrix({"x": category("z", "b")})[0].tolist() == [[0, 0, 0], [0, 1, 0]]


def test_refusals_name_the_column() -> None:
    with pytest.raises(InvalidData, match="categorical is 'error'"):
        fit_encoder({"x": category("a", "b")}, Encoding(categorical="error"))
    many = [f"v{i}" for i in range(MAX_LEVELS + 1)]
    with pytest.raises(InvalidData, match=f"{MAX_LEVELS + 1} distinct values"):
        fit_encoder({"x": category(*many)}, Encoding())
    with pytest.raises(InvalidData, match=r"columns \['b'\] are missing"):
        fit_encoder({"a": number(1), "b": number(2)}, Encoding()).matrix({"a": number(1)})
    with pytest.raises(InvalidData, match="expected number, got category"):
        fit_encoder({"a": number(1, 2)}, Encoding()).matrix({"a": category("1", "2")})


def mixed() -> TableEncoder:
    return fit_encoder({
        "n": number(1, 2, 3), "i": typed("integer", 1, 2, 3), "b": typed("boolean", 0, 1, 1),
        "c": category("u", "v", "w"), "d": typed("date", 0, 1, 2), "t": typed("datetime", 0, 1, 2),
    }, Encoding())  # fmt: skip


RECORD = {"n": 1.5, "i": 2, "b": True, "c": "v", "d": "1970-01-03", "t": "1970-01-01T00:01:00Z"}


def test_a_record_equals_its_row_of_a_table() -> None:
    X, extra = encode(mixed(), [{**RECORD, "more": 1}])
    assert X.tolist() == [[1.5, 2, 1, 0, 1, 0, 2, 60]]
    assert extra == ["more"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53),
                          st.sampled_from("uvw")), min_size=3, max_size=9), st.randoms())  # fmt: skip
def test_records_in_any_order_of_keys_give_the_table(cells: list[tuple[float, int, str]], shuffle: Any) -> None:
    a, i, c = zip(*cells, strict=True)
    for extra in ({}, {"c": category(*c)}):
        table = {"a": number(*a), "i": typed("integer", *i), **extra}
        encoder = fit_encoder(table, Encoding())
        rows = []
        for row in cells:
            keys = list(zip(("a", "i", "c")[: 2 + len(extra)], row, strict=False))
            shuffle.shuffle(keys)
            rows.append(dict(keys))
        np.testing.assert_array_equal(encode(encoder, rows)[0], encoder.matrix(table)[0])


@pytest.mark.parametrize(("key", "value", "code"), [
    ("n", "1.5", "wrong_type"), ("n", True, "wrong_type"), ("n", None, "null_not_allowed"), ("n", NAN, "not_finite"),
    ("n", 10**400, "not_finite"), ("n", [1], "wrong_type"), ("i", 1.5, "wrong_type"), ("i", False, "wrong_type"),
    ("b", 1, "wrong_type"), ("b", "true", "wrong_type"), ("c", 3, "wrong_type"), ("c", "z", "unknown_level"),
    ("c", None, "null_not_allowed"), ("d", "NaT", "wrong_type"), ("d", "today", "wrong_type"),
    ("t", "now", "wrong_type"), ("t", "", "wrong_type"), ("d", "2024-02-30", "wrong_type"), ("t", True, "wrong_type"),
])  # fmt: skip
def test_cells_of_the_wrong_kind_are_pointed_at(key: str, value: Any, code: str) -> None:
    with pytest.raises(InvalidData) as e:
        encode(mixed(), [RECORD, {**RECORD, key: value}])
    assert codes(e) == [(f"/rows/1/{key}", code)]


@pytest.mark.parametrize("value", [True, "1", None, NAN, 10**400, float("inf"), 1.5])
def test_the_short_way_is_as_strict(value: Any) -> None:
    encoder = fit_encoder({"a": typed("integer", 1, 2)}, Encoding())
    assert encoder.plain
    assert encode(encoder, [{"a": 2.0}])[0].tolist() == [[2]]
    with pytest.raises(InvalidData) as e:
        encode(encoder, [{"a": 1}, {"a": value}])
    assert e.value.issues[0].pointer == "/rows/1/a"


def test_missing_keys_and_no_rows() -> None:
    encoder = fit_encoder({"a": number(1, 2), "b": number(1, 2)}, Encoding())
    with pytest.raises(InvalidData) as e:
        encode(encoder, [{"a": 1, "c": 2}])
    assert codes(e) == [("/rows/0/b", "missing_column")]
    assert encode(encoder, [])[0].shape == (0, 2)


@settings(max_examples=60, deadline=None)
@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.integers(-14, 14))
def test_moments_equal_those_of_the_calendar(moment: datetime, hours: int) -> None:
    encoder = fit_encoder({"d": typed("date", 0, 1), "t": typed("datetime", 0, 1)}, Encoding())
    offset = f"{'+' if hours >= 0 else '-'}{abs(hours):02d}:00"
    row = {"d": moment.date().isoformat(), "t": moment.isoformat() + offset}
    (days, seconds), _ = encode(encoder, [row])[0][0], None
    assert days == (moment.date() - date(1970, 1, 1)).days
    micros = (np.datetime64(moment, "us") - np.datetime64("1970-01-01", "us")).astype(int) - hours * 3_600_000_000
    assert seconds == pytest.approx(micros / 1e6, abs=1e-4)


def test_no_more_than_twenty_cells_are_listed() -> None:
    encoder = fit_encoder({"a": number(1, 2)}, Encoding())
    with pytest.raises(InvalidData) as e:
        encode(encoder, [{"a": "x"}] * 50)
    assert len(e.value.issues) == 20


def test_the_encoding_is_stored_with_the_model() -> None:
    table = {"c": category("u", "v", "w", "u"), "n": number(1, NAN, 3, 9)}
    encoder = fit_encoder(table, Encoding(missing="indicator", scale="standard"))
    X, _ = encoder.matrix(table)
    model = TabularModel(encoder, Scaler().fit(X), None)
    buffer = io.BytesIO()
    save_bundle(model, buffer)
    for again in (pickle.loads(pickle.dumps(model)), load_bundle(buffer)):
        np.testing.assert_array_equal(again.encoder.matrix(table)[0], X)
        assert again.encoder.names == encoder.names
