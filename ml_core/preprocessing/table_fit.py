"""Learning an encoding from the training rows: levels, what stands for empty cells, scales.

Everything is learned from facts of single columns (`Facts`) and from totals over encoded rows (`scaled`), which come
from rows in memory or from the chunks of a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData, Issue, pointer
from ml_core.numerics.triangle import Triangle
from ml_core.preprocessing.column_scale import ColumnScale
from ml_core.preprocessing.number_columns import gaps_and_mean, lie, spread_over
from ml_core.preprocessing.policies import INDICATED, LEVELLED, MOMENTS, UNFILLED, ColumnType, Encoding
from ml_core.preprocessing.table import Column, Feature, Table, TableEncoder
from ml_core.preprocessing.whitening import Whitening

MAX_LEVELS = 1000
"""Levels that become indicator columns."""
MAX_ORDINALS = 10_000
"""Levels that become codes in one column."""
MAX_WHITENED = 2000
"""Matrix columns that are whitened together."""
BLOCK_ROWS = 65_536
"""Rows whose scatter is found at once, so that no second copy of all rows is made."""
SORTED = ("median", "most_frequent")
Part = Callable[..., Any]
TotalOf = Callable[[TableEncoder, Part], Any]


@dataclass(frozen=True)
class Facts:
    """What an encoding learns from one column: rows, empty cells, how often each level occurs, a number for gaps."""

    type: ColumnType
    rows: int
    missing: int
    counts: Mapping[str, int] = field(default_factory=dict)
    fill: float | None = None


def facts_of(column: Column, policy: Encoding) -> Facts:
    """The facts of a column in memory, under the policy of that column."""
    if column.type not in LEVELLED and policy.missing not in SORTED:
        empty, mean = gaps_and_mean(column.values)
        if policy.missing in UNFILLED or empty == len(column.values) or np.isfinite(mean):
            fill = None if policy.missing in UNFILLED or empty == len(column.values) else float(mean)
            return Facts(column.type, len(column.values), empty, fill=fill)
    missing = column.missing
    gaps = int(missing.sum())
    present = column.values[~missing] if gaps else column.values
    if column.type in LEVELLED:
        return Facts(column.type, len(missing), gaps, Counter(present.tolist()))
    fill = numeric_fill(present, policy.missing) if len(present) else None
    return Facts(column.type, len(missing), gaps, fill=fill)


def fit_encoder(table: Table, encoding: Encoding) -> TableEncoder:
    """Learn levels, fills and scales from the training rows; InvalidData names columns and counts it cannot take."""
    cells = sum(len(column.values) for column in table.values())
    found = spread_over(lambda name: facts_of(table[name], encoding.column(name)), list(table), cells)
    facts = dict(zip(table, found, strict=True))

    def total_of(encoder: TableEncoder, part: Part) -> Any:
        if isinstance(part, Lie) and all(f.missing == 0 or encoding.column(k).missing not in UNFILLED
                                         for k, f in facts.items()):  # fmt: skip
            return _lie(encoder, table, part)
        return part(encoder.matrix(table)[0])

    return scaled(encoder_of(facts, encoding), total_of)


def _lie(encoder: TableEncoder, table: Table, part: Lie) -> ColumnScale:
    """What `part` finds of all rows where each feature has all of them, a feature at a time: no matrix is made."""

    def of(f: Feature) -> Matrix:
        if f.numeric and table[f.name].type not in LEVELLED:
            return np.array([lie(table[f.name].values, None if f.fill is None else float(f.fill))]).T
        alone = replace(encoder, features=(f,), shift=np.zeros(f.width), scale=np.ones(f.width))
        own = ColumnScale.of(alone.matrix(table)[0], f.names)
        return np.array([own.low, own.high, own.mean, own.sd])

    rows = len(table[encoder.features[0].name].values)
    found = list(spread_over(of, encoder.features, rows * len(encoder.shift)))
    low, high, mean, sd = np.hstack(found)[:, part.places]
    return ColumnScale.within(rows, low, high, mean, sd, part.names)


def scaled(bare: TableEncoder, total_of: TotalOf) -> TableEncoder:
    """The encoder with the scale that the encoded rows have; InvalidData when there are none.

    `total_of` gives the value of a part over all rows under an encoder, None where there is no row.
    """
    kinds = np.array([f.scale or "none" for f in bare.features for _ in f.names])
    if (kinds == "none").all():
        return bare
    names = bare.names
    places, mixed = np.flatnonzero(kinds != "none"), np.flatnonzero(kinds == "whiten")
    if len(mixed) > MAX_WHITENED:
        text = f"{len(mixed)} matrix columns would be whitened together, more than {MAX_WHITENED}"
        raise InvalidData(text, [Issue("/encoding/scale", "too_many_columns", "choose standard, or exclude columns")])
    found = total_of(bare, Lie(places, tuple(names[j] for j in places)))
    if found is None:
        raise InvalidData("no row is complete: dropping those with empty cells leaves none",
                          [Issue("/encoding/missing", "no_rows", "exclude sparse columns or impute")])  # fmt: skip
    shift, scale = bare.shift.copy(), bare.scale.copy()
    shift[places], scale[places] = found.affine(kinds[places])
    out = replace(bare, shift=shift, scale=scale)
    return replace(out, whitening=Whitening.of(total_of(out, Scatter(mixed)), mixed)) if len(mixed) else out


@dataclass(frozen=True)
class Lie:
    """The part that finds where the columns at some places lie; None for a chunk without rows."""

    places: np.ndarray
    names: tuple[str, ...]

    def __call__(self, X: Matrix, y: Any = None, s: Any = None) -> ColumnScale | None:
        """Of the rows of X (n, k)."""
        return ColumnScale.of(X[:, self.places], self.names) if len(X) else None


@dataclass(frozen=True)
class Scatter:
    """The part that finds a root of the scatter of the columns at some places; None for a chunk without rows."""

    places: np.ndarray

    def __call__(self, X: Matrix, y: Any = None, s: Any = None) -> Triangle | None:
        """Of the rows of X (n, k), a block at a time."""
        blocks = (X[i : i + BLOCK_ROWS, self.places] for i in range(0, len(X), BLOCK_ROWS))
        parts = (Triangle.of(block, np.ones(len(block))) for block in blocks)
        return reduce(Triangle.merge, parts) if len(X) else None


def encoder_of(facts: Mapping[str, Facts], encoding: Encoding) -> TableEncoder:
    """The encoder, not yet scaled, of columns of which these facts are known; InvalidData as of `fit_encoder`."""
    gaps = {name: f.missing for name, f in facts.items() if f.missing and encoding.column(name).missing == "error"}
    if gaps:
        raise InvalidData(
            f"missing cells in {gaps}; choose encoding.missing: drop_rows, mean, median, most_frequent or "
            "indicator, for all or in encoding.columns, or exclude the columns",
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
    policy, done = encoding.column(name), encoding.resolved(name, facts.type)
    indicator = policy.missing == "indicator" and facts.missing > 0
    fills = policy.missing not in UNFILLED and (indicator or policy.missing != "indicator" or policy.lenient)
    bare = Feature(name, facts.type, indicator=indicator, missing=done["missing"], scale=policy.scale)
    if facts.type not in LEVELLED:
        date = policy.date if facts.type in MOMENTS else bare.date
        return replace(bare, fill=facts.fill if fills else None, date=date)
    levels = _levels(name, facts, policy)
    return replace(
        bare, levels=levels, one_hot=policy.categorical in INDICATED and len(levels) > 1,
        reference=policy.categorical == "reference",
        fill=max(levels, key=lambda v: facts.counts[v]) if fills else None, unknown_level=policy.unknown_level,
    )  # fmt: skip


def _levels(name: str, facts: Facts, policy: Encoding) -> tuple[str, ...]:
    if policy.categorical == "error":
        raise InvalidData(
            f"column {name!r} is {facts.type} and encoding.categorical is 'error'",
            [Issue(pointer("features", name), "categorical", "exclude it or choose one_hot, reference or ordinal")],
        )
    most = MAX_LEVELS if policy.categorical in INDICATED else MAX_ORDINALS
    if len(facts.counts) > most:
        raise too_many_levels(name, f"{len(facts.counts)}", policy)
    return tuple(sorted(facts.counts))


def too_many_levels(name: str, count: str, policy: Encoding) -> InvalidData:
    """The refusal of a column with more levels than an encoding takes."""
    one_hot = policy.categorical in INDICATED
    ordinal = f", take {pointer('encoding', 'columns', name, 'categorical')} = ordinal (at most {MAX_ORDINALS})"
    most, advice = (MAX_LEVELS, ordinal) if one_hot else (MAX_ORDINALS, "")
    advice = f"exclude it{advice}, or group its rare levels before the upload"
    return InvalidData(
        f"column {name!r} has {count} distinct values in {policy.categorical} encoding, more than {most}; {advice}",
        [Issue(pointer("features", name), "too_many_levels", f"{count} levels, at most {most}; {advice}")],
    )


def numeric_fill(present: Vector, policy: str) -> float | None:
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
