"""Excel workbooks (XLSX): one sheet as delimited text, so that names, types and refusals are those of a text file."""

from __future__ import annotations

import csv
import posixpath
import re
import zipfile
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, TextIO

from service.disk import full_disk
from service.errors import TooLarge
from service.intake.findings import Json, ReadOptions, refuse, warning
from service.intake.quoting import csv_names, csv_row
from service.intake.sheet_cells import Row, SheetCells
from service.intake.sheet_xml import FIRST_1900, FIRST_1904, Damaged, elements, number_text, place, shared_texts, styles
from service.intake.unpack import Metered, damage

LARGEST = 1 << 30  # decoded bytes of one part; the shared texts are held in memory
HEADER_ROWS = 2
LEADING_ROWS = 20
DAY = re.compile(r"\d{4}-\d\d-\d\d")


def as_text(path: Path, options: ReadOptions, scratch: Path, cap: int) -> tuple[Path, ReadOptions, Json, list[Json]]:
    """The sheet as a CSV whose line numbers are the sheet's row numbers; Invalid, TooLarge."""
    with damage("damaged_file", "The workbook is damaged, cut off or encrypted"), zipfile.ZipFile(path) as archive:
        book = Book(archive, min(cap, LARGEST))
        name = book.chosen(options.sheet)
        target, notes = _sheet(book, name, scratch, cap)
    told = replace(options, format="csv", delimiter=",", decimal=".", encoding="utf-8")
    return target, told, {"sheet": name, "sheets": list(book.sheets)}, notes


class Book:
    """What a workbook says about its parts."""

    def __init__(self, archive: zipfile.ZipFile, cap: int) -> None:
        self.archive, self.cap = archive, cap
        found = self.small("xl/workbook.xml")
        links = [a for name, a in self.small("xl/_rels/workbook.xml.rels") if name == "Relationship"]
        targets = {a["Id"]: posixpath.normpath(posixpath.join("/xl", a["Target"]))[1:] for a in links}
        self.kinds = {a["Type"].rpartition("/")[2]: targets[a["Id"]] for a in links}
        sheets = [a for name, a in found if name == "sheet"]
        self.sheets = {a["name"]: targets[next(v for k, v in a.items() if k.endswith(":id"))] for a in sheets}
        self.visible = [a["name"] for a in sheets if a.get("state", "visible") == "visible"]
        since = next((a.get("date1904") for name, a in found if name == "workbookPr"), None)
        self.first = FIRST_1904 if since in {"1", "true"} else FIRST_1900

    def part(self, name: str) -> AbstractContextManager[BinaryIO]:
        """A part as a stream that ends with TooLarge at the cap."""
        return Metered(self.archive.open(name), self.cap)

    def small(self, name: str) -> list[tuple[str, dict[str, str]]]:
        """The elements of a part."""
        with self.part(name) as source:
            return elements(source, name)

    def cells(self) -> SheetCells:
        """A reader of a sheet of this book."""
        shared: list[str] = []
        if self.kinds.get("sharedStrings") in self.archive.namelist():
            with self.part(self.kinds["sharedStrings"]) as source:
                shared = shared_texts(source)
        looks = styles(self.small(self.kinds["styles"])) if self.kinds.get("styles") else []
        return SheetCells(shared, looks, self.first)

    def chosen(self, wanted: str | None) -> str:
        """The sheet of that name, else of that number, 1 is the first; the first visible one when nothing is said."""
        names = list(self.sheets)
        if wanted is None and names:
            return (self.visible or names)[0]
        if wanted is not None and wanted in names:
            return wanted
        if wanted is not None and wanted.isdecimal() and 1 <= int(wanted) <= len(names):
            return names[int(wanted) - 1]
        shown = ", ".join(map(repr, names[:20])) or "none"
        raise refuse("/sheet", "unknown_sheet", f"There is no sheet {wanted!r}; the workbook has {shown}.")


