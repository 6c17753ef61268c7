"""A kernel that is a table of values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.linalg import LinAlgError, cholesky

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidData
from ml_core.kernels.base import Kernel
from ml_core.kernels.dot import PSD_TOLERANCE, Semidefinite

SYMMETRY = 1e-10


@dataclass(frozen=True)
class PrecomputedKernel(Kernel):
    """Values given as a table.

    With `matrix` (N, N) a row of the table of features holds one number, i, and k(i, j) = matrix[i][j]: send the values
    of all rows, new ones too. Without it, a row holds its values with the n training rows, so that the training table
    is the (n, n) Gram matrix and a table of m new rows is (m, n); k(z, z) of new rows is then unknown.
    """

    name = "precomputed"
    matrix: Annotated[
        Semidefinite | None, Field(description="Symmetric positive semidefinite (N, N); null: rows are values.")
    ] = None

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        if self.matrix is not None:
            M = np.array(self.matrix, dtype=np.float64)
            return np.ascontiguousarray(M[np.ix_(_numbers(A, len(M)), _numbers(B, len(M)))])
        if A is B:
            return _gram(A)
        if len(B) == B.shape[1] == A.shape[1]:
            return A.copy()
        if len(A) == A.shape[1] == B.shape[1]:
            return np.ascontiguousarray(B.T)
        raise InvalidData(f"rows of kernel values with the training rows: got {A.shape} and {B.shape}; the training "
                          "table must be square and whole (no row left out)")  # fmt: skip

    def diag(self, A: Matrix) -> Vector:
        """k(x, x): of row numbers, or of the training table."""
        if self.matrix is not None:
            M = np.array(self.matrix, dtype=np.float64)
            return np.asarray(np.diag(M)[_numbers(A, len(M))])
        if len(A) != A.shape[1]:
            raise InvalidData("k(z, z) of new rows is not among their values with the training rows; give the kernel's "
                              "matrix over all rows, and row numbers as the only feature")  # fmt: skip
        return np.diag(A).copy()


def needs_all_rows(kernel: Kernel) -> bool:
    """Whether a model must keep every training row, with a weight or not: rows that are values name them by place."""
    if isinstance(kernel, PrecomputedKernel):
        return kernel.matrix is None
    parts = [getattr(kernel, f.name) for f in fields(kernel)]  # type: ignore[arg-type]
    inside = [p for part in parts for p in (part if isinstance(part, tuple) else (part,))]
    return any(needs_all_rows(p) for p in inside if isinstance(p, Kernel))


def _numbers(A: Matrix, size: int) -> np.ndarray:
    """The one column of A as row numbers below `size`."""
    if A.shape[1] != 1:
        raise InvalidData(f"kernel 'precomputed' with a matrix takes one column of row numbers, got {A.shape[1]}; "
                          "choose it with the kernel 'subset'")  # fmt: skip
    at = A[:, 0].astype(np.int64)
    wrong = (at != A[:, 0]) | (at < 0) | (at >= size)
    if wrong.any():
        raise InvalidData(
            f"row {int(np.argmax(wrong))}: {A[np.argmax(wrong), 0]:g} is no row number from 0 to {size - 1}"
        )
    return at


def _gram(K: Matrix) -> Matrix:
    """The training table, if it can be a Gram matrix."""
    if len(K) != K.shape[1]:
        raise InvalidData(f"the training table of kernel 'precomputed' has {len(K)} rows and {K.shape[1]} columns; "
                          "it holds the values of each row with each")  # fmt: skip
    size = max(float(np.abs(K).max(initial=0.0)), np.finfo(float).tiny)
    gap = np.abs(K - K.T)
    if gap.max(initial=0.0) > SYMMETRY * size:
        i, j = np.unravel_index(int(gap.argmax()), gap.shape)
        raise InvalidData(f"a kernel is symmetric: entries ({i}, {j}) and ({j}, {i}) are {K[i, j]:g} and {K[j, i]:g}")
    S = 0.5 * (K + K.T)
    try:
        cholesky(S + PSD_TOLERANCE * size * np.eye(len(S)), lower=True, check_finite=False)
    except LinAlgError:
        spectrum = np.linalg.eigvalsh(S)
        if spectrum[0] < -PSD_TOLERANCE * max(spectrum[-1], 0.0):
            raise InvalidData(f"the values are of no kernel: the least eigenvalue of the training table is "
                              f"{spectrum[0]:.6g}, the largest {spectrum[-1]:.6g}") from None  # fmt: skip
    return np.asarray(S)
