"""Sequential minimal optimisation as a function: the dual program of a soft-margin machine on given rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost
from ml_core.certificates import Certificate, Notice
from ml_core.errors import InvalidData, placed
from ml_core.kernels.base import KernelSpec, kernel_of
from ml_core.params import RealMatrix, RealVector
from ml_core.registry import Answer, function
from ml_core.solvers.box_dual import levels
from ml_core.solvers.kernel_rows import KernelRows
from ml_core.solvers.smo import solve_box
from ml_core.svm.duals import classification, folded

SLACK = 1e-8


@dataclass(frozen=True)
class DualSolution:
    """Multipliers alpha (n,) and bias of the decision Σ alphaᵢ yᵢ k(xᵢ, x) + bias, values, and how far from optimal.

    `violating_pair_gap` is m - M, the largest difference of y-signed gradients over pairs that may still move.
    """

    alpha: RealVector
    bias: float
    primal: float
    dual: float
    violating_pair_gap: float
    support: list[int]
    steps: int
    converged: bool


def cost(points: Matrix, labels: Vector, **parameters: object) -> Cost:
    """The kernel matrix, and about 50 n steps on pairs."""
    n = float(len(points))
    return Cost(flops=30.0 * n * n * points.shape[-1] + 200.0 * n * n, memory_bytes=16.0 * n * n)


@function(
    "sequential_minimal_optimization",
    example={"points": [[0.0, 0.0], [1.0, 1.0], [3.0, 3.0], [4.0, 3.0]], "labels": [-1.0, -1.0, 1.0, 1.0], "C": 10.0},
    cost=cost,
)
def sequential_minimal_optimization(
    *,
    points: Annotated[RealMatrix, Field(description="(n, d) rows.")],
    labels: Annotated[RealVector, Field(description="(n,) of -1 and 1, both present.")],
    C: Annotated[float, Field(gt=0, le=1e12, description="Largest multiplier: the price of a slack.")] = 1.0,
    kernel: KernelSpec = {"kernel": "linear"},  # noqa: B006 - a value of the signature, never written to
    tol: Annotated[float, Field(gt=0, le=1.0, description="Largest m - M at which it stops.")] = 1e-6,
    max_iter: Annotated[int, Field(ge=1, le=10**9, description="Most steps on pairs.")] = 10_000_000,
) -> Answer[DualSolution]:
    """The dual of a soft-margin machine by steps on pairs of multipliers.

    max over alpha of  Σ alphaᵢ - ½ ΣΣ alphaᵢ alphaⱼ yᵢ yⱼ k(xᵢ, xⱼ),  0 ≤ alphaᵢ ≤ C,  Σ alphaᵢ yᵢ = 0. Each step moves
    the pair that promises the largest gain to second order. The primal is ½ ‖w‖² + C Σ slack at the same point.

    References
    ----------
    Platt (1998), Fast training of support vector machines using sequential minimal optimization.
    Fan, Chen, Lin (2005), Working set selection using second order information, JMLR 6.
    """
    if points.ndim != 2 or not points.size or len(labels) != len(points):
        raise InvalidData(f"points {points.shape} and labels ({len(labels)},) must be as many rows, with columns")
    if set(np.unique(labels).tolist()) != {-1.0, 1.0}:
        raise InvalidData("labels are -1 and 1, and both must be present")
    with placed("/kernel"):
        rows = KernelRows(kernel_of(kernel).resolved(points), points)
    dual = classification(labels, np.full(len(labels), C))
    found = solve_box(dual, rows, tol=tol, max_iter=max_iter)
    beta = folded(found.beta)
    f = rows.times(beta)
    alpha, bias = np.abs(beta), float(found.b[0])
    square = float(beta @ f)
    primal = 0.5 * square + C * float(np.maximum(0.0, 1.0 - labels * (f + bias)).sum())
    worst = levels(dual, beta[None], (labels - f)[None]).violation
    value = DualSolution(alpha, bias, primal, float(alpha.sum()) - 0.5 * square, max(worst, 0.0),
                         np.flatnonzero(alpha).tolist(), int(found.n_iter), bool(found.converged))  # fmt: skip
    size = max(1.0, abs(primal))
    certificates = (
        Certificate("duality_gap", (primal - value.dual) / size, max(SLACK, 10 * tol * len(labels)),
                    "primal less dual value at this answer, relative to the primal"),
        Certificate("balance", abs(float(beta.sum())) / max(float(alpha.sum()), 1e-300), 1e-10, "Σ alphaᵢ yᵢ = 0"),
    )  # fmt: skip
    short = Notice("not_converged", f"stopped after {found.n_iter} steps", "raise max_iter")
    return Answer(value, certificates, () if found.converged else (short,))
