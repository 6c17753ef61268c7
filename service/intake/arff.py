"""Weka's ARFF: the declarations give names and types, the data become delimited text."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from service.disk import full_disk
from service.errors import Invalid, Issue
from service.intake.encoding import guess_encoding
from service.intake.findings import MAX_COLUMNS, MAX_REJECTS, Json, ReadOptions, refuse
from service.intake.sniff import HEAD

ATTRIBUTE = re.compile(r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S+)\s+(.+)$""", re.IGNORECASE)
TOKEN = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,\t]*?))\s*(,|\t|$)""")
ESCAPE = re.compile(r"\\(.)")
KINDS = {"numeric": None, "real": None, "integer": None, "string": "text", "date": None}
Attribute = tuple[str, str | None, str]  # name, type unless the cells decide it, value where a sparse row has none


def as_text(path: Path, options: ReadOptions, scratch: Path) -> tuple[Path, ReadOptions, Json]:
    """The data section as a CSV with a header; nominal and string attributes keep their type. Invalid."""
    with path.open("rb") as raw:
        encoding = options.encoding or guess_encoding(raw.read(HEAD))
    target = scratch / "arff.csv"
    with path.open(encoding=encoding, errors="strict") as source, full_disk():
        lines = enumerate(source, start=1)
        try:
            attributes = _declared(lines)
            with target.open("w", encoding="utf-8", newline="") as sink:
                skipped = _data(lines, attributes, sink, options.on_error == "skip")
        except UnicodeDecodeError as error:
            detail = f"The file is not {encoding} text: {error}; state its encoding."
            raise refuse("/file", "encoding", detail) from error
    types = {name: kind for name, kind, _ in attributes if kind is not None}
    told = replace(
        options, format="csv", delimiter=",", decimal=".", header=True, encoding="utf-8", null_values=("",),
        types={**types, **options.types},
    )  # fmt: skip
    return target, told, {"encoding": encoding, **({"skipped_rows": skipped} if skipped else {})}


def _declared(lines: Iterator[tuple[int, str]]) -> list[Attribute]:
    found: list[Attribute] = []
    for number, line in lines:
        text = line.strip()
        if text.lower().startswith("@data"):
            if not found:
                raise refuse("/file", "no_columns", "The ARFF file declares no attribute.")
            return found
        if text.lower().startswith("@attribute"):
            match = ATTRIBUTE.match(text)
            if match is None:
                detail = f"Line {number} declares no attribute: {text[:200]}"
                raise refuse(f"/file/line/{number}", "bad_attribute", detail)
            found.append((_bare(match[1]), _kind(match[2], number), _first(match[2])))
            if len(found) > MAX_COLUMNS:
                raise refuse("/file", "too_many_columns", f"The file declares more than {MAX_COLUMNS} attributes.")
    raise refuse("/file", "no_rows", "The ARFF file has no @data section.")


def _kind(declared: str, number: int) -> str | None:
    """Our type of a declaration; None leaves it to the cells."""
    if declared.lstrip().startswith("{"):
        return "category"
    word = declared.split(maxsplit=1)[0].lower()
    if word not in KINDS:
        detail = f"Line {number}: attributes of type {word!r} are not read; use {', '.join(KINDS)} or a {{list}}."
        raise refuse(f"/file/line/{number}", "unread_type", detail)
    return KINDS[word]


def _first(declared: str) -> str:
    """The first level of a nominal attribute, else 0."""
    match = TOKEN.match(declared.strip()[1:].rstrip("}")) if declared.lstrip().startswith("{") else None
    return "0" if match is None else _value(match)


def _data(lines: Iterator[tuple[int, str]], attributes: list[Attribute], sink: TextIO, skip: bool) -> int:
    """Write the rows; the number that were left out. Invalid with the lines that do not fit."""
    writer, issues, rows, skipped = csv.writer(sink), [], 0, 0
    writer.writerow([name for name, *_ in attributes])
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        cells = _sparse(text, attributes) if text.startswith("{") else _dense(text)
        if cells is None or len(cells) != len(attributes):
            got = "cannot be split" if cells is None else f"has {len(cells)} values"
            detail = f"Line {number} {got} where {len(attributes)} were declared: {text[:200]}"
            issues.append(Issue(f"/file/line/{number}", "ragged_row", detail))
            skipped += 1
            if len(issues) >= MAX_REJECTS and not skip:
                break
            continue
        writer.writerow(cells)
        rows += 1
    if issues and not skip:
        raise Invalid(issues[0].detail, issues=tuple(issues))
    if not rows:
        raise refuse("/file", "no_rows", "The ARFF file has no rows.")
    return skipped


def _dense(text: str) -> list[str] | None:
    cells, at = [], 0
    while True:
        match = TOKEN.match(text, at)
        if match is None:
            return None
        cells.append(_value(match))
        at = match.end()
        if not match[4]:
            return cells


def _sparse(text: str, attributes: list[Attribute]) -> list[str] | None:
    """`{3 value, 7 value}`: what is not listed is 0, or the first level of a nominal attribute."""
    cells = [absent for *_, absent in attributes]
    body = text[1:].rstrip()
    if not body.endswith("}"):
        return None
    body = body[:-1].strip()
    while body:
        place, _, rest = body.partition(" ")
        match = TOKEN.match(rest)
        if not place.isdecimal() or match is None or int(place) >= len(cells):
            return None
        cells[int(place)] = _value(match)
        body = rest[match.end() :].strip()
    return cells


def _value(match: re.Match[str]) -> str:
    quoted = match[1] if match[1] is not None else match[2]
    if quoted is not None:
        return ESCAPE.sub(r"\1", quoted)
    return "" if match[3] == "?" else match[3]


def _bare(name: str) -> str:
    quoted = len(name) > 1 and name[0] == name[-1] and name[0] in "'\""
    return ESCAPE.sub(r"\1", name[1:-1]) if quoted else name
