"""Rows as JSON values and as columns of a table become the same matrix, bit for bit, and the same refusals."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_core.errors import InvalidData
from ml_core.preprocessing.records import encode
from ml_core.preprocessing.table import Feature, TableEncoder
from service.intake import regular
from service.intake.findings import ReadOptions
from service.intake.frames import Frame, open_frame
from service.usecases.conform import columns_of, words_in

LEVELS = ("01", "1", "NA", "a,b", 'q"', "ä", "x y", "true")
FEATURES = (
    Feature("n", "number", fill=0.5, indicator=True), Feature("i", "integer", fill=2.0),
    Feature("b", "boolean", fill=0.0), Feature("k", "category", LEVELS, True, "01", True),
    Feature("d", "date", fill=1.0), Feature("t", "datetime", fill=1.0),
)  # fmt: skip
WIDTH = sum(len(f.names) for f in FEATURES)
ENCODER = TableEncoder(FEATURES, "mean", "error", np.full(WIDTH, 0.1), np.full(WIDTH, 3.0))
TYPES = {"n": pa.float64(), "i": pa.int64(), "b": pa.bool_(), "k": pa.string(), "d": pa.date32(),
         "t": pa.timestamp("us", "UTC")}  # fmt: skip
CELLS = {
    "n": st.floats(allow_nan=False, allow_infinity=False), "i": st.integers(-(2**63), 2**63 - 1), "b": st.booleans(),
    "k": st.sampled_from(LEVELS), "d": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "t": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
}  # fmt: skip
ROW = st.fixed_dictionaries({name: st.none() | cells for name, cells in CELLS.items()})


def table_of(rows):
    return pa.table({name: pa.array([r[name] for r in rows], kind) for name, kind in TYPES.items()})


def json_of(rows):
    text = [{k: v.isoformat() if hasattr(v, "isoformat") else v for k, v in r.items()} for r in rows]
    return json.loads(json.dumps(text))


def frames(table, folder):
    """The table as cells that were read back from each format."""
    arrow, parquet, text = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(arrow, table.schema) as writer:
        writer.write_table(table)
    pq.write_table(table, parquet)
    times = [None if v is None else v.isoformat() for v in table["t"].to_pylist()]
    pacsv.write_csv(table.set_column(table.column_names.index("t"), "t", pa.array(times, pa.string())), text)
    for form, sink in (("arrow", arrow), ("parquet", parquet), ("csv", text)):
        frame = Frame(form, sink.getvalue(), ReadOptions())
        yield form, open_frame(frame, list(TYPES), words_in(FEATURES), 1000, folder)


@given(st.lists(ROW, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_every_format_gives_the_bits_of_json(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("frames")
    want, _ = encode(ENCODER, json_of(rows))
    got, _ = ENCODER.matrix(columns_of(FEATURES, table_of(rows)))
    assert got.tobytes() == want.tobytes()
    for form, cells in frames(table_of(rows), folder):
        got, _ = ENCODER.matrix(columns_of(FEATURES, cells.table, cells.rules))
        assert got.tobytes() == want.tobytes(), form


@given(st.lists(ROW, min_size=1, max_size=4), st.sampled_from(list(TYPES)), st.sampled_from(list(TYPES)))
@settings(max_examples=60, deadline=None)
def test_a_column_of_another_type_is_never_taken_for_one(rows, wanted, given_as):
    """What JSON refuses a table refuses: only whole decimals are integers, integers numbers, dates times and back."""
    kin = {("n", "i"), ("i", "n"), ("d", "t"), ("t", "d")}
    cells = [r[given_as] for r in rows]
    feature = [f for f in FEATURES if f.name == wanted]
    table = pa.table({wanted: pa.array(cells, TYPES[given_as])})
    if wanted == given_as or all(c is None for c in cells):
        assert columns_of(feature, table)
        return
    if (wanted, given_as) in kin:
        whole = [c for c in cells if c is not None and not _fits(wanted, c)]
        if not whole:
            assert columns_of(feature, table)
            return
    with pytest.raises(InvalidData) as refused:
        columns_of(feature, table)
    assert {i.code for i in refused.value.issues} == {"wrong_type"}


def _fits(wanted, cell):
    if wanted == "i":
        return float(cell).is_integer()
    return wanted != "d" or cell.time() == datetime.min.time()


def test_issues_count_from_the_first_row_of_a_piece():
    table = pa.table({"i": [1.0, 2.5, 3.0], "k": ["01", "zz", None]})
    with pytest.raises(InvalidData) as refused:
        columns_of([FEATURES[1]], table, first=40)
    assert [i.pointer for i in refused.value.issues] == ["/rows/41/i"]
    encoder = TableEncoder((Feature("k", "category", LEVELS, True),), "error", "error", np.zeros(8), np.ones(8))
    with pytest.raises(InvalidData) as refused:
        encoder.matrix(columns_of(encoder.features, table), 40)
    assert [(i.pointer, i.code) for i in refused.value.issues] == [
        ("/rows/41/k", "unknown_level"), ("/rows/42/k", "null_not_allowed")]  # fmt: skip


def test_words_for_an_empty_cell_are_levels_only_where_the_feature_has_them(tmp_path):
    two = (Feature("a", "category", ("NA", "x")), Feature("b", "category", ("x", "y")))
    frame = Frame("csv", b'a,b\nNA,NA\n"",y\n x, y\n')
    cells = open_frame(frame, ["a", "b"], words_in(two), 10, tmp_path)
    read = columns_of(two, cells.table, cells.rules)
    assert read["a"].values.tolist() == ["NA", None, " x"]
    assert read["b"].values.tolist() == [None, "y", " y"]


def test_long_text_is_read_as_short_text_is(tmp_path, monkeypatch):
    """A feature's type alone says what a cell is, in bodies of the size that compiled loops read as numbers too."""
    body = b"n,i,b,k\n" + b"1.50,2,1,1.50\n-3,9007199254740993,0,2.5\n0.1,-7,1,1.50\n" * 20
    features = (*FEATURES[:3], Feature("k", "category", ("1.50", "2.5"), True))
    found = []
    for least in (len(body) + 1, 0):
        monkeypatch.setattr(regular, "LEAST_BYTES", least)
        cells = open_frame(Frame("csv", body), list("nibk"), words_in(features), 1000, tmp_path)
        columns = columns_of(features, cells.table, cells.rules)
        found.append({name: column.values.tolist() for name, column in columns.items()})
    assert found[0] == found[1]
    assert {name: values[:3] for name, values in found[0].items()} == {
        "n": [1.5, -3.0, 0.1], "i": [2.0, 9007199254740992.0, -7.0], "b": [1.0, 0.0, 1.0], "k": ["1.50", "2.5", "1.50"],
    }  # fmt: skip


def test_long_words_in_a_dictionary_are_not_written_out():
    """A dictionary of one long word for many rows would need 4 GB as text."""
    word = "w" * 40_000
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), pa.array([word]))
    found = columns_of([Feature("k", "category", (word,))], pa.table({"k": column}))["k"].values
    assert found[0] is found[-1]
