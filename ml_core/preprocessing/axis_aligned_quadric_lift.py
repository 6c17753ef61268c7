"""The lift of axis-aligned quadrics."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix
from ml_core.base import SQUARES, Transformer
from ml_core.capabilities import Inverts, Weighted
from ml_core.preprocessing import lifts
from ml_core.preprocessing.fixed_map import FixedMap, relative
from ml_core.registry import algorithm


@algorithm("axis_aligned_quadric_lift")
class AxisAlignedQuadricLift(FixedMap, Weighted, Inverts, Transformer):
    """Squares of the columns, then the columns: axis-aligned quadrics become planes.

    z = (x₁², …, x_d², x₁, …, x_d), 2d columns, O(n d). Σ_j a_j (x_j - c_j)² = r is linear in z, so a linear boundary of
    the lifted rows is an ellipsoid, paraboloid or hyperboloid of the raw ones, its axes parallel to theirs.
    `inverse_transform` reads the last d columns.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 2nd ed., sections 4.1 and 5.1.
    """

    complexity = "O(n d)"
    tags = ("parametric", "direct", "low_capacity", "deterministic", "basis")
    largest = SQUARES

    def __init__(self) -> None:
        pass

    def _width(self, d: int) -> int:
        return 2 * d

    def _narrower(self) -> tuple[str, str]:
        return "columns", "choose fewer columns"

    def _map(self, X: Matrix) -> Matrix:
        return np.hstack([X * X, X])

    def _inverse_transform(self, X: Matrix) -> Matrix:
        return np.ascontiguousarray(X[:, self.n_features_in_ :])

    def _names(self, inputs: list[str]) -> list[str]:
        return [*(f"{name}^2" for name in inputs), *inputs]

    def _errors(self, X: Matrix) -> tuple[float, float]:
        rows, c, a, _ = lifts.probe(X)
        Z = self._transform(rows)
        off = lifts.quadric_error(Z, np.concatenate([a, -2 * a * c]), rows, np.diag(a), c)
        return off, relative(Z[:, len(c) :], rows, np.abs(rows))

    def _claims(self, d: int) -> list[tuple[str, float, str]]:
        return lifts.claims(d, "a weighted squared distance to the mean row")
