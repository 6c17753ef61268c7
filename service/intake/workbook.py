"""Excel workbooks (XLSX): one sheet as delimited text, so that names, types and refusals are those of a text file."""

from __future__ import annotations

import csv
import datetime as dt
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import python_calamine as calamine

from service.disk import full_disk
from service.errors import TooLarge
from service.intake.findings import Json, ReadOptions, refuse

LARGEST = 1 << 30  # decoded bytes; the reader holds the sheet in memory
BLOCK = 1 << 20
EXACT = 2.0**53
HEADER_ROWS = 2
MIDNIGHT = dt.time()


def as_text(path: Path, options: ReadOptions, scratch: Path, cap: int) -> tuple[Path, ReadOptions, Json]:
    """The sheet as a CSV whose line numbers are the sheet's row numbers; Invalid, TooLarge."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check(archive, min(cap, LARGEST))
        book = calamine.CalamineWorkbook.from_path(str(path))
        names = list(book.sheet_names)
        sheet = book.get_sheet_by_index(_chosen(names, options.sheet))
    except (zipfile.BadZipFile, calamine.CalamineError, EOFError, NotImplementedError) as error:
        first = str(error).split("\n", maxsplit=1)[0][:300]
        raise refuse("/file", "damaged_file", f"The workbook is damaged, cut off or encrypted: {first}") from error
    _check_header(sheet)
    target, first_row = scratch / "sheet.csv", (sheet.start or (0, 0))[0]
    with full_disk(), target.open("w", encoding="utf-8", newline="") as sink:
        sink.write("\n" * first_row)
        csv.writer(sink, lineterminator="\n").writerows(_texts(sheet.to_python(skip_empty_area=True)))
    told = replace(options, format="csv", delimiter=",", decimal=".", encoding="utf-8")
    return target, told, {"sheet": sheet.name, "sheets": names}


def _check(archive: zipfile.ZipFile, cap: int) -> None:
    """Read every member once: sizes as announced, within the limit, and no XML that expands."""
    room = cap
    for member in archive.infolist():
        room -= member.file_size
        if room < 0:
            raise TooLarge(f"The workbook decodes to more than {cap} bytes, which is the limit.")
        with archive.open(member) as stream:
            head = stream.read(BLOCK)
            if member.filename.endswith((".xml", ".rels")) and re.search(rb"<!(DOCTYPE|ENTITY)", head):
                detail = f"{member.filename} declares XML entities, which no workbook needs."
                raise refuse("/file", "xml_entities", detail)
            while stream.read(BLOCK):
                pass


def _chosen(names: list[str], wanted: str | None) -> int:
    """Place of the sheet: by its name, else by its number, 1 is the first; the first when nothing is said."""
    if wanted is None and names:
        return 0
    if wanted in names:
        return names.index(str(wanted))
    if wanted is not None and wanted.isdecimal() and 1 <= int(wanted) <= len(names):
        return int(wanted) - 1
    shown = ", ".join(map(repr, names[:20])) or "none"
    raise refuse("/sheet", "unknown_sheet", f"There is no sheet {wanted!r}; the workbook has {shown}.")


def _check_header(sheet: Any) -> None:
    """Refuse an empty sheet, and cells merged across columns where the names stand."""
    if not sheet.height:
        raise refuse("/sheet", "no_rows", f"Sheet {sheet.name!r} is empty; `sheet` chooses another one.")
    top = (sheet.start or (0, 0))[0]
    for (row, left), (_, right) in sheet.merged_cell_ranges or ():
        if top <= row < top + HEADER_ROWS and left != right:
            detail = f"Row {row + 1} of sheet {sheet.name!r} has merged cells in columns {left + 1} to {right + 1}; "
            raise refuse("/sheet", "merged_header", detail + "unmerge them and give every column a name.")


def _texts(rows: Iterable[list[Any]]) -> Iterator[list[str]]:
    """The cells as text that reads back as the same value; a column of midnights is a column of dates."""
    kept = list(rows)
    days = [_dated(column) for column in zip(*kept, strict=True)]
    return ([_text(cell, day) for cell, day in zip(row, days, strict=True)] for row in kept)


def _dated(column: Iterable[Any]) -> bool:
    """Whether every instant of the column is a day."""
    return all(c.time() == MIDNIGHT for c in column if isinstance(c, dt.datetime))


def _text(cell: Any, day: bool) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < EXACT else repr(cell)
    if isinstance(cell, dt.date):  # an instant is one too, and a midnight may come as either
        instant = cell if isinstance(cell, dt.datetime) else dt.datetime.combine(cell, MIDNIGHT)
        return instant.date().isoformat() if day else instant.isoformat(sep=" ")
    return "" if cell is None else str(cell)
