"""Corrections of a dataset: name, description, labels, and what a column is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ml_core.errors import pointer
from ml_core.preprocessing.policies import LEVELLED
from service.errors import Invalid, Issue
from service.intake.dates import bad_format
from service.intake.findings import NULLS, TYPES, Typed, about_column, warning
from service.intake.misfits import converted
from service.intake.profile import column_profile
from service.intake.types import Rules
from service.ports import Json

ROLES = ("feature", "target", "weights", "groups", "identifier", "ignore")
PARTS = ("role", "type", "levels", "misfits", "format")
MISFITS = ("error", "missing")
LASTING = (
    "set_missing", "leading_zeros_lost", "null_words", "rounded_integers", "times_left_out", "rounded_times",
    "text_of_values",
)  # fmt: skip
WRITTEN = ("number", "boolean", "date", "datetime")  # types whose values may be written in several ways
MAX_NAME = 200
FIELDS = ("name", "description", "labels", "columns")


def fields(changes: Json) -> None:
    """Check name, description and labels; Invalid names each that is wrong."""
    issues = [
        Issue(f"/{key}", "unknown_field", f"Only {', '.join(FIELDS)} can change.")
        for key in changes
        if key not in FIELDS
    ]
    name = changes.get("name", "x")
    if not isinstance(name, str) or not 0 < len(name.strip()) <= MAX_NAME:
        issues.append(Issue("/name", "bad_name", f"A name has 1 to {MAX_NAME} characters."))
    if not isinstance(changes.get("description", ""), str):
        issues.append(Issue("/description", "bad_description", "A description is text."))
    labels = changes.get("labels", {})
    if not isinstance(labels, dict) or not all(isinstance(part, str) for pair in labels.items() for part in pair):
        issues.append(Issue("/labels", "bad_labels", "Labels are an object of text to text."))
    _raise(issues)


def corrected(record: Json, changes: Json, load: Callable[[], pa.Table]) -> tuple[Json, pa.Table | None]:
    """The changed record, and the changed table when a column got another Arrow type (else None); Invalid."""
    fields(changes)
    wanted = changes.get("columns", {})
    _check_columns(record, wanted)
    fresh: Json = {key: value for key, value in record.items() if key != "revision"}
    fresh |= {key: changes[key] for key in ("name", "description", "labels") if key in changes}
    columns = {column["name"]: dict(column) for column in record["columns"]}
    table: pa.Table | None = None
    notes = list(record["warnings"])
    for name, change in wanted.items():
        if "role" in change:
            columns[name]["role"] = change["role"]
        kind = change.get("type", columns[name]["type"])
        if kind != columns[name]["type"]:
            source = table if table is not None else load()
            columns[name], changed, found = _retyped(columns[name], kind, source, change, _rules(record["source"]))
            found += _text_note(record, name, columns[name]["type"])
            table = changed if changed is not None else table
            notes = [note for note in notes if note.get("column") != name or note["code"] in LASTING] + found
        if "levels" in change:
            columns[name]["levels"] = _reordered(columns[name], change["levels"])
    fresh["columns"] = list(columns.values())
    fresh["warnings"] = notes
    if table is not None:
        fresh["bytes"] = table.nbytes
    return fresh, table


def _rules(source: Json) -> Rules:
    """How the cells of the file were written."""
    return Rules(source.get("decimal") or ".", tuple(source.get("null_values") or NULLS))


def _retyped(
    column: Json, kind: Any, table: pa.Table, change: Json, rules: Rules
) -> tuple[Json, pa.Table | None, list[Json]]:
    """The new record of a column, the new table unless the values stay as they are (category and text), warnings."""
    name = column["name"]
    at = table.column_names.index(name)
    typed = converted(
        name, Typed(table.column(at).combine_chunks(), column["type"]), kind, rules,
        missing=change.get("misfits") == "missing", form=change.get("format"),
    )  # fmt: skip
    kept = typed.array.type == table.schema.field(at).type
    fresh = column_profile(name, pa.chunked_array([typed.array]), kind) | {"role": column.get("role")}
    changed = None if kept else table.set_column(at, name, pa.chunked_array([typed.array]))
    return fresh, changed, [about_column(name, note) for note in typed.warnings]


def _text_note(record: Json, name: str, kind: str) -> list[Json]:
    """The warning that a column of a delimited file has the text of its values, not of the file's cells."""
    before = next(column["type"] for column in record["columns"] if column["name"] == name)
    if kind not in LEVELLED or before not in WRITTEN or "delimiter" not in record["source"]:
        return []
    text = f"has the text of its values, read as {before}; cells of the file may be written otherwise (1.50 for 1.5)."
    advice = f"Upload the file again with types={json.dumps({name: kind})} for the text that it has."
    return [about_column(name, warning("text_of_values", text, advice))]


def _reordered(column: Json, wanted: list[Any]) -> list[Json]:
    """The levels in the wanted order; they must be the same levels."""
    known = {level["value"]: level for level in column.get("levels") or []}
    if len(wanted) != len(known) or set(wanted) != set(known):
        text = f"Column {column['name']!r} has the levels {list(known)}; list each of them once."
        raise Invalid(text, issues=(Issue(pointer("columns", column["name"], "levels"), "other_levels", text),))
    return [known[value] for value in wanted]


def _check_columns(record: Json, wanted: Any) -> None:
    if not isinstance(wanted, dict):
        _raise([Issue("/columns", "bad_columns", "columns is an object: column name → role, type, levels.")])
    known = {column["name"] for column in record["columns"]}
    issues = []
    for name, change in wanted.items():
        here = pointer("columns", name)
        if name not in known:
            issues.append(Issue(here, "unknown_column", f"There is no column {name!r}."))
        elif not isinstance(change, dict) or set(change) - set(PARTS):
            issues.append(Issue(here, "unknown_field", f"A correction of a column has {', '.join(PARTS)}."))
        else:
            issues += _wrong(here, change)
    _raise(issues)


def _wrong(here: str, change: Json) -> list[Issue]:
    issues = []
    if change.get("role") not in (None, *ROLES):
        issues.append(Issue(f"{here}/role", "unknown_role", f"A role is one of {', '.join(ROLES)}, or null."))
    if change.get("type", "text") not in TYPES:
        issues.append(Issue(f"{here}/type", "unknown_type", f"A type is one of {', '.join(TYPES)}."))
    if change.get("misfits", "error") not in MISFITS:
        text = "misfits is error (cells that do not fit the type are refused) or missing."
        issues.append(Issue(f"{here}/misfits", "bad_misfits", text))
    if "format" in change:
        wrong = bad_format(change["format"])
        if wrong is None and change.get("type") not in {"date", "datetime"}:
            wrong = "A format goes with type date or datetime."
        issues += [Issue(f"{here}/format", "bad_format", wrong)] if wrong else []
    levels = change.get("levels", [])
    if not isinstance(levels, list) or not all(isinstance(level, (str, bool)) for level in levels):
        issues.append(Issue(f"{here}/levels", "bad_levels", "levels is a list of the column's values."))
    return issues


def _raise(issues: list[Issue]) -> None:
    if issues:
        raise Invalid(issues[0].detail, issues=tuple(issues))
