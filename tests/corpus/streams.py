"""Binary files whose end is in doubt, whose encodings are rare, or whose values have no place in a table."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from tests.corpus.case import Case, bad, good
from tests.corpus.columnar import arrow, both, parquet

TABLE = pa.table({"v": [1, 2, 3], "s": ["ab", "abc", "b"]})
WANT: dict[str, list[Any]] = {"v": [1, 2, 3], "s": ["ab", "abc", "b"]}
END = 8
SKIPPED = struct.pack("<II", 0x184D2A50, 4) + b"abcd"
CODED = pa.schema([("v", pa.dictionary(pa.int8(), pa.string()))])


def cases() -> list[Case]:
    """All of these."""
    return [*ends(), *encodings(), *dictionaries(), *values(), *packed(), *others()]


def ends() -> list[Case]:
    """What may be half of a table is refused."""
    stream = arrow(TABLE, rows=1)
    return [
        bad("stream/no-end", stream[:-END], "damaged_file", "absent"),
        bad("stream/two", stream + stream, "damaged_file", "behind the end"),
        bad("stream/more-behind", stream + b"x", "damaged_file", "behind the end"),
        good("stream/file-of-batches", arrow(TABLE, pa.ipc.new_file, rows=1), WANT),
        bad("stream/npy-twice", _npy(np.arange(3)) * 2, "trailing_data"),
        bad("stream/npy-and-more", _npy(np.arange(3)) + b"x", "trailing_data"),
        bad("stream/parquet-and-more", parquet(TABLE) + b"x", ""),
    ]


def _npy(values: np.ndarray) -> bytes:
    sink = io.BytesIO()
    np.save(sink, values)
    return sink.getvalue()


def encodings() -> list[Case]:
    """Pages of Parquet as other writers make them."""
    plain = {"use_dictionary": False}
    empty = TABLE.slice(0, 0)
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, TABLE.schema) as writer:
        for part in (empty, TABLE.slice(0, 1), empty, TABLE.slice(1), empty):
            writer.write_table(part)
    return [
        *(good(f"pages/{name}", parquet(TABLE, column_encoding={"v": "DELTA_BINARY_PACKED", "s": name}, **plain), WANT)
          for name in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")),
        good("pages/split", parquet(pa.table({"v": [1.5]}), use_byte_stream_split=True, **plain), {"v": [1.5]}),
        good("pages/version-1", parquet(TABLE, version="1.0"), WANT),
        good("pages/version-2", parquet(TABLE, data_page_version="2.0"), WANT),
        good("pages/empty-groups", sink.getvalue(), WANT),
        good("pages/many-groups", parquet(TABLE, row_group_size=1), WANT),
    ]  # fmt: skip


def dictionaries() -> list[Case]:
    """Dictionaries that grow, are replaced, hold nothing or one word twice."""
    def coded(*words: str | None) -> pa.Array:
        return pa.array(words)

    def batches(delta: bool, *parts: tuple[list[int], pa.Array]) -> bytes:
        sink = io.BytesIO()
        how = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=delta)
        with pa.ipc.new_stream(sink, CODED, options=how) as writer:
            for codes, words in parts:
                made = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), words)
                writer.write_batch(pa.record_batch([made], schema=CODED))
        return sink.getvalue()

    first = ([0, 1], coded("a", "b"))
    nothing = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 2], pa.int8()), coded("a", None, "c"))
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), coded("a", "a", "b"))
    return [
        good("words/delta", batches(True, first, ([2, 0], coded("a", "b", "c"))), {"v": ["a", "b", "c", "a"]}),
        good("words/replaced", batches(False, first, ([0, 1], coded("z", "a"))), {"v": ["a", "b", "z", "a"]}),
        good("words/nothing", arrow(pa.table({"v": nothing})), {"v": ["a", None, None, "c"]}, "category"),
        good("words/twice", arrow(pa.table({"v": twice})), {"v": ["a", "a", "b"]}, "category"),
    ]  # fmt: skip


def values() -> list[Case]:
    """Times beyond what clients hold, and those finer than microseconds."""
    day, first, last = pa.array([10_000_000], pa.date32()), dt.date(1, 1, 1), dt.date(9999, 12, 31)
    ten_thousand = pa.array([253_402_300_800], pa.timestamp("s"))
    before = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)]
    return [
        *(bad(f"{form}/{name}", make(pa.table({"v": cells})), "out_of_range", "9999")
          for form, make in (("parquet", parquet), ("arrow", arrow))
          for name, cells in (("day-beyond", day), ("time-beyond", ten_thousand))),
        *both("first-and-last-day", pa.array([first, last]), [first, last], "date"),
        *both("just-before-1970", pa.array([-1], pa.timestamp("ns")), before, "datetime", "rounded_times"),
        good("arrow/unknown-zone", arrow(pa.table({"v": pa.array([0], pa.timestamp("us", "Mars/Phobos"))})),
             {"v": [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]}, "datetime"),
    ]  # fmt: skip


def packed() -> list[Case]:
    """Members and frames."""
    rows, want = [b"a,b\n", b"1,x\n", b"2,y\n"], {"a": [1, 2], "b": ["x", "y"]}
    frames = b"".join(map(zstandard.ZstdCompressor().compress, rows))
    return [
        good("packed/members", b"".join(map(gzip.compress, rows)), want),
        good("packed/empty-member", gzip.compress(b"") + gzip.compress(b"".join(rows)), want),
        good("packed/skipped-frame", SKIPPED + frames, want),
        good("packed/no-size", zstandard.ZstdCompressor(write_content_size=False).compress(b"".join(rows)), want),
    ]


def others() -> list[Case]:
    """Text formats at their edges."""
    head = "@RELATION r\n@ATTRIBUTE a NUMERIC\n@ATTRIBUTE 'b c' {x,'y, z',\"q 'r\"}\n@DATA\n"
    return [
        good("edge/arff-levels", head + "1,'y, z'\n2,\"q 'r\"\n", {"a": [1, 2], "b c": ["y, z", "q 'r"]}),
        bad("edge/arff-weights", head + "1,x,{5}\n", "ragged_row"),
        bad("edge/libsvm-big-label", "9007199254740993 1:1\n1 1:2\n", "bad_row", "digits"),
        bad("edge/libsvm-big-value", "1 1:9007199254740993\n1 1:2\n", "bad_row", "digits"),
        good("edge/libsvm-exact", "9007199254740994 1:1e300\n1 1:2\n",
             {"label": [9007199254740994.0, 1.0], "x1": [1e300, 2.0]}),
        good("edge/json-tiny", '[{"a": 1e-400}, {"a": -0}]', {"a": [0.0, 0.0]}),
        bad("edge/json-escaped-twice", '[{"a": 1, "\\u0061": 2}]', "bad_record", "repeated"),
        bad("edge/json-concatenated", '{"a": 1}{"a": 2}', ""), bad("edge/json-commas", '{"a": 1},\n{"a": 2},\n', ""),
        *(bad(f"edge/json-{i}", f'[{{"a": {cell}}}]', "bad_record")
          for i, cell in enumerate(("01", "+1", ".5", "0x1", "-NaN", "1e400", '"x\x01y"', '"\\udc00"'))),
        good("edge/json-late-key", '{"a": 1}\n' * 5000 + '{"a": 2, "z": "q"}\n',
             {"a": [1] * 5000 + [2], "z": [None] * 5000 + ["q"]}),
    ]  # fmt: skip
