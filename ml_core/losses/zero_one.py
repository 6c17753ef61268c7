"""Losses of decisions: zero-one, and any matrix of costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, WithJsonSchema

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Interval
from ml_core.losses.named import Named


@dataclass(frozen=True)
class ZeroOne(Named):
    """ℓ(η, y) = 1 where the sign of η is not that of y = ±1 (η = 0 decides for 1), else 0.

    Neither convex nor continuous; the hinge, the exponential and the logistic loss (over log 2) bound it from above.
    """

    name = "zero_one"
    convex = False
    domain = Interval(-1.0, 1.0, whole=True, nonzero=True)
    width = 1

    def value(self, eta: Matrix, y: Vector) -> Vector:
        """(n,) 0 or 1."""
        return ((eta[:, 0] >= 0.0) != (y > 0.0)).astype(np.float64)

    def start(self, y: Vector, s: Vector) -> Vector:
        """(1,) ±1, the label of the larger weight; 1 when both are equal."""
        return np.array([1.0 if s @ y >= 0 else -1.0])


def _table(value: Any) -> tuple[tuple[float, ...], ...]:
    """Equally long rows of finite numbers, as tuples."""
    try:
        table = np.asarray([[float(v) for v in row] for row in value], dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise ValueError(f"expected equally long rows of numbers: {e}") from e
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError("expected equally long rows of finite numbers")
    return tuple(tuple(row) for row in table.tolist())


Table = Annotated[
    Any,
    AfterValidator(_table),
    WithJsonSchema({"type": "array", "minItems": 1, "items": {"type": "array", "items": {"type": "number"}}}),
]


@dataclass(frozen=True)
class LossMatrix(Named):
    """ℓ(z, y) = matrix[z][y], the cost of decision z (a number, in the place of η) when y is true.

    Zero-one is the matrix of ones with a zero diagonal. Not a function of a real predictor, so without slopes: a
    classifier uses it through the posterior, argmin over z of Σ_y matrix[z][y] P(y | x).
    """

    name = "loss_matrix"
    convex = False
    width = 1
    matrix: Table = ((0.0, 1.0), (1.0, 0.0))

    @property
    def domain(self) -> Interval:
        """Class numbers."""
        return Interval(0.0, len(self.matrix[0]) - 1.0, whole=True)

    def value(self, eta: Matrix, y: Vector) -> Vector:
        """(n,) matrix[z][y]."""
        return np.asarray(self.matrix)[eta[:, 0].astype(np.int64), y.astype(np.int64)]

    def start(self, y: Vector, s: Vector) -> Vector:
        """(1,) the decision of least cost, the first of equals."""
        L = np.asarray(self.matrix)
        return np.array([float((L @ np.bincount(y.astype(np.int64), s, L.shape[1])).argmin())])
