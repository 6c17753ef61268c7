"""What a least-squares model would predict for each row had it not seen that row, without fitting again."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix, Vector

LEAST = 1e-6
"""Share 1 - h of a row below which dividing by it costs more than six digits."""


def copies(s: Vector, *, precise: bool) -> tuple[Vector, Vector]:
    """What the figures of one row speak of, (n,) weight c and number t, s = c t: one copy, or all of a lighter row.

    Weights that state precisions (`precise`) are of one row each.
    """
    return (s, np.ones(len(s))) if precise else (np.minimum(s, 1.0), np.maximum(s, 1.0))


def left_out(y: Vector | Matrix, fitted: Vector | Matrix, h: Vector) -> Vector | Matrix:
    """f₋ᵢ(xᵢ) = yᵢ - (yᵢ - f(xᵢ))/(1 - hᵢ): targets and predictions (n,) or (n, q), leverages h = ∂f(xᵢ)/∂yᵢ (n,).

    NaN where the row alone determines a direction (1 - h < 1e-6): it has to be left out in earnest.

    References
    ----------
    Allen (1974), The relationship between variable selection and data augmentation and a method for prediction (PRESS).
    """
    rest = np.where(1 - h >= LEAST, 1 - h, np.nan)
    return np.asarray(y - (y - fitted) / (rest if y.ndim == 1 else rest[:, None]))
