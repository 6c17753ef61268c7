"""JSON records: their text piece by piece from lines or an array, and each as one flat row."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.errors import Invalid, TooLarge
from service.intake.findings import refuse

READ = 1 << 20
MAX_RECORD = 16 << 20
MAX_DEPTH = 64
BLANKS = re.compile(r"[ \t\r\n]*")


class Unreadable(ValueError):
    """A record that cannot be a row; the message says why."""


def decode(text: str) -> dict[str, Any]:
    """One flat record; ValueError for anything else, for repeated keys, and for numbers that JSON does not have."""
    try:
        record = json.loads(text, object_pairs_hook=unique_keys, parse_constant=no_constant)
    except RecursionError as error:
        raise Unreadable("the record is nested too deeply") from error
    if not isinstance(record, dict):
        raise Unreadable("not an object of columns and values")
    if any(isinstance(value, dict) for value in record.values()):
        record = flat(record)
    for name, value in record.items():
        check_cell(name, value)
    return record


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """The fields of objects inside objects, with dotted names; an empty object is missing."""
    found: dict[str, Any] = {}
    open_ = [(name, value, 1) for name, value in reversed(record.items())]
    while open_:
        name, value, depth = open_.pop()
        if depth > MAX_DEPTH:
            raise Unreadable(f"the record is nested too deeply: {MAX_DEPTH} levels are read")
        if isinstance(value, dict) and value:
            open_ += [(f"{name}.{key}", inner, depth + 1) for key, inner in reversed(value.items())]
            continue
        if name in found:
            raise Unreadable(f"the field {name!r} comes twice, by its own name and by nested ones")
        found[name] = None if isinstance(value, dict) else value
    return found


def check_cell(name: str, value: Any) -> None:
    """Unreadable when the value is no cell."""
    if isinstance(value, list):
        raise Unreadable(f"field {name!r} holds a list, and a cell is one value")
    if isinstance(value, float) and not math.isfinite(value):
        raise Unreadable(f"field {name!r} is beyond the range of doubles")
    for text in (name, value):
        if isinstance(text, str) and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise Unreadable(f"field {name!r} holds half of a surrogate pair") from error


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different; Unreadable."""
    record = dict(pairs)
    if len(record) < len(pairs):
        raise Unreadable("a key is repeated")
    return record


def no_constant(word: str) -> float:
    """Unreadable: NaN and Infinity are not JSON."""
    raise Unreadable(f"{word} is not JSON; write null")


def record_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of each line that is not blank; TooLarge."""
    with path.open(encoding="utf-8-sig") as text:
        number = 0
        while line := text.readline(MAX_RECORD):
            number += 1
            if len(line) == MAX_RECORD:
                raise TooLarge(f"Line {number} has more than {MAX_RECORD} characters, which is the limit of a record.")
            if line.strip():
                yield number, line.strip()


def elements(path: Path) -> Iterator[tuple[int, str]]:
    """The text of each element of a top-level array, without holding the array."""
    scanner, number = json.JSONDecoder(), 0
    with path.open(encoding="utf-8-sig") as text:
        buffer, at, comma = text.read(READ).lstrip(), 1, False
        while True:
            at = _skip(buffer, at)
            if buffer[at : at + 1] == "]" and not comma:
                if buffer[at + 1 :].strip() or text.read(READ).strip():
                    raise refuse("/file", "trailing_text", "There is text after the end of the JSON array.")
                return
            try:
                end = scanner.raw_decode(buffer, at)[1]
            except (ValueError, RecursionError):
                end = len(buffer)
            mark = _skip(buffer, end)
            if mark == len(buffer):
                if len(buffer) - at > MAX_RECORD:
                    raise TooLarge(f"Record {number + 1} has more than {MAX_RECORD} characters or is malformed.")
                more = text.read(max(READ, len(buffer) - at))
                if not more:
                    raise _unended(number + 1, buffer[at:])
                buffer, at = buffer[at:] + more, 0
                continue
            number += 1
            yield number, buffer[at:end]
            if buffer[mark] not in ",]":
                raise refuse(f"/file/record/{number}", "bad_record", f"A comma is missing after record {number}.")
            comma = buffer[mark] == ","
            at = mark + comma


def _unended(number: int, rest: str) -> Invalid:
    """Why the array stops before its end."""
    why = "breaks off or is malformed"
    try:
        json.JSONDecoder().raw_decode(rest)
    except RecursionError:
        why = "is nested too deeply"
    except ValueError as error:
        why += f" ({error})" if rest.strip() else ""
    detail = f"The JSON array {why} at record {number}: {rest[:200]!r}."
    return refuse(f"/file/record/{number}", "bad_record", detail)


def _skip(buffer: str, at: int) -> int:
    """Where the blanks from `at` on end."""
    found = BLANKS.match(buffer, at)
    return found.end() if found else at
