"""Policies of single columns, whitening, dates: against linear algebra, pandas, and models of earlier versions."""

from __future__ import annotations

import io
import pickle
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import inv, sqrtm

from ml_core.bundle import load_bundle, load_with_extra, save_bundle
from ml_core.errors import InvalidData
from ml_core.preprocessing.moments import DAY, moment_columns, moment_names
from ml_core.preprocessing.policies import Encoding
from ml_core.preprocessing.records import encode
from ml_core.preprocessing.table import Column, TableEncoder, TabularModel
from ml_core.preprocessing.table_fit import MAX_LEVELS, MAX_ORDINALS, fit_encoder
from service.adapters.artifacts import AllowList

DATA = Path(__file__).parent / "data"
NAN = np.nan


def number(*values: float) -> Column:
    return Column("number", np.array(values, dtype=float))


def category(*values: str | None) -> Column:
    return Column("category", np.array(values, dtype=object))


def moments(kind: Any, *values: float) -> Column:
    return Column(kind, np.array(values, dtype=float))


def numbers(X: np.ndarray) -> dict[str, Column]:
    return {f"x{j}": number(*X[:, j]) for j in range(X.shape[1])}


def codes(error: pytest.ExceptionInfo[InvalidData]) -> list[tuple[str, str]]:
    return [(i.pointer, i.code) for i in error.value.issues]


def correlated(seed: int = 0, n: int = 60, d: int = 4) -> np.ndarray:
    r = np.random.default_rng(seed)
    return np.asarray((r.normal(size=(n, d)) @ r.normal(size=(d, d)) + 5) * 10.0 ** np.arange(d))


def test_whitening_is_the_inverse_root_of_the_correlations() -> None:
    X = correlated()
    Z, _ = fit_encoder(numbers(X), Encoding(scale="whiten")).matrix(numbers(X))
    root = np.real(inv(sqrtm(np.corrcoef(X.T))))
    np.testing.assert_allclose(Z, (X - X.mean(axis=0)) / X.std(axis=0) @ root, atol=1e-9)
    np.testing.assert_allclose(np.cov(Z.T, ddof=0), np.eye(4), atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(-8, 8), st.floats(-1e6, 1e6))
def test_whitening_knows_no_unit_and_can_be_undone(seed: int, d: int, power: float, offset: float) -> None:
    X = np.random.default_rng(seed).normal(size=(40, d)) @ np.random.default_rng(seed + 1).normal(size=(d, d))
    moved = X * 10.0**power + offset * 10.0**power
    kinds = Encoding(scale="whiten")
    Z, W = (fit_encoder(numbers(A), kinds).matrix(numbers(A))[0] for A in (X, moved))
    loose = 1e-13 * (1 + abs(offset)) * np.linalg.cond(np.corrcoef(X.T).reshape(d, d))
    np.testing.assert_allclose(Z, W, atol=1e-9 + 100 * loose)
    np.testing.assert_allclose(fit_encoder(numbers(X), kinds).unscaled(Z), X, atol=1e-9 * np.abs(X).max())


def test_dependent_columns_are_whitened_to_a_projector_and_come_back() -> None:
    r = np.random.default_rng(1)
    table = {"k": category(*r.choice(list("uvw"), 50)), "a": number(*r.normal(size=50)), "c": number(*[7.0] * 50)}
    encoder = fit_encoder(table, Encoding(scale="whiten"))
    bare, _ = fit_encoder(table, Encoding()).matrix(table)
    Z, _ = encoder.matrix(table)
    assert encoder.whitening is not None
    assert encoder.whitening.rank == 3  # three indicators sum to 1, and the constant has no direction
    C = np.cov(Z.T, ddof=0)
    np.testing.assert_allclose(C @ C, C, atol=1e-12)
    assert np.trace(C) == pytest.approx(3)
    np.testing.assert_allclose(encoder.unscaled(Z), bare, atol=1e-12)


