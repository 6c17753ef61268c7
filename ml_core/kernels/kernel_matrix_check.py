"""Tests of a kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.base import SQUARES, Cost
from ml_core.certificates import Certificate, Notice
from ml_core.errors import InvalidData, OverBudget, placed
from ml_core.kernels.base import Kernel, KernelSpec, kernel_of
from ml_core.params import RealMatrix, RealVector
from ml_core.registry import Answer, function

PSD_TOLERANCE = 1e-10
SYMMETRY_TOLERANCE = 1e-12
ILL_CONDITIONED = 1e12
MAX_BYTES = 2e9
COPIES = 8


@dataclass(frozen=True)
class KernelMatrixCheck:
    """What the matrix is. Matrices are (n, n); eigenvalues ascend and are those of (K + Kᵀ)/2."""

    rows: int
    symmetry_error: float
    symmetric: bool
    least_eigenvalue: float
    largest_eigenvalue: float
    positive_semidefinite: bool
    kernel_matrix: bool
    rank: int
    condition: float | None
    eigenvalues: RealVector
    witness: RealVector | None
    matrix: RealMatrix
    centred: RealMatrix
    normalised: RealMatrix | None
    stationary: bool | None
    homogeneous: bool | None


def centred(K: Matrix) -> Matrix:
    """(I - J) K (I - J), J = 11ᵀ/n: the Gram matrix of the centred features."""
    left = K - K.mean(axis=0)
    return np.asarray(left - left.mean(axis=1, keepdims=True))


def normalised(K: Matrix) -> Matrix | None:
    """k(x,z) / sqrt(k(x,x) k(z,z)), the cosine in feature space; None where a diagonal entry is not positive."""
    d = np.diag(K)
    if (d <= 0).any():
        return None
    r = np.sqrt(d)
    out = K / r[:, None] / r
    np.fill_diagonal(out, 1.0)
    return np.asarray(out)


def cost(
    matrix: Matrix | None = None, kernel: Any = None, points: Matrix | None = None, normalise: bool = False
) -> Cost:
    """Eigenvectors of an (n, n) matrix and a handful of copies of it."""
    given = matrix if matrix is not None else points
    n = 0.0 if given is None else float(len(given))
    return Cost(flops=9.0 * n**3 + 20.0 * n**2, memory_bytes=COPIES * 8.0 * n**2)


def _given(matrix: Matrix | None, kernel: Kernel | None, points: Matrix | None) -> Matrix:
    if (matrix is None) == (kernel is None or points is None) or (matrix is not None and points is not None):
        raise InvalidData("give either a matrix, or a kernel and points")
    need = cost(matrix, kernel, points).memory_bytes
    if need > MAX_BYTES:
        raise OverBudget(f"the check needs about {need / 1e9:.1f} GB of {MAX_BYTES / 1e9:.0f} GB; take fewer points")
    with placed("/kernel"):
        K = matrix if kernel is None or points is None else kernel.resolved(points)(points)
    if K is None or len(K) == 0 or K.shape[0] != K.shape[1]:
        raise InvalidData(f"a kernel matrix is square and not empty, got shape {None if K is None else K.shape}")
    if not np.abs(K).max() <= SQUARES:
        raise InvalidData(f"entries of a kernel matrix up to {SQUARES:g} can be checked; multiply it by a constant")
    return np.asarray(K)


def _certificates(K: Matrix, values: Vector, vectors: Matrix, C: Matrix) -> list[Certificate]:
    S, n = 0.5 * (K + K.T), len(K)
    scale = max(float(np.abs(values).max()), np.finfo(float).tiny)
    ends = vectors[:, [0, -1]]
    residual = np.linalg.norm(S @ ends - ends * values[[0, -1]], axis=0).max() / scale
    trace = abs(values.sum() - np.trace(S)) / max(np.abs(values).sum(), np.finfo(float).tiny)
    sums = max(np.abs(C.sum(axis=0)).max(), np.abs(C.sum(axis=1)).max()) / (n * max(np.abs(K).max(), 1e-300))
    least = values[0] / values[-1] if values[-1] > 0 else (0.0 if values[0] == 0 else -np.inf)
    return [
        Certificate("least_eigenvalue_ratio", float(least), -PSD_TOLERANCE,
                    "no eigenvalue is below -1e-10 of the largest: positive semidefinite up to rounding", True),
        Certificate("eigenpair_residual", float(residual), 1e-10,
                    "‖Kv - λv‖ of the least and largest eigenpair, relative to the largest |λ|"),
        Certificate("trace_error", float(trace), 1e-10, "the eigenvalues sum to the trace (relative to Σ|λ|)"),
        Certificate("centred_sum", float(sums), 1e-12, "rows and columns of the centred matrix sum to 0 (relative)"),
    ]  # fmt: skip


def _notices(found: KernelMatrixCheck, normalise: bool) -> list[Notice]:
    out = []
    if not found.symmetric:
        out.append(Notice("not_symmetric", f"K and Kᵀ differ by {found.symmetry_error:.3g} of the largest entry",
                          "a kernel is symmetric; the eigenvalues are those of (K + Kᵀ)/2"))  # fmt: skip
    if not found.positive_semidefinite:
        out.append(Notice("not_positive_semidefinite",
                          f"the least eigenvalue is {found.least_eigenvalue:.6g}; v = `witness` has vᵀKv < 0",
                          "no feature map has these inner products: this is not a kernel"))  # fmt: skip
    elif found.rank < found.rows:
        out.append(Notice("singular", f"rank {found.rank} of {found.rows}: features are dependent or points repeat",
                          "still a kernel (strict positivity is not required); regularise before solving"))  # fmt: skip
    elif found.condition is not None and found.condition > ILL_CONDITIONED:
        out.append(Notice("ill_conditioned", f"the condition number is {found.condition:.3g}",
                          "solve with a ridge or jitter; shorter lengths or scaled inputs help"))  # fmt: skip
    if normalise and found.normalised is None:
        out.append(Notice("no_normalised_form", "a diagonal entry is not positive",
                          "drop rows whose kernel with themselves is 0"))  # fmt: skip
    return out


def _check(K: Matrix, kernel: Kernel | None, normalise: bool) -> tuple[KernelMatrixCheck, Matrix, Matrix]:
    top = float(np.abs(K).max())
    gap = float(np.abs(K - K.T).max()) / top if top > 0 else 0.0
    values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    size = np.abs(values)
    rank = int((size > len(K) * np.finfo(float).eps * size.max()).sum())
    psd = bool(values[0] >= -PSD_TOLERANCE * max(values[-1], 0.0))
    found = KernelMatrixCheck(
        rows=len(K), symmetry_error=gap, symmetric=gap <= SYMMETRY_TOLERANCE,
        least_eigenvalue=float(values[0]), largest_eigenvalue=float(values[-1]),
        positive_semidefinite=psd, kernel_matrix=psd and gap <= SYMMETRY_TOLERANCE,
        rank=rank, condition=float(size.max() / size.min()) if rank == len(K) else None,
        eigenvalues=values, witness=None if psd else vectors[:, 0],
        matrix=K, centred=centred(K), normalised=normalised(K) if normalise else None,
        stationary=None if kernel is None else kernel.stationary,
        homogeneous=None if kernel is None else kernel.homogeneous,
    )  # fmt: skip
    return found, values, vectors


@function(
    "kernel_matrix_check",
    example={"kernel": {"kernel": "rbf", "length_scale": 1.0}, "points": [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]},
    cost=cost,
)
def kernel_matrix_check(
    *,
    matrix: Annotated[RealMatrix | None, Field(description="(n, n) matrix to check.")] = None,
    kernel: Annotated[KernelSpec | None, Field(description="Kernel whose Gram matrix is checked, with points.")] = None,
    points: Annotated[RealMatrix | None, Field(description="(n, d) rows for the kernel.")] = None,
    normalise: Annotated[bool, Field(description="Also return k(x,z) / sqrt(k(x,x) k(z,z)).")] = False,
) -> Answer[KernelMatrixCheck]:
    """Symmetry, spectrum, rank and condition of a kernel matrix, and its centred and normalised forms.

    k is a kernel exactly when every Gram matrix is symmetric with cᵀKc ≥ 0 for all c; one matrix can refute this, never
    prove it. Verdict: λ_min ≥ -1e-10 λ_max. Centred: (I - J) K (I - J), J = 11ᵀ/n. O(n³), 8n² bytes a copy.

    References
    ----------
    Mercer (1909), Functions of positive and negative type, Philosophical Transactions of the Royal Society A 209.
    Shawe-Taylor, Cristianini (2004), Kernel Methods for Pattern Analysis, chapters 3 and 5.
    """
    chosen = None if kernel is None else kernel_of(kernel)
    K = _given(matrix, chosen, points)
    found, values, vectors = _check(K, chosen, normalise)
    certificates, notices = _certificates(K, values, vectors, found.centred), _notices(found, normalise)
    if not found.positive_semidefinite:
        notices.append(certificates[0].failure("the matrix is at fault, not the computation; if rounding made it so, "
                                               "add the size of its least eigenvalue to the diagonal"))  # fmt: skip
    return Answer(found, tuple(certificates), tuple(notices))
