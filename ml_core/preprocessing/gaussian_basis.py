"""Gaussian radial basis functions."""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Transformer
from ml_core.capabilities import Weighted
from ml_core.certificates import Certificate, Table
from ml_core.errors import InvalidParameter, Issue
from ml_core.naming import name as column_name
from ml_core.params import Seed
from ml_core.preprocessing.basis_centres import (
    Centred,
    Centres,
    Count,
    Width,
    centres_of,
    clustered,
    given_centres,
    joint_spacing,
)
from ml_core.preprocessing.fixed_map import Checked, Worst, check_width, spread_rows
from ml_core.registry import algorithm
from ml_core.solvers.centres import squared_distances
from ml_core.sums import Census, Passes

SEEN = 1e-300


@algorithm("gaussian_basis")
class GaussianBasis(Centred, Weighted, Transformer):
    """Bumps around centres.

    φ_k(x_j) = exp(-(x_j - μ_jk)² / (2σ_j²)) for m centres of each feature, d m columns; with `joint` the m centres are
    rows and φ_k(x) = exp(-‖x - μ_k‖² / (2σ²)), m columns (of a grid m^d). σ is given, or the median spacing of the
    centres (of a feature by itself). Quantiles are the (k - ½)/m of the weighted rows, so every function has as many
    rows near it; grid centres are evenly spaced; k-means puts them where rows crowd. O(n d m); chunks give the same
    centres (k-means those of a sample of distinct rows, told where it is not all of them). Far from all centres
    every function is 0, so a linear model of them falls back to its intercept there. `least_cover` of the diagnostics
    is the smallest over the training rows of the largest function value.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, section 3.1.
    """

    complexity = "O(n d m)"
    tags = ("parametric", "direct", "high_capacity", "basis", "localised")
    largest = SQUARES

    centers_: Annotated[Matrix, "(m, d) centres, in units of the columns"]
    widths_: Annotated[Vector, "(d,) σ of each feature, or (1,) with joint"]

    def __init__(
        self,
        *,
        n_centers: Count = 10,
        centers: Centres = "quantiles",
        width: Width = None,
        joint: Annotated[
            bool, Field(description="Functions of the distance of whole rows instead of each feature by itself.")
        ] = False,
        random_state: Seed = 0,
    ) -> None:
        self.n_centers = n_centers
        self.centers = centers
        self.width = width
        self.joint = joint
        self.random_state = random_state

    def _width(self, d: int) -> int:
        each = super()._width(1)
        if not self.joint:
            return d * each
        return each**d if isinstance(self.centers, str) and self.centers == "grid" else each

    def _place(self, X: Matrix, s: Vector, spread: tuple[Matrix, Vector]) -> None:
        if not self.joint:
            super()._place(X, s, spread)
            return
        d = X.shape[1]
        self.n_features_out_ = check_width(self._width(d), d, "n_centers", self.n_centers, "take fewer, or k_means")
        self.centers_ = self._joint_centres(X, s)
        sigma = joint_spacing(self.centers_, *spread) if self.width is None else float(self.width)
        if sigma == 0:
            self._note("constant_rows", "all rows are the same; the width is 1", "there is nothing to learn from them")
        self.widths_ = np.array([sigma or 1.0])

    def _joint_centres(self, X: Matrix, s: Vector) -> Matrix:
        if not isinstance(self.centers, str):
            return given_centres(self.centers, X.shape[1])
        if self.centers == "k_means":
            return clustered(X, s, self.n_centers, self.random_state)
        if self.centers == "grid":
            return np.array(list(product(*centres_of("grid", X, s, self.n_centers, 0).T)))
        text = "quantiles are of single features; with joint=true choose centers = k_means, grid or a list of rows"
        raise InvalidParameter(text, [Issue("/params/centers", "not_applicable", text)])

    def _exponents(self, X: Matrix) -> Matrix:
        """(n, k) the squared distances in widths."""
        if self.joint:
            return squared_distances(X, self.centers_) / self.widths_[0] ** 2
        Z = self._offsets(X)
        with np.errstate(over="ignore"):
            Z *= Z
        return Z.reshape(len(X), -1)

    def _transform(self, X: Matrix) -> Matrix:
        Z = self._exponents(X)
        Z *= -0.5
        return np.asarray(np.exp(Z, out=Z))

    def _names(self, inputs: list[str]) -> list[str]:
        if self.joint:
            return [f"gaussian{k}" for k in range(len(self.centers_))]
        return self._labelled("gaussian", inputs)

    def _audit(self, census: Census) -> Passes:
        seen: Worst = yield Checked(self)
        out = self._outline(seen.rows)
        out.tables["centres"] = self._joint_list() if self.joint else self._listed()
        out.summary["least_cover"] = -float(seen.values[0])
        text = "-log φ is half the squared distance in widths, taken column by column, relative where above 1"
        out.certificates = [Certificate("exponent_error", float(seen.values[1]), 1e-11, text)]
        return out

    def _errors(self, X: Matrix) -> tuple[float, float]:
        """Minus the least cover, and the largest error of -log φ, of some rows."""
        A = spread_rows(X, max(64, 1_000_000 // self.n_features_out_))
        Z, t = self._transform(A), self._plainly(A)
        groups = Z.reshape(len(A), -1, Z.shape[1] if self.joint else len(self.centers_))
        with np.errstate(divide="ignore"):
            off = np.abs(-np.log(Z) - t)[Z > SEEN] / (1 + t[Z > SEEN])
        return -float(groups.max(axis=2).min()), float(off.max(initial=0.0))

    def _joint_list(self) -> Table:
        rows: list[list[Any]] = [[k, *map(float, c), float(self.widths_[0])] for k, c in enumerate(self.centers_)]
        names = [str(column_name(j)) for j in range(self.centers_.shape[1])]
        return Table(("number", *names, "width"), rows)

    def _plainly(self, A: Matrix) -> Matrix:
        """Half the squared distances in widths by another way: one centre after the other, columns by themselves."""
        with np.errstate(over="ignore"):
            if self.joint:
                squares = [sum(((a - v) / self.widths_[0]) ** 2 for a, v in zip(A.T, c, strict=True))
                           for c in self.centers_]  # fmt: skip
            else:
                squares = [((A[:, j] - c) / self.widths_[j]) ** 2
                           for j in range(A.shape[1]) for c in self.centers_[:, j]]  # fmt: skip
            return np.asarray(0.5 * np.column_stack(squares))
