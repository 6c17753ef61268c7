"""What the solvers of `BoxDual` return."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ml_core.arrays import Matrix, Vector


@dataclass(frozen=True)
class Plane:
    """f(x) = w·(x - centre) + b as the solver has it: where the β cancel, Σ βx has lost the digits of w."""

    w: Vector
    centre: Vector
    b: float


@dataclass(frozen=True)
class BoxSolution:
    """β and v = -(Kβ + c), (copies, n); multipliers b per group and free variables each; steps; traces.

    Of many rows, v away from the multipliers and the traces may have the accuracy of single precision.
    """

    beta: Matrix
    v: Matrix
    b: Vector
    free: np.ndarray
    violation: float
    n_iter: int
    converged: bool
    evaluations: int
    trace: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    plane: Plane | None = None
