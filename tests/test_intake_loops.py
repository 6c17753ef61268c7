"""The compiled loops of the intake against plain Python, byte by byte; the stored files against the table."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.intake.canonical import BLOCK, content_hash
from service.intake.digits import equals, few_digits, many_digits
from service.intake.kernels import TEXT, scan
from service.intake.places import LANES, census, texts_at
from service.usecases.tablefiles import write_parquet


def frozen(raw: bytes) -> np.ndarray:
    return np.frombuffer(raw, np.uint8)


@given(st.text("0123456789", max_size=18), st.integers(0, 255), st.binary(max_size=12))
@settings(deadline=None)
def test_digits_end_where_the_first_other_byte_stands(run, stop, rest):
    raw = run.encode() + bytes([stop if not 48 <= stop <= 57 else 10]) + rest
    wanted = len(run) + 1, int("7" + run)
    data = frozen(b"x" + raw)
    assert many_digits(data, 1, 7) == few_digits(data, 1, 7) == wanted


@pytest.mark.parametrize("byte", range(256))
def test_every_byte_behind_digits(byte):
    wanted = (3, 123) if not 48 <= byte <= 57 else (4, 1230 + byte - 48)
    assert many_digits(frozen(b"123" + bytes([byte]) + b"\n" * 8), 0, 0) == wanted


@pytest.mark.parametrize("size", [0, 1, LANES - 1, LANES, LANES + 1, 5 * LANES + 77])
def test_bytes_are_counted(size):
    raw = np.random.default_rng(size).choice([10, 34, 0, 127, 128, 255, 65], size).astype(np.uint8).tobytes()
    assert census(frozen(raw)) == (raw.count(b"\n"), raw.count(b'"'), sum(b > 127 or b == 0 for b in raw))
    assert census(frozen(b"\n" * size)) == (size, 0, 0)


def reference(table: pa.Table) -> str:
    """The hash as its documentation says it, value by value."""
    kinds = [[n, str(t).removeprefix("large_")] for n, t in zip(table.column_names, table.schema.types, strict=True)]
    digest = hashlib.sha256(json.dumps(["table-1", table.num_rows, kinds]).encode())
    for column in table.columns:
        kind, cells = column.type, column.to_pylist()
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            cells = column.cast(pa.int32() if pa.types.is_date(kind) else pa.int64()).to_pylist()
        for start in range(0, table.num_rows, BLOCK):
            block = cells[start : start + BLOCK]
            digest.update(np.packbits([cell is not None for cell in block]).tobytes())
            if pa.types.is_boolean(kind):
                digest.update(np.packbits([bool(cell) for cell in block]).tobytes())
            elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
                texts = [(cell or "").encode() for cell in block]
                digest.update(b"".join(struct.pack("<q", len(text)) for text in texts) + b"".join(texts))
            else:
                form = "<d" if pa.types.is_floating(kind) else "<q"
                digest.update(b"".join(struct.pack(form, (cell or 0) + 0) for cell in block))
    return digest.hexdigest()


def every_type(rows: int, missing: float) -> pa.Table:
    r = np.random.default_rng(rows)
    gone = r.random(rows) < missing
    texts = np.array(["", "é", "abc", "x\n"])[r.integers(0, 4, rows)]
    doubles = np.where(r.random(rows) < 0.1, -0.0, r.normal(size=rows))
    return pa.table({
        "double": pa.array(doubles, mask=gone),
        "round": pa.array(np.full(rows, 0.25), mask=gone),
        "whole": pa.array(r.integers(-(2**62), 2**62, rows), mask=gone),
        "text": pa.array(texts, pa.string(), mask=gone),
        "long": pa.array(texts, pa.large_string(), mask=gone),
        "unique": pa.array([f"u{i}" for i in range(rows)], pa.string()),
        "flag": pa.array(r.random(rows) < 0.5, mask=gone),
        "day": pa.array(r.integers(0, 9999, rows).astype("int32"), pa.date32(), mask=gone),
        "time": pa.array(r.integers(0, 2**50, rows), pa.timestamp("us", "UTC"), mask=gone),
        "none": pa.nulls(rows, pa.float64()),
    })  # fmt: skip


@pytest.mark.parametrize("rows", [0, 1, 9, BLOCK + 3])
@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
def test_the_hash_is_that_of_its_documentation(rows, missing):
    table = every_type(rows, missing)
    wanted = reference(table)
    assert content_hash(table) == wanted
    assert content_hash(pa.concat_tables([table.slice(0, rows // 3), table.slice(rows // 3)])) == wanted


@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
def test_the_stored_file_has_the_table(tmp_path, missing):
    table = every_type(150_000, missing)
    write_parquet(table, tmp_path / "table.parquet")
    back = pq.read_table(tmp_path / "table.parquet")
    assert back.column_names == table.column_names
    assert all(a.combine_chunks().equals(b.combine_chunks()) for a, b in zip(back.columns, table.columns, strict=True))
    assert content_hash(back) == content_hash(table)


def test_doubles_that_repeat_are_stored_small(tmp_path):
    rows = 200_000
    write_parquet(pa.table({"x": np.arange(rows) % 7 / 4.0}), tmp_path / "small")
    write_parquet(pa.table({"x": np.random.default_rng(0).normal(size=rows)}), tmp_path / "random")
    assert (tmp_path / "small").stat().st_size < rows
    assert (tmp_path / "random").stat().st_size < 8.1 * rows


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_cells_of_any_length_are_those_of_pythons_reader(seed, quoting):
    r = np.random.default_rng(seed)
    marks = ["a", "é", ",", '"', "\n", "\r", "\x80", "#", "\x01", "\x8a", "￮"]
    table = [["".join(r.choice(marks, r.integers(1, 1 + 2**k))) for k in range(6)] for _ in range(30)]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=quoting, lineterminator="\r\n").writerows(table)
    data, rows, d = frozen(text.getvalue().encode()), 30, 6
    cells, kept = np.zeros((d, rows, 2), np.int32), np.zeros((d, rows), np.uint8)
    found = scan(
        data, np.full(d, TEXT, np.int8), np.arange(d, dtype=np.int32), ord(","), ord("."), frozen(b" "),
        np.zeros(0, np.int64), np.zeros((0, rows), np.int64), kept, cells, np.zeros(d, np.uint8),
    )  # fmt: skip
    assert found == (rows, data.size)
    columns = [texts_at(data, cells[j], kept[j]).to_pylist() for j in range(d)]
    assert [list(row) for row in zip(*columns, strict=True)] == table


def test_a_byte_is_found_among_eight_others():
    r = np.random.default_rng(0)
    for byte in range(256):
        near = [byte, byte ^ 1, byte ^ 128, (byte + 1) % 256, (byte - 1) % 256, 0, 255]
        raw = r.choice(near, (40, 8)).astype(np.uint8)
        for eight in raw:
            found = int(equals(eight.view(np.uint64)[0], byte))
            place = ((found & -found).bit_length() - 1) // 8 if found else -1
            assert place == eight.tobytes().find(bytes([byte]))
