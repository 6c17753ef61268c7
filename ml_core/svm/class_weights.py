"""Factors on C per class."""

from __future__ import annotations

from typing import Any

import numpy as np

from ml_core import class_weights as shared
from ml_core.arrays import Codes, Labels, Vector
from ml_core.errors import InvalidData


def class_factors(option: Any, classes: Labels, y: Codes, s: Vector) -> Vector:
    """(K,) factors; InvalidParameter names an unknown label, InvalidData a class that would weigh nothing."""
    shares = np.bincount(y, s, len(classes)).astype(np.float64)
    factors = shared.class_weights(option, classes, shares, float(s.sum()))
    if (factors == 0).any():
        name = str(classes[int(factors.argmin())])
        raise InvalidData(f"every row of class {name!r} has weight 0, so nothing can be learned of it; "
                          "give it a positive class_weight or leave its rows out")  # fmt: skip
    return factors
