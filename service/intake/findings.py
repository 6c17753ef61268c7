"""What readers are told and what they report: options, typed columns, warnings, and a shelf for finished columns."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from ml_core.errors import pointer
from service.disk import full_disk
from service.errors import Invalid, Issue
from service.intake.laid import Laid

Type = Literal["number", "integer", "boolean", "category", "text", "datetime", "date"]
TYPES: tuple[Type, ...] = ("number", "integer", "boolean", "category", "text", "datetime", "date")
FORMATS = ("csv", "tsv", "ndjson", "json", "parquet", "arrow", "xlsx", "npy", "npz", "arff", "libsvm")
ODD_CODECS = {"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"}  # none of them is of files
NULLS = ("", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "null", "NULL", "NaN", "nan", "NAN", "None", "\\N")
WHITESPACE = "whitespace"
ON_ERROR = ("error", "skip", "missing")
MAX_REJECTS = 20
MAX_COLUMNS = 20_000
IN_MEMORY = 64 << 20
Json = dict[str, Any]


def refuse(where: str, code: str, detail: str) -> Invalid:
    """An Invalid with one issue whose text is also the message."""
    return Invalid(detail, issues=(Issue(where, code, detail),))


def open_quote(line: int, why: object) -> Invalid:
    """The refusal of a double quote that never closes, or closes inside a field."""
    detail = f"A double quote on line {line} is not closed properly ({why})."
    advice = "Double it inside a quoted field, or remove it; backslashes do not escape it."
    return refuse(f"/file/line/{line}", "unbalanced_quote", f"{detail} {advice}")


def warning(code: str, message: str, advice: str = "") -> Json:
    """One entry of `warnings`."""
    return {"code": code, "message": message, "advice": advice}


def about_column(name: str, note: Json) -> Json:
    """The warning of a column with the column's name in it."""
    return note | {"message": f"Column {name!r} {note['message']}", "column": name}


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file; None means: find out from the content."""

    name: str | None = None
    format: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    header: bool | None = None
    encoding: str | None = None
    null_values: tuple[str, ...] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    on_error: str = "error"
    sheet: str | None = None

    def check(self) -> None:
        """Refuse values that mean nothing, all of them at once."""
        issues = []
        if self.format is not None and self.format not in FORMATS:
            issues.append(Issue("/format", "unknown_format", f"{self.format!r} is not read; use {_any(FORMATS)}."))
        if self.delimiter not in {None, WHITESPACE, "tab"} and (
            len(self.delimiter or "") != 1 or self.delimiter in set('"\r\n')
        ):
            text = f"{self.delimiter!r} is not one character (or 'tab', or 'whitespace' for runs of blanks)."
            issues.append(Issue("/delimiter", "bad_delimiter", text))
        if self.decimal not in {None, ".", ","}:
            issues.append(Issue("/decimal", "bad_decimal", f"{self.decimal!r} is neither '.' nor ','."))
        elif self.decimal is not None and self.decimal == self.delimiter:
            issues.append(Issue("/decimal", "bad_decimal", f"{self.decimal!r} is the delimiter too."))
        if self.encoding is not None and not _known(self.encoding):
            issues.append(Issue("/encoding", "unknown_encoding", f"{self.encoding!r} is no known text encoding."))
        if self.on_error not in ON_ERROR:
            issues.append(Issue("/on_error", "bad_on_error", f"{self.on_error!r} is none of {_any(ON_ERROR)}."))
        issues += [
            Issue(pointer("types", name), "unknown_type", f"{kind!r} is no column type; use {_any(TYPES)}.")
            for name, kind in self.types.items()
            if kind not in TYPES
        ]
        if issues:
            raise Invalid(issues[0].detail, issues=tuple(issues))

    @property
    def nulls(self) -> tuple[str, ...]:
        """The words that stand for a missing value."""
        return NULLS if self.null_values is None else tuple(dict.fromkeys(self.null_values))


def _any(words: tuple[str, ...]) -> str:
    return ", ".join(words[:-1]) + " or " + words[-1]


def _known(encoding: str) -> bool:
    try:
        found = codecs.lookup(encoding)
        return bool(found._is_text_encoding) and found.name not in ODD_CODECS
    except LookupError:
        return False


@dataclass(frozen=True)
class Typed:
    """A column in its canonical Arrow type (one chunk) with what our readers call that type.

    `explicit` says that the file or the caller fixed the type, so that it is not reconsidered; `odd_nulls` counts words
    that mean missing in this column only.
    """

    array: pa.Array
    type: Type
    warnings: tuple[Json, ...] = ()
    explicit: bool = False
    odd_nulls: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Reading:
    """A file that was read completely: its table, the type of each column, how it was read and what was noticed.

    `laid` is a scratch file in which most of the table lies already, where there is one.
    """

    table: pa.Table
    types: tuple[Type, ...]
    source: Json
    warnings: tuple[Json, ...]
    laid: Laid | None = None


class Shelf:
    """Keeps finished columns: small ones in memory, the rest in mapped files, so that memory stays flat."""

    def __init__(self, folder: Path, limit: int = IN_MEMORY) -> None:
        self.folder = folder
        self._room = limit
        self._count = 0

    def keep(self, array: pa.Array) -> pa.Array:
        """The same array, backed by a file once the room in memory is used up. O(bytes)."""
        if array.nbytes <= self._room:
            self._room -= array.nbytes
            return array
        self._count += 1
        path = self.folder / f"column-{self._count}.arrow"
        batch = pa.record_batch([array], names=["x"])
        with full_disk(), pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0).column(0)


def one_chunk(cells: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one contiguous array; text beyond 2 GiB gets 64-bit offsets."""
    if isinstance(cells, pa.Array):
        return cells
    if pa.types.is_string(cells.type) and cells.nbytes >= 2**31 - 1:
        cells = cells.cast(pa.large_string())
    if cells.num_chunks == 1:
        return cells.chunk(0)
    return pa.concat_arrays(cells.chunks) if cells.num_chunks else pa.array([], cells.type)
