"""The lift of general quadrics."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Codes, Matrix
from ml_core.base import SQUARES, Transformer
from ml_core.capabilities import Inverts, Weighted
from ml_core.preprocessing import lifts
from ml_core.preprocessing.fixed_map import FixedMap, relative
from ml_core.registry import algorithm


@algorithm("quadric_lift")
class QuadricLift(FixedMap, Weighted, Inverts, Transformer):
    """Squares, columns and products of two columns: quadrics become planes.

    z = (x₁², …, x_d², x₁, …, x_d, x₁x₂, x₁x₃, …, x_{d-1}x_d), (d² + 3d)/2 columns, O(n d²). (x - c)ᵀA(x - c) = r is
    linear in z, so a linear boundary of the lifted rows is any ellipsoid, paraboloid or hyperboloid of the raw ones.
    The columns are those of polynomial features of degree 2, in another order. `inverse_transform` reads columns d + 1
    to 2d.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 2nd ed., sections 4.1 and 5.1.
    """

    complexity = "O(n d²)"
    tags = ("parametric", "direct", "low_capacity", "deterministic", "basis")
    largest = SQUARES

    def __init__(self) -> None:
        pass

    def _width(self, d: int) -> int:
        return (d * d + 3 * d) // 2

    def _narrower(self) -> tuple[str, str]:
        return "columns", "choose fewer columns, or axis_aligned_quadric_lift"

    def _map(self, X: Matrix) -> Matrix:
        i, j = _pairs(X.shape[1])
        return np.hstack([X * X, X, X[:, i] * X[:, j]])

    def _inverse_transform(self, X: Matrix) -> Matrix:
        return np.ascontiguousarray(X[:, self.n_features_in_ : 2 * self.n_features_in_])

    def _names(self, inputs: list[str]) -> list[str]:
        products = [f"{inputs[i]} {inputs[j]}" for i, j in zip(*_pairs(len(inputs)), strict=True)]
        return [*(f"{name}^2" for name in inputs), *inputs, *products]

    def _errors(self, X: Matrix) -> tuple[float, float]:
        rows, c, a, S = lifts.probe(X)
        d = len(c)
        A = np.diag(a) + S
        Z, upper = self._transform(rows), A[_pairs(d)]
        off = lifts.quadric_error(Z, np.concatenate([np.diag(A), -2 * A @ c, 2 * upper]), rows, A, c)
        return off, relative(Z[:, d : 2 * d], rows, np.abs(rows))

    def _claims(self, d: int) -> list[tuple[str, float, str]]:
        return lifts.claims(d * d, "a quadratic form about the mean row")


def _pairs(d: int) -> tuple[Codes, Codes]:
    """All i < j."""
    return np.triu_indices(d, 1)
