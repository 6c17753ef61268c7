"""Each kernel as a function of points: Gram or cross-Gram matrix with the kernel's flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix
from ml_core.base import Cost
from ml_core.certificates import Certificate
from ml_core.errors import InvalidData, OverBudget, placed
from ml_core.kernels.base import Kernel, KernelSpec, kernel_of
from ml_core.kernels.dot import LinearKernel, PolynomialKernel, QuadraticFormKernel, Semidefinite
from ml_core.kernels.precomputed import PrecomputedKernel
from ml_core.kernels.stationary import ExponentialKernel, Length, RBFKernel, TrigonometricKernel
from ml_core.params import RealMatrix
from ml_core.registry import Answer, function

MAX_BYTES = 2e9
Points = Annotated[RealMatrix, Field(description="(n, d) rows.")]
Others = Annotated[RealMatrix | None, Field(description="(m, d) rows for the cross matrix; null: the Gram matrix.")]
POINTS = [[1.0, 2.0], [3.0, -1.0]]


@dataclass(frozen=True)
class KernelMatrix:
    """(n, m) values, the kernel with everything filled in, and its flags."""

    matrix: RealMatrix
    kernel: dict[str, Any]
    stationary: bool
    homogeneous: bool


def cost(points: Matrix, others: Matrix | None = None, **parameters: Any) -> Cost:
    """About 30 operations a pair and column, and five matrices."""
    pairs = float(len(points)) * (len(points) if others is None else len(others))
    return Cost(flops=30.0 * pairs * (points.shape[1] if points.ndim == 2 else 1), memory_bytes=40.0 * pairs)


def _answer(kernel: Kernel, points: Matrix, others: Matrix | None) -> Answer[KernelMatrix]:
    if not points.size or (others is not None and not others.size):
        raise InvalidData("a kernel matrix needs at least one row and one column of points")
    need = cost(points, others).memory_bytes
    if need > MAX_BYTES:
        raise OverBudget(f"the matrix needs about {need / 1e9:.1f} GB of {MAX_BYTES / 1e9:.0f} GB; take fewer points")
    with placed("/kernel"):
        k = kernel.resolved(points)
    K = k(points) if others is None else k(points, others)
    value = KernelMatrix(K, k.to_json(), k.stationary, k.homogeneous)
    return Answer(value, (_cauchy_schwarz(k, points, points if others is None else others, K),))


def _cauchy_schwarz(k: Kernel, A: Matrix, B: Matrix, K: Matrix) -> Certificate:
    """Largest |k(a,b)| / sqrt(k(a,a) k(b,b)), which no kernel takes above 1."""
    bound = np.sqrt(np.outer(k.diag(A), k.diag(B)))
    worst = float(np.max(np.abs(K) - bound * (1 + 1e-10)) / max(float(bound.max()), 1e-300))
    return Certificate("cauchy_schwarz_excess", worst, 1e-12, "|k(x,z)|² ≤ k(x,x) k(z,z) for every pair (relative)")


@function("linear_kernel", example={"points": POINTS}, cost=cost)
def linear_kernel(*, points: Points, others: Others = None) -> Answer[KernelMatrix]:
    """Inner products x·z.

    The Gram matrix X Zᵀ; not stationary. O(n m d).

    References
    ----------
    Schölkopf, Smola (2002), Learning with Kernels, chapter 2.
    """
    return _answer(LinearKernel(), points, others)


@function("polynomial_kernel", example={"points": POINTS, "degree": 2}, cost=cost)
def polynomial_kernel(
    *,
    points: Points,
    others: Others = None,
    degree: Annotated[int, Field(ge=1, le=10, description="Power.")] = 3,
    coef0: Annotated[float, Field(ge=0, description="Adds lower orders; 0: none.")] = 1.0,
) -> Answer[KernelMatrix]:
    """Powers (x·z + coef0)^degree.

    All products of up to `degree` coordinates, C(d + degree, degree) of them, at the price of one inner product.

    References
    ----------
    Schölkopf, Smola (2002), Learning with Kernels, chapter 2.
    """
    return _answer(PolynomialKernel(degree, coef0), points, others)


@function("gaussian_kernel", example={"points": POINTS, "length_scale": 2.0}, cost=cost)
def gaussian_kernel(
    *,
    points: Points,
    others: Others = None,
    length_scale: Annotated[Length, Field(description="Length, one per column, or null: the median distance.")] = None,
) -> Answer[KernelMatrix]:
    """exp(-‖x - z‖² / (2 length_scale²)).

    Stationary, a function of the distance; larger length scales are smoother. Points are centred. O(n m d).

    References
    ----------
    Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, section 4.2.
    """
    return _answer(RBFKernel(length_scale), points, others)


@function("exponential_kernel", example={"points": POINTS, "theta": 0.5}, cost=cost)
def exponential_kernel(
    *,
    points: Points,
    others: Others = None,
    theta: Annotated[float | None, Field(gt=0, description="Inverse length; null: 1 / median distance.")] = None,
) -> Answer[KernelMatrix]:
    """exp(-theta ‖x - z‖).

    Stationary, a function of the distance, continuous but not differentiable at 0. O(n m d).

    References
    ----------
    Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, section 4.2.
    """
    return _answer(ExponentialKernel(theta), points, others)


@function("trigonometric_kernel", example={"points": POINTS}, cost=cost)
def trigonometric_kernel(*, points: Points, others: Others = None) -> Answer[KernelMatrix]:
    """Σⱼ sin(2π Dⱼ) / Dⱼ with D = x - z.

    The limit of products of cosine and sine features of growing number; 2π for each equal coordinate. O(n m d).

    References
    ----------
    Rahimi, Recht (2007), Random features for large-scale kernel machines.
    """
    return _answer(TrigonometricKernel(), points, others)


@function("quadratic_form_kernel", example={"points": POINTS, "matrix": [[2.0, 1.0], [1.0, 2.0]]}, cost=cost)
def quadratic_form_kernel(
    *,
    points: Points,
    others: Others = None,
    matrix: Annotated[Semidefinite, Field(description="Symmetric positive semidefinite matrix (d, d).")],
) -> Answer[KernelMatrix]:
    """Values xᵀ matrix z.

    A kernel when the matrix is positive semidefinite, which is checked. O(n d² + n m d).

    References
    ----------
    Schölkopf, Smola (2002), Learning with Kernels, chapter 13.
    """
    return _answer(QuadraticFormKernel(matrix), points, others)


@function("precomputed_kernel", example={"points": [[0.0], [1.0]], "matrix": [[2.0, 1.0], [1.0, 2.0]]}, cost=cost)
def precomputed_kernel(
    *,
    points: Points,
    others: Others = None,
    matrix: Annotated[Semidefinite, Field(description="Symmetric positive semidefinite (N, N): k(i, j).")],
) -> Answer[KernelMatrix]:
    """Values of a kernel given as a table, at points that are row numbers.

    Whatever the rows are, a method needs only their kernel values; that the table is of a kernel is checked. O(n m).

    References
    ----------
    Schölkopf, Smola (2002), Learning with Kernels, chapter 2.
    """
    return _answer(PrecomputedKernel(matrix), points, others)


@function(
    "composite_kernel",
    example={"points": POINTS, "kernel": {"kernel": "sum", "terms": [{"kernel": "linear"}, {"kernel": "rbf"}]}},
    cost=cost,
)
def composite_kernel(
    *, points: Points, others: Others = None, kernel: Annotated[KernelSpec, Field(description="Kernel expression.")]
) -> Answer[KernelMatrix]:
    """Any kernel expression: sums, products, positive scaling, power series, exponentials, and subsets of columns.

    Positive semidefiniteness is kept by construction: only rules that preserve it can be written.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, section 6.2.
    """
    return _answer(kernel_of(kernel), points, others)
