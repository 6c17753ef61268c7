"""Cells of a table → the columns of a model's features, where they hold the feature's type exactly; else pointed at.

What a dataset, an Arrow or Parquet body and cells of text have in common: the numbers that come out have the bits that
the same values have as JSON rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ml_core.errors import InvalidData, Issue, most_issues, pointer
from ml_core.preprocessing.policies import LEVELLED, MOMENTS
from ml_core.preprocessing.records import FINER, moment
from ml_core.preprocessing.table import Column, Feature
from service.intake.convert import parse
from service.intake.dates import microseconds
from service.intake.findings import Type, one_chunk
from service.intake.types import Rules, without
from service.usecases.tabular import words_of

DAY = 86_400_000_000


@dataclass
class Fit:
    """Turns the columns of a table into those of features, and collects what does not fit; rows count from `first`."""

    rules: Rules | None = None
    first: int = 0
    levels: frozenset[str] = frozenset()
    issues: list[Issue] = field(default_factory=list)

    def column(self, f: Feature, cells: pa.ChunkedArray) -> Column:
        """The column of the feature; its cells are empty where an issue says why."""
        array = _array(cells)
        if self.rules is not None:
            return self._text(f, array, self.rules)
        return self._typed(f, array)

    def _typed(self, f: Feature, array: pa.Array) -> Column:
        words = f.type in LEVELLED
        kind: Any = "category" if words else "number"
        nothing = np.full(len(array), None, dtype=object) if words else np.full(len(array), np.nan)
        if array.null_count == len(array):
            return Column(kind, nothing)
        try:
            found = _READERS.get(f.type, _words)(array)
        except pa.ArrowInvalid:
            found = None
        if found is None:
            self.issues.append(Issue(pointer("columns", f.name), "wrong_type", _expected(f.type, str(array.type))))
            return Column(kind, nothing)
        values, bad = found
        self._point(
            f, bad & np.asarray(pc.is_valid(array)), "wrong_type", lambda i: _expected(f.type, _shown(array[i]))
        )
        if not words:
            self._point(f, np.isinf(values), "not_finite", lambda i: "expected a finite number")
        return Column(kind, values)

    def _text(self, f: Feature, array: pa.Array, rules: Rules) -> Column:
        """Cells of text by the type of the feature: what does not parse there may still be written as in JSON."""
        if f.type in LEVELLED:
            return Column("category", words_of(_trimmed(array, rules, self.levels, f.levels)))
        kind: Type = f.type  # type: ignore[assignment]
        values, bad = parse(array, kind, rules)
        column = self._typed(f, values)
        wrong = np.zeros(len(array), dtype=bool)
        places, most, found = np.flatnonzero(bad), most_issues(), 0
        for i, cell in zip(places, array.take(pa.array(places)).to_pylist(), strict=True):
            value = _rescued(f.type, cell.strip())
            wrong[i] = value is None
            column.values[i] = np.nan if value is None else value
            found += value is None
            if found == most:
                break
        self._point(f, wrong, "wrong_type", lambda i: _expected(f.type, _shown(array[i])))
        return column

    def _point(self, f: Feature, bad: np.ndarray, code: str, say: Callable[[int], str]) -> None:
        for i in np.flatnonzero(bad)[: most_issues()]:
            self.issues.append(Issue(pointer("rows", self.first + int(i), f.name), code, say(int(i))))


def columns_of(
    features: Sequence[Feature],
    table: pa.Table,
    rules: Rules | None = None,
    first: int = 0,
    extra: Sequence[str] = (),
) -> dict[str, Column]:
    """A column for every feature, by name; InvalidData points at what is absent or does not fit.

    `extra` are names of columns that were not taken into the table.
    """
    fit, out = Fit(rules, first, words_in(features)), {}
    for f in features:
        if f.name in table.column_names:
            out[f.name] = fit.column(f, table[f.name])
        else:
            fit.issues.append(Issue(pointer("columns", f.name), "missing_column", "the model needs this column"))
    if fit.issues:
        issues = sorted(fit.issues, key=lambda i: not i.pointer.startswith("/columns"))
        others = [n for n in (*table.column_names, *extra) if n not in out]
        told = others and issues[0].code == "missing_column"
        there = f"; other columns there: {', '.join(others[:20])}" if told else ""
        said = f"{issues[0].pointer}: {issues[0].detail} ({len(issues)} such{there})"
        raise InvalidData(said, issues[: most_issues()])
    return out


def finer_in(features: Sequence[Feature], table: pa.Table) -> list[str]:
    """Names of the features that are dates or times, and finer than microseconds in the table."""
    there = [f.name for f in features if f.type in MOMENTS and f.name in table.column_names]
    return [name for name in there if _finer(_array(table[name]))]


def _finer(array: pa.Array) -> bool:
    if pa.types.is_timestamp(array.type):
        return microseconds(array)[1]
    text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    return bool(text and pc.any(pc.match_substring_regex(array, FINER.pattern)).as_py())


def words_in(features: Sequence[Feature]) -> frozenset[str]:
    """Every level of every feature."""
    return frozenset(level for f in features for level in f.levels)


def _array(cells: pa.ChunkedArray) -> pa.Array:
    """One array, of the values inside extension types."""
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.unify_dictionaries() if pa.types.is_dictionary(cells.type) else cells
    array = one_chunk(cells)
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def _expected(kind: str, got: str) -> str:
    return f"expected {kind}, got {got:.60}"


def _shown(cell: pa.Scalar) -> str:
    return repr(cell.as_py()) if pa.types.is_string(cell.type) or pa.types.is_large_string(cell.type) else str(cell)


Values = tuple[np.ndarray, np.ndarray] | None
"""Numbers (NaN where empty) or words (None), and which cells do not fit; None where the column cannot hold the type."""


def _numbers(array: pa.Array) -> Values:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _numbers(array.dictionary_decode())
    if pa.types.is_decimal(kind):  # through its text: the direct cast rounds twice
        array = pc.cast(array, pa.string())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    values = pc.cast(array, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    values = np.array(values, dtype=np.float64)
    return values, np.zeros(len(values), dtype=bool)


def _integers(array: pa.Array) -> Values:
    found = _numbers(array)
    if found is None:
        return None
    with np.errstate(invalid="ignore"):
        return found[0], np.isfinite(found[0]) & (np.floor(found[0]) != found[0])


def _booleans(array: pa.Array) -> Values:
    if pa.types.is_dictionary(array.type):
        return _booleans(array.dictionary_decode())
    return _numbers(pc.cast(array, pa.uint8())) if pa.types.is_boolean(array.type) else None


def _microseconds(array: pa.Array) -> pa.Array | None:
    """Moments as whole microseconds; finer ones are rounded down, as in uploads. None for other types."""
    kind = array.type
    if pa.types.is_date(kind):
        return pc.cast(pc.cast(array, pa.timestamp("ms" if pa.types.is_date64(kind) else "s")), pa.timestamp("us"))
    if not pa.types.is_timestamp(kind):
        return None
    return microseconds(array)[0]


def _dates(array: pa.Array) -> Values:
    """Days since 1970-01-01; a time of day does not fit."""
    moments = _microseconds(array)
    if moments is None:
        return None
    whole = pc.fill_null(pc.cast(moments, pa.int64()), 0).to_numpy(zero_copy_only=False)
    days = (whole // DAY).astype(np.float64)
    days[~np.asarray(pc.is_valid(moments))] = np.nan
    return days, whole % DAY != 0


def _datetimes(array: pa.Array) -> Values:
    """Seconds since 1970-01-01 UTC."""
    moments = _microseconds(array)
    found = None if moments is None else _numbers(pc.cast(moments, pa.int64()))
    return None if found is None else (found[0] / 1e6, found[1])


def _words(array: pa.Array) -> Values:
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary,
             pa.types.is_large_binary)  # fmt: skip
    if not any(test(kind) for test in tests):
        return None
    words = words_of(array)
    return words, np.zeros(len(words), dtype=bool)


_READERS: dict[str, Callable[[pa.Array], Values]] = {
    "number": _numbers, "integer": _integers, "boolean": _booleans, "date": _dates, "datetime": _datetimes,
}  # fmt: skip


def _trimmed(array: pa.Array, rules: Rules, levels: frozenset[str], own: tuple[str, ...]) -> pa.Array:
    """Cells of text as words: `own` levels stay as they are, blanks around others go if all cells begin with one.

    The reader left words for an empty cell in place where they are `levels` of any feature.
    """
    nulls = tuple(w for w in rules.nulls if w in levels or not w)
    if pc.all(pc.starts_with(array, " ")).as_py():
        nulls = rules.nulls
        known = pc.is_in(array, pa.array(own, array.type), skip_nulls=True)
        array = pc.if_else(known, array, pc.utf8_trim_whitespace(array))
    return without(array, tuple(w for w in nulls if w not in own))


def _rescued(kind: str, text: str) -> float | None:
    """Integers beyond 64 bits, and times as JSON may have them."""
    if kind in ("date", "datetime"):
        return moment(kind, text)
    digits = text.removeprefix("+").removeprefix("-")
    whole = kind == "integer" and digits.isascii() and digits.isdigit() and len(digits) < 300
    return float(int(text)) if whole else None
