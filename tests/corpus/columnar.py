"""Parquet, Arrow and Feather."""

from __future__ import annotations

import base64
import datetime as dt
import io
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from tests.corpus.case import Case, bad, good, huge

DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123_456)
UTC = dt.UTC


def cases() -> list[Case]:
    """Every type as Parquet and as Arrow, and damage to both."""
    return [*types(), *shapes(), *refused(), *damage(), *attacks()]


def parquet(table: pa.Table, **options: Any) -> bytes:
    """The table as a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def arrow(
    table: pa.Table, maker: Callable[..., Any] = pa.ipc.new_stream, rows: int | None = None, packing: str | None = None
) -> bytes:
    """The table as an Arrow stream or file."""
    sink = io.BytesIO()
    with maker(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=packing)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def both(name: str, column: pa.Array, want: list[Any], types: str, notes: str = "") -> list[Case]:
    """One column in both formats."""
    table = pa.table({"a": column})
    return [
        good(f"parquet/{name}", parquet(table), {"a": want}, types, notes),
        good(f"arrow/{name}", arrow(table), {"a": want}, types, notes),
    ]


def types() -> list[Case]:
    """Columns of each type that has values of ours."""
    money = pa.array([Decimal("0.10"), None, Decimal("12345678.90")])
    whole = pa.array([Decimal(2**53 + 1), None], pa.decimal128(20, 0))
    vast = pa.array([Decimal(10) ** 40, None], pa.decimal256(50, 0))
    fine = pa.array([Decimal("0.12345678901234567890"), None], pa.decimal256(60, 20))
    seconds = pa.array([NOON.replace(microsecond=0), None], pa.timestamp("s", "Europe/Berlin"))
    return [
        *both("int8", pa.array([1, None, -128], pa.int8()), [1, None, -128], "integer"),
        *both("uint64", pa.array([2**63 - 1, None], pa.uint64()), [2**63 - 1, None], "integer", "big_integers"),
        *both("uint64-beyond", pa.array([2**63, 1], pa.uint64()), [str(2**63), "1"], "category", "huge_integers"),
        *both("half", pa.array([np.float16(0.1), None]), [float(np.float16(0.1)), None], "number"),
        *both("float32", pa.array([0.1, float("nan"), None], pa.float32()), [float(np.float32(0.1)), None, None],
              "number"),
        *both("infinite", pa.array([float("inf"), 1.0]), [float("inf"), 1.0], "number", "infinite"),
        *both("boolean", pa.array([True, None, False]), [True, None, False], "boolean"),
        *both("decimal", money, [0.1, None, 12345678.9], "number"),
        *both("decimal-whole", whole, [2**53 + 1, None], "integer", "big_integers"),
        *both("decimal-vast", vast, [str(10**40), None], "category", "huge_integers"),
        *both("decimal-fine", fine, [0.12345678901234567890, None], "number", "inexact_decimals"),
        *both("date", pa.array([DAY, None]), [DAY, None], "date"),
        *both("micro", pa.array([NOON, None], pa.timestamp("us")), [NOON, None], "datetime"),
        *both("nano", pa.array([1_001, None, -1_999], pa.timestamp("ns")),
              [dt.datetime(1970, 1, 1, 0, 0, 0, 1), None, dt.datetime(1969, 12, 31, 23, 59, 59, 999_998)],
              "datetime", "rounded_times"),
        good("arrow/seconds-in-berlin", arrow(pa.table({"a": seconds})),
             {"a": [NOON.replace(microsecond=0, tzinfo=UTC), None]}, "datetime"),
        good("parquet/millis-in-berlin", parquet(pa.table({"a": seconds})),
             {"a": [NOON.replace(microsecond=0, tzinfo=UTC), None]}, "datetime"),
        *both("dictionary", pa.array(["b", None, "a"]).dictionary_encode(), ["b", None, "a"], "category"),
        *both("nothing", pa.array([None, None]), [None, None], "number", "empty_columns"),
        *both("text-of-nothing", pa.array([None, None], pa.string()), [None, None], "number", "empty_columns"),
        *both("text", pa.array(["NA", "", None, "007", "a\n\"b\""]), ["NA", "", None, "007", "a\n\"b\""], "category"),
        *both("binary", pa.array([b"p\xc3\xa4", None]), ["pä", None], "category"),
        *both("large", pa.array(["x", "y"], pa.large_string()), ["x", "y"], "category"),
        good("arrow/view", arrow(pa.table({"a": pa.array(["x", "y"], pa.string_view())})), {"a": ["x", "y"]}),
        good("arrow/number-dictionary", arrow(pa.table({"a": pa.array([7, None, 7]).dictionary_encode()})),
             {"a": [7, None, 7]}, "integer"),
        good("arrow/date64", arrow(pa.table({"a": pa.array([DAY, None], pa.date64())})), {"a": [DAY, None]}, "date"),
        good("arrow/runs", arrow(pa.table({"a": pa.RunEndEncodedArray.from_arrays([2, 3], [5, 6])})),
             {"a": [5, 5, 6]}, "integer"),
    ]  # fmt: skip


def shapes() -> list[Case]:
    """Names, nesting, batches and files of other makers."""
    table = pa.table({"a": [1, 2, 3], "s": ["x", "y", None]})
    want = {"a": [1, 2, 3], "s": ["x", "y", None]}
    struct_ = pa.array([{"x": 1, "y": {"z": "p"}}, None, {"x": 3, "y": None}])
    flat = {"a.x": [1, None, 3], "a.y.z": ["p", None, None], "b": [4, 5, 6]}
    dotted = pa.table({"a.b": [1, 2], "a": pa.array([{"c": 3}, {"c": 4}])})
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    v2 = io.BytesIO()
    feather.write_feather(table, v2, compression="lz4")
    return [
        *(good(f"arrow/{maker.__name__}-{packing}", arrow(table, maker, 2, packing), want)
          for maker in (pa.ipc.new_file, pa.ipc.new_stream) for packing in (None, "lz4", "zstd")),
        *(good(f"parquet/{packing}", parquet(table, compression=packing, row_group_size=2), want)
          for packing in ("none", "snappy", "gzip", "brotli", "lz4", "zstd")),
        good("parquet/plain", parquet(table, use_dictionary=False, data_page_version="2.0"), want),
        good("parquet/spark-times", parquet(pa.table({"a": pa.array([NOON], pa.timestamp("ns"))}),
             use_deprecated_int96_timestamps=True), {"a": [NOON]}, "datetime"),
        good("feather/v2", v2.getvalue(), want),
        *(good(f"{name}/struct", write(pa.table({"a": struct_, "b": [4, 5, 6]})), flat)
          for name, write in (("parquet", parquet), ("arrow", arrow))),
        *(good(f"{name}/dotted", write(dotted), {"a.b": [1, 2], "a.c": [3, 4]})
          for name, write in (("parquet", parquet), ("arrow", arrow))),
        good("arrow/twice", arrow(twice), {"a": [1], "a_2": [2]}, "", "renamed_columns"),
        bad("parquet/twice", parquet(twice), "duplicate_columns", "rename"),
        good("parquet/odd-names", parquet(pa.table({"": [1], " b": [2]})), {"column_1": [1], "b": [2]}, "",
             "renamed_columns"),
    ]  # fmt: skip


def refused() -> list[Case]:
    """Types without values of ours."""
    def column(name: str, values: pa.Array, says: str) -> list[Case]:
        table = pa.table({"a": values})
        return [bad(f"arrow/{name}", arrow(table), "unread_type", says),
                *([] if name in {"month", "union"} else [bad(f"parquet/{name}", parquet(table), "unread_type", says)])]

    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])])
    return [
        *column("list", pa.array([[1], [2, 3]]), "list"),
        *column("embedding", pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2)), "list"),
        *column("list-of-nulls", pa.array([None], pa.list_(pa.int64())), "list"),
        *column("map", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "map"),
        *column("struct-of-list", pa.array([{"x": [1]}]), "'a.x'"),
        *column("time", pa.array([dt.time(12)]), "time"),
        *column("duration", pa.array([dt.timedelta(1)]), "duration"),
        *column("month", pa.array([pa.MonthDayNano([1, 2, 3])]), "month"),
        *column("union", union, "union"),
        bad("parquet/bytes", parquet(pa.table({"a": [b"\xff\xfe"]})), "binary_column", "'a'"),
        bad("arrow/bytes", arrow(pa.table({"a": [b"\xff\xfe"]})), "binary_column", "'a'"),
        bad("arrow/century-overflow", arrow(pa.table({"a": pa.array([2**62], pa.timestamp("s"))})), "out_of_range"),
        *(bad(f"{name}/no-rows", write(pa.table({"a": pa.array([], pa.int64())})), "no_rows")
          for name, write in (("parquet", parquet), ("arrow", arrow))),
        *(bad(f"{name}/no-columns", write(pa.table({})), "no_rows") for name, write in
          (("parquet", parquet), ("arrow", arrow))),
    ]  # fmt: skip


class Vault(pe.KmsClient):
    """A key server for the test's encrypted file."""

    def wrap_key(self, key: bytes, name: str) -> bytes:
        """The key as text."""
        return base64.b64encode(key)

    def unwrap_key(self, key: bytes, name: str) -> bytes:
        """The key."""
        return base64.b64decode(key)


