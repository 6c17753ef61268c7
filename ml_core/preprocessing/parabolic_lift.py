"""The lift to a paraboloid."""

from __future__ import annotations

import numpy as np

from ml_core.arrays import Matrix
from ml_core.base import SQUARES, Transformer
from ml_core.capabilities import Inverts, Weighted
from ml_core.preprocessing import lifts
from ml_core.preprocessing.fixed_map import FixedMap, relative
from ml_core.registry import algorithm


@algorithm("parabolic_lift")
class ParabolicLift(FixedMap, Weighted, Inverts, Transformer):
    """The columns and their squared length: spheres become planes.

    z = (x, ‖x‖²), d + 1 columns, O(n d). ‖x - c‖² - r² = ‖x‖² - 2 c·x + ‖c‖² - r², so a linear boundary of the lifted
    rows is a sphere (or a plane) of the raw ones, and two classes are separated by a sphere exactly when their lifted
    rows are separated by a plane. Units count: scale the columns first. `inverse_transform` reads the first d columns.

    References
    ----------
    Edelsbrunner, Seidel (1986), Voronoi diagrams and arrangements, Discrete and Computational Geometry 1.
    """

    complexity = "O(n d)"
    tags = ("parametric", "direct", "low_capacity", "deterministic", "basis")
    largest = SQUARES

    def __init__(self) -> None:
        pass

    def _width(self, d: int) -> int:
        return d + 1

    def _narrower(self) -> tuple[str, str]:
        return "columns", "choose fewer columns"

    def _map(self, X: Matrix) -> Matrix:
        return np.column_stack([X, np.einsum("ij,ij->i", X, X)])

    def _inverse_transform(self, X: Matrix) -> Matrix:
        return np.ascontiguousarray(X[:, : self.n_features_in_])

    def _names(self, inputs: list[str]) -> list[str]:
        return [*inputs, "squared_length"]

    def _errors(self, X: Matrix) -> tuple[float, float]:
        rows, c, _, _ = lifts.probe(X)
        Z = self._transform(rows)
        off = lifts.quadric_error(Z, np.append(-2 * c, 1.0), rows, np.eye(len(c)), c)
        return off, relative(Z[:, : len(c)], rows, np.abs(rows))

    def _claims(self, d: int) -> list[tuple[str, float, str]]:
        return lifts.claims(d, "the squared distance to the mean row")
