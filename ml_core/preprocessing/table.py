"""Named, typed columns → a matrix: learned from the training rows, stored with the model, never a silent change.

A column of type number, integer or boolean is one numeric column; of dates and datetimes there are the forms of
`moments.py` (by default one column, days or seconds since 1970-01-01 UTC); category and text become indicators (two
levels: one 0/1 column, K levels: K columns) or ordinals. `table_fit.py` learns what is stored here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidData, Issue, most_issues, pointer
from ml_core.naming import Names
from ml_core.preprocessing.moments import moment_columns, moment_names, too_far
from ml_core.preprocessing.number_columns import Placed, column_of, write
from ml_core.preprocessing.policies import LEVELLED, ColumnType
from ml_core.preprocessing.whitening import Whitening


@dataclass(frozen=True)
class Column:
    """One column: float64 values (NaN where missing) or, for category and text, strings (None where missing)."""

    type: ColumnType
    values: np.ndarray

    @property
    def missing(self) -> np.ndarray:
        """(n,) whether the cell is empty."""
        if self.type in LEVELLED:
            return np.array([v is None for v in self.values], dtype=bool)
        return np.isnan(self.values)


Table = Mapping[str, Column]


@portable
@dataclass(frozen=True)
class Feature:
    """How one input column becomes matrix columns: its levels, what stands for a missing cell, and its policies.

    Models of earlier versions have no policies of their own here (None): the encoder's hold.
    """

    name: str
    type: str
    levels: tuple[str, ...] = ()
    one_hot: bool = False
    fill: float | str | None = None
    indicator: bool = False
    missing: str | None = None
    unknown_level: str | None = None
    scale: str | None = None
    date: tuple[str, ...] = ("epoch",)
    reference: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def places(self) -> dict[str, float]:
        """The code of each level."""
        return {level: float(i) for i, level in enumerate(self.levels)}

    @property
    def names(self) -> list[str]:
        """Names of the matrix columns."""
        if self.date != ("epoch",):
            base = moment_names(self.name, self.type, self.date)
        elif self.one_hot:
            base = [f"{self.name}={level}" for level in self.levels[self.first :]]
        else:
            base = [self.name]
        return [*base, f"{self.name} is missing"] if self.indicator else base

    @property
    def first(self) -> int:
        """The first level with an indicator of its own: of two levels, or beside a reference, the second."""
        return int(self.reference or len(self.levels) == 2)

    @cached_property
    def width(self) -> int:
        """How many matrix columns."""
        return len(self.names)

    @cached_property
    def numeric(self) -> bool:
        """Whether the matrix column is the numbers themselves, gaps filled."""
        return self.type not in LEVELLED and self.date == ("epoch",) and not self.indicator

    def block(self, numbers: Vector, missing: np.ndarray) -> Matrix:
        """(n, width) columns from numbers or level codes (n,), -1 being a level to ignore.

        Such a level has no indicator, beside a reference or of two levels it is the first, and among ordinals it is -1
        (0 in models of earlier versions).
        """
        if self.one_hot:
            out = (numbers[:, None] == np.arange(self.first, len(self.levels))).astype(np.float64)
        elif self.date != ("epoch",):
            out = moment_columns(numbers, self.type, self.date)
        else:
            own = not self.levels or (len(self.levels) > 1 and self.unknown_level is not None)
            out = (numbers if own else np.maximum(numbers, 0.0))[:, None]
        return np.hstack([out, missing[:, None].astype(np.float64)]) if self.indicator else out


@portable
@dataclass(frozen=True)
class TableEncoder:
    """The fitted encoding: features in order, general policies, and the scale of the matrix columns.

    A matrix column x is (x - shift) / scale; the columns of `whitening` are mixed after that.
    """

    features: tuple[Feature, ...]
    missing: str
    unknown_level: str
    shift: Vector
    scale: Vector
    whitening: Whitening | None = None

    @property
    def names(self) -> list[str]:
        """Names of the matrix columns."""
        return [name for f in self.features for name in f.names]

    @property
    def named(self) -> Names:
        """Names of the matrix columns with the input column of each, and whether it is scaled."""
        scaled = (self.shift != 0) | (self.scale != 1)
        if self.whitening is not None:
            scaled[self.whitening.places] = True
        return Names(tuple(self.names), tuple(f.name for f in self.features for _ in f.names), tuple(scaled.tolist()))

    @cached_property
    def inputs(self) -> list[str]:
        """Names of the input columns."""
        return [f.name for f in self.features]

    @cached_property
    def whole(self) -> list[int]:
        """Places of the input columns of whole numbers."""
        return [i for i, f in enumerate(self.features) if f.type == "integer"]

    @cached_property
    def plain(self) -> bool:
        """Whether the matrix is the numeric columns as they are."""
        simple = all(f.type in ("number", "integer") and not f.indicator and f.fill is None for f in self.features)
        return simple and self.whitening is None and not self.shift.any() and bool((self.scale == 1).all())

    def missing_of(self, f: Feature) -> str:
        """The policy for empty cells of a feature."""
        return f.missing or self.missing

    def unscaled(self, X: Matrix) -> Matrix:
        """Scaled rows (n, k) → the matrix columns in their own units."""
        return (X if self.whitening is None else self.whitening.undo(X)) * self.scale + self.shift

    def matrix(self, table: Table, first: int = 0) -> tuple[Matrix, np.ndarray]:
        """(n, k) matrix and the (n,) mask of rows kept (drop_rows drops those with a missing cell).

        Issues count the rows from `first`.
        """
        absent = [f.name for f in self.features if f.name not in table]
        if absent:
            raise InvalidData(
                f"columns {absent} are missing; the model needs {[f.name for f in self.features]}",
                [Issue(pointer("columns", c), "missing_column", "the model needs this column") for c in absent],
            )
        n = len(table[self.features[0].name].values)
        keep = np.ones(n, dtype=bool)
        issues: list[Issue] = []
        X = np.empty((n, len(self.shift)))
        ends = np.cumsum([f.width for f in self.features])
        for i in self._numbers(table, X, ends - 1):
            f, b = self.features[i], int(ends[i])
            a = b - f.width
            X[:, a:b] = (self._block(f, table[f.name], keep, issues, first) - self.shift[a:b]) / self.scale[a:b]
        if issues:
            raise InvalidData(f"{issues[0].pointer}: {issues[0].detail} ({len(issues)} such)", issues[: most_issues()])
        if not keep.all():
            X = X[keep]
        return X if self.whitening is None else self.whitening.apply(X), keep

    def _numbers(self, table: Table, X: Matrix, places: np.ndarray) -> list[int]:
        """Write the columns that are numbers as they are, gaps filled, into X (n, k); which features are left."""
        at = [i for i, f in enumerate(self.features) if f.numeric and table[f.name].type not in LEVELLED]
        columns = [
            Placed(column_of(table[f.name].values), np.nan if f.fill is None else float(f.fill), float(self.shift[j]),
                   float(self.scale[j]), j)
            for f, j in ((self.features[i], int(places[i])) for i in at)
        ]  # fmt: skip
        gaps = write(columns, X)
        done = {i for i, k in zip(at, gaps, strict=True) if not k or self.features[i].fill is not None}
        return [i for i in range(len(self.features)) if i not in done]

    def _block(self, f: Feature, column: Column, keep: np.ndarray, issues: list[Issue], first: int) -> Matrix:
        missing = column.missing
        if f.type in LEVELLED:
            numbers = self.codes(f, column.values, missing, issues, first)
        else:
            if column.type in LEVELLED:
                issues.append(Issue(pointer("columns", f.name), "wrong_type", f"expected {f.type}, got {column.type}"))
                return np.zeros((len(missing), len(f.names)))
            numbers = column.values
        if missing.any():
            drop = f.fill is None and self.missing_of(f) == "drop_rows"
            if f.fill is None and not drop:
                gaps = first + np.flatnonzero(missing)[: most_issues()]
                issues += [null_issue(int(i), f, self.missing_of(f)) for i in gaps]
            fill = 0.0 if f.fill is None else f.places[str(f.fill)] if f.type in LEVELLED else float(f.fill)
            numbers = np.where(missing, fill, numbers)
            if drop:
                keep &= ~missing
        if f.date != ("epoch",):
            far = too_far(numbers, f.type)
            issues += [_too_far(first + int(i), f) for i in np.flatnonzero(far)[: most_issues()]]
            numbers = np.where(far, 0.0, numbers)
        return f.block(numbers, missing)

    def codes(self, f: Feature, values: np.ndarray, missing: np.ndarray, issues: list[Issue], first: int = 0) -> Vector:
        """(n,) level numbers, -1 where unknown; unknown ones become issues unless they are to be ignored."""
        place = f.places
        codes = np.array([place.get(v, -1.0) for v in values])
        if (f.unknown_level or self.unknown_level) == "error":
            for i in np.flatnonzero((codes < 0) & ~missing)[: most_issues()]:
                issues.append(_unseen(first + int(i), f, values[i]))
        return codes


def null_issue(i: int, f: Feature, policy: str) -> Issue:
    """The empty cell of row i of a feature, under a policy that has nothing to put there."""
    why = f"encoding.missing is {policy!r}"
    if policy == "indicator":
        why = "no training row was: the model has no indicator for it"
    text = f"{f.name!r} is empty here and {why}; fill it or fit with another policy"
    return Issue(pointer("rows", i, f.name), "null_not_allowed", text)


def _too_far(i: int, f: Feature) -> Issue:
    return Issue(pointer("rows", i, f.name), "out_of_range", "no calendar is read so far from 1970; correct the cell")


def _unseen(i: int, f: Feature, value: Any) -> Issue:
    known = ", ".join(f.levels[:10]) + (" …" if len(f.levels) > 10 else "")
    return Issue(pointer("rows", i, f.name), "unknown_level", f"{value!r} was never seen in training; known: {known}")


@portable
@dataclass(frozen=True)
class TabularModel:
    """A fitted estimator with the encoding in front of it and the name of its target: what is stored and served.

    `reference` says where the training rows lie (a `preprocessing.reference.Reference`); models of before it have none.
    """

    encoder: TableEncoder
    estimator: Any
    target: str | tuple[str, ...] | None
    reference: Any = None
