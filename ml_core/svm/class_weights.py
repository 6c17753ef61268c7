"""Factors on C per class."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Labels, Vector
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.params import Label

ClassWeight = Annotated[
    Literal["balanced"] | dict[Label, Annotated[float, Field(ge=0)]] | None,
    Field(description="Factor on C per class, by label; balanced makes all classes weigh the same."),
]


def class_weights(option: Any, classes: Labels, y: Codes, s: Vector) -> Vector:
    """(K,) factors; InvalidParameter names an unknown label, InvalidData a class that would weigh nothing."""
    K = len(classes)
    if option == "balanced":
        return np.asarray(s.sum() / (K * np.bincount(y, s, K)))
    labels = [str(c) for c in classes]
    given = {} if option is None else {str(k): float(v) for k, v in option.items()}
    unknown = [k for k in given if k not in labels]
    if unknown:
        message = f"class_weight names {unknown[0]!r}; the labels are {labels}"
        raise InvalidParameter(message, [Issue("/params/class_weight", "unknown_label", message)])
    factors = np.array([given.get(c, 1.0) for c in labels])
    if (factors == 0).any():
        name = labels[int(factors.argmin())]
        raise InvalidData(f"every row of class {name!r} has weight 0, so nothing can be learned of it; "
                          "give it a positive class_weight or leave its rows out")  # fmt: skip
    return factors
