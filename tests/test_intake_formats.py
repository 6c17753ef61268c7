"""Formats of the intake: compression, JSON, Parquet, Arrow, what is not read, options."""

import codecs
import gzip
import io
import json
import math
import struct
import zipfile
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from service.errors import TooLarge
from service.intake.canonical import content_hash
from tests.intake import codes, refusal, take


@pytest.mark.parametrize(
    "content", [b"", b"\n \n", codecs.BOM_UTF8, gzip.compress(b"", mtime=0), b"a,b\n", b"a,b", b"[]", b'{"a": []}']
)
def test_files_without_rows(content):
    assert refusal(content).issues[0].code in {"empty_file", "no_rows"}


@pytest.mark.parametrize(
    "content",
    [
        b"%PDF-1.7",
        bytes(range(256)) * 8, b"\xd0\xcf\x11\xe0abc", b"<!doctype html><p>",
    ],
)  # fmt: skip
def test_formats_that_are_not_read_are_named(content):
    error = refusal(content)
    assert error.issues[0].code == "unread_format"
    assert "parquet" in error.detail


def zipped(**members):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return sink.getvalue()


def test_compression():
    text = b"a,b\n1,x\n2,y\n"
    packed = {"gzip": gzip.compress(text), "zstd": zstandard.compress(text), "zip": zipped(t_csv=text)}
    for name, content in packed.items():
        got = take(content)
        assert got.source["compression"] == name
        assert got.table.to_pydict() == {"a": [1, 2], "b": ["x", "y"]}
    assert refusal(zipped(a_csv=text, b_csv=text)).issues[0].code == "zip_members"
    assert refusal(gzip.compress(gzip.compress(text))).issues[0].code == "nested_archive"
    workbook = io.BytesIO()
    with zipfile.ZipFile(workbook, "w") as archive:
        archive.writestr("[Content_Types].xml", "<x/>")
    assert "Office document" in refusal(workbook.getvalue()).detail


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, lambda b: zipped(t_csv=b)])
def test_damaged_and_explosive_archives(pack):
    content = pack(b"a,b\n" + bytes(str(list(range(9999))), "ascii"))
    assert refusal(content[: len(content) // 2]).issues[0].code == "damaged_archive"
    with pytest.raises(TooLarge):
        take(pack(b"0" * (5 << 20)), cap=1 << 20)


def test_ratio_guard():
    with pytest.raises(TooLarge, match="bomb"):
        take(zstandard.compress(b"0" * (110 << 20)), cap=1 << 40)


def test_plain_file_over_the_cap():
    with pytest.raises(TooLarge):
        take("a\n1\n", cap=3)


def test_json_shapes_agree():
    rows = [{"a": 1, "b": "x", "c": 1.5}, {"a": None, "b": "007", "c": 2}]
    shapes = [
        json.dumps(rows), json.dumps(rows, indent=2), "\n".join(map(json.dumps, rows)),
        json.dumps({key: [row[key] for row in rows] for key in "abc"}),
    ]  # fmt: skip
    hashes = set()
    for text in shapes:
        got = take(text)
        assert got.table.to_pydict() == {"a": [1, None], "b": ["x", "007"], "c": [1.5, 2.0]}
        assert got.types == ("integer", "category", "number")
        hashes.add(content_hash(got.table))
    assert len(hashes) == 1


def test_long_arrays_are_read_in_pieces():
    rows = [{"i": i, "s": "x" * (i % 97) + '"]},{[\\\n', "f": i / 7} for i in range(40_000)]
    for text in (json.dumps(rows), json.dumps(rows, indent=1)):
        assert len(text) > 3 << 20
        assert take(text).table.to_pylist() == rows
    with pytest.raises(TooLarge):
        take('[{"a": "' + "x" * (40 << 20))
    with pytest.raises(TooLarge):
        take('{"a": 1}\n{"a": "' + "x" * (17 << 20))


def test_json_values():
    got = take('{"n": 9007199254740993, "s": "12", "d": "2007-11-11"}\n{"n": 1, "s": "13", "late": true}\n')
    assert got.table.to_pydict() == {
        "n": [9007199254740993, 1], "s": ["12", "13"], "d": [date(2007, 11, 11), None], "late": [None, True],
    }  # fmt: skip
    mixed = take('{"x": 1, "y": "a"}\n{"x": "NA", "y": 2}\n')
    assert mixed.table.to_pydict() == {"x": [1, None], "y": ["a", "2"]}
    assert "mixed_column" in codes(mixed)


@pytest.mark.parametrize(
    "line", ['{"a": [1]}', '{"a": NaN}', '{"a": 1e999}', '{"a": 1, "a": 2}', '{"a": 1', "5", '{"a": "\\ud800"}']
)
def test_bad_records(line):
    error = refusal('{"a": 1}\n' + line + "\n", format="ndjson")
    assert error.issues[0].pointer == "/file/line/2"
    assert take('{"a": 1}\n' + line + "\n", format="ndjson", on_error="skip").table.num_rows == 1


@pytest.mark.parametrize(
    "text", ['[{"a": 1}', '[{"a": 1} {"a": 2}]', '[{"a": 1}] x', '{"a": [1], "b": [1, 2]}', "[[1, 2]]", '[{"a":1},]']
)
def test_bad_json(text):
    assert refusal(text).issues


def parquet(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def test_parquet_types_become_canonical():
    table = pa.table({
        "i8": pa.array([1, None], pa.int8()), "u64": pa.array([1, 2**63], pa.uint64()),
        "f32": pa.array([0.5, math.nan], pa.float32()),
        "dec": pa.array(["0.10", "12345678.90"]).cast(pa.decimal128(12, 2)),
        "long": pa.array(["0.1234567890123456789", "1"]).cast(pa.decimal128(30, 19)),
        "dict": pa.array(["a", "b"]).dictionary_encode(), "ls": pa.array(["x", "y"], pa.large_string()),
        "ns": pa.array([1_000, 2_001], pa.timestamp("ns", "Europe/Berlin")), "d": pa.array([0, 1], pa.date32()),
        "nothing": pa.array([None, None], pa.string()), "bytes": pa.array([b"p", b"q"]),
    })  # fmt: skip
    got = take(parquet(table))
    assert got.types == (
        "integer", "category", "number", "number", "number", "category", "category", "datetime", "date",
        "number", "category",
    )  # fmt: skip
    assert got.table.column("u64").to_pylist() == ["1", "9223372036854775808"]
    assert got.table.column("f32").to_pylist() == [0.5, None]
    assert got.table.column("dec").to_pylist() == [0.1, 12345678.9]
    assert got.table.column("long").to_pylist() == [0.1234567890123456789, 1.0]
    inexact = [note["column"] for note in got.warnings if note["code"] == "inexact_decimals"]
    assert inexact == ["long"]
    assert {"rounded_times", "huge_integers"} <= codes(got)


def test_parquet_and_arrow_refusals():
    nested = refusal(parquet(pa.table({"x": [[1], [2]]})))
    assert nested.issues[0].code == "unread_type"
    whole = parquet(pa.table({"x": list(range(1000))}))
    assert refusal(whole[:-20]).issues[0].code == "damaged_file"
    with pytest.raises(TooLarge):
        take(parquet(pa.table({"x": np.zeros(200_000)})), cap=100_000)
    with pytest.raises(TooLarge):
        take(parquet(pa.table({"x": ["long text" * 100] * 20_000})), cap=1_000_000)
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, pa.schema([("s", pa.string())])) as writer:
        writer.write_batch(pa.record_batch({"s": ["abc", "def"]}))
    evil = sink.getvalue().replace(struct.pack("<3i", 0, 3, 6), struct.pack("<3i", 0, 3, 2**30))
    assert refusal(evil).issues[0].code == "damaged_file"


@pytest.mark.parametrize("maker", [pa.ipc.new_file, pa.ipc.new_stream])
def test_arrow_file_and_stream(maker):
    table = pa.table({"x": [1, 2, 3], "s": ["a", "b", None]})
    sink = io.BytesIO()
    with maker(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    got = take(sink.getvalue())
    assert got.table.equals(table)
    assert got.source["format"] == "arrow"


@pytest.mark.parametrize(
    "options",
    [{"delimiter": "ab"}, {"delimiter": '"'}, {"decimal": "x"}, {"decimal": ",", "delimiter": ","},
     {"encoding": "nope"},
     {"encoding": "base64"}, {"on_error": "what"}, {"format": "xlsx"}, {"types": {"a": "float"}}],
)  # fmt: skip
def test_options_are_checked(options):
    assert refusal("a\n1\n", **options).issues


def test_many_columns():
    names = [f"c{i}" for i in range(5000)]
    got = take(",".join(names) + "\n" + ",".join("1" * 5000) + "\n")
    assert got.table.num_columns == 5000
    with pytest.raises(TooLarge):
        take(",".join("x" * 20_001) + "\n" + ",".join("1" * 20_001) + "\n")


def test_large_text_goes_through_files_with_the_same_result():
    rows = 400_000
    text = "i,x,s\n" + "".join(f"{i},{i / 7!r},{'long text ' * 18}{i % 5}\n" for i in range(rows))
    got = take(text)
    assert len(text) > 64 << 20
    assert got.types == ("integer", "number", "category")
    assert got.table.column("x").to_pylist() == [i / 7 for i in range(rows)]
    assert got.table.column("i").to_pylist() == list(range(rows))
