"""Compiled pieces of a Newton step on the free variables of a box: centred direction, longest step, new values."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Codes, Vector
from ml_core.numerics.jit import compiled


@compiled(lambda: (np.full(2, 0.5), np.zeros(2), np.ones(2), np.arange(2)))
def still_free(beta: Vector, lo: Vector, hi: Vector, on: Codes) -> Codes:
    """Those of the variables `on` that are off their bounds."""
    out = np.empty(len(on), dtype=np.int64)
    count = 0
    for i in on:
        if lo[i] < beta[i] < hi[i]:
            out[count] = i
            count += 1
    return out[:count].copy()


@compiled(lambda: (np.full(2, 0.5), np.zeros(2), np.ones(2), np.zeros(2, np.int64), 1,
                   np.arange(2), np.zeros(2), False))  # fmt: skip
def follow(beta: Vector, lo: Vector, hi: Vector, group: Codes, groups: int, on: Codes, d: Vector,
           flat: bool) -> tuple[float, float, float]:  # fmt: skip
    """β (m,) moves along d (len(on),), less its mean in each group, until the first bound; d becomes the change.

    The step is at most 1 unless the direction is `flat`. Returns the step (inf where nothing bounds it: β stays), the
    largest change and the largest of the new values.
    """
    mean, count = np.zeros(groups), np.zeros(groups)
    for k in range(len(on)):
        mean[group[on[k]]] += d[k]
        count[group[on[k]]] += 1.0
    t, first = np.inf, -1
    for k in range(len(on)):
        i = on[k]
        d[k] -= mean[group[i]] / count[group[i]]
        room = hi[i] - beta[i] if d[k] > 0.0 else beta[i] - lo[i]
        if d[k] != 0.0 and room < t * abs(d[k]):
            t, first = room / abs(d[k]), k
    if not flat and t > 1.0:
        t, first = 1.0, -1
    if t == np.inf:
        return t, 0.0, 0.0
    moved, largest = 0.0, 0.0
    for k in range(len(on)):
        i = on[k]
        new = min(max(beta[i] + t * d[k], lo[i]), hi[i])
        if k == first:
            new = hi[i] if d[k] > 0.0 else lo[i]
        d[k] = new - beta[i]
        beta[i] = new
        moved, largest = max(moved, abs(d[k])), max(largest, abs(new))
    return t, moved, largest
