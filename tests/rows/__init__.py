"""One `Row` per algorithm: small parameters, data, an independent oracle. The registry-wide checks find them all."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """How to exercise one algorithm.

    `oracle` is an unfitted peer with `fit`; `same` names attributes (`coef_`) or query methods (`predict`) that must
    agree within `tol` (relative to the largest entry). An algorithm without a peer says why in `no_oracle`, and its own
    test file holds the closed forms. `expected` lists scikit-learn checks that cannot hold, each with its reason. A
    model that learns from sums says in `chunk_digits` how many digits of its answers chunks, update and forget keep.
    """

    name: str
    params: dict[str, Any]
    data: Callable[[], tuple[np.ndarray, np.ndarray | None]]
    oracle: Any = None
    same: tuple[str, ...] = ()
    tol: float = 1e-8
    no_oracle: str = ""
    sklearn_params: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, str] = field(default_factory=dict)
    chunk_digits: float = 0


def all_rows() -> list[Row]:
    """Rows of every family, in order of name."""
    rows: list[Row] = []
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        if not module.name.endswith(".data"):
            rows += importlib.import_module(module.name).ROWS
    return sorted(rows, key=lambda r: r.name)