def test_blocks_of_rows_whiten_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X = correlated(n=200, d=5) + 1e6
    whole = fit_encoder(numbers(X), Encoding(scale="whiten")).matrix(numbers(X))[0]
    monkeypatch.setattr("ml_core.preprocessing.table_fit.BLOCK_ROWS", 7)
    again = fit_encoder(numbers(X), Encoding(scale="whiten")).matrix(numbers(X))[0]
    np.testing.assert_allclose(again, whole, atol=1e-8)


def test_fewer_rows_than_columns_whiten_to_the_directions_there_are() -> None:
    X = correlated(n=4, d=6)
    encoder = fit_encoder(numbers(X), Encoding(scale="whiten"))
    assert encoder.whitening is not None
    assert encoder.whitening.rank == 3
    Z, _ = encoder.matrix(numbers(X))
    assert np.isfinite(Z).all()
    np.testing.assert_allclose(encoder.unscaled(Z), X, rtol=1e-9)


def test_scales_of_single_columns_stand_beside_whitened_ones() -> None:
    X = correlated(d=4)
    own = {"x0": {"scale": "none"}, "x1": {"scale": "min_max"}}
    encoder = fit_encoder(numbers(X), Encoding(scale="whiten", columns=own))
    Z, _ = encoder.matrix(numbers(X))
    np.testing.assert_array_equal(Z[:, 0], X[:, 0])
    assert (Z[:, 1].min(), Z[:, 1].max()) == (0.0, 1.0)
    np.testing.assert_allclose(Z[:, 2:], fit_encoder(numbers(X[:, 2:]), Encoding(scale="whiten"))
                               .matrix(numbers(X[:, 2:]))[0], atol=1e-12)  # fmt: skip
    np.testing.assert_allclose(encoder.unscaled(Z), X, rtol=1e-10)
    rows = [dict(zip(encoder.inputs, row, strict=True)) for row in X.tolist()]
    np.testing.assert_array_equal(encode(encoder, rows)[0], Z)


def test_a_huge_column_that_is_not_scaled_hinders_nobody() -> None:
    table = {"big": number(1.7e308, -1.7e308, 0), "a": number(1, 2, 3)}
    encoder = fit_encoder(table, Encoding(scale="standard", columns={"big": {"scale": "none"}}))
    assert encoder.matrix(table)[0][:, 0].tolist() == [1.7e308, -1.7e308, 0]


def stamps(kind: str, when: list[datetime]) -> np.ndarray:
    micros = np.array(when, dtype="datetime64[us]").astype(np.int64)
    return np.asarray(np.floor(micros / 8.64e10) if kind == "date" else micros / 1e6)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.datetimes(datetime(1678, 1, 1), datetime(2261, 12, 31)), min_size=1, max_size=9),
       st.sampled_from(["date", "datetime"]))  # fmt: skip
def test_calendar_parts_and_cycles_are_those_of_pandas(when: list[datetime], kind: str) -> None:
    values = stamps(kind, when)
    t = pd.DatetimeIndex(when)
    if kind == "date":
        t = t.normalize()
    hour = t.hour + t.minute / 60 + (t.second + t.microsecond / 1e6) / 3600
    parts = [t.year, t.month, t.day, t.day_of_week, *([hour] if kind == "datetime" else [])]
    found = moment_columns(values, kind, ["parts", "epoch"])
    np.testing.assert_allclose(found, np.column_stack([*parts, values]), atol=1e-7)
    turns = [(t.day_of_year - 1) / (365 + t.is_leap_year), t.day_of_week / 7, hour / 24]
    turns = turns[: 3 if kind == "datetime" else 2]
    want = [f(2 * np.pi * np.asarray(a)) for a in turns for f in (np.sin, np.cos)]
    np.testing.assert_allclose(moment_columns(values, kind, ["cyclic"]), np.column_stack(want), atol=1e-7)
    for forms in (["parts", "epoch"], ["cyclic"]):
        assert len(moment_names("t", kind, forms)) == moment_columns(values, kind, forms).shape[1]


