"""Passes of the kernel perceptron over a kernel matrix, compiled."""

from __future__ import annotations

import numpy as np

from ml_core.numerics.jit import compiled


@compiled(lambda: (np.eye(2), np.array([1.0, -1.0]), np.ones(2), np.arange(2), *(np.zeros(2) for _ in range(3)), 2))
def perceptron_pass(K, y, step, order, a, f, best, least):  # type: ignore[no-untyped-def]
    """One pass in `order`: where yᵢ fᵢ ≤ 0, aᵢ += stepᵢ yᵢ and f = K a follows. a, f, best (n,) are written.

    `best` keeps the weights whose decisions (fᵢ ≥ 0: the second class) had the fewest errors seen (`least` before);
    returns (updates, fewest errors). O(n) each.
    """
    updates = 0
    for i in order:
        if y[i] * f[i] > 0.0:
            continue
        updates += 1
        move = step[i] * y[i]
        a[i] += move
        errors = 0
        for j in range(len(f)):
            f[j] += move * K[i, j]
            if (f[j] >= 0.0) != (y[j] > 0.0):
                errors += 1
        if errors < least:
            least = errors
            best[:] = a
    return updates, least
