"""Text of any encoding as UTF-8, and its beginning."""

from __future__ import annotations

import codecs
from pathlib import Path

import numpy as np
import pyarrow as pa

from service.disk import full_disk
from service.intake.arrival import Arrival
from service.intake.encoding import check_western, guess_encoding, nul_byte, undecodable
from service.intake.kernels import Bytes
from service.intake.places import census
from service.intake.sniff import HEAD

BLOCK = 1 << 20
SMALL = 4 << 20
HEAD_LINES = 20
MAX_HEAD = 16 << 20


def as_utf8(path: Path, encoding: str | None, scratch: Path) -> tuple[Path, str, int]:
    """A UTF-8 file with the same text, the encoding found, and how many double quotes it has."""
    with path.open("rb") as source:
        found = encoding or guess_encoding(source.read(HEAD))
    if said_utf8(found):
        quotes = _survey(path)
        if quotes is not None:
            return path, "utf-8", quotes
        if encoding:
            raise undecodable(path, encoding)
        check_western(path)
        found = "cp1252"
    target, quotes, lines = scratch / "utf8", 0, 1
    try:
        with (
            full_disk(),
            path.open(encoding=found, newline="") as text,
            target.open("w", encoding="utf-8", newline="") as sink,
        ):
            while block := text.read(BLOCK):
                _check_nul(block, lines)
                lines, quotes = lines + block.count("\n"), quotes + block.count('"')
                sink.write(block)
    except UnicodeError as error:
        raise undecodable(path, found) from error
    return target, found, quotes


def _check_nul(block: str, line: int) -> None:
    if "\0" in block:
        raise nul_byte(line + block[: block.index("\0")].count("\n"))


def _survey(path: Path) -> int | None:
    """The number of double quotes, or None when the file is not UTF-8. O(bytes)."""
    if path.stat().st_size >= SMALL:
        _, quotes, high = census(np.asarray(np.memmap(path, np.uint8, "r")))
        if not high:
            return int(quotes)
    decoder, quotes = codecs.getincrementaldecoder("utf-8")(), 0
    with path.open("rb") as source:
        try:
            while block := source.read(BLOCK):
                quotes += block.count(b'"')
                if 0 in block:
                    before = source.tell() - len(block) + block.index(0)
                    source.seek(0)
                    raise nul_byte(source.read(before).count(b"\n") + 1)
                if not block.isascii() or decoder.getstate()[0]:
                    decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return None
    return quotes


def said_utf8(encoding: str) -> bool:
    """Whether this is a name of UTF-8."""
    return codecs.lookup(encoding).name == "utf-8"


def is_utf8(data: Bytes) -> bool:
    """Whether these bytes are UTF-8 without NUL bytes. O(bytes), without the interpreter's lock."""
    if np.count_nonzero(data) < data.size:
        return False
    ends = pa.py_buffer(np.array([0, data.size], np.int32))
    try:
        pa.StringArray.from_buffers(1, ends, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def beginning(text: Arrival) -> tuple[str, bool]:
    """The first text, longer where lines are long, and whether that is all of it."""
    head, grown = bytearray(), True
    while grown and len(head) < MAX_HEAD and head.count(b"\n") < HEAD_LINES:
        stop = min(len(head) + HEAD, text.upto(len(head) + HEAD))
        grown = stop > len(head)
        head += text.part(len(head), stop).tobytes()
    return head.decode("utf-8-sig", errors="ignore"), text.upto(len(head) + 1) == len(head)
