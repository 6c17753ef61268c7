"""Cells that are not of the type that somebody stated for their column: refused, or missing on request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ml_core.errors import pointer
from service.errors import Invalid, Issue
from service.intake.convert import PLAIN, convert
from service.intake.findings import MAX_REJECTS, Json, Type, Typed, warning
from service.intake.hints import cells_of, option, shown
from service.intake.scan import records
from service.intake.sniff import Dialect
from service.intake.types import EXACT, Rules, counts

ADVICE = "Correct the cells, state another type, or use on_error=missing (those cells) or on_error=skip (those rows)."
PATCH_ADVICE = 'Use another type, a format for dates, or "misfits": "missing" to make those cells missing.'


def refused(name: str, at: int, kind: str, text: pa.Array, bad: pa.Array, path: Path, how: Dialect) -> Invalid:
    """The refusal of a file, with line and column of the first cells that are not of the stated type."""
    rows = pc.indices_nonzero(bad)[:MAX_REJECTS].to_pylist()
    issues = tuple(
        Issue(
            f"/file/line/{line}/column/{at + 1}", "wrong_type",
            f"Line {line}, column {name!r}: {text[row].as_py()[:100]!r} is no {kind}.",
        )
        for row, line in zip(rows, _lines_of(rows, path, how), strict=True)
    )  # fmt: skip
    return _invalid(name, kind, bad, issues, option(text.filter(bad), how.decimal) + ADVICE)


def _invalid(name: str, kind: str, bad: pa.Array, issues: tuple[Issue, ...], advice: str) -> Invalid:
    text = f"{pc.sum(bad).as_py()} cells of column {name!r} are no {kind}. {issues[0].detail} {advice}"
    return Invalid(text, issues=issues)


def _lines_of(rows: Sequence[int], path: Path, how: Dialect) -> list[int]:
    """The line on which each data row begins. O(cells up to the last)."""
    wanted, lines, row = set(rows), [], -int(how.header)
    for line, fields in records(path, how):
        blank = len(how.names) == 1 and not fields
        if row >= 0 and ((len(fields) != len(how.names) and not blank) or _comment(fields, how)):
            continue
        if row in wanted:
            lines.append(line)
        row += 1
        if len(lines) == len(rows):
            break
    return lines + [0] * (len(rows) - len(lines))


def _comment(fields: list[str], how: Dialect) -> bool:
    return bool(how.comment and fields and fields[0].startswith(how.comment))


def set_missing(kind: str, cells: pa.Array, bad: pa.Array) -> Json:
    """The warning that counts cells which are missing now, and shows the first of them."""
    found, count = cells_of(bad, cells), pc.sum(bad).as_py()
    text = f"has {count} cells that are no {kind} and were set missing as asked ({shown(found)})."
    return warning("set_missing", text) | {"count": count, "cells": found}


def words(cells: pa.Array, values: pa.Array, bad: pa.Array) -> tuple[tuple[str, int], ...]:
    """The words that became missing because they mean that, and how often each occurs."""
    if values.null_count == cells.null_count or not pa.types.is_string(cells.type):
        return ()
    return counts(cells.filter(pc.and_not(pc.is_null(values), bad)))


def words_note(found: tuple[tuple[str, int], ...]) -> tuple[Json, ...]:
    """The warning that lists these words."""
    if not found:
        return ()
    listed = ", ".join(f"{word!r} {count} times" for word, count in found)
    return (
        warning("null_words", f"has words that were read as missing: {listed}.") | {"count": sum(dict(found).values())},
    )


def zeros_note(kind: str, cells: pa.Array) -> tuple[Json, ...]:
    """The warning that codes lose their leading zeros when they become numbers."""
    if kind not in {"integer", "number"} or not pa.types.is_string(cells.type):
        return ()
    hit = pc.match_substring_regex(cells, r"^\s*[+-]?0\d")
    count = pc.sum(hit).as_py()
    if not count:
        return ()
    found = cells_of(hit, cells)
    text = f"has {count} cells whose leading zeros were lost in the stated type {kind} ({shown(found)})."
    advice = "Make it category or text if these are codes."
    return (warning("leading_zeros_lost", text, advice) | {"count": count, "cells": found},)


def loss_note(kind: str, cells: pa.Array, values: pa.Array) -> tuple[Json, ...]:
    """The warning that a stated type cannot hold all of what the cells say: digits, or times of day. O(n)."""
    if kind == "date" and pa.types.is_timestamp(cells.type):
        lost = pc.not_equal(pc.cast(values, cells.type), cells)
        code, what = "times_left_out", "times of day were left out"
    elif kind == "number" and (pc.max(pc.abs(values)).as_py() or 0.0) >= EXACT:
        text = pc.cast(cells, pa.string())
        whole = pc.match_substring_regex(text, r"^\s*[+-]?\d+\s*$")
        large = pc.and_(whole, pc.greater_equal(pc.abs(values), float(EXACT)))
        lost = pa.array(map(_rounded, pc.if_else(large, text, pa.scalar(None, pa.string()))), pa.bool_())
        code, what = "rounded_integers", "digits beyond 2^53 were rounded to the nearest double"
    else:
        return ()
    count = pc.sum(lost).as_py()
    if not count:
        return ()
    found = cells_of(lost, cells)
    text = f"has {count} cells whose {what} in the stated type {kind} ({shown(found)})."
    return (warning(code, text) | {"count": count, "cells": found},)


def _rounded(cell: pa.Scalar) -> bool:
    """Whether text of a whole number is no double."""
    return bool(cell.is_valid and int(cell.as_py()) != int(float(cell.as_py())))


def converted(
    name: str, column: Typed, kind: Type, rules: Rules = PLAIN, *,
    missing: bool = False, form: str | None = None, advice: str = PATCH_ADVICE,
) -> Typed:  # fmt: skip
    """The column as a stated type; cells that do not fit become missing on request, else Invalid names the first."""
    values, bad = convert(column, kind, rules, form)
    notes = zeros_note(kind, column.array) + words_note(words(column.array, values, bad))
    notes += loss_note(kind, column.array, values)
    if not pc.any(bad).as_py():
        return Typed(values, kind, notes, explicit=True)
    if missing:
        return Typed(values, kind, (*notes, set_missing(kind, column.array, bad)), explicit=True)
    rows = pc.indices_nonzero(bad)[:MAX_REJECTS].to_pylist()
    issues = tuple(
        Issue(
            pointer("rows", row, name), "wrong_type",
            f"Row {row + 1}, column {name!r}: {str(column.array[row].as_py())[:100]!r} is no {kind}.",
        )
        for row in rows
    )  # fmt: skip
    raise _invalid(name, kind, bad, issues, advice)
