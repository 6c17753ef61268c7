"""What the functions on losses share: kinds of arguments and their checks."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field, WithJsonSchema

from ml_core.arrays import Vector
from ml_core.errors import InvalidParameter, Issue
from ml_core.labels import distinct, key
from ml_core.params import Label, RealMatrix, RealVector
from ml_core.validation import WEIGHTS

LARGEST = 1e100
_NUMBER = {"anyOf": [{"type": "number"}, {"type": "null"}]}
_LIST = {"type": "array", "items": _NUMBER}
Numbers = Annotated[np.ndarray, WithJsonSchema(_LIST)]
"""A result (n,), null where a number is infinite or does not exist."""
Rows = Annotated[np.ndarray, WithJsonSchema({"anyOf": [_LIST, {"type": "array", "items": _LIST}]})]
"""A result (n,) or (n, q)."""

Prediction = Annotated[RealVector, Field(description="(n,) predictions z.")]
Target = Annotated[RealVector, Field(description="(n,) targets.")]
Predictions = Annotated[RealVector | RealMatrix, Field(description="(n,) or (n, q) predictions z.")]
Targets = Annotated[RealVector | RealMatrix, Field(description="Targets, of the shape of the predictions.")]
Scores = Annotated[RealVector, Field(description="(n,) scores, positive for the positive label.")]
Marks = list[Label | None]
Signs = Annotated[Marks, Field(min_length=1, description="(n,) labels of at most two kinds, such as -1 and 1.")]
Positive = Annotated[Label | None, Field(description="The label that counts as 1; default the last of their order.")]
Weight = Annotated[RealVector | None, Field(description="(n,) non-negative weights; default 1.")]


def wrong(name: str, code: str, message: str) -> InvalidParameter:
    """InvalidParameter about one argument."""
    return InvalidParameter(message, [Issue(f"/{name}", code, message)])


def bounded(**values: Any) -> None:
    """Refuse numbers beyond 1e100, whose products overflow."""
    for name, value in values.items():
        if np.abs(value).max(initial=0.0) > LARGEST:
            raise wrong(name, "range", f"{name} holds a number beyond {LARGEST:g}; use another unit")


def same_shape(prediction: np.ndarray, y: np.ndarray, name: str = "prediction") -> None:
    """Refuse arguments whose shapes differ, and empty ones."""
    if prediction.shape != y.shape:
        raise wrong("y", "length", f"{name} has the shape {prediction.shape}, y has {y.shape}; they must be equal")
    if not y.size:
        raise wrong("y", "too_short", "give at least one row")
    bounded(prediction=prediction, y=y)


def weights_of(sample_weight: Vector | None, n: int) -> Vector:
    """(n,) weights, 1 unless given; refused when negative, all 0, or so extreme that sums break."""
    s = np.ones(n) if sample_weight is None else sample_weight
    if len(s) != n or (s < 0).any() or not s.any():
        raise wrong("sample_weight", "weights", f"sample_weight needs {n} non-negative numbers, one a row, not all 0")
    if s.max() > WEIGHTS[1] or s[s > 0].min() < WEIGHTS[0]:
        raise wrong("sample_weight", "range", f"positive sample_weight must lie between {WEIGHTS[0]:g} and "
                    f"{WEIGHTS[1]:g}; multiply all weights by a constant")  # fmt: skip
    return s


def signs_of(y: list[Any], positive: Any, n: int) -> Vector:
    """(n,) 1 for the positive label, -1 for the other one."""
    if len(y) != n:
        raise wrong("y", "length", f"there are {n} scores and {len(y)} labels; give one label for each")
    kinds = distinct([*y, positive] if positive is not None else y)
    if positive is None and len(kinds) == 1 and kinds[0] in (-1, 0, 1):
        return np.full(n, 1.0 if kinds[0] == 1 else -1.0)
    if positive is None and len(kinds) == 1:
        raise wrong("positive", "missing", f"every label is {kinds[0]!r}; say in `positive` which label counts as 1")
    if len(kinds) > 2:
        raise wrong("y", "too_many_classes", f"y and positive name {len(kinds)} labels; map them to two, one against "
                    "the rest")  # fmt: skip
    top = key(kinds[-1] if positive is None else positive)
    return np.array([1.0 if key(t) == top else -1.0 for t in y])


def codes_of(labels: list[Any], classes: list[Any], name: str) -> np.ndarray:
    """(n,) place of each label in `classes`."""
    at = {key(c): i for i, c in enumerate(classes)}
    unknown = [v for v in labels if key(v) not in at]
    if unknown:
        raise wrong(name, "unknown_label", f"{name} holds {unknown[0]!r}; the labels are {classes}")
    return np.array([at[key(v)] for v in labels], dtype=np.int64)
