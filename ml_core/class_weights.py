"""Weights of classes, by label: factors on the weights of their rows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Labels, Vector
from ml_core.errors import InvalidParameter, Issue
from ml_core.params import Label

ClassWeight = Annotated[
    Literal["balanced"] | dict[Label, Annotated[float, Field(ge=0)]] | None,
    Field(description="Weight per class, by label; balanced makes all classes weigh the same."),
]


def class_weights(given: Any, classes: Labels, shares: Vector, total: float) -> Vector:
    """(K,) factor of each class; `shares` (K,) are the weights of the classes' rows, `total` their sum.

    InvalidParameter names a label that there is not; those that are not named keep their weight.
    """
    K = len(classes)
    if given is None:
        return np.ones(K)
    if isinstance(given, str):
        return np.asarray(total / (K * shares))
    labels = [str(c) for c in classes]
    factors = {str(k): float(v) for k, v in given.items()}
    unknown = [k for k in factors if k not in labels]
    if unknown:
        message = f"class_weight names {unknown[0]!r}; the labels are {labels}"
        raise InvalidParameter(message, [Issue("/params/class_weight", "unknown_label", message)])
    return np.array([factors.get(c, 1.0) for c in labels])
