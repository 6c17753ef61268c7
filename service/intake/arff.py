"""Weka's ARFF: the declarations give names and types, and each cell is held to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from service.disk import full_disk
from service.errors import Invalid, Issue
from service.intake.arff_kinds import Attribute, Misfit, kind_of
from service.intake.arff_text import sparse, split, unquoted
from service.intake.decoding import as_utf8
from service.intake.findings import MAX_COLUMNS, MAX_REJECTS, Json, ReadOptions, refuse, warning
from service.intake.quoting import csv_names, csv_row

ATTRIBUTE = re.compile(r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S+)\s+(.+)$""", re.IGNORECASE)


def as_text(path: Path, options: ReadOptions, scratch: Path) -> tuple[Path, ReadOptions, Json, list[Json]]:
    """The data section as a CSV with a header; declared types are kept. Invalid."""
    plain, encoding, _ = as_utf8(path, options.encoding, scratch)
    target = scratch / "arff.csv"
    with (
        full_disk(), plain.open(encoding="utf-8-sig") as source,
        target.open("w", encoding="utf-8", newline="") as sink,
    ):  # fmt: skip
        lines = enumerate(source, start=1)
        attributes = _declared(lines)
        sink.write(csv_names([attribute.name for attribute in attributes]))
        skipped = _data(lines, attributes, sink, options.on_error == "skip")
    types = {attribute.name: attribute.type for attribute in attributes if attribute.type is not None}
    told = replace(
        options, format="csv", delimiter=",", decimal=".", header=True, encoding="utf-8", null_values=("",),
        types={**types, **options.types},
    )  # fmt: skip
    notes = [warning("skipped_rows", f"{skipped} rows were left out.")] if skipped else []
    if options.encoding is None and encoding == "cp1252":
        notes.append(warning("encoding", "The file is not UTF-8; it was read as cp1252.", "Set encoding if not so."))
    return target, told, {"encoding": encoding, **({"skipped_rows": skipped} if skipped else {})}, notes


def _declared(lines: Iterator[tuple[int, str]]) -> list[Attribute]:
    found: dict[str, Attribute] = {}
    for number, line in lines:
        text = line.strip()
        if text.lower().startswith("@data"):
            if not found:
                raise refuse("/file", "no_columns", "The ARFF file declares no attribute.")
            return list(found.values())
        if text.lower().startswith("@attribute"):
            attribute = _attribute(text, number)
            if attribute.name in found:
                detail = f"Line {number} declares {attribute.name!r} again; rename one of the two."
                raise refuse(f"/file/line/{number}", "duplicate_columns", detail)
            found[attribute.name] = attribute
            if len(found) > MAX_COLUMNS:
                raise refuse("/file", "too_many_columns", f"The file declares more than {MAX_COLUMNS} attributes.")
    raise refuse("/file", "no_rows", "The ARFF file has no @data section.")


def _attribute(text: str, number: int) -> Attribute:
    match = ATTRIBUTE.match(text)
    name = " ".join(unquoted(match[1]).split()) if match else ""
    try:
        if match is None or not name:
            raise Misfit("bad_attribute", "declares no attribute")
        return kind_of(name, match[2].strip())
    except Misfit as misfit:
        detail = f"Line {number} {misfit}: {text[:200]}"
        raise refuse(f"/file/line/{number}", misfit.code, detail) from misfit


def _data(lines: Iterator[tuple[int, str]], attributes: list[Attribute], sink: TextIO, skip: bool) -> int:
    """Write the rows; the number that were left out. Invalid with the lines that do not fit."""
    issues: list[Issue] = []
    rows = skipped = 0
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        try:
            sink.write(csv_row(_row(text, attributes)))
            rows += 1
        except Misfit as misfit:
            skipped += 1
            if not skip:
                detail = f"Line {number} {misfit}: {text[:200]}"
                issues.append(Issue(f"/file/line/{number}", misfit.code, detail))
            if len(issues) >= MAX_REJECTS:
                break
    if issues:
        raise Invalid(issues[0].detail, issues=tuple(issues))
    if not rows:
        raise refuse("/file", "no_rows", "The ARFF file has no rows.")
    return skipped


def _row(text: str, attributes: list[Attribute]) -> list[str | None]:
    """The checked cells of a line; Misfit."""
    if text.startswith("{"):
        given = sparse(text)
        if given is None or any(place >= len(attributes) for place in given):
            raise Misfit("ragged_row", f"is no sparse row of the {len(attributes)} attributes")
        return [a.read(given[i]) if i in given else a.absent for i, a in enumerate(attributes)]
    cells = split(text)
    if cells is None or len(cells) != len(attributes):
        got = "cannot be split" if cells is None else f"has {len(cells)} values"
        raise Misfit("ragged_row", f"{got} where {len(attributes)} were declared")
    return [attribute.read(cell) for attribute, cell in zip(attributes, cells, strict=True)]
