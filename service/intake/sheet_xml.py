"""The XML parts of an Excel workbook, as streams: shared texts, number formats, and the cells of a sheet as text.

Numbers keep the digits of the file, so that integers beyond 2^53 stay exact. Nothing that XML can define is followed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO
from xml.parsers import expat

from service.intake.findings import refuse

BLOCK = 1 << 16
EXACT = 2.0**53
MAX_ROW, MAX_COLUMN = 1 << 20, 1 << 14
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
UNDERSCORED = re.compile(r"_x([0-9A-Fa-f]{4})_")
NO_CODE = re.compile(r'"[^"]*"|\\.|_.|\[(?!h+\]|m+\]|s+\])[^]]*\]', re.IGNORECASE)
DAY_IDS = {14, 15, 16, 17, *range(27, 32), 36, *range(50, 59)}
TIME_IDS = {18, 19, 20, 21, 32, 33, 34, 35, 45, 46, 47}
MICROSECONDS = 86_400_000_000
FIRST_1900, FIRST_1904 = dt.datetime(1899, 12, 30), dt.datetime(1904, 1, 1)


class Damaged(ValueError):
    """A part says what no workbook says."""


def events(
    source: BinaryIO, part: str, start: Callable[[str, dict[str, str]], None], end: Callable[[str], None],
    text: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Feed a part block by block to these callbacks, by names without prefix; Damaged, Invalid when it has entities."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: start(name.rpartition(":")[2], attributes)
    parser.EndElementHandler = lambda name: end(name.rpartition(":")[2])
    parser.CharacterDataHandler = text

    def doctype(*_: Any) -> None:
        raise refuse("/file", "xml_entities", f"{part} has a DOCTYPE, which no workbook needs.")

    parser.StartDoctypeDeclHandler = doctype
    try:
        while block := source.read(BLOCK):
            parser.Parse(block, False)
            yield
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise Damaged(f"{part}: {error}") from error
    yield


def elements(source: BinaryIO, part: str) -> list[tuple[str, dict[str, str]]]:
    """Every element of a small part with its attributes."""
    found: list[tuple[str, dict[str, str]]] = []
    for _ in events(source, part, lambda name, attributes: found.append((name, attributes)), lambda _: None):
        pass
    return found


def shared_texts(source: BinaryIO) -> list[str]:
    """The texts that cells refer to by number; phonetic hints are no part of them."""
    found: list[str] = []
    parts: list[str] = []
    inside = [False, False]  # a text, a phonetic hint

    def start(name: str, _: dict[str, str]) -> None:
        inside[:] = name == "t", inside[1] or name == "rPh"

    def end(name: str) -> None:
        inside[:] = False, inside[1] and name != "rPh"
        if name == "si":
            found.append(unescaped("".join(parts)))
            parts.clear()

    def text(data: str) -> None:
        if inside == [True, False]:
            parts.append(data)

    for _ in events(source, "The shared texts", start, end, text):
        pass
    return found


def unescaped(text: str) -> str:
    """Text with the characters that XML cannot hold."""
    return UNDERSCORED.sub(lambda m: chr(int(m[1], 16)), text) if "_x" in text else text


def styles(found: list[tuple[str, dict[str, str]]]) -> list[str]:
    """By number of a cell's style: `day`, `instant`, `time` or nothing."""
    codes = {int(a["numFmtId"]): a["formatCode"] for name, a in found if name == "numFmt"}
    names = [name for name, _ in found]
    begin = names.index("cellXfs") if "cellXfs" in names else len(names)
    ends = (i for i in range(begin, len(names)) if names[i] in {"cellStyles", "dxfs", "tableStyles"})
    cells = found[begin : next(ends, len(names))]
    return [_meaning(int(a.get("numFmtId", 0)), codes) for name, a in cells if name == "xf"]


def _meaning(number: int, codes: dict[int, str]) -> str:
    if number not in codes:
        return "day" if number in DAY_IDS else "time" if number in TIME_IDS else "instant" if number == 22 else ""
    code = NO_CODE.sub("", codes[number].partition(";")[0]).lower().replace("general", "")
    day, time = bool(re.search("[dy]", code)), bool(re.search("[hs]", code))
    return "instant" if day and time else "day" if day else "time" if time else ""


def place(reference: str) -> tuple[int, int]:
    """Row and column, from 0, of a reference like `B7`; Damaged."""
    match = REFERENCE.fullmatch(reference)
    row, column = (int(match[2]) - 1, _column(match[1])) if match else (-1, -1)
    if not (0 <= row < MAX_ROW and 0 <= column < MAX_COLUMN):
        raise Damaged(f"{reference!r} is no cell of a sheet")
    return row, column


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number - 1


def number_text(raw: str, where: str) -> str:
    """The digits of a number; whole ones without a decimal point. Damaged."""
    if not NUMBER.fullmatch(raw):
        raise Damaged(f"cell {where}: {raw[:40]!r} is no number")
    if raw.isdecimal():
        return raw
    value = float(raw)
    return str(int(value)) if value.is_integer() and abs(value) < EXACT else raw


def time_text(raw: str, kind: str, first: dt.datetime, where: str) -> str:
    """A serial number of days as date, instant or time of day; Invalid when there is no such date."""
    days = float(number_text(raw, where))
    if kind == "time":
        seconds = round(days * 86_400)
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}" if days < 1e6 else raw
    if first is FIRST_1900 and days < 61:
        days = days + 1 if 0 <= days < 60 else -1e6  # it has a 29 February of 1900
    try:
        at = first + dt.timedelta(int(days // 1), microseconds=_microseconds(days % 1, raw))
        if at < dt.datetime(1899, 12, 31):
            raise OverflowError
    except (OverflowError, ValueError) as error:
        detail = f"Cell {where} is formatted as a date, and {raw[:40]} is none."
        raise refuse(f"/sheet/{where}", "no_date", detail) from error
    if kind == "day" and at.time() == dt.time():
        return at.date().isoformat()
    return at.isoformat(sep=" ")


def _microseconds(share: float, raw: str) -> int:
    """Of a share of a day; numbers of at most 15 digits may mean a whole millisecond, which these cannot tell."""
    exact = round(share * MICROSECONDS)
    whole = 1000 * round(exact / 1000)
    short = len(raw.replace(".", "").lstrip("0")) <= 15
    return whole if short and abs(exact - whole) <= 5 else exact