def encrypted(plain_footer: bool) -> bytes:
    """A file of which a column is encrypted."""
    factory, sink = pe.CryptoFactory(lambda _: Vault()), io.BytesIO()
    how = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["a"]}, plaintext_footer=plain_footer)
    keys = factory.file_encryption_properties(pe.KmsConnectionConfig(), how)
    table = pa.table({"a": [1, 2], "b": [3, 4]})
    with pq.ParquetWriter(sink, table.schema, encryption_properties=keys) as writer:
        writer.write_table(table)
    return sink.getvalue()


def damage() -> list[Case]:
    """Files that lie about themselves."""
    whole = parquet(pa.table({"x": list(range(1000))}))
    text = arrow(pa.table({"s": ["abc", "def"]}), pa.ipc.new_file)
    stream = arrow(pa.table({"s": ["abc", "def"], "i": [1, 2]}))
    no_text = pa.StringArray.from_buffers(1, pa.py_buffer(struct.pack("<2i", 0, 2)), pa.py_buffer(b"\xff\xfe"))
    codes = arrow(pa.table({"d": pa.array(["p", "q"]).dictionary_encode()}))
    return [
        bad("parquet/cut-off", whole[:-20], "damaged_file"),
        bad("parquet/head-only", whole[:200], "damaged_file"),
        bad("parquet/magic-only", b"PAR1", "damaged_file"),
        bad("parquet/magic-twice", b"PAR1PAR1", "damaged_file"),
        bad("parquet/footer-length", whole[:-8] + struct.pack("<I", 1 << 31) + b"PAR1", "damaged_file"),
        bad("parquet/footer-garbage", whole[:-80] + bytes(72) + whole[-8:], "damaged_file"),
        bad("parquet/page-garbage", whole[:20] + b"\xaa" * 400 + whole[420:], "damaged_file"),
        bad("parquet/encrypted", encrypted(False), "unread_format", "encrypted"),
        bad("parquet/encrypted-column", encrypted(True), "damaged_file", "crypt"),
        bad("arrow/offsets-beyond", text.replace(struct.pack("<3i", 0, 3, 6), struct.pack("<3i", 0, 3, 1 << 30)),
            "damaged_file"),
        bad("arrow/offsets-falling", stream.replace(struct.pack("<3i", 0, 3, 6), struct.pack("<3i", 0, 6, 3)),
            "damaged_file"),
        bad("arrow/offsets-negative", stream.replace(struct.pack("<3i", 0, 3, 6), struct.pack("<3i", -9, 3, 6)),
            "damaged_file"),
        bad("arrow/codes-beyond", codes.replace(struct.pack("<2i", 0, 1), struct.pack("<2i", 0, 99)), "damaged_file"),
        bad("arrow/no-text", stream.replace(b"abcdef", b"\xff\xfe\xfd\xfc\xfb\xfa"), "damaged_file"),
        bad("parquet/no-text", parquet(pa.table({"s": no_text})), "damaged_file"),
        bad("arrow/cut-off", text[:-30], "damaged_file"),
        bad("arrow/stream-cut-off", stream[: len(stream) // 2], "damaged_file"),
        bad("arrow/magic-only", b"ARROW1\0\0", "damaged_file"),
        bad("arrow/stream-of-nothing", b"\xff\xff\xff\xff\0\0\0\0", "damaged_file"),
        bad("feather/v1", b"FEA1" + bytes(100) + b"FEA1", "unread_format", "Feather"),
    ]  # fmt: skip


def attacks() -> list[Case]:
    """Small files that want much memory."""
    many = pa.DictionaryArray.from_arrays(np.zeros(60_000, np.int32), ["w" * 100_000])
    zeros = pa.table({"x": np.zeros(9_000_000)})
    long = struct.pack("<q", 8 * 1000)
    squeezed = arrow(pa.table({"x": np.zeros(1000)}), packing="zstd")
    return [
        huge("parquet/one-text-many-times", parquet(pa.table({"s": many})), "limit"),
        huge("arrow/one-text-many-times", arrow(pa.table({"s": many})), "limit"),
        huge("parquet/zeros", parquet(zeros), "limit"),
        huge("arrow/zeros", arrow(zeros, packing="zstd"), "limit"),
        huge("parquet/many-columns", parquet(pa.table({f"c{i}": [1] for i in range(20_001)})), "columns"),
        huge("arrow/lying-length", squeezed.replace(long, struct.pack("<q", 1 << 46)), "limit"),
        bad("arrow/negative-length", squeezed.replace(long, struct.pack("<q", -(1 << 46))), "damaged_file"),
    ]
