"""Splits of rows into training and validation parts: disjoint, seeded, stratified where asked, groups kept whole."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.rng import generator

Split = tuple[np.ndarray, np.ndarray]


def folds(
    n: int, k: int, *, seed: int = 0, y: Any = None, groups: Any = None, shuffle: bool = True, repeat: int = 0
) -> list[Split]:
    """k pairs (train, validation) whose validation parts partition 0 … n-1; classes in `y` are spread evenly.

    Without `shuffle` each fold is a stretch of the rows (of each class, of the groups by first appearance) as they
    stand. Each `repeat` draws other folds.
    """
    units, order, classes = _units(n, seed, y, groups, shuffle, repeat)
    m = len(order)
    if not 2 <= k <= m:
        raise InvalidData(f"k_fold needs 2 ≤ k ≤ {m} (rows, or groups where given), got {k}")
    dealt = np.arange(m) % k
    fold = np.empty(m, dtype=np.int64)
    fold[order] = dealt if shuffle else dealt[np.lexsort((dealt, classes))]
    of_row = fold[units]
    return [(np.flatnonzero(of_row != i), np.flatnonzero(of_row == i)) for i in range(k)]


def parts_of(n: int, k: int, seed: int) -> list[Split]:
    """`folds` of n rows by the parameter `folds` of an estimator; InvalidParameter at its place."""
    if k > n:
        text = f"folds = {k} parts of {n} rows: each needs one; take fewer folds" if n > 1 else "one row has no parts"
        raise InvalidParameter(text, [Issue("/params/folds", "too_many", text)])
    return folds(n, k, seed=seed)


def _units(
    n: int, seed: int, y: Any, groups: Any, shuffle: bool, repeat: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The unit (row or group) of each row, the units in order, one class of `y` after the other, and their classes."""
    units = np.arange(n) if groups is None else _numbered(np.asarray(groups))
    if len(units) != n:
        raise InvalidData(f"groups has {len(units)} entries for {n} rows")
    m = int(units.max()) + 1 if n else 0
    order = generator(seed, *([repeat] if repeat else [])).permutation(m) if shuffle else _as_they_come(units)
    if y is None or groups is not None:
        return units, order, np.zeros(m, dtype=np.int64)
    classes = np.unique(np.asarray(y), return_inverse=True)[1]
    order = order[np.argsort(classes[order], kind="stable")]
    return units, order, classes[order]


def _as_they_come(units: np.ndarray) -> np.ndarray:
    """The units by the first row that belongs to them."""
    found, first = np.unique(units, return_index=True)
    return np.asarray(found[np.argsort(first)])


def holdout(
    n: int, fraction: float, *, seed: int = 0, y: Any = None, groups: Any = None, shuffle: bool = True, repeat: int = 0
) -> Split:
    """(train, validation) with about `fraction` of the rows (of the groups, where given) in the second part.

    Both parts are non-empty; each class in `y` gives the second its share, up to one row. Without `shuffle` these are
    the last rows (of each class; the groups that appear last). Each `repeat` draws other rows.
    """
    units, order, classes = _units(n, seed, y, groups, shuffle, repeat)
    m = len(order)
    if not 0 < fraction < 1 or m < 2:
        raise InvalidData(f"holdout needs a fraction between 0 and 1 and two rows (or groups), got {fraction} of {m}")
    count = min(max(round(fraction * m), 1), m - 1)
    dealt = np.zeros(m, dtype=bool)
    dealt[(np.arange(count) * m + m // 2) // count] = True
    held = np.zeros(m, dtype=bool)
    held[order] = dealt if shuffle else dealt[np.lexsort((dealt, classes))]
    return np.flatnonzero(~held[units]), np.flatnonzero(held[units])


def leave_one_out(n: int, *, groups: Any = None) -> list[Split]:
    """(train, validation) for each row alone, or for each group by first appearance."""
    units, order, _ = _units(n, 0, None, groups, False, 0)
    if len(order) < 2:
        raise InvalidData(f"leave_one_out needs two rows (or groups), got {len(order)}")
    return [(np.flatnonzero(units != u), np.flatnonzero(units == u)) for u in order]


def by_value(values: Any, groups: Any = None) -> list[Split]:
    """(train, validation) for each distinct value, in order; InvalidData where a group has rows of several values."""
    found, fold = np.unique(np.asarray(values), return_inverse=True)
    whole(fold, groups)
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(len(found))]


def whole(parts: np.ndarray, groups: Any) -> None:
    """InvalidData where a group has rows in several of the given parts, so that held-out rows would be known."""
    if groups is None:
        return
    numbers = _numbered(np.asarray(groups))
    first = parts[np.unique(numbers, return_index=True)[1]]
    torn = np.flatnonzero(first[numbers] != parts)
    if len(torn):
        group = np.asarray(groups).tolist()[torn[0]]
        raise InvalidData(f"the group {group!r} has rows in several parts of the given split")


def _numbered(groups: np.ndarray) -> np.ndarray:
    """(n,) numbers 0 … of the groups; a row without a group could leak, so there must be none."""
    missing = [i for i, g in enumerate(groups.tolist()) if g is None or (isinstance(g, float) and math.isnan(g))]
    if missing:
        raise InvalidData(f"{len(missing)} rows, first row {missing[0]}, belong to no group; fill or drop them")
    return np.unique(groups, return_inverse=True)[1]
