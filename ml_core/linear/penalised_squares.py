"""What least-squares models with a squared penalty share: one decomposition, and the choice of the penalty by it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import Regressor
from ml_core.capabilities import MultiOutput, Weighted
from ml_core.certificates import Diagnostics
from ml_core.errors import InvalidData, InvalidParameter, Issue
from ml_core.linear import squares_report
from ml_core.linear.fold_errors import fold_errors
from ml_core.linear.linear_sums import LinearSums, fast_sums
from ml_core.linear.squares_report import Press, PressPart
from ml_core.params import RealVector
from ml_core.selection.left_out import copies, left_out
from ml_core.solvers.shrinkage import Shrinkage
from ml_core.sums import Additive, Census, Passes
from ml_core.validation import check_squares

PATH = 10.0 ** np.arange(-4.0, 4.5, 0.5)
LARGEST = 1e90
ChooseAlpha = Annotated[
    Literal["given", "leave_one_out", "gcv", "cross_validation"],
    Field(description="Use alpha, or the best of alphas by an error."),
]
Alphas = Annotated[RealVector | None, Field(description="Penalties compared and reported; 1e-4 … 1e4 by default.")]
Folds = Annotated[int, Field(ge=2, le=10_000, description="Parts of the rows for cross_validation.")]
ROWS = ("leave_one_out", "cross_validation")
"""Errors that take rows, which sums do not hold."""


class PenalisedSquares(Additive, Weighted, MultiOutput, Regressor):
    """Needs alpha, alphas, choose_alpha, folds, random_state, objective_scale, weight_kind and fit_intercept."""

    alpha: float
    alphas: Any
    choose_alpha: Any
    folds: int
    random_state: int
    objective_scale: str
    weight_kind: str
    fit_intercept: bool
    coef_: Any
    intercept_: Any
    alpha_: float
    effective_parameters_: float
    center_: Vector
    offset_: Vector
    weights_: Matrix
    rss_: Vector
    sums_: LinearSums
    compared_: list[list[float]]

    def _penalty(self) -> float:
        """The alpha that was asked for, on the scale of the parameters."""
        return self.alpha

    def _bias(self) -> int:
        """1 where the bias is a penalised column."""
        return 0

    def _root(self) -> Matrix | None:
        """K (m, d) of the penalty ‖K w‖², None for the identity."""
        return None

    def _sums(self, X: Matrix, y: Vector | Matrix, s: Vector) -> LinearSums:
        return LinearSums.of(X, y, s, self.fit_intercept)

    def _fit(self, X: Matrix, y: Vector | Matrix, s: Vector) -> None:
        self._learn(fast_sums(X, y, s, self.fit_intercept), None)
        if self.choose_alpha == "leave_one_out":
            self._pick(PressPart.of(self)(X, y, s))
        if self.choose_alpha == "cross_validation":
            E = fold_errors(self, X, y, s)
            mean, spread = E.mean(axis=0), E.std(axis=0, ddof=1) / len(E) ** 0.5
            alpha = self._best(mean)
            self._keep(self._shrinkage().at(alpha), alpha)
            self.compared_ = np.stack([self._grid(), mean, spread], axis=1).tolist()

    def _passes(self, census: Census) -> Passes:
        if self.choose_alpha == "cross_validation":
            raise InvalidData("cross_validation needs a table that fits in memory; raise the limit, or choose alpha by "
                              "leave_one_out or gcv")  # fmt: skip
        self._learn((yield self._sums), None)
        if self.choose_alpha == "leave_one_out":
            self._pick((yield PressPart.of(self)))

    def _solve(self, sums: LinearSums) -> None:
        kept = self.alpha_ if self.choose_alpha in ROWS else None
        self._learn(sums, kept)
        if kept is not None:
            self._note("alpha_kept", f"alpha stays {kept:.6g}: the errors of leaving rows out take all rows",
                       "fit again to choose it anew, or choose it by gcv")  # fmt: skip

    def _learn(self, sums: LinearSums, alpha: float | None) -> None:
        check_squares(sums.triangle.top[: sums.columns], type(self).__name__, self.largest)
        self.sums_, self.compared_ = sums, []
        grid, found = self._grid(), self._shrinkage()
        if alpha is None:
            alpha = self._penalty() * self._unit()
            if self.choose_alpha == "gcv":
                alpha = self._best(squares_report.gcv(self, found, grid))
        self._keep(found.at(alpha), alpha)

    def _pick(self, press: Press) -> None:
        alpha = self._best(press.errors.sum(axis=1))
        self._keep(self._shrinkage().at(alpha), alpha)

    def _unit(self) -> float:
        return self.sums_.triangle.total if self.objective_scale == "mean" else 1.0

    def _observations(self) -> float:
        """What the rows count as in criteria."""
        t = self.sums_.triangle
        return float(t.total if self.weight_kind == "frequency" else t.rows)

    def _copies(self, s: Vector) -> tuple[Vector, Vector]:
        """(n,) the weight of what is left out of a row at once, and how many such there are."""
        return copies(s, precise=self.weight_kind == "precision")

    def _grid(self) -> Vector:
        """The penalties that are compared, on the scale of the sum of squares, ascending."""
        given = PATH if self.alphas is None else np.asarray(self.alphas, dtype=float)
        if not len(given) or (given < 0).any() or given.max() > LARGEST:
            text = f"alphas must be at least one number from 0 to {LARGEST:g}"
            raise InvalidParameter(text, [Issue("/params/alphas", "out_of_range", text)])
        return np.asarray(np.sort(given) * self._unit())

    def _best(self, errors: Vector) -> float:
        """The penalty of the least error; of equal ones the largest."""
        grid, usable = self._grid(), np.isfinite(errors)
        if not usable.any():
            text = "no penalty leaves a degree of freedom: each row is fitted by itself"
            raise InvalidParameter(text, [Issue("/params/alphas", "no_choice", "give larger penalties")])
        value = np.where(usable, errors, np.inf)
        at = int(np.flatnonzero(value <= value.min() * (1 + 1e-12))[-1])
        if at in (0, len(grid) - 1) and len(grid) > 1:
            self._note("alpha_at_end_of_grid", f"the best alpha, {grid[at]:.6g}, is an end of those compared",
                       "give alphas that reach further")  # fmt: skip
        return float(grid[at])

    def _keep(self, found: Shrinkage, alpha: float) -> None:
        self.alpha_ = alpha
        self._tell_rank(found.determined(alpha), alpha)
        w = found.solve(alpha)
        first, t, d = self._bias(), self.sums_.triangle, self.sums_.columns
        self.weights_, self.center_ = np.ascontiguousarray(w[first:]), t.mean[:d]
        at_centre = t.mean[d:] + (t.rest[d:] - t.rest[:d] @ self.weights_)
        free = self.fit_intercept and not first
        self.offset_ = at_centre if free else self.center_ @ self.weights_ + (w[0] if first else 0.0)
        A, B = self._system()
        self.rss_ = ((B - A @ w) ** 2).sum(axis=0)
        self.effective_parameters_ = float(found.freedom(np.array([alpha]))[0]) + free
        b = self.offset_ - self.center_ @ self.weights_
        self.coef_ = self.weights_[:, 0].copy() if self.sums_.single else np.ascontiguousarray(self.weights_.T)
        self.intercept_ = float(b[0]) if self.sums_.single else b

    def _tell_rank(self, rank: int, alpha: float) -> None:
        p = self.sums_.columns + self._bias()
        self.notices_ = [n for n in self.notices_ if n.code != "rank_deficient"]
        if rank < p:
            what = "columns and penalties together" if alpha > 0 else "nothing is penalised, and the columns"
            self._note("rank_deficient", f"{what} have rank {rank} of {p}: several solutions fit alike; the shortest "
                       "was taken", "penalise all coefficients, or drop columns")  # fmt: skip

    def _system(self) -> tuple[Matrix, Matrix]:
        """Few rows A, B with the products of the table; centred unless the bias is a penalised column."""
        t, d = self.sums_.triangle, self.sums_.columns
        A, B = t.root[:, :d], t.root[:, d:]
        if not self._bias():
            return A, B
        n, mean = np.sqrt(t.total), t.mean + t.rest
        top = n * np.concatenate([[1.0], mean[:d]])
        return np.vstack([top, np.hstack([np.zeros((len(A), 1)), A])]), np.vstack([n * mean[d:], B])

    def _shrinkage(self) -> Shrinkage:
        return Shrinkage.of(*self._system(), self._root())

    def _rows(self, X: Matrix) -> Matrix:
        """Rows of A for those of X, without the root of their weight."""
        if self._bias():
            return np.hstack([np.ones((len(X), 1)), X])
        t, d = self.sums_.triangle, self.sums_.columns
        return np.asarray(X - t.mean[:d] - t.rest[:d])

    def _free_bias(self) -> float:
        """What an intercept without penalty adds to a leverage."""
        return 1.0 / self.sums_.triangle.total if self.fit_intercept and not self._bias() else 0.0

    def _predict(self, X: Matrix) -> Vector | Matrix:
        out = (X - self.center_) @ self.weights_ + self.offset_
        return out[:, 0] if self.sums_.single else out

    def _leverages(self, X: Matrix) -> Vector:
        """(n,) ∂fᵢ/∂yᵢ of a row of weight 1."""
        found = self._shrinkage().at(self.alpha_)
        h = found.leverages(found.directions(self._rows(X)), np.array([self.alpha_]))[:, 0]
        return np.asarray(h + self._free_bias())

    def left_out(self, X: Matrix, y: Vector | Matrix, s: Vector | None = None) -> Vector | Matrix:
        """(n,) or (n, q) prediction of each training row by a fit of all others; NaN where only such a fit can tell."""
        if self.choose_alpha != "given":
            return np.full(y.shape, np.nan)
        h = self._leverages(X)
        return left_out(y, self._predict(X), h if s is None else s * h)

    def _audit(self, census: Census) -> Passes:
        return (yield from squares_report.audit(self))

    def _diagnose(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Diagnostics:
        return squares_report.add_rows(self, super()._diagnose(X, y, s), X, y, s)
