"""Classifiers made of linear machines: slopes instead of support vectors."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics
from ml_core.numerics.sparse_rows import Rows
from ml_core.solvers.linear_objective import Columns
from ml_core.svm import report
from ml_core.svm.kernel_machines import KernelMachines
from ml_core.svm.linear_solve import Solver, linear_machine
from ml_core.svm.machine import Machine, Solving, sides


class LinearMachines(KernelMachines):
    """Binary machines f(x) = w·x + b; support vectors are kept as row numbers with their α."""

    tags = ("parametric", "direct", "low_capacity", "linear", "maximum_margin")

    coef_: Annotated[Matrix, "(machines, d) w, decision units per feature unit"]
    origin_: Annotated[Vector, "(d,) centre of the columns from which scores are counted; 0 where they lie near 0"]
    offset_: Annotated[Vector, "(machines,) scores at origin_"]

    def _train_linear(self, X: Rows, y: Codes, w: Vector, how: Solving, *, C: float, squared: bool, solver: Solver,
                      seed: int) -> None:  # fmt: skip
        self.origin_ = centre_of(X)
        whole = len(self.classes_) == 2  # every row in its place: none is copied

        def one(pair: tuple[int, int]) -> Machine:
            where, sign = sides(y, -1 if whole else pair[0], pair[1])
            rows = X if whole or pair[0] < 0 else X[where]
            return linear_machine(pair, where, rows, sign, C * w[where], C=C, squared=squared, solver=solver, how=how,
                                  seed=seed, centre=self.origin_)  # fmt: skip

        self._machines(one, X)

    def _keep(self, X: Matrix) -> None:
        self.coef_ = np.array([m.w for m in self.machines_])
        self.offset_ = np.array([m.b for m in self.machines_])
        self.intercept_ = self.offset_ - self.coef_ @ self.origin_

    def _near(self, X: Rows) -> Rows:
        """Rows from `origin_` on."""
        return X - self.origin_ if self.origin_.any() else X

    def _machine_scores(self, X: Matrix) -> Matrix:
        return np.asarray(self._near(X) @ self.coef_.T + self.offset_)

    def _size(self, k: int, X: Matrix, beta: Vector, f: Vector) -> report.Size:
        Z, w, b = self._near(X), self.coef_[k], float(self.offset_[k])
        again = Z.T @ beta
        terms = float((abs(Z) @ np.abs(w)).max()) + abs(b)
        return report.Size(b, float(w @ w), float(again @ again), terms)

    def _knows(self, X: Matrix) -> bool:
        return True

    def _off(self, X: Matrix) -> float:
        """Largest error of a slope as the sum over the support vectors, relative to the magnitudes that it adds up."""
        Z = self._near(X)[self.support_]
        size = np.abs(self.dual_coef_) @ abs(Z)
        return float((np.abs(self.dual_coef_ @ Z - self.coef_) / np.where(size > 0, size, 1.0)).max())

    def _slopes(self) -> Matrix:
        return self.coef_

    def _squared(self) -> bool:
        return False

    def _judge(self, *args: Any) -> report.Evidence:
        return report.SquaredEvidence(*args) if self._squared() else report.Evidence(*args)

    def _report(self, X: Matrix, y: Codes, w: Vector) -> Diagnostics:
        out = super()._report(X, y, w)
        out.certificates.append(Certificate("expansion", self._off(X), 1e-9,
                                            "w = Σ αᵢyᵢxᵢ, relative to Σ αᵢ|xᵢ|"))  # fmt: skip
        del out.summary["kernel_evaluations"]
        return out


def centre_of(X: Rows) -> Vector:
    """(d,) near the mean of the columns where these lie far from 0, else 0; sparse rows keep their zeros."""
    if not isinstance(X, np.ndarray):
        return np.zeros(X.shape[1])
    columns = Columns.of(X, np.ones(len(X)), centre=True)
    return np.zeros(X.shape[1]) if columns.direct else columns.mean
