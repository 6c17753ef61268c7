"""The rows of a sheet, as the XML tells them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import BinaryIO

from service.intake.findings import refuse
from service.intake.sheet_xml import MAX_COLUMN, MAX_ROW, Damaged, events, number_text, place, time_text, unescaped

Row = tuple[int, dict[int, str]]
COLLECTED = {"v", "t"}
WORDS = {"b": {"0": "false", "1": "true", "false": "false", "true": "true"}}


class SheetCells:
    """Reads one sheet; afterwards `merged`, `hidden`, `day_columns` and `instant_columns` are known."""

    def __init__(self, shared: list[str], styles: list[str], first: dt.datetime) -> None:
        self.shared, self.styles, self.first = shared, styles, first
        self.merged: list[str] = []
        self.hidden = 0
        self.day_columns: set[int] = set()
        self.instant_columns: set[int] = set()
        self._rows: list[Row] = []
        self._cells: dict[int, str] = {}
        self._row, self._column, self._where = -1, -1, ""
        self._kind, self._style, self._formula = "n", 0, False
        self._text: list[str] = []
        self._collecting = self._phonetic = False

    def rows(self, source: BinaryIO) -> Iterator[Row]:
        """Row number from 0 and text by column of every row that has some; Damaged, Invalid."""
        for _ in events(source, "The sheet", self._start, self._end, self._data):
            yield from self._rows
            self._rows.clear()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "c":
            self._begin(attributes)
        elif name in COLLECTED:
            self._collecting = not self._phonetic
        elif name == "row":
            self._next_row(attributes)
        elif name == "f":
            self._formula = True
        elif name == "rPh":
            self._phonetic = True
        elif name == "mergeCell":
            self.merged.append(attributes.get("ref", ""))

    def _next_row(self, attributes: dict[str, str]) -> None:
        number = attributes.get("r", "")
        row = int(number) - 1 if number.isdecimal() else self._row + 1
        if not self._row < row < MAX_ROW:
            raise Damaged(f"row {number or row + 1} cannot follow row {self._row + 1}")
        self._row, self._column, self._cells = row, -1, {}
        self.hidden += attributes.get("hidden") in {"1", "true"}

    def _begin(self, attributes: dict[str, str]) -> None:
        column = place(attributes["r"])[1] if "r" in attributes else self._column + 1
        if not self._column < column < MAX_COLUMN:
            raise Damaged(f"cell {attributes.get('r')} comes twice, or in no order")
        self._column = column
        self._where = attributes.get("r") or f"{column + 1} of row {self._row + 1}"
        self._kind, self._style = attributes.get("t", "n"), int(attributes.get("s") or 0)
        self._formula = False
        self._text.clear()

    def _data(self, data: str) -> None:
        if self._collecting:
            self._text.append(data)

    def _end(self, name: str) -> None:
        if name == "c":
            text = self._finished("".join(self._text))
            if text:
                self._cells[self._column] = text
        elif name in COLLECTED:
            self._collecting = False
        elif name == "rPh":
            self._phonetic = False
        elif name == "row" and self._cells:
            self._rows.append((self._row, self._cells))

    def _finished(self, raw: str) -> str:
        """The text of the cell; empty when it has no value."""
        if self._kind == "s" and raw:
            number = int(raw) if raw.isdecimal() else -1
            if not 0 <= number < len(self.shared):
                raise Damaged(f"cell {self._where} refers to a text that is not there")
            return self.shared[number]
        if self._kind in {"inlineStr", "str", "e"}:
            return unescaped(raw)
        if not raw:
            if self._formula:
                detail = f"Cell {self._where} holds a formula without its value; open the workbook and save it again."
                raise refuse(f"/sheet/{self._where}", "no_value", detail)
            return ""
        if self._kind in WORDS:
            return WORDS[self._kind].get(raw, raw)
        return raw if self._kind == "d" else self._number(raw.strip())

    def _number(self, raw: str) -> str:
        kind = self.styles[self._style] if self._style < len(self.styles) else ""
        if not kind:
            return number_text(raw, self._where)
        text = time_text(raw, kind, self.first, self._where)
        if kind != "time":
            (self.instant_columns if ":" in text else self.day_columns).add(self._column)
        return text