@dataclass
class Extent:
    """Where the cells of a sheet are."""

    left: int = 1 << 14
    width: int = 0
    top: int = -1
    leading: list[Row] = field(default_factory=list)

    def take(self, row: int, cells: dict[int, str], cap: int) -> None:
        """One more row; TooLarge when the table that it belongs to is."""
        self.left, self.width = min(self.left, *cells), max(self.width, max(cells) + 1)
        self.top = row if self.top < 0 else self.top
        if (row + 1) * (self.width - self.left) > cap:
            raise TooLarge(f"The sheet reaches to row {row + 1} and column {self.width}: {cap} cells are the limit.")
        if len(self.leading) < LEADING_ROWS:
            self.leading.append((row, cells))


def _sheet(book: Book, name: str, scratch: Path, cap: int) -> tuple[Path, list[Json]]:
    """The CSV of a sheet, and what was noticed."""
    cells, extent, raw = book.cells(), Extent(), scratch / "cells.csv"
    with full_disk(), raw.open("w", encoding="utf-8", newline="") as sink, book.part(book.sheets[name]) as source:
        _spool(cells.rows(source), extent, sink, cap)
    if extent.top < 0:
        raise refuse("/sheet", "no_rows", f"Sheet {name!r} is empty; `sheet` chooses another one.")
    head = _head(extent)
    _check_header(name, cells.merged, head)
    notes = []
    if head > extent.top:
        above = f"Rows {extent.top + 1} to {head} stand above the table and were left out."
        notes.append(warning("skipped_lines", above))
    if cells.hidden:
        notes.append(warning("hidden_rows", f"{cells.hidden} rows are hidden; they were read like the others."))
    target = scratch / "sheet.csv"
    with (
        full_disk(), raw.open(encoding="utf-8", newline="") as spooled,
        target.open("w", encoding="utf-8", newline="") as squared,
    ):  # fmt: skip
        _squared(csv.reader(spooled), extent, head, cells.day_columns & cells.instant_columns, squared)
    return target, notes


def _spool(rows: Iterable[Row], extent: Extent, sink: TextIO, cap: int) -> None:
    """Write the rows as they come, blank ones between them too."""
    following = 0
    for row, cells in rows:
        extent.take(row, cells, cap)
        sink.write("\n" * (row - following))
        sink.write(csv_row([cells.get(j) for j in range(max(cells) + 1)]))
        following = row + 1
        if sink.tell() > cap:
            raise TooLarge(f"The sheet decodes to more than {cap} bytes, which is the limit.")


def _squared(rows: Iterable[list[str]], extent: Extent, head: int, instants: set[int], sink: TextIO) -> None:
    """The rows from the header on, all of one width; columns with days and instants have instants only."""
    left, width = extent.left, extent.width
    for number, filled in enumerate(rows):
        if number < head:
            sink.write("\n")
            continue
        cells = filled + [""] * (width - len(filled))
        for j in instants:
            if DAY.fullmatch(cells[j]):
                cells[j] += " 00:00:00"
        sink.write(csv_names(cells[left:]) if number == head else csv_row([cell or None for cell in cells[left:]]))


def _head(extent: Extent) -> int:
    """The row of the names: lone cells above a full row of words are a title."""
    leading, width = extent.leading, extent.width - extent.left
    first = next((i for i, (_, cells) in enumerate(leading) if len(cells) > 1), 0)
    row, cells = leading[first]
    return row if len(cells) == width and not any(map(_is_number, cells.values())) else extent.top


def _is_number(text: str) -> bool:
    try:
        number_text(text, "")
    except Damaged:
        return False
    return True


def _check_header(name: str, merged: list[str], head: int) -> None:
    """Refuse cells merged across columns where the names stand."""
    for reference in merged:
        (row, left), (_, right) = (place(corner) for corner in (reference.split(":") * 2)[:2])
        if head <= row < head + HEADER_ROWS and left != right:
            detail = f"Sheet {name!r} has merged cells at {reference}; unmerge them and give every column a name."
            raise refuse("/sheet", "merged_header", detail)
