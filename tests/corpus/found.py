"""Files that random damage found: each once ended in something else than a refusal."""

from __future__ import annotations

import io
import zipfile

import pyarrow as pa

from tests.corpus.case import Case, bad, good
from tests.corpus.columnar import arrow, parquet
from tests.corpus.xlsx import line, workbook


def cases() -> list[Case]:
    """One of each kind."""
    book = workbook(line(1, "a") + line(2, 1))
    at = book.index(b"PK\x05\x06")
    negative = book[: at + 16] + b"\xff\xff\xff\x7f" + book[at + 20 :]
    nameless = io.BytesIO()
    with zipfile.ZipFile(nameless, "w") as archive:
        archive.writestr("Q.csv", b"a\n1\n")
    zoned = arrow(pa.table({"a": pa.array([1], pa.timestamp("s", "Europe/Berlin"))}))
    return [
        bad("found/parquet-name", parquet(pa.table({"abc": [1]})).replace(b"abc", b"\x80bc"), "damaged_file"),
        bad("found/arrow-zone", zoned.replace(b"Berlin", b"Berli\xff"), "damaged_file"),
        bad("found/zip-negative", negative, "damaged_file"),
        bad("found/zip-nameless", nameless.getvalue().replace(b"Q.csv", b"\0.csv"), "damaged_archive"),
        good("found/only-empty-text", 'a,c\n1,""\n2,\n', {"a": [1, 2], "c": [None, None]}),
        good("found/one-name-often", ",".join("x" * 6_000) + "\n" + ",".join("1" * 6_000) + "\n",
             {f"x_{i}" if i > 1 else "x": [1] for i in range(1, 6_001)}, "", "renamed_columns"),
    ]  # fmt: skip
