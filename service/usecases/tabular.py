"""A stored dataset → the typed columns that ml_core encodes, its target, weights and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ml_core.preprocessing.table import Column
from service.errors import Invalid, Issue
from service.ports import Json


def kinds(record: Json) -> Json:
    """The type of each column of a dataset."""
    return {c["name"]: c["type"] for c in record["columns"]}


def column(array: Any, kind: str) -> Column:
    """One Arrow column as ml_core wants it: float64 with NaN for missing, or strings with None."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    if kind in ("category", "text"):
        return Column(kind, words_of(array))  # type: ignore[arg-type]
    if kind == "boolean":
        array = pc.cast(array, pa.uint8())
    if kind == "date":
        array = pc.cast(array, pa.int32())
    if kind == "datetime":
        array = pc.cast(array, pa.int64())
    numbers = pc.cast(array, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if kind == "datetime":
        numbers = numbers / 1e6
    return Column(kind, np.asarray(numbers, dtype=np.float64))  # type: ignore[arg-type]


def words_of(array: Any) -> np.ndarray:
    """(n,) strings, None where missing; equal cells share one object."""
    coded = array if pa.types.is_dictionary(array.type) else _text(array).dictionary_encode()
    words = np.empty(len(coded.dictionary) + 1, dtype=object)
    words[:-1] = _text(coded.dictionary).to_pylist()
    places = pc.fill_null(pc.cast(coded.indices, pa.int64()), len(words) - 1)
    return np.asarray(words[places.to_numpy(zero_copy_only=False)])


def _text(array: Any) -> Any:
    return array if pa.types.is_large_string(array.type) else pc.cast(array, pa.string())


def classes(array: Any, kind: str) -> np.ndarray:
    """Class labels of cells of which none is empty, as a fixed-width array; Invalid as of `labels`."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if kind in ("category", "text"):
        coded = array.dictionary_encode()
        return np.array(coded.dictionary.to_pylist(), dtype=str)[coded.indices.to_numpy(zero_copy_only=False)]
    if kind in ("boolean", "integer", "number"):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    return np.array(labels(array, kind).tolist())


def labels(array: Any, kind: str) -> np.ndarray:
    """Class labels as they stand in the table: strings, numbers or booleans; None where missing."""
    values = array.to_pylist()
    out = np.empty(len(values), dtype=object)
    if kind in ("category", "text"):
        typed: Any = str
    elif kind == "boolean":
        typed = bool
    elif kind in ("integer", "number"):
        typed = int if kind == "integer" else float
    else:
        raise Invalid(
            f"a class target must be category, text, boolean, integer or number; this column is {kind}",
            issues=(Issue("/target", "not_classes", "choose another column, or a regression algorithm"),),
        )
    out[:] = [None if v is None else typed(v) for v in values]
    return out


@dataclass(frozen=True)
class Selection:
    """Which columns play which part."""

    features: tuple[str, ...]
    target: str | tuple[str, ...] | None
    weights: str | None
    groups: str | None


def select(record: Json, request: Json, *, supervised: bool) -> Selection:
    """Resolve target, features, weights and groups against the dataset's columns; Invalid names what does not fit."""
    known = {c["name"]: c for c in record["columns"]}
    target = request.get("target")
    targets = [target] if isinstance(target, str) else list(target or [])
    issues = _unknown(known, "/target", targets)
    split = (request.get("validation") or {}).get("column")
    for role, name in (("weights", request.get("weights")), ("groups", request.get("groups")),
                       ("validation/column", split)):  # fmt: skip
        issues += _unknown(known, f"/{role}", [name] if name else [])
    if split in targets:
        issues.append(Issue("/validation/column", "target_leak", "rows cannot be held out by the target"))
    for role in ("features", "exclude"):
        issues += _unknown(known, f"/{role}", request.get(role) or [])
        issues += _twice(f"/{role}", request.get(role))
    issues += _twice("/target", targets)
    if request.get("features") == []:
        issues.append(Issue("/features", "empty", "name some columns, or leave features out for all that are usable"))
    torn = sorted({*(request.get("features") or [])} & {*(request.get("exclude") or [])})
    issues += [Issue("/exclude", "contradiction", f"{c!r} is asked for in features and excluded") for c in torn]
    if supervised and not targets:
        issues.append(Issue("/target", "missing", "this algorithm learns to predict a column: name it"))
    if not supervised and targets:
        issues.append(Issue("/target", "not_expected", "this algorithm takes no target; leave it out"))
    if issues:
        raise Invalid("; ".join(f"{i.pointer}: {i.detail}" for i in issues), issues=tuple(issues))
    roles = {c: known[c].get("role") for c in known}
    weights = request.get("weights") or next((c for c, r in roles.items() if r == "weights"), None)
    taken = {*targets, weights, request.get("groups"), split, *(request.get("exclude") or [])}
    chosen = request.get("features") or [c for c in known if c not in taken and _usable(known[c], record["rows"])]
    both = sorted({*targets} & {*chosen})
    if both:
        raise Invalid(
            f"{both} is both target and feature", issues=(Issue("/features", "target_leak", f"remove {both}"),)
        )
    if not chosen:
        raise Invalid("no column is left to learn from", issues=(Issue("/features", "empty", "name some features"),))
    picked = target if isinstance(target, str) else (tuple(targets) or None)
    return Selection(tuple(chosen), picked, weights, request.get("groups"))


def _unknown(known: Json, pointer: str, names: Sequence[str]) -> list[Issue]:
    return [Issue(pointer, "unknown_column", f"there is no column {n!r}; there are {', '.join(list(known)[:50])}")
            for n in names if n not in known]  # fmt: skip


def _twice(pointer: str, names: Sequence[str] | None) -> list[Issue]:
    several = sorted({n for n in names or () if list(names or ()).count(n) > 1})
    return [Issue(pointer, "duplicate", f"{n!r} is named twice; name it once") for n in several]


def _usable(column: Json, rows: int) -> bool:
    """Not an identifier: unique text says nothing about the next row; a column without values neither."""
    if column.get("role") in ("identifier", "ignore", "weights"):
        return False
    if column["missing"] == rows:
        return False
    return not (column["type"] in ("text", "category") and column["distinct"] >= rows - column["missing"] > 2)


def numeric_target(array: Any, kind: str, pointer: str = "/target") -> np.ndarray:
    """Targets of a regression, float64, NaN where missing; true is 1."""
    if kind not in ("number", "integer", "boolean"):
        raise Invalid(
            f"a regression target must be a number, integer or boolean column; this one is {kind}",
            issues=(Issue(pointer, "not_numeric", "choose another column, or a classification algorithm"),),
        )
    return column(array, kind).values
