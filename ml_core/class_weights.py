"""Weights of classes, by label: factors on the weights of their rows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Labels, Vector
from ml_core.errors import InvalidParameter, Issue
from ml_core.labels import spellings
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
    names = [spellings(c) for c in classes]
    factors = np.ones(K)
    for label, factor in given.items():
        at = [k for k in range(K) if spellings(label) & names[k]]
        if not at:
            message = f"class_weight names {label!r}; the labels are {classes.tolist()}"
            raise InvalidParameter(message, [Issue("/params/class_weight", "unknown_label", message)])
        factors[at[0]] = float(factor)
    return factors
