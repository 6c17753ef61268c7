"""Regular text is read by compiled loops; what comes out is what Arrow's reader and the inference from text give."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from service.errors import Invalid
from service.intake import kernels, profile, regular, words
from service.intake.arrival import Arrival
from service.intake.findings import ReadOptions
from service.intake.sniff import dialect
from tests.intake import take

MESSY = (
    "", "NA", "nan", "null", "?", "-", "na", "0", "-0", "-0.0", "007", "-01", "0x1F", "+1", "1.", ".5", "1e5", "1E-3",
    "1e400", "1e-400", "5e-324", "2.2250738585072014e-308", "inf", "-Infinity", "9007199254740993",
    "-9007199254740992", "9223372036854775807", "9223372036854775808", "99999999999999999999", "0.1234567890123456789",
    "1,5", "1.5.2", "1.234", " 1", "1 ", " ", "true", "False", "2024-01-01", "a", "é", '"', 'x"y', '"1"', '"2.5"',
    '""', '"NA"', '"a,b"', '"l\nm"', '"l\r\nm"', '"q""r"', '"1"2', "#", "1e", "1e+", "--1", "1-2", "\x00",
    "12345678901234.25", "$3", "50%",
)  # fmt: skip
NUMBERS = (
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(lambda x: repr(round(x, 4))),
    st.integers(-(10**18), 10**18).map(str),
    st.integers(-99, 99).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.integers(1000, 999_999).map(lambda n: f"{n / 1000:.3f}"),
)


@st.composite
def texts(draw):
    """Delimited text of some columns of numbers, which a few other cells may disturb."""
    width, rows = draw(st.integers(2, 4)), draw(st.integers(1, 40))
    feed, mark = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"])), draw(st.sampled_from([",", ",", ";", "\t", "|"]))
    kinds = [draw(st.sampled_from(NUMBERS)) for _ in range(width)]
    cells = [[draw(kind) for kind in kinds] for _ in range(rows)]
    if mark != "," and draw(st.booleans()):
        cells = [[cell.replace(".", ",") for cell in row] for row in cells]
    for _ in range(draw(st.integers(0, 3))):
        cells[draw(st.integers(0, rows - 1))][draw(st.integers(0, width - 1))] = draw(st.sampled_from(MESSY))
    if draw(st.booleans()):
        at = draw(st.integers(0, width - 1))
        for row in cells:
            row[at] = draw(st.sampled_from([*MESSY[:4], f'"{row[at]}"', row[at], "x"]))
    lines = [mark.join(row) for row in cells]
    for _ in range(draw(st.integers(0, 1))):
        lines.insert(
            draw(st.integers(0, len(lines))), draw(st.sampled_from(["", " ", "# note", "1", mark, "1,2,3,4,5"]))
        )
    head = [mark.join(f"c{i}" for i in range(width))] if draw(st.booleans()) else []
    return draw(st.sampled_from(["", "\ufeff"])) + feed.join(head + lines) + draw(st.sampled_from(["", feed, feed * 2]))


def outcome(raw, options, monkeypatch, least, block=1 << 22):
    """What a reading comes to: values bit for bit, types, source, warnings; or the refusal."""
    monkeypatch.setattr(regular, "LEAST_BYTES", least)
    monkeypatch.setattr(regular, "BLOCK", block)
    try:
        got = take(raw, **options)
    except Invalid as refusal:
        return str(refusal), refusal.issues
    columns = [
        [struct.pack("<d", v) if isinstance(v, float) else v for v in column.to_pylist()]
        for column in got.table.columns
    ]
    return got.table.schema.types, got.table.column_names, columns, got.types, got.source, got.warnings


@given(texts(), st.sampled_from([{}, {"on_error": "skip"}, {"null_values": ("", "-99", "0")}, {"decimal": ","},
                                 {"decimal": "."}]),
       st.sampled_from([7, 64, 1 << 22]))  # fmt: skip
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example("a,b\n1,2\n3,x\n", {}, 7)
@example("a,b\n1,2.5\n3,12345678901234567\n", {}, 1 << 22)
@example('a"b,c\n1,2\n3,"4\n5"\n', {}, 1 << 22)
@example("a;b\n1,234;2\n3,456;4\n", {}, 1 << 22)
@example("a;b\n1,234;2\n3,4567;4\n", {}, 7)
@example("a;b\n1.234;2.5\n3.456;4\n", {}, 1 << 22)
@example('a,b\n"1,5",2\n3,4\n', {"decimal": ","}, 1 << 22)
@example("a,b\n1,2\n3,4\n", {"decimal": ","}, 1 << 22)
@example('a; "b"\n1.234; "2"\n3.456; "4"\n', {}, 1 << 22)
def test_what_the_loops_read_is_what_the_text_says(monkeypatch, text, options, block):
    raw = text.encode()
    assert outcome(raw, options, monkeypatch, 0, block) == outcome(raw, options, monkeypatch, math.inf)


def test_plain_columns_are_numbers_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(regular, "LEAST_BYTES", 0)
    monkeypatch.setattr(regular, "BLOCK", 64)
    rows = [(str(i), f"{i / 7!r}", f't"{i}', "" if i % 3 else str(i), "x" if i == 90 else str(i)) for i in range(100)]
    path = tmp_path / "t.csv"
    path.write_text("a,b,c,d,e\n" + "\n".join(",".join((a, b, '"' + c.replace('"', '""') + '"', d, e))
                                               for a, b, c, d, e in rows))  # fmt: skip
    how = dialect(path.read_text(), True, ReadOptions())
    table = regular.read_regular(Arrival.of(path), how, ReadOptions(), tmp_path).table
    assert [str(kind) for kind in table.schema.types] == ["int64", "double", "string", "int64", "string"]
    assert table.column(1).to_pylist() == [i / 7 for i in range(100)]
    assert table.column(2).to_pylist() == [f't"{i}' for i in range(100)]
    assert table.column(3).to_pylist() == [None if i % 3 else i for i in range(100)]


@settings(deadline=None)
@given(st.integers(1, 10**18), st.integers(-345, 312))
@example(2**53 + 1, 0)
@example(9007199254740993, 5)
@example(29654569364583475, -1)
@example(24703282292062327, -340)
@example(17976931348623158, 292)
@example(22250738585072011, -324)
def test_the_nearest_double(mantissa, power):
    bits, wanted = int(kernels.nearest(mantissa, power)), float(f"{mantissa}e{power}")
    if wanted == 0.0 or math.isinf(wanted):
        assert bits == -1
    elif bits != -1 or -342 <= power <= 308:
        assert struct.pack("<q", bits) == struct.pack("<d", wanted)


@pytest.mark.parametrize(("mark", "cells", "kinds"), [
    (",", ["1,5", "2,25"], ["double", "int64"]),
    (",", ["1,500", "2,250"], ["string", "int64"]),
    (",", ["1.5", "2,25"], ["string", "int64"]),
    (".", ["1.5", "2.25"], ["double", "int64"]),
    (".", ["1.500", "2.250"], ["string", "int64"]),
    (".", ["1.500", "0.250"], ["double", "int64"]),
])  # fmt: skip
def test_decimals_between_semicolons_are_numbers_at_once_unless_their_mark_may_part_thousands(
    monkeypatch, tmp_path, mark, cells, kinds
):
    monkeypatch.setattr(regular, "LEAST_BYTES", 0)
    cells, path = 2 * cells, tmp_path / "t.csv"
    path.write_text("a;b\n" + "".join(f"{cell};{i}\n" for i, cell in enumerate(cells)))
    how = replace(dialect(path.read_text(), True, ReadOptions()), decimal=mark)
    table = regular.read_regular(Arrival.of(path), how, ReadOptions(), tmp_path, doubtful=True).table
    assert [str(kind) for kind in table.schema.types] == kinds
    if kinds[0] == "double":
        assert table.column(0).to_pylist() == [float(cell.replace(",", ".")) for cell in cells]


@pytest.mark.parametrize("different", [1, 70_000, 50])
def test_texts_are_counted_exactly(different, tmp_path, monkeypatch):
    monkeypatch.setattr(words, "IN_MEMORY", 1)
    texts = pa.array([None if i % 11 == 0 else f"é{i % different}" for i in range(80_000)])[3:]
    wanted = len(set(texts.to_pylist()) - {None})
    assert words.count_distinct(texts) == words.count_distinct(texts, tmp_path) == wanted
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [*range(20), 100])
def test_texts_that_differ_in_one_byte_are_two(size):
    base = [bytearray(b"a" * size) for _ in range(size + 1)]
    for i in range(size):
        base[i][i] = 98
    texts = [bytes(text).decode() for text in base] + ["a" * longer for longer in range(size + 9)]
    many = pa.array(texts * (words.FEW // len(texts) + 1))
    assert words.count_distinct(many) == len(set(texts))


def test_words_that_are_there_are_found():
    many = ["abc", "", "NAN", "n"] * 20_000
    assert words.none_of(pa.array(many), ["NA", "N"])
    assert words.none_of(pa.array([*many, None]), ["NA"])
    assert words.none_of(pa.array([cell or None for cell in many]), ["", "NA"])
    for extra in ("NA", " NA ", "NA\u00a0"):
        assert not words.none_of(pa.array([*many, extra]), ["NA", "zz"])
    assert not words.none_of(pa.array(many), ["", "NA"])


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False), st.sampled_from([0.0, -0.0, 1.0])), max_size=40))
def test_a_profile_from_a_file_is_the_same(values):
    array = pa.chunked_array([pa.array(values, pa.float64())])
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        wanted = profile.column_profile("x", array, "number")
        patch.setattr(profile, "IN_MEMORY_ROWS", 0)
        assert profile.column_profile("x", array, "number", Path(folder)) == wanted
        patch.setattr(profile, "STEP", 7)
        again = profile.column_profile("x", array, "number", Path(folder))
    assert again == wanted | {key: again.get(key) for key in ("mean", "standard_deviation") if key in wanted}
    if wanted["mean"] is not None:
        scale = max(abs(wanted["min"]), abs(wanted["max"]))
        assert math.isclose(again["mean"], wanted["mean"], rel_tol=1e-12, abs_tol=1e-15 * scale)
