"""Sigmoid basis functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Transformer
from ml_core.capabilities import Inverts, Weighted
from ml_core.certificates import Certificate
from ml_core.errors import InvalidData, Issue
from ml_core.numerics.stable import expit
from ml_core.params import Seed
from ml_core.preprocessing.basis_centres import Centred, Centres, Count, Width
from ml_core.preprocessing.fixed_map import EPS, Checked, spread_rows
from ml_core.registry import algorithm
from ml_core.solvers.base import Bundle, Totals
from ml_core.sums import Census, Passes


@algorithm("sigmoid_basis")
class SigmoidBasis(Centred, Weighted, Inverts, Transformer):
    """Smooth steps at centres.

    φ_k(x_j) = 1 / (1 + exp(-(x_j - μ_jk)/σ_j)) for m centres of each feature, d m columns, O(n d m). σ is given, or the
    median spacing of the feature's centres. Quantiles are the (k - ½)/m of the weighted rows; grid centres are evenly
    spaced; k-means puts them where rows crowd. Chunks give the same centres, of k-means those of a sample. Beyond the
    outermost centres all functions are constant, so a linear model of them levels off. `inverse_transform` takes x from
    the function nearest to ½; where all are 0 or 1 to the last digit x is lost, which is an error.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, section 3.1.
    """

    complexity = "O(n d m)"
    tags = ("parametric", "direct", "high_capacity", "basis", "localised")
    largest = SQUARES

    centers_: Annotated[Matrix, "(m, d) centres, in units of the columns"]
    widths_: Annotated[Vector, "(d,) σ of each feature, in its units"]

    def __init__(
        self, *, n_centers: Count = 10, centers: Centres = "quantiles", width: Width = None, random_state: Seed = 0
    ) -> None:
        self.n_centers = n_centers
        self.centers = centers
        self.width = width
        self.random_state = random_state

    def _transform(self, X: Matrix) -> Matrix:
        Z = self._offsets(X)
        return np.asarray(expit(Z, out=Z)).reshape(len(X), -1)

    def _inverse_transform(self, X: Matrix) -> Matrix:
        Z, at = self._steepest(X)
        lost = np.argwhere(~((Z > 0) & (Z < 1)))
        if len(lost):
            i, j = lost[0]
            text = f"row {i}: all functions of feature {j} are saturated ({Z[i, j]:g}), so its value is lost"
            raise InvalidData(text, [Issue(f"/values/{i}", "saturated", text)])
        centres = np.take_along_axis(self.centers_, at, axis=0)
        return np.asarray(centres + self.widths_ * (np.log(Z) - np.log1p(-Z)))

    def _steepest(self, X: Matrix) -> tuple[Matrix, np.ndarray]:
        """(n, d) of each feature the function value nearest to ½, and which centre has it."""
        V = X.reshape(len(X), -1, len(self.centers_))
        at = np.abs(V - 0.5).argmin(axis=2)
        return np.take_along_axis(V, at[:, :, None], axis=2)[:, :, 0], at

    def _names(self, inputs: list[str]) -> list[str]:
        return self._labelled("sigmoid", inputs)

    def _audit(self, census: Census) -> Passes:
        seen: Totals = yield Bundle((Checked(self), SaturatedPart(self)))
        worst, saturated = seen.each
        out = self._outline(worst.rows)
        out.tables["centres"] = self._listed()
        out.summary["saturated_rows"] = saturated.each[0]
        text = "inverse_transform(transform(X)) gives X back, relative to what the last digit of a function can move x"
        out.certificates = [Certificate("round_trip_error", float(worst.values[0]), 16 * EPS, text)]
        return out

    def _looked_at(self, X: Matrix) -> tuple[Matrix, Matrix, np.ndarray, np.ndarray]:
        """Some rows, their steepest functions, which these are, and whether none is saturated."""
        A = spread_rows(X, max(64, 1_000_000 // self.n_features_out_))
        Z, at = self._steepest(self._transform(A))
        return A, Z, at, np.asarray(((Z > 0) & (Z < 1)).all(axis=1))

    def _errors(self, X: Matrix) -> tuple[float]:
        """The largest error of the way back, of some rows."""
        A, Z, at, known = self._looked_at(X)
        if not known.any():
            return (0.0,)
        A, Z, at = A[known], Z[known], at[known]
        back = self._inverse_transform(self._transform(A))
        unit = np.abs(A) + np.abs(np.take_along_axis(self.centers_, at, axis=0)) + self.widths_ / (Z * (1 - Z))
        return (float((np.abs(back - A) / unit).max()),)


@dataclass(frozen=True)
class SaturatedPart:
    """The part whose total is how many rows, of some of each chunk, have a feature that is lost."""

    model: SigmoidBasis

    def __call__(self, X: Matrix, s: Vector) -> Totals:
        """Of rows."""
        return Totals((int((~self.model._looked_at(X)[3]).sum()),))
