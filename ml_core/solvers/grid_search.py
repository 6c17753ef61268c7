"""Every point of a grid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ml_core import progress
from ml_core.arrays import Vector

BLOCK = 256


def grid_search(value: Callable[[Vector], float], axes: list[Vector]) -> tuple[Vector, float, np.ndarray]:
    """The best point (the first of equals, in row-major order), its value, and all values with an axis per coordinate.

    O(Π lengths) values, so exponential in the number of coordinates.
    """
    shape = tuple(len(a) for a in axes)
    values = np.empty(int(np.prod(shape)))
    for i in range(len(values)):
        at = np.unravel_index(i, shape)
        values[i] = value(np.array([a[j] for a, j in zip(axes, at, strict=True)]))
        if i % BLOCK == 0:
            progress.tick(i, len(values), "points", objective=float(np.nanmin(values[: i + 1])))
    best = int(np.nanargmin(values))
    at = np.unravel_index(best, shape)
    return np.array([a[j] for a, j in zip(axes, at, strict=True)]), float(values[best]), values.reshape(shape)
