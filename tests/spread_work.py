"""Pieces of work for tests of an engine: importable by name, as workers need them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from ml_core import progress
from ml_core.errors import InvalidData, Issue
from ml_core.numerics.memory import granted


def total(i: int, a: np.ndarray, b: np.ndarray) -> tuple[int, float, bool]:
    """Item, a sum, and whether the arrays may be written."""
    return i, float(a[i:].sum() + b.sum()), a.flags.writeable


def pid(i: int) -> int:
    """Who worked."""
    return os.getpid()


def late(i: int) -> bool:
    """Whether time is over at a step of a loop."""
    progress.tick(i, 9, "steps")
    return progress.late()


def slow(i: int, folder: str) -> int:
    """Leave a mark, wait for a file, answer."""
    (Path(folder) / f"begun-{i}").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.01)
    return i


def refuse(i: int) -> int:
    """The caller's mistake."""
    raise InvalidData("3 values are missing in 'age'", [Issue("/rows/17/age", "missing", "fill or drop it")])


def nothing(i: int) -> None:
    """No work at all."""


def room(i: int) -> tuple[float, bool]:
    """The bytes granted, and whether at most half of 100 s is left."""
    left = progress.left()
    return granted(), left is not None and left <= 50.0
