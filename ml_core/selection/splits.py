"""Splits of rows into training and validation parts: disjoint, seeded, stratified where asked, groups kept whole."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ml_core.errors import InvalidData
from ml_core.rng import generator

Split = tuple[np.ndarray, np.ndarray]


def folds(n: int, k: int, *, seed: int = 0, y: Any = None, groups: Any = None) -> list[Split]:
    """k pairs (train, validation) whose validation parts partition 0 … n-1; classes in `y` are spread evenly."""
    units, order = _units(n, seed, y, groups)
    m = len(order)
    if not 2 <= k <= m:
        raise InvalidData(f"k_fold needs 2 ≤ k ≤ {m} (rows, or groups where given), got {k}")
    fold = np.empty(m, dtype=np.int64)
    fold[order] = np.arange(m) % k
    of_row = fold[units]
    return [(np.flatnonzero(of_row != i), np.flatnonzero(of_row == i)) for i in range(k)]


def _units(n: int, seed: int, y: Any, groups: Any) -> tuple[np.ndarray, np.ndarray]:
    """The unit (row or group) of each row, and the units in random order, one class of `y` after the other."""
    units = np.arange(n) if groups is None else _numbered(np.asarray(groups))
    if len(units) != n:
        raise InvalidData(f"groups has {len(units)} entries for {n} rows")
    order = generator(seed).permutation(int(units.max()) + 1 if n else 0)
    if y is not None and groups is None:
        classes = np.unique(np.asarray(y), return_inverse=True)[1]
        order = order[np.argsort(classes[order], kind="stable")]
    return units, order


def holdout(n: int, fraction: float, *, seed: int = 0, y: Any = None, groups: Any = None) -> Split:
    """(train, validation) with about `fraction` of the rows (of the groups, where given) in the second part.

    Both parts are non-empty; each class in `y` gives the second its share, up to one row.
    """
    units, order = _units(n, seed, y, groups)
    m = len(order)
    if not 0 < fraction < 1 or m < 2:
        raise InvalidData(f"holdout needs a fraction between 0 and 1 and two rows (or groups), got {fraction} of {m}")
    count = min(max(round(fraction * m), 1), m - 1)
    held = np.zeros(m, dtype=bool)
    held[order[(np.arange(count) * m + m // 2) // count]] = True
    return np.flatnonzero(~held[units]), np.flatnonzero(held[units])


def _numbered(groups: np.ndarray) -> np.ndarray:
    """(n,) numbers 0 … of the groups; a row without a group could leak, so there must be none."""
    missing = [i for i, g in enumerate(groups.tolist()) if g is None or (isinstance(g, float) and math.isnan(g))]
    if missing:
        raise InvalidData(f"{len(missing)} rows, first row {missing[0]}, belong to no group; fill or drop them")
    return np.unique(groups, return_inverse=True)[1]
