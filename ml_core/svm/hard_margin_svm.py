"""Linear support vector machine without slacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Cost
from ml_core.certificates import Certificate, Diagnostics
from ml_core.errors import InvalidData, Issue
from ml_core.kernels import LinearKernel
from ml_core.registry import algorithm
from ml_core.solvers.common_point import common_point
from ml_core.solvers.kernel_rows import CACHE_BYTES
from ml_core.svm.kernel_svm import Multiclass, Violation
from ml_core.svm.linear_machines import LinearMachines, centre_of
from ml_core.svm.linear_solve import chosen, linear_machine
from ml_core.svm.machine import Machine, Solving, sides

RAISE = 100.0
ROUNDS = 30
SHOWN = 20


@algorithm("hard_margin_svm")
class HardMarginSVM(LinearMachines):
    """Widest slab between classes that a hyperplane separates.

    min over w, b of  ½‖w‖²,  yᵢ(w·xᵢ + b) ≥ 1. Dual: max Σα - ½‖Σ αᵢyᵢxᵢ‖², α ≥ 0, Σ αᵢyᵢ = 0. The margin, the
    least distance of a row to the hyperplane, is 1/‖w‖; b lies halfway between the classes, and both have support
    vectors. Classes that cannot be separated are refused: a linear program finds rows of both whose weighted means
    coincide, and these rows and weights are the proof, named in the refusal. Found as the soft-margin machine whose
    price of slack is raised until no row pays it. Rows' weights of a positive size change nothing.

    References
    ----------
    Vapnik, Chervonenkis (1974), Theory of Pattern Recognition.
    Boser, Guyon, Vapnik (1992), A training algorithm for optimal margin classifiers, COLT.
    """

    complexity = "O(n d²) per step, about 20 steps for each price; a linear program of n unknowns"

    def __init__(self, *, multiclass: Multiclass = "one_vs_one", tol: Violation = 1e-6) -> None:
        self.multiclass = multiclass
        self.tol = tol

    separable_: Annotated[bool, "true: other data are refused"]

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Some interior-point solutions and the linear program."""
        return Cost(flops=300.0 * n * d * d + 1000.0 * n * d, memory_bytes=80.0 * n * d + 200.0 * n)

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        self.kernel_ = LinearKernel()
        self.class_weight_ = np.ones(len(self.classes_))
        for pair in self._pairs():
            self._check_separable(X, y, pair)
        self.separable_, self.origin_ = True, centre_of(X)
        self._machines(lambda pair: self._widest(X, y, pair), X)

    def _check_separable(self, X: Matrix, y: Codes, pair: tuple[int, int]) -> None:
        progress.pulse()
        where, sign = sides(y, *pair)
        low, high = where[sign < 0], where[sign > 0]
        found = common_point(X[low], X[high])
        if found is None:
            return
        rows = [(int(i), float(w)) for part, a in zip((low, high), found, strict=True)
                for i, w in zip(part[a > 0], a[a > 0], strict=True)]  # fmt: skip
        names = ["the rest" if k < 0 else str(self.classes_[k]) for k in pair]
        text = f"no hyperplane separates {names[0]!r} from {names[1]!r}: weighted means of their rows coincide"
        issues = [Issue(f"/rows/{i}", "not_separable", f"weight {w:.6g} in the common point") for i, w in rows[:SHOWN]]
        raise InvalidData(f"{text} ({', '.join(f'row {i}: {w:.6g}' for i, w in rows[:SHOWN])}); "
                          "use soft_margin_svm, or lift the columns", issues)  # fmt: skip

    def _widest(self, X: Matrix, y: Codes, pair: tuple[int, int]) -> Machine:
        """The price starts where the nearest means of both classes would need it and is raised while a row pays."""
        where, sign = sides(y, *pair)
        A = X[where]
        apart = float(np.sum((A[sign > 0].mean(axis=0) - A[sign < 0].mean(axis=0)) ** 2))
        C, how = 4.0 / max(apart, 1e-300), Solving(float(self.tol), 1_000_000, CACHE_BYTES)
        kind = chosen("auto", False, *A.shape)
        for _ in range(ROUNDS):
            found = linear_machine(pair, where, A, sign, np.full(len(A), C), C=C, squared=False, solver=kind, how=how,
                                   seed=0, centre=self.origin_)  # fmt: skip
            if np.abs(found.beta).max() < 0.99 * C:
                break
            C *= RAISE
        f = self._near(A) @ found.w
        inner, outer = f[sign > 0].min(), f[sign < 0].max()
        return replace(found, b=-0.5 * float(inner + outer))

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        out = self._report(X, y, np.ones(len(X)))
        found = self._evidence(X, y, np.ones(len(X)))
        out.certificates.append(Certificate(
            "largest_slack", max(float(e.slack.max()) for e in found), max(e.tol + e.rounding for e in found),
            "every row lies on its side of the slab: yf ≥ 1"))  # fmt: skip
        return out
