"""Profile against numpy, content hash, and properties that hold for any table and any bytes."""

import csv
import io
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from service.errors import Invalid
from service.intake.canonical import content_hash
from service.intake.profile import column_profile, profile
from service.usecases.export import json_rows, stream
from tests.intake import refusal, take


def test_profile_against_numpy():
    values = np.random.default_rng(1).normal(size=5001)
    record = column_profile("x", pa.chunked_array([values, [None]], pa.float64()), "number")
    assert record["missing"] == 1
    assert record["distinct"] == np.unique(values).size
    assert (record["min"], record["max"]) == (values.min(), values.max())
    np.testing.assert_allclose(
        [record["mean"], record["standard_deviation"]], [values.mean(), values.std(ddof=1)], rtol=1e-13
    )
    wanted = np.quantile(values, [q["probability"] for q in record["quantiles"]])
    np.testing.assert_allclose([q["value"] for q in record["quantiles"]], wanted, rtol=1e-13)
    counts, _ = np.histogram(values, record["histogram"]["edges"])
    assert record["histogram"]["counts"] == counts.tolist()


@pytest.mark.parametrize(
    "values", [[1.7e308, -1.7e308], [math.inf, 1.0], [], [None], [5e-324, 1e-323], [2.0], [2**63 - 1, -(2**63)]]
)
def test_profile_is_json(values):
    kind = "integer" if values and isinstance(values[0], int) else "number"
    array = pa.chunked_array([pa.array(values, pa.int64() if kind == "integer" else pa.float64())])
    assert json.loads(json.dumps(column_profile("x", array, kind), allow_nan=False))["type"] == kind


def test_profile_of_levels_and_times():
    table = pa.table({"c": ["b", "a", "b", None], "d": pa.array([0, 1, None, 1], pa.date32()),
                      "t": pa.array([0, 1_500_000, None, 0], pa.timestamp("us", "UTC"))})  # fmt: skip
    c, d, t = profile(table, ("category", "date", "datetime"))
    assert c["levels"] == [{"value": "b", "count": 2}, {"value": "a", "count": 1}]
    assert (d["min"], d["max"], d["distinct"]) == ("1970-01-01", "1970-01-02", 2)
    assert (t["min"], t["max"]) == ("1970-01-01T00:00:00Z", "1970-01-01T00:00:01.500000Z")


def test_hash_ignores_layout_and_sees_values():
    table = pa.table({"x": [1.0, -0.0, None], "s": ["a", "", None], "b": [True, None, False]})
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert content_hash(table) == content_hash(chunked)
    same = table.set_column(0, "x", pa.array([1.0, 0.0, None]))
    assert content_hash(table) == content_hash(same)
    others = [
        table.rename_columns(["y", "s", "b"]), table.slice(0, 2), table.select(["s", "x", "b"]),
        table.set_column(1, "s", pa.array(["a", None, ""])), table.set_column(1, "s", pa.array(["", "a", None])),
        table.set_column(0, "x", pa.array([1, 0, None])),
    ]  # fmt: skip
    assert len({content_hash(other) for other in [table, *others]}) == 7


def test_json_rows():
    table = pa.table({"i": [2**60], "x": [math.inf], "t": pa.array([0], pa.timestamp("us", "UTC"))})
    assert json_rows(table) == [{"i": 2**60, "x": None, "t": "1970-01-01T00:00:00Z"}]
    assert json_rows(table, {"i"})[0]["i"] == str(2**60)


NAMES = st.lists(st.text("abcdefgh_é", min_size=1, max_size=6), min_size=1, max_size=5, unique=True)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=8).map(lambda s: "x" + s)
COLUMNS = {
    "number": (st.floats(allow_nan=False, allow_infinity=False), pa.float64()),
    "integer": (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "boolean": (st.booleans(), pa.bool_()),
    "text": (WORDS, pa.string()),
    "date": (st.dates(), pa.date32()),
    "datetime": (st.datetimes(), pa.timestamp("us")),
}


@st.composite
def tables(draw):
    names, rows = draw(NAMES), draw(st.integers(1, 12))
    columns, types = [], []
    for _ in names:
        kind = draw(st.sampled_from(sorted(COLUMNS)))
        values, arrow = COLUMNS[kind]
        cells = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        cells[draw(st.integers(0, rows - 1))] = draw(values)
        columns.append(pa.array(cells, arrow))
        types.append(kind)
    return pa.table(columns, names=names), types


@settings(max_examples=150, deadline=None)
@given(tables())
def test_every_format_gives_the_same_table(drawn):
    table, types = drawn
    for form in ("csv", "parquet", "arrow", "ndjson"):
        got = take(
            b"".join(stream(table, form)),
            header=True if form == "csv" else None,
            delimiter="," if form == "csv" else None,
        )
        assert [("text" if t == "category" else t) for t in got.types] == types
        assert got.table.to_pylist() == table.to_pylist()
        assert content_hash(got.table) == content_hash(table)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(WORDS, min_size=2, max_size=4), min_size=2, max_size=6), st.sampled_from(",;|\t"))
def test_parser_agrees_with_the_csv_module(rows, mark):
    sink = io.StringIO()
    csv.writer(sink, delimiter=mark, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    width = len(rows[0])
    assume(all(len(row) <= width for row in rows))
    good = [row for row in rows[1:] if len(row) == width]
    if len(good) < len(rows) - 1:
        error = refusal(sink.getvalue(), header=True, delimiter=mark)
        lines = [f"/file/line/{i}" for i, row in enumerate(rows, 1) if len(row) != width]
        assert [issue.pointer for issue in error.issues] == lines
    else:
        got = take(sink.getvalue(), header=True, delimiter=mark)
        assert [tuple(row.values()) for row in got.table.to_pylist()] == [tuple(row) for row in good]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text('ab,;"\n 0.1-?{}[]:\t', max_size=120).map(str.encode))
def test_any_bytes_are_read_or_refused(content):
    try:
        got = take(content)
    except Invalid as refused:
        got = refused
    if isinstance(got, Invalid):
        assert got.detail
    else:
        assert got.table.num_rows > 0
        assert len(got.types) == got.table.num_columns
