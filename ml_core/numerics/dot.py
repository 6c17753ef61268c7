"""The inner product for compiled loops."""

from __future__ import annotations

from ml_core.arrays import Vector
from ml_core.numerics.jit import regrouped


@regrouped
def dot(a: Vector, b: Vector) -> float:
    """Σ aᵢ bᵢ, added in vector lanes."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total
