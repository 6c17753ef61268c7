"""Named, typed columns → a matrix: learned from the training rows, stored with the model, never a silent change.

A column of type number, integer, boolean, date or datetime is one numeric column (dates: days, datetimes: seconds since
1970-01-01 UTC); category and text become indicators (two levels: one 0/1 column, K levels: K columns) or ordinals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidData, Issue, pointer
from ml_core.preprocessing.column_scale import ColumnScale

ColumnType = Literal["number", "integer", "boolean", "category", "text", "date", "datetime"]
Missing = Literal["error", "drop_rows", "mean", "median", "most_frequent", "indicator"]
LEVELLED = ("category", "text")
UNFILLED = ("error", "drop_rows")
MAX_LEVELS = 1000
MAX_ISSUES = 20


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


@dataclass(frozen=True)
class Encoding:
    """Policies: what to do with missing cells, categories, levels never seen in training, and scales."""

    missing: Missing = "error"
    categorical: Literal["one_hot", "ordinal", "error"] = "one_hot"
    unknown_level: Literal["error", "ignore"] = "error"
    scale: Literal["none", "standard", "min_max"] = "none"


@portable
@dataclass(frozen=True)
class Feature:
    """How one input column becomes `width` matrix columns: its levels, and what stands in for a missing cell."""

    name: str
    type: str
    levels: tuple[str, ...] = ()
    one_hot: bool = False
    fill: float | str | None = None
    indicator: bool = False

    @property
    def names(self) -> list[str]:
        """Names of the matrix columns."""
        if self.one_hot and len(self.levels) != 2:
            base = [f"{self.name}={level}" for level in self.levels]
        else:
            base = [f"{self.name}={self.levels[1]}" if self.one_hot else self.name]
        return [*base, f"{self.name} is missing"] if self.indicator else base

    def block(self, numbers: Vector, missing: np.ndarray) -> Matrix:
        """(n, width) columns from numbers or level codes (n,), -1 being a level to ignore."""
        if self.one_hot and len(self.levels) != 2:
            out = (numbers[:, None] == np.arange(len(self.levels))).astype(np.float64)
        else:
            out = np.where(numbers < 0, 0.0, numbers)[:, None] if self.levels else numbers[:, None]
        return np.hstack([out, missing[:, None].astype(np.float64)]) if self.indicator else out


@portable
@dataclass(frozen=True)
class TableEncoder:
    """The fitted encoding: features in order, policies, and the affine scale of the matrix columns."""

    features: tuple[Feature, ...]
    missing: str
    unknown_level: str
    shift: Vector
    scale: Vector

    @property
    def names(self) -> list[str]:
        """Names of the matrix columns."""
        return [name for f in self.features for name in f.names]

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
        return simple and not self.shift.any() and bool((self.scale == 1).all())

    def matrix(self, table: Table) -> tuple[Matrix, np.ndarray]:
        """(n, k) matrix and the (n,) mask of rows kept (drop_rows drops those with a missing cell)."""
        absent = [f.name for f in self.features if f.name not in table]
        if absent:
            raise InvalidData(
                f"columns {absent} are missing; the model needs {[f.name for f in self.features]}",
                [Issue(pointer("columns", c), "missing_column", "the model needs this column") for c in absent],
            )
        n = len(table[self.features[0].name].values)
        keep = np.ones(n, dtype=bool)
        issues: list[Issue] = []
        blocks = [self._block(f, table[f.name], keep, issues) for f in self.features]
        if issues:
            raise InvalidData(f"{issues[0].pointer}: {issues[0].detail} ({len(issues)} such)", issues[:MAX_ISSUES])
        X = np.hstack(blocks) if len(blocks) > 1 else np.ascontiguousarray(blocks[0])
        if not keep.all():
            X = X[keep]
        return X if self.plain else (X - self.shift) / self.scale, keep

    def _block(self, f: Feature, column: Column, keep: np.ndarray, issues: list[Issue]) -> Matrix:
        missing = column.missing
        if f.type in LEVELLED:
            numbers = self.codes(f, column.values, missing, issues)
        else:
            if column.type in LEVELLED:
                issues.append(Issue(pointer("columns", f.name), "wrong_type", f"expected {f.type}, got {column.type}"))
                return np.zeros((len(missing), len(f.names)))
            numbers = column.values
        if missing.any():
            if f.fill is None and self.missing != "drop_rows":
                issues += [null_issue(i, f, self.missing) for i in np.flatnonzero(missing)[:MAX_ISSUES]]
            fill = 0.0 if f.fill is None else f.levels.index(str(f.fill)) if f.type in LEVELLED else float(f.fill)
            numbers = np.where(missing, fill, numbers)
            if self.missing == "drop_rows":
                keep &= ~missing
        return f.block(numbers, missing)

    def codes(self, f: Feature, values: np.ndarray, missing: np.ndarray, issues: list[Issue]) -> Vector:
        """(n,) level numbers, -1 where unknown; unknown ones become issues unless they are to be ignored."""
        place = {level: float(i) for i, level in enumerate(f.levels)}
        codes = np.array([place.get(v, -1.0) for v in values])
        if self.unknown_level == "error":
            for i in np.flatnonzero((codes < 0) & ~missing)[:MAX_ISSUES]:
                issues.append(_unseen(int(i), f, values[i]))
        return codes


def null_issue(i: int, f: Feature, policy: str) -> Issue:
    """The empty cell of row i of a feature, under a policy that has nothing to put there."""
    return Issue(
        pointer("rows", i, f.name),
        "null_not_allowed",
        f"row {i} of {f.name!r} is empty and encoding.missing is {policy!r}; fill it or fit with another policy",
    )


def _unseen(i: int, f: Feature, value: Any) -> Issue:
    known = ", ".join(f.levels[:10]) + (" …" if len(f.levels) > 10 else "")
    return Issue(pointer("rows", i, f.name), "unknown_level", f"{value!r} was never seen in training; known: {known}")


@dataclass(frozen=True)
class Facts:
    """What an encoding learns from one column: rows, empty cells, how often each level occurs, a number for gaps."""

    type: ColumnType
    rows: int
    missing: int
    counts: Mapping[str, int] = field(default_factory=dict)
    fill: float | None = None


def facts_of(column: Column, encoding: Encoding) -> Facts:
    """The facts of a column in memory."""
    missing = column.missing
    gaps = int(missing.sum())
    present = column.values[~missing] if gaps else column.values
    if column.type in LEVELLED:
        return Facts(column.type, len(missing), gaps, Counter(present.tolist()))
    fill = numeric_fill(present, encoding.missing) if len(present) else None
    return Facts(column.type, len(missing), gaps, fill=fill)


def fit_encoder(table: Table, encoding: Encoding) -> TableEncoder:
    """Learn levels, fills and scales from the training rows; InvalidData names columns and counts it cannot take."""
    bare = encoder_of({name: facts_of(column, encoding) for name, column in table.items()}, encoding)
    if encoding.scale == "none":
        return bare
    X, _ = bare.matrix(table)
    return scaled(bare, ColumnScale.of(X, bare.names) if len(X) else None, encoding)


def scaled(bare: TableEncoder, found: ColumnScale | None, encoding: Encoding) -> TableEncoder:
    """The encoder with the scale that the encoded rows have; InvalidData when there are none."""
    if encoding.scale == "none":
        return bare
    if found is None:
        raise InvalidData("no row is complete: dropping those with empty cells leaves none",
                          [Issue("/encoding/missing", "no_rows", "exclude sparse columns or impute")])  # fmt: skip
    shift, scale = found.affine(encoding.scale)
    return replace(bare, shift=shift, scale=scale)


def encoder_of(facts: Mapping[str, Facts], encoding: Encoding) -> TableEncoder:
    """The encoder, not yet scaled, of columns of which these facts are known; InvalidData as of `fit_encoder`."""
    gaps = {name: f.missing for name, f in facts.items() if f.missing}
    if gaps and encoding.missing == "error":
        raise InvalidData(
            f"missing cells in {gaps}; choose encoding.missing: drop_rows, mean, median, most_frequent or "
            "indicator, or exclude the columns",
            [Issue(pointer("features", c), "missing_values", f"{k} empty cells") for c, k in gaps.items()],
        )
    features = tuple(_feature(name, f, encoding) for name, f in facts.items())
    width = sum(len(f.names) for f in features)
    return TableEncoder(features, encoding.missing, encoding.unknown_level, np.zeros(width), np.ones(width))


def _feature(name: str, facts: Facts, encoding: Encoding) -> Feature:
    if facts.missing == facts.rows:
        raise InvalidData(
            f"column {name!r} has no value at all; exclude it", [Issue(pointer("features", name), "empty", "no value")]
        )
    indicator = encoding.missing == "indicator" and facts.missing > 0
    if facts.type not in LEVELLED:
        return Feature(name, facts.type, fill=facts.fill, indicator=indicator)
    levels = tuple(sorted(facts.counts))
    if encoding.categorical == "error":
        raise InvalidData(
            f"column {name!r} is {facts.type} and encoding.categorical is 'error'",
            [Issue(pointer("features", name), "categorical", "exclude it or choose one_hot or ordinal")],
        )
    if len(levels) > MAX_LEVELS:
        raise InvalidData(
            f"column {name!r} has {len(levels)} distinct values, more than {MAX_LEVELS}; exclude it",
            [Issue(pointer("features", name), "too_many_levels", f"{len(levels)} levels")],
        )
    common = max(levels, key=lambda v: facts.counts[v]) if encoding.missing not in UNFILLED else None
    one_hot = encoding.categorical == "one_hot" and len(levels) > 1
    return Feature(name, facts.type, levels, one_hot, common, indicator)


def numeric_fill(present: Vector, policy: Missing) -> float | None:
    """What stands for an empty cell of a numeric column with these values; None under a policy that fills nothing."""
    if policy in UNFILLED:
        return None
    if policy == "median":
        return float(np.median(present))
    if policy == "most_frequent":
        values, counts = np.unique(present, return_counts=True)
        return float(values[counts.argmax()])
    with np.errstate(over="ignore"):
        mean = float(present.mean())
    return mean if np.isfinite(mean) else float((present / len(present)).sum())


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