def test_dates_become_named_columns_by_table_and_by_record() -> None:
    table = {"d": moments("date", 0, 365, NAN), "t": moments("datetime", 0, 90_000, 3 * DAY)}
    policies = Encoding(missing="most_frequent", date=("parts",), columns={"t": {"date": ("epoch", "cyclic")}})
    encoder = fit_encoder(table, policies)
    assert encoder.names == [
        "d: year", "d: month", "d: day", "d: weekday", "t", "t: sin(day of year)", "t: cos(day of year)",
        "t: sin(weekday)", "t: cos(weekday)", "t: sin(hour)", "t: cos(hour)",
    ]  # fmt: skip
    X, _ = encoder.matrix(table)
    assert X[:, :5].tolist() == [[1970, 1, 1, 3, 0], [1971, 1, 1, 4, 90_000], [1970, 1, 1, 3, 3 * DAY]]
    row = {"d": "1971-01-01", "t": "1970-01-02T01:00:00Z"}
    np.testing.assert_array_equal(encode(encoder, [row])[0][0], X[1])
    with pytest.raises(InvalidData) as e:
        encode(encoder, [row, row | {"t": 1e300}])
    assert codes(e) == [("/rows/1/t", "out_of_range")]


def test_a_general_form_of_dates_leaves_numbers_alone() -> None:
    table = {"n": number(1, 2), "b": Column("boolean", np.array([0.0, 1.0])), "d": moments("date", 0, 1)}
    encoder = fit_encoder(table, Encoding(date=("parts",)))
    assert encoder.names == ["n", "b", "d: year", "d: month", "d: day", "d: weekday"]
    assert encoder.matrix(table)[0][:, :2].tolist() == [[1, 0], [2, 1]]


def test_each_column_has_its_own_way_with_empty_cells() -> None:
    table = {"a": number(1, NAN, 3, 8), "b": number(1, 2, NAN, 4), "k": category("u", "v", "v", None)}
    own = {"b": {"missing": "drop_rows"}, "k": {"missing": "indicator", "categorical": "ordinal"}}
    encoder = fit_encoder(table, Encoding(missing="median", columns=own))
    X, keep = encoder.matrix(table)
    assert keep.tolist() == [True, True, False, True]
    assert encoder.names == ["a", "b", "k", "k is missing"]
    assert X.tolist() == [[1, 1, 0, 0], [3, 2, 1, 0], [8, 4, 1, 1]]
    with pytest.raises(InvalidData) as e:
        fit_encoder(table, Encoding(missing="mean", columns={"a": {"missing": "error"}}))
    assert codes(e) == [("/features/a", "missing_values")]


def test_an_indicator_is_learned_from_gaps_or_there_is_none() -> None:
    table = {"a": number(1, NAN, 3), "b": number(1, 2, 3)}
    encoder = fit_encoder(table, Encoding(missing="indicator"))
    with pytest.raises(InvalidData, match="no indicator for it") as e:
        encode(encoder, [{"a": None, "b": 1.0}, {"a": 1.0, "b": None}])
    assert codes(e) == [("/rows/1/b", "null_not_allowed")]
    held_out = fit_encoder(table, Encoding(missing="indicator").held_out())
    assert encode(held_out, [{"a": 1.0, "b": None}])[0].tolist() == [[1, 0, 2]]


def test_levels_nobody_has_seen_are_treated_column_by_column() -> None:
    table = {"k": category("u", "v", "w"), "o": category("p", "q", "r"), "s": category("x", "y", "z")}
    own = {"s": {"unknown_level": "error"}, "o": {"categorical": "ordinal"}}
    strict = Encoding(unknown_level="ignore", columns=own)
    encoder = fit_encoder(table, strict)
    new = {"k": category("new"), "o": category("new"), "s": category("y")}
    assert encoder.matrix(new)[0].tolist() == [[0, 0, 0, -1, 0, 1, 0]]
    with pytest.raises(InvalidData) as e:
        encoder.matrix({**new, "s": category("new")})
    assert codes(e) == [("/rows/0/s", "unknown_level")]
    held_out = fit_encoder(table, strict.held_out())
    assert held_out.matrix({**new, "s": category("new")})[0].tolist() == [[0, 0, 0, -1, 0, 0, 0]]


