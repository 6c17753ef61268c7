"""Least sums of absolute deviations, and zeros of sums of piecewise linear slopes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ml_core.arrays import Vector

EPS = float(np.finfo(float).eps)


def weighted_median(x: Vector, s: Vector) -> float:
    """The middle of the interval of all c that minimise Σ s |c - x|; O(n log n)."""
    order = np.argsort(x, kind="stable")
    ranked, below = x[order], np.cumsum(s[order])
    half, slack = 0.5 * below[-1], len(x) * EPS * below[-1]
    low = int(np.searchsorted(below, half - slack))
    high = min(int(np.searchsorted(below, half + slack, side="right")), len(x) - 1)
    return float(0.5 * ranked[low] + 0.5 * ranked[high])


def zero_of(slope: Callable[[float], float], breaks: Vector) -> float:
    """A zero of a nondecreasing function that is linear between sorted `breaks`, ≤ 0 at the first, ≥ 0 at the last.

    Of an interval of zeros that ends at breaks, its middle; O(log n) calls.
    """
    low = _first(lambda i: slope(breaks[i]) >= 0, len(breaks) - 1)
    high = _first(lambda i: slope(breaks[i]) > 0, len(breaks)) - 1
    if high >= low:
        return float(0.5 * breaks[low] + 0.5 * breaks[high])
    a, b = float(breaks[low - 1]), float(breaks[low])
    fa, fb = slope(a), slope(b)
    return a + (b - a) * (-fa / (fb - fa))


def _first(holds: Callable[[int], bool], size: int) -> int:
    """The first index below `size` from which on `holds`, else `size`, by halving."""
    a, b = 0, size
    while a < b:
        middle = (a + b) // 2
        a, b = (a, middle) if holds(middle) else (middle + 1, b)
    return a
