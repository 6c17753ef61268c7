"""What every primal-dual interior point does alike: how far a step may go, and where on the path it aims.

Source: Mehrotra (1992), On the implementation of a primal-dual interior point method, SIAM J. Optim. 2(4).
"""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Vector


def room(*pairs: tuple[Vector, Vector]) -> float:
    """The largest step that keeps every x + step · dx ≥ 0, of pairs (x, dx), x ≥ 0; infinite where none falls."""
    least = np.inf
    for x, dx in pairs:
        falls = dx < 0
        with np.errstate(over="ignore"):
            least = min(least, float((x[falls] / -dx[falls]).min(initial=np.inf)))
    return least


def aim(mean: float, ahead: float, least: float = 0.0) -> float:
    """The product to aim at: the mean product now, times the cubed share that the predictor would leave of it."""
    return mean * min(max(ahead / mean, least), 1.0) ** 3