def test_a_reference_has_no_column_of_its_own() -> None:
    table = {"k": category("u", "w", "v"), "two": category("a", "b", "b"), "one": category("c", "c", "c")}
    encoder = fit_encoder(table, Encoding(categorical="reference", unknown_level="ignore"))
    assert encoder.names == ["k=v", "k=w", "two=b", "one"]
    assert encoder.matrix(table)[0].tolist() == [[0, 0, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0]]
    new = {"k": category("new"), "two": category("new"), "one": category("new")}
    assert encoder.matrix(new)[0].tolist()[0][:3] == [0, 0, 0]
    by_record = [{"k": "v", "two": "a", "one": "c"}, {"k": "new", "two": "b", "one": "c"}]
    assert encode(encoder, by_record)[0].tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]
    with pytest.raises(InvalidData, match="1001 distinct values in reference encoding"):
        fit_encoder({"k": category(*[f"v{i}" for i in range(MAX_LEVELS + 1)])}, Encoding(categorical="reference"))


def test_many_levels_are_refused_with_their_number_and_taken_as_ordinals() -> None:
    table = {"k": category(*[f"v{i:04d}" for i in range(MAX_LEVELS + 1)])}
    with pytest.raises(InvalidData, match=r"1001 distinct .*/encoding/columns/k/categorical = ord"):
        fit_encoder(table, Encoding())
    encoder = fit_encoder(table, Encoding(columns={"k": {"categorical": "ordinal"}}))
    assert encoder.matrix({"k": category("v0007", "v1000")})[0].ravel().tolist() == [7, 1000]
    with pytest.raises(InvalidData, match=f"more than {MAX_ORDINALS}"):
        fit_encoder({"k": category(*map(str, range(MAX_ORDINALS + 1)))}, Encoding(categorical="ordinal"))


def test_no_more_columns_are_whitened_than_can_be() -> None:
    wide = {f"k{i}": category(*[f"v{j}" for j in range(900)]) for i in range(3)}
    with pytest.raises(InvalidData, match="2700 matrix columns would be whitened") as e:
        fit_encoder(wide, Encoding(scale="whiten"))
    assert codes(e) == [("/encoding/scale", "too_many_columns")]


def test_models_of_earlier_versions_are_read_and_answer_as_they_did() -> None:
    portable, extra = load_with_extra(DATA / "encoding_0001.bundle.zip")
    path = DATA / "encoding_0001.joblib"
    with path.open("rb") as file:
        stored = AllowList(str(path), file, ensure_native_byte_order=True).load()
    for model in (portable, stored):
        X, _ = encode(model.encoder, extra["rows"])
        np.testing.assert_allclose(X, extra["matrix"], rtol=1e-15)
        assert model.encoder.names == extra["columns"]
        assert not model.encoder.plain
        again = pickle.loads(pickle.dumps(model.encoder))
        np.testing.assert_array_equal(encode(again, extra["rows"])[0], X)
    old_ordinal = TableEncoder(tuple(type(f)(f.name, f.type, f.levels) for f in portable.encoder.features if f.levels),
                               "error", "ignore", np.zeros(2), np.ones(2))  # fmt: skip
    assert encode(old_ordinal, [{"c": "new", "two": "yes"}])[0].tolist() == [[0, 1]]


def test_what_is_new_is_stored_with_the_model() -> None:
    table = {**numbers(correlated(n=6, d=2)), "d": moments("date", 1, 2, NAN, 3, 9, 10),
             "k": category("u", "v", "w", "u", "u", "v")}  # fmt: skip
    own = {"d": {"missing": "median", "date": ("parts", "cyclic"), "scale": "none"}}
    encoder = fit_encoder(table, Encoding(scale="whiten", unknown_level="ignore", columns=own))
    X, _ = encoder.matrix(table)
    buffer = io.BytesIO()
    save_bundle(TabularModel(encoder, None, None), buffer)
    for again in (pickle.loads(pickle.dumps(encoder)), load_bundle(buffer).encoder):
        np.testing.assert_array_equal(again.matrix(table)[0], X)
        np.testing.assert_array_equal(again.unscaled(X), encoder.unscaled(X))
        assert again.names == encoder.names
