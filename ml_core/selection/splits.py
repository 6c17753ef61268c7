"""Splits of rows into training and validation parts: disjoint, seeded, stratified where asked, groups kept whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from ml_core.errors import InvalidData
from ml_core.rng import generator

Split = tuple[np.ndarray, np.ndarray]


def folds(n: int, k: int, *, seed: int = 0, y: Any = None, groups: Any = None) -> list[Split]:
    """k pairs (train, validation) whose validation parts partition 0 … n-1; classes in `y` are spread evenly."""
    units = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    m = int(units.max()) + 1 if n else 0
    if not 2 <= k <= m:
        raise InvalidData(f"k_fold needs 2 ≤ k ≤ {m} (rows, or groups where given), got {k}")
    order = generator(seed).permutation(m)
    if y is not None and groups is None:
        classes = np.unique(np.asarray(y), return_inverse=True)[1]
        order = order[np.argsort(classes[order], kind="stable")]
    fold = np.empty(m, dtype=np.int64)
    fold[order] = np.arange(m) % k
    of_row = fold[units]
    return [(np.flatnonzero(of_row != i), np.flatnonzero(of_row == i)) for i in range(k)]


def holdout(n: int, fraction: float, *, seed: int = 0, y: Any = None, groups: Any = None) -> Split:
    """(train, validation) with about `fraction` of the rows in the second part, both non-empty."""
    k = max(2, round(1 / fraction))
    if abs(1 / fraction - k) < 1e-9 and k <= n:
        return folds(n, k, seed=seed, y=y, groups=groups)[0]
    parts = (
        folds(n, min(n, 1000), seed=seed, y=y, groups=groups)
        if groups is None
        else folds(n, len(np.unique(np.asarray(groups))), seed=seed, groups=groups)
    )
    take = min(max(1, round(fraction * len(parts))), len(parts) - 1)
    held = np.sort(np.concatenate([v for _, v in parts[:take]]))
    return np.setdiff1d(np.arange(n), held), held
