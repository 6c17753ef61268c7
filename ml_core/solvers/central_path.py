"""What every primal-dual interior point does alike: how far a step may go, and where on the path it aims.

Source: Mehrotra (1992), On the implementation of a primal-dual interior point method, SIAM J. Optim. 2(4).
"""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Vector
from ml_core.numerics.jit import compiled


@compiled(lambda: (np.ones(2), np.array([-1.0, 1.0])))
def _first(x: Vector, dx: Vector) -> float:
    """The least x / -dx where dx < 0, infinite where none is."""
    least = np.inf
    for i in range(len(x)):
        if dx[i] < 0.0:
            least = min(least, x[i] / -dx[i])
    return least


def room(*pairs: tuple[Vector, Vector]) -> float:
    """The largest step that keeps every x + step · dx ≥ 0, of pairs (x, dx), x ≥ 0; infinite where none falls."""
    return float(min(_first(x, dx) for x, dx in pairs))


def aim(mean: float, ahead: float, least: float = 0.0) -> float:
    """The product to aim at: the mean product now, times the cubed share that the predictor would leave of it."""
    return mean * min(max(ahead / mean, least), 1.0) ** 3
