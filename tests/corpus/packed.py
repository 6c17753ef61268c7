"""Compressed files, archives, and formats that are refused by name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import sqlite3
import struct
import tarfile
import zipfile

import pyarrow as pa
import zstandard

from tests.corpus.arrays import npz
from tests.corpus.case import Case, bad, good, huge
from tests.corpus.columnar import parquet
from tests.corpus.xlsx import line, workbook

TEXT = b"a,b\n1,x\n2,y\n"
WANT = {"a": [1, 2], "b": ["x", "y"]}
BOOK = workbook(line(1, "a", "b") + line(2, 1, "x") + line(3, 2, "y"))


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of these members."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return sink.getvalue()


def cases() -> list[Case]:
    """One table in a pack, and everything else."""
    return [*read_right(), *refused(), *by_name()]


def read_right() -> list[Case]:
    """Packs of one table."""
    columns = parquet(pa.table(WANT))
    return [
        good("gzip/plain", gzip.compress(TEXT), WANT),
        good("gzip/two-members", gzip.compress(TEXT[:7]) + gzip.compress(TEXT[7:]), WANT),
        good("gzip/padded", gzip.compress(TEXT) + bytes(512), WANT),
        good("gzip/parquet", gzip.compress(columns), WANT),
        good("gzip/workbook", gzip.compress(BOOK), WANT),
        good("zstd/plain", zstandard.compress(TEXT), WANT),
        good("zstd/two-frames", zstandard.compress(TEXT[:7]) + zstandard.compress(TEXT[7:]), WANT),
        *(good(f"zip/{method}", zipped({"t.csv": TEXT}, method), WANT)
          for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)),
        good("zip/in-a-folder", zipped({"folder/t.csv": TEXT}), WANT),
        good("zip/with-mac-files", zipped({"t.csv": TEXT, "__MACOSX/._t.csv": b"x"}), WANT),
        good("zip/desktop-file", zipped({"t.csv": TEXT, ".DS_Store": b"x"}), WANT),
        good("zip/traversal", zipped({"../../../../tmp/evil.csv": TEXT}), WANT),
        good("zip/absolute", zipped({"/etc/evil.csv": TEXT}), WANT),
        good("zip/odd-name", zipped({"a\nb\0\\c:.csv": TEXT}), WANT),
        good("zip/workbook", zipped({"t.xlsx": BOOK}), WANT),
        good("zip/parquet", zipped({"t.parquet": columns}), WANT),
        good("zip/arrays", zipped({"t.npz": npz(a=pa.array([1, 2]).to_numpy())}), {"a": [1, 2]}),
    ]  # fmt: skip


def refused() -> list[Case]:
    """Damage, several tables, bombs."""
    packed, frame, archive = gzip.compress(TEXT * 99), zstandard.compress(TEXT * 99), zipped({"t.csv": TEXT * 99})
    secret = bytearray(zipped({"t.csv": TEXT}))
    secret[6] |= 1
    secret[secret.index(b"PK\x01\x02") + 8] |= 1
    odd = bytearray(zipped({"t.csv": TEXT}))
    odd[8] = odd[odd.index(b"PK\x01\x02") + 10] = 97
    zeros = bytes(70 << 20)
    return [
        bad("gzip/cut-off", packed[:-12], "damaged_archive"),
        bad("gzip/header-only", packed[:5], "damaged_archive"),
        bad("gzip/garbage-behind", packed + b"garbage", "damaged_archive"),
        bad("gzip/wrong-checksum", packed[:-8] + bytes(4) + packed[-4:], "damaged_archive"),
        bad("gzip/twice", gzip.compress(packed), "nested_archive"),
        bad("gzip/of-zip", gzip.compress(archive), "nested_archive"),
        bad("gzip/nothing", gzip.compress(b""), "empty_file"),
        bad("zstd/cut-off", frame[:-9], "damaged_archive"),
        bad("zstd/garbage-behind", frame + b"garbage", "damaged_archive"),
        bad("zip/cut-off", archive[:-30], "damaged_archive"),
        bad("zip/empty", b"PK\x05\x06" + bytes(18), "zip_members"),
        bad("zip/two", zipped({"a.csv": TEXT, "b.csv": TEXT}), "zip_members", "a.csv, b.csv"),
        bad("zip/only-a-folder", zipped({"folder/": b""}), "zip_members"),
        bad("zip/encrypted", bytes(secret), "encrypted"),
        bad("zip/other-method", bytes(odd), "zip_method"),
        bad("zip/twice", zipped({"t.zip": archive}), "nested_archive"),
        bad("zip/wrong-checksum", archive.replace(struct.pack("<I", zipfile.crc32(TEXT * 99)), bytes(4)),
            "damaged_archive"),
        huge("gzip/bomb", gzip.compress(zeros), "limit"),
        huge("zstd/bomb", zstandard.compress(zeros), "limit"),
        huge("zip/bomb", zipped({"t.csv": zeros}), "limit"),
        bad("zip/lying-bomb", zipped({"t.csv": zeros}).replace(struct.pack("<I", len(zeros)), struct.pack("<I", 100)),
            "damaged_archive"),
    ]


def by_name() -> list[Case]:
    """Formats that are known and not read."""
    base, tar = sqlite3.connect(":memory:"), io.BytesIO()
    base.execute("create table t (a)")
    with tarfile.open(fileobj=tar, mode="w") as archive:
        found = tarfile.TarInfo("t.csv")
        found.size = len(TEXT)
        archive.addfile(found, io.BytesIO(TEXT))
    known = {
        "bzip2": (bz2.compress(TEXT), "bzip2"), "xz": (lzma.compress(TEXT), "xz"),
        "7z": (b"7z\xbc\xaf\x27\x1c\0\4" + bytes(99), "7z"), "rar": (b"Rar!\x1a\x07\x01\0" + bytes(99), "RAR"),
        "lz4": (b"\x04\x22\x4d\x18" + bytes(99), "LZ4"), "tar": (tar.getvalue(), "tar"),
        "tar-gz": (gzip.compress(tar.getvalue()), "tar"), "pdf": (b"%PDF-1.7\n%\xe2\xe3\n", "PDF"),
        "png": (b"\x89PNG\r\n\x1a\n" + bytes(99), "PNG"), "jpeg": (b"\xff\xd8\xff\xe0" + bytes(99), "JPEG"),
        "gif": (b"GIF89a" + bytes(99), "GIF"), "html": (b"<!doctype html><table><tr><td>1</table>", "HTML"),
        "xml": (b"<?xml version='1.0'?><a/>", "XML"), "sqlite": (base.serialize(), "SQLite"),
        **{f"pickle-{n}": (pickle.dumps({"a": [1]}, protocol=n), "pickle") for n in (2, 4, 5)},
        "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(99), "HDF5"), "orc": (b"ORC" + bytes(99), "ORC"),
        "avro": (b"Obj\x01" + bytes(99), "Avro"), "matlab": (b"MATLAB 5.0 MAT-file" + bytes(200), "MATLAB"),
        "stata": (b"<stata_dta><header>", "Stata"), "spss": (b"$FL2@(#) SPSS DATA FILE" + bytes(99), "SPSS"),
        "rds": (gzip.compress(b"X\n\0\0\0\3" + bytes(99)), "R data"), "rdata": (b"RDX3\nX\n" + bytes(99), "R data"),
        "program": (b"\x7fELF" + bytes(range(256)), "unknown"), "noise": (bytes(range(256)) * 8, "unknown"),
    }  # fmt: skip
    return [bad(f"unread/{name}", content, "unread_format", says) for name, (content, says) in known.items()]
