"""Classifiers made of linear machines: slopes instead of support vectors."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics
from ml_core.svm import report
from ml_core.svm.kernel_machines import KernelMachines
from ml_core.svm.linear_solve import Solver, linear_machine
from ml_core.svm.machine import Machine, Solving, sides


class LinearMachines(KernelMachines):
    """Binary machines f(x) = w·x + b; support vectors are kept as row numbers with their α."""

    tags = ("parametric", "discriminative", "linear", "maximum_margin")

    coef_: Annotated[Matrix, "(machines, d) w, decision units per feature unit"]

    def _train_linear(self, X: Matrix, y: Codes, w: Vector, how: Solving, *, C: float, squared: bool, solver: Solver,
                      seed: int) -> None:  # fmt: skip
        def one(pair: tuple[int, int]) -> Machine:
            where, sign = sides(y, *pair)
            return linear_machine(pair, where, X if pair[0] < 0 else X[where], sign, C * w[where], C=C, squared=squared,
                                  solver=solver, how=how, seed=seed)  # fmt: skip

        self._machines(one, X)

    def _gather(self, X: Matrix) -> None:
        super()._gather(X)
        del self.support_vectors_
        self.coef_ = self._expanded(X)

    def _expanded(self, X: Matrix) -> Matrix:
        """(machines, d) Σ α y x, of x less the mean: Σ α y = 0, and rows far from the origin keep their digits."""
        Z = X - X.mean(axis=0)
        return np.array([m.beta @ Z[m.rows] for m in self.machines_])

    def _machine_scores(self, X: Matrix) -> Matrix:
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def _knows(self, X: Matrix) -> bool:
        return True

    def _squared(self) -> bool:
        return False

    def _judge(self, *args: Any) -> report.Evidence:
        return report.SquaredEvidence(*args) if self._squared() else report.Evidence(*args)

    def _report(self, X: Matrix, y: Codes, w: Vector) -> Diagnostics:
        out = super()._report(X, y, w)
        again = self._expanded(X)
        off = np.abs(again - self.coef_).max() / max(float(np.abs(again).max()), 1e-300)
        out.certificates.append(Certificate("expansion", float(off), 1e-9, "w = Σ αᵢyᵢxᵢ, relative"))
        del out.summary["kernel_evaluations"]
        out.matrices["coef"] = self.coef_
        return out
