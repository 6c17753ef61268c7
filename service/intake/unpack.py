"""Decompression to a scratch file, with a cap on the decoded size and a guard against bombs."""

from __future__ import annotations

import errno
import gzip
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa

from service.disk import full_disk
from service.errors import Invalid, TooLarge
from service.intake.findings import refuse

BLOCK = 1 << 20
RATIO = 500
RATIO_FROM = 100 << 20
ZIP_ERRORS = (
    zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, struct.error, zlib.error, lzma.LZMAError,
    IndexError, KeyError, ValueError,
)  # what a damaged, encrypted or odd zip raises, beside some kinds of OSError
SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")  # a frame of zstd that holds no data, as parallel packers write
PACKAGES = {
    "xl/workbook.bin": "a binary Excel workbook (XLSB)", "META-INF/manifest.xml": "an OpenDocument file (ODS)",
    "[Content_Types].xml": "an Office document without a workbook",
}  # fmt: skip
BESIDE = re.compile(r"^__MACOSX/|(^|/)(\.[^/]*|Thumbs\.db|desktop\.ini)$")  # what desktops leave beside files


def packing(head: bytes) -> str | None:
    """Which container the first bytes announce: gzip, zstd, zip or none."""
    if SKIPPABLE.match(head):
        return "zstd"
    magic = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"PK\x05\x06": "zip"}
    return next((name for start, name in magic.items() if head.startswith(start)), None)


@contextmanager
def damage(code: str, what: str) -> Iterator[None]:
    """Turn what a damaged archive raises into Invalid with this code; errors of the disk pass."""
    try:
        yield
    except ZIP_ERRORS as error:
        raise refuse("/file", code, f"{what}: {error}.") from error
    except OSError as error:
        if error.errno not in {None, errno.EINVAL}:
            raise
        raise refuse("/file", code, f"{what}: {error}.") from error


def archive_format(path: Path) -> str | None:
    """`xlsx` or `npz` when a zip is a format of its own, None for any other file."""
    try:
        with damage("", ""), zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except Invalid:
        return None
    if "xl/workbook.xml" in names:
        return "xlsx"
    return "npz" if names and all(name.endswith(".npy") for name in names) else None


def unpack(path: Path, scratch: Path, cap: int) -> tuple[Path, str | None]:
    """The plain file (the same one when nothing is packed) and the name of its packing; TooLarge, Invalid."""
    with path.open("rb") as source:
        kind = packing(source.read(8))
        source.seek(0)
        if kind is None:
            if path.stat().st_size > cap:
                raise TooLarge(f"The file has {path.stat().st_size} bytes; the limit is {cap}.")
            return path, None
        if kind == "zip" and archive_format(path) is not None:
            return path, None
        target = scratch / "plain"
        with damage("damaged_archive", f"The {kind} data is damaged or cut off"), _opened(source, kind) as stream:
            _copy(stream, target, path.stat().st_size, cap)
    with target.open("rb") as plain:
        inner = packing(plain.read(8))
    if inner and not (inner == "zip" and archive_format(target)):
        raise refuse("/file", "nested_archive", f"The {kind} file holds {inner} data; pack the table once only.")
    return target, kind


def _opened(source: BinaryIO, kind: str) -> BinaryIO:
    if kind == "gzip":
        return gzip.GzipFile(fileobj=source)  # type: ignore[return-value]
    if kind == "zstd":
        # The reader of the zstandard package takes a file that is cut off for one that ends.
        return pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd")
    return _member(zipfile.ZipFile(source))


def _member(archive: zipfile.ZipFile) -> BinaryIO:
    """The one file of a zip."""
    for name, what in PACKAGES.items():
        if name in archive.namelist():
            raise unread(what)
    files = [i for i in archive.infolist() if not (i.is_dir() or BESIDE.search(i.filename))]
    if len(files) != 1:
        shown = ", ".join(i.filename for i in files[:5])
        detail = f"The zip holds {len(files)} files ({shown}); put exactly one table into it."
        raise refuse("/file", "zip_members", detail)
    if files[0].flag_bits & 1:
        raise refuse("/file", "encrypted", "The zip is encrypted; send it without a password.")
    try:
        return archive.open(files[0])  # type: ignore[return-value]
    except NotImplementedError as error:
        raise refuse("/file", "zip_method", f"The zip uses a compression that is not read: {error}.") from error


def _copy(stream: BinaryIO, target: Path, packed: int, cap: int) -> None:
    size = 0
    with full_disk(), target.open("wb") as sink:
        while block := stream.read(BLOCK):
            size += len(block)
            if size > cap:
                raise TooLarge(f"The file decodes to more than {cap} bytes, which is the limit.")
            if size > RATIO_FROM and size > RATIO * packed:
                raise TooLarge(f"{packed} packed bytes decode to more than {size}: that is taken for a bomb.")
            sink.write(block)


def unread(what: str) -> Invalid:
    """The refusal of a format that exists but is not read here."""
    return refuse(
        "/file",
        "unread_format",
        f"The file is {what}, which is not read. Formats read: csv, tsv and other single-character delimiters, ndjson, "
        "json (records or columns), parquet, arrow (file or stream), xlsx, npy, npz, arff, libsvm; plain, gzip, zstd "
        "or zip of one file.",
    )


class Metered:
    """A stream of a zip's member that ends with TooLarge, whatever size the zip announces."""

    def __init__(self, stream: Any, room: int) -> None:
        self._stream, self._room, self._cap = stream, room, room

    def read(self, size: int) -> bytes:
        """The next bytes; TooLarge."""
        block: bytes = self._stream.read(size)
        self._room -= len(block)
        if self._room < 0:
            raise TooLarge(f"The file decodes to more than {self._cap} bytes, which is the limit.")
        return block

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stream.close()
