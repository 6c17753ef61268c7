"""The character encoding of text: by its byte order mark, by its NUL bytes, by what its other bytes can be."""

from __future__ import annotations

import codecs
import re
from itertools import islice
from pathlib import Path

from service.errors import Invalid
from service.intake.findings import refuse
from service.intake.unpack import unread

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CONTROL = re.compile(rb"[\x02-\x08\x0e-\x19]")
HIGH = re.compile(rb"[\x80-\xff]+")
LINES = 1000
FEW_NULS, PRINTABLE = 0.01, 4000
BLANK = "\t\r\n\u00a0\u3000\u2009\u202f"
ADVICE = "Set encoding to the right one, such as cp1252, latin-1, cp1251, shift_jis or gb18030."


def guess_encoding(head: bytes) -> str:
    """By byte order mark, then by where the NUL bytes are; Invalid for binary data and for text with NUL bytes."""
    for mark, name in BOMS:
        if head.startswith(mark):
            return name
    even, odd = head[0::2].count(0), head[1::2].count(0)
    for name, high, low in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        many, some = high > 0.1 * len(head) and low < 0.25 * high, high > FEW_NULS * len(head) and not low
        if (many or some) and _has_lines(head, name, plain=not many):
            return name
    if len(CONTROL.findall(head)) + even + odd > 0.01 * len(head) and CONTROL.search(head):
        raise unread("binary data of an unknown kind")
    if even + odd:
        raise nul_byte(head[: head.index(0)].count(b"\n") + 1)
    return "utf-8"


def _has_lines(head: bytes, encoding: str, *, plain: bool) -> bool:
    """Whether the beginning of a file is text of UTF-16 with its line ends; `plain` where all of it must be printable.

    Text with a stray NUL byte has its line ends in one byte each.
    """
    text = head[: len(head) // 2 * 2].decode(encoding, errors="ignore")
    lines = "\n" in text or "\r" in text or not {*b"\r\n"} & {*head}
    return lines and not (plain and any(not (c.isprintable() or c in BLANK) for c in text[:PRINTABLE]))


def nul_byte(line: int) -> Invalid:
    """The refusal of text with a NUL byte."""
    detail = f"Line {line} has a NUL byte, which text does not have: the file is damaged or padded. {ADVICE}"
    return refuse(f"/file/line/{line}", "nul_byte", detail)


def undecodable(path: Path, encoding: str) -> Invalid:
    """The refusal of bytes that are not of this encoding, with the first line and byte that are not. O(bytes)."""
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    with path.open("rb") as source:
        for number, text in enumerate(source, 1):
            line = number
            try:
                decoder.decode(text)
            except UnicodeError as error:
                return _refused(line, encoding, error)
    try:
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        return _refused(line, encoding, error)
    return refuse("/file", "encoding", f"The file is not {encoding}. {ADVICE}")


def _refused(line: int, encoding: str, error: UnicodeError) -> Invalid:
    shown = ""
    if isinstance(error, UnicodeDecodeError):
        shown = f": byte {error.object[error.start : error.start + 1].hex()} after {_before(error)!r}"
    detail = f"Line {line} is not {encoding}{shown}. {ADVICE}"
    return refuse(f"/file/line/{line}", "encoding", detail)


def _before(error: UnicodeDecodeError) -> str:
    return error.object[max(0, error.start - 10) : error.start].decode("ascii", errors="replace")


def check_western(path: Path) -> None:
    """Refuse to take for cp1252 what is not UTF-8 but hardly Western text: most of its bytes beyond ASCII in a row."""
    with path.open("rb") as source:
        lines = islice((line for line in source if not line.isascii()), LINES)
        runs = [len(run) for line in lines for run in HIGH.findall(line)]
    together = sum(length for length in runs if length > 1)
    if together > 3 and 2 * together > sum(runs):
        found = undecodable(path, "utf-8")
        detail = f"{found.issues[0].detail.split('. ')[0]}, and does not look like cp1252 either. {ADVICE}"
        raise refuse(found.issues[0].pointer, "encoding", detail)
