"""JSON rows → the matrix of a fitted encoding, strictly, with a pointer to every cell that does not fit."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from ml_core.arrays import Matrix
from ml_core.errors import InvalidData, Issue, most_issues, pointer
from ml_core.preprocessing.policies import LEVELLED, MOMENTS
from ml_core.preprocessing.table import Column, Feature, TableEncoder, null_issue

Record = Mapping[str, Any]
NUMERIC = {float, int}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY, MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
LARGEST = sys.float_info.max
FINER = re.compile(r"[.,]\d{6}\d*[1-9]")


def encode(encoder: TableEncoder, rows: Sequence[Record]) -> tuple[Matrix, list[str]]:
    """(n, k) matrix and the names of columns that were not used. Strict: true and "1.5" are not numbers."""
    if encoder.plain:
        X = _numeric(encoder.inputs, rows, encoder.whole)
        if X is not None:
            return X, []
    wanted = set(encoder.inputs)
    extra = list(dict.fromkeys(k for r in rows for k in r if k not in wanted))
    return _general(encoder, rows), extra


def _numeric(names: list[str], rows: Sequence[Record], whole: list[int]) -> Matrix | None:
    """The common case, finite numbers in exactly the wanted columns; None sends the rows to the general one.

    Columns numbered in `whole` take whole numbers.
    """
    try:
        cells = [[r[c] for c in names] for r in rows if len(r) == len(names)]
    except KeyError:
        return None
    if len(cells) != len(rows) or not {type(v) for row in cells for v in row} <= NUMERIC:
        return None
    try:
        X = np.array(cells, dtype=np.float64).reshape(len(rows), len(names))
    except OverflowError:
        return None
    if whole and not (X[:, whole] == np.floor(X[:, whole])).all():
        return None
    return X if np.isfinite(X).all() else None


def finer(encoder: TableEncoder, rows: Sequence[Record]) -> list[str]:
    """Names of the columns of dates and times that have a text finer than microseconds, which is cut off."""
    moments = [] if encoder.plain else [f.name for f in encoder.features if f.type in MOMENTS]
    return [c for c in moments if any(isinstance(v := r.get(c), str) and FINER.search(v) for r in rows)]


def typed(
    encoder: TableEncoder, rows: Sequence[Record], enough: int | None = None
) -> tuple[dict[str, Column], list[Issue]]:
    """The input columns, and an issue for each cell that is absent or ill-typed, which is then an empty one.

    Once there are `enough` issues the other columns are not looked at.
    """
    issues: list[Issue] = []
    table: dict[str, Column] = {}
    for f in encoder.features:
        cells = [_cell(f, i, r, issues) for i, r in enumerate(rows)]
        text = f.type in LEVELLED
        values = np.array(cells, dtype=object) if text else np.array([np.nan if v is None else v for v in cells], float)
        table[f.name] = Column("category" if text else "number", values)
        if enough is not None and len(issues) >= enough:
            break
    return table, issues


def _general(encoder: TableEncoder, rows: Sequence[Record]) -> Matrix:
    table, issues = typed(encoder, rows, most_issues())
    if not issues:
        for f in encoder.features:
            missing = table[f.name].missing
            if f.fill is None:
                gaps = np.flatnonzero(missing)[: most_issues()]
                issues += [null_issue(int(i), f, encoder.missing_of(f)) for i in gaps]
            if f.type in LEVELLED:
                encoder.codes(f, table[f.name].values, missing, issues)
    if issues:
        raise InvalidData(f"{issues[0].pointer}: {issues[0].detail}", issues[: most_issues()])
    return encoder.matrix(table)[0]


def _cell(f: Feature, i: int, row: Mapping[str, Any], issues: list[Issue]) -> Any:
    """The value of one JSON cell in the feature's own type, or an issue that points at it."""
    if f.name not in row:
        issues.append(Issue(pointer("rows", i, f.name), "missing_column", "the model needs this column"))
        return None
    v = row[f.name]
    if v is None:
        return None
    if f.type in MOMENTS and isinstance(v, str):
        return _moment(f, i, v, issues)
    if not _fits(f, v):
        issues.append(Issue(pointer("rows", i, f.name), "wrong_type", f"expected {f.type}, got {v!r:.60}"))
        return None
    if isinstance(v, (int, float)) and not abs(v) <= LARGEST:
        issues.append(Issue(pointer("rows", i, f.name), "not_finite", "expected a finite number"))
        return None
    return v


def _fits(f: Feature, v: Any) -> bool:
    """Whether a cell of JSON has the type of the feature; dates are whole days since 1970-01-01."""
    if f.type in LEVELLED:
        return isinstance(v, str)
    if isinstance(v, bool) or f.type == "boolean":
        return isinstance(v, bool) and f.type == "boolean"
    whole = f.type in ("integer", "date")
    return isinstance(v, int) or (isinstance(v, float) and (not whole or v.is_integer()))


def _moment(f: Feature, i: int, text: str, issues: list[Issue]) -> float | None:
    found = moment(f.type, text)
    if found is None:
        issues.append(Issue(pointer("rows", i, f.name), "wrong_type", f"expected an ISO {f.type}, got {text!r:.60}"))
    return found


def moment(kind: str, text: str) -> float | None:
    """ISO text → days (date) or seconds (datetime) since 1970-01-01 UTC; without an offset it is UTC.

    None for other text, and for a date that has a time of day. Seconds are the nearest double to the microseconds,
    divided by 10⁶, as in tables.
    """
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        return None
    since = (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)) - EPOCH
    if kind == "date":
        return None if since % DAY else float(since // DAY)
    return float(since // MICROSECOND) / 1e6
