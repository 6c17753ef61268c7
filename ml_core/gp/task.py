"""What a Gaussian process learns from: rows, targets, known noise, repetitions, and the basis of its prior mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidData
from ml_core.numerics.positive import back, half

LOG_2PI = float(np.log(2 * np.pi))


@portable
@dataclass(frozen=True)
class Mean:
    """The prior mean: a fixed `offset`, and functions 1, x - center with coefficients of flat prior.

    `kind`: zero, average (offset is the mean target), constant (a coefficient), linear (a coefficient and slopes).
    """

    kind: str
    offset: float
    center: Vector

    @property
    def size(self) -> int:
        """p, the number of coefficients."""
        return {"constant": 1, "linear": 1 + len(self.center)}.get(self.kind, 0)

    def basis(self, X: Matrix) -> Matrix:
        """(n, p) values of the functions."""
        ones = np.ones((len(X), 1 if self.size else 0))
        return np.hstack([ones, X - self.center]) if self.kind == "linear" else ones


@dataclass(frozen=True)
class Task:
    """Rows X (n, d), targets less the offset y (n,), known noise variances `extra` (n,), weights (n,), basis H (n, p).

    The noise of a row is (s2 + extra) / weight: a row of weight w is w rows with the same features and target.
    """

    X: Matrix
    y: Vector
    extra: Vector
    weight: Vector
    H: Matrix

    def take(self, rows: np.ndarray) -> Task:
        """Of some rows."""
        return Task(self.X[rows], self.y[rows], self.extra[rows], self.weight[rows], self.H[rows])

    def noise(self, s2: float) -> Vector:
        """(n,) noise variances."""
        return (s2 + self.extra) / self.weight

    def repeated(self, s2: float) -> tuple[float, float]:
        """Log density of the rows' repetitions given the rows, and its derivative by log s2."""
        if (self.weight == 1.0).all():
            return 0.0, 0.0
        each = s2 + self.extra
        known = each > 0
        w, each = self.weight[known], each[known]
        value = -0.5 * float((w - 1) @ (LOG_2PI + np.log(each)) + np.log(w).sum())
        return value, -0.5 * float((w - 1) @ (s2 / each))

    def checked(self) -> Task:
        """Itself, if the basis can be told apart by the rows."""
        n, p = self.H.shape
        if p >= n:
            raise InvalidData(f"the prior mean has {p} coefficients, so it needs more than {p} rows, got {n}; "
                              "choose mean='constant' or 'zero'")  # fmt: skip
        size = np.abs(self.H).max(axis=0, initial=0.0)
        if p and (not (size > 0).all() or np.linalg.matrix_rank(self.H / size) < p):
            raise InvalidData("the functions of the prior mean are dependent on these rows: a column is constant, or a "
                              "combination of others; drop it, or choose mean='constant'")  # fmt: skip
        return self


def coefficients(H: Matrix, solved_y: Vector, solved: Matrix) -> tuple[Matrix, Vector, Matrix]:
    """From C⁻¹y and C⁻¹H (n, p): R (p, p) with R Rᵀ = HᵀC⁻¹H, β, and E (n, p) with E Eᵀ = C⁻¹H(R Rᵀ)⁻¹HᵀC⁻¹."""
    if not H.shape[1]:
        return np.zeros((0, 0)), np.zeros(0), solved
    M = H.T @ solved
    R: Matrix = np.ascontiguousarray(np.linalg.cholesky(0.5 * (M + M.T)), dtype=np.float64)
    return R, back(R, half(R, H.T @ solved_y)), np.ascontiguousarray(half(R, solved.T).T)
