"""One pass of least mean squares, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled


def _warm() -> tuple[Any, ...]:
    return np.ones((2, 2)), np.ones(2), np.ones(2), np.zeros(2), np.zeros(2), np.arange(2), 0, 0.1, 10.0, 0.75, False


@compiled(_warm)
def lms_epoch(
    M: Matrix, y: Vector, s: Vector, w: Vector, mean: Vector, order: Codes, t: int, a: float, tau: float, power: float,
    normalized: bool,
) -> float:  # fmt: skip
    """w ← w - a/(1 + t/τ)^power sᵢ(mᵢᵀw - yᵢ)mᵢ in the given order, in place; Σ sᵢ(mᵢᵀw - yᵢ)² before each change.

    `normalized` divides the step by |mᵢ|². `mean` becomes the average w. O(n p).
    """
    p, total = M.shape[1], 0.0
    mean[:] = 0.0
    for k in range(order.shape[0]):
        i = order[k]
        e, size = -y[i], 0.0
        for j in range(p):
            e += M[i, j] * w[j]
            size += M[i, j] * M[i, j]
        total += s[i] * e * e
        move = a / (1.0 + (t + k) / tau) ** power * s[i] * e
        if normalized:
            move = move / size if size > 0.0 else 0.0
        for j in range(p):
            w[j] -= move * M[i, j]
            mean[j] += (w[j] - mean[j]) / (k + 1)
    return total
