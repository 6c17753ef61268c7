"""Linear support vector machine with slacks."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import Cost
from ml_core.certificates import Diagnostics
from ml_core.class_weights import ClassWeight
from ml_core.kernels import LinearKernel
from ml_core.params import MaxIter, Seed
from ml_core.registry import algorithm
from ml_core.solvers.kernel_rows import CACHE_BYTES
from ml_core.svm.class_weights import class_factors
from ml_core.svm.kernel_svm import Multiclass, Penalty, Violation
from ml_core.svm.linear_machines import LinearMachines
from ml_core.svm.linear_solve import Solver, chosen, flops
from ml_core.svm.machine import Solving


@algorithm("soft_margin_svm")
class SoftMarginSVM(LinearMachines):
    """Widest margin between classes by a hyperplane, with slacks.

    min over w, b of  ½‖w‖² + C Σᵢ cᵢsᵢ ξᵢ (or ξᵢ²),  ξᵢ = max(0, 1 - yᵢ(w·xᵢ + b)), b free; s are the rows' weights, c
    the class weights. f = w·x + b ≥ 0 is the second class. Other scales: c' Σξ + ‖w‖² has C = c'/2, λ/2 ‖w‖² has
    C = 1/λ. The objective is that of the columns as given; only how it is reached does not depend on their units:
    an interior-point method (hinge, up to 300 columns; O(n d²) for each of about 20 steps) or Newton's method (squared
    hinge), both ended by exact linear systems. Wide tables go by decomposition or by dual coordinate descent with
    shrinking, O(n d) a round. Primal and dual objective, gap, KKT cases, α and slacks are in the diagnostics. In Python
    X may be `scipy.sparse` too, which stays sparse and goes by dual coordinate descent, O(cells that are not 0) a
    round; tables of the service are dense, so word counts of many columns need memory there for their zeros.

    References
    ----------
    Cortes, Vapnik (1995), Support-vector networks, Machine Learning 20.
    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008), A dual coordinate descent method for large-scale linear SVM, ICML.
    Fine, Scheinberg (2001), Efficient SVM training using low-rank kernel representations, JMLR 2.
    """

    sparse = True
    complexity = "O(n d²) per step, about 20 steps; of it O(n d) is most up to 50 columns, all for wide tables"
    example_params = {"C": 1.0}  # noqa: RUF012 - annotated ClassVar in the base

    def __init__(
        self,
        *,
        C: Penalty = 1.0,
        loss: Annotated[Literal["hinge", "squared_hinge"], Field(description="Price of slack: ξ or ξ².")] = "hinge",
        multiclass: Multiclass = "one_vs_rest",
        class_weight: ClassWeight = None,
        solver: Annotated[Solver, Field(description="auto chooses by loss and shape; newton is for squared_hinge, "
                                        "interior_point and decomposition for hinge.")] = "auto",
        tol: Violation = 1e-6,
        max_iter: Annotated[MaxIter, Field(description="Most rounds of descent, or steps on pairs.")] = 1_000_000,
        random_state: Seed = 0,
    ) -> None:  # fmt: skip
        self.C = C
        self.loss = loss
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Of the solver that is taken; a machine per class beyond two, or per pair on its rows, which is no more."""
        machines = 1 if k <= 2 else k
        each = flops(chosen(self.solver, self._squared(), n, d), n, d)
        return Cost(flops=machines * each, memory_bytes=24.0 * n * d + 200.0 * n)

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        squared, solver = self._squared(), self.solver
        if (solver == "newton" and not squared) or (solver in ("interior_point", "decomposition") and squared):
            self._note("solver_changed", f"solver {solver} does not take {self.loss}; auto was used", "choose auto")
            solver = "auto"
        if not isinstance(X, np.ndarray) and solver not in ("auto", "dual_coordinate_descent"):
            self._note("solver_changed", f"solver {solver} takes tables; sparse rows went by dual_coordinate_descent",
                       "choose auto")  # fmt: skip
        kind = chosen(solver, squared, *X.shape)
        self.kernel_ = LinearKernel()
        self.class_weight_ = class_factors(self.class_weight, self.classes_, y, s)
        how = Solving(float(self.tol), int(self.max_iter), CACHE_BYTES)
        self._train_linear(X, y, s * self.class_weight_[y], how, C=float(self.C), squared=squared, solver=kind,
                           seed=int(self.random_state))  # fmt: skip

    def _squared(self) -> bool:
        return self.loss == "squared_hinge"

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        out = self._report(X, y, s * self.class_weight_[y])
        out.summary["training_accuracy"] = float(np.average(self._decide(X) == y, weights=s))
        return out
