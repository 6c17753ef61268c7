"""What a Gaussian process learns from: rows, targets, known noise, repetitions, and the basis of its prior mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidData
from ml_core.kernels import Kernel
from ml_core.numerics.positive import back, half

EPS = float(np.finfo(float).eps)
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

    def merged(self, kernel: Kernel, s2: float) -> tuple[Task, float]:
        """The task of distinct rows, and the log density of everything else in the targets given it. O(n d log n).

        Equal rows of noise vᵢ > 0 are one row of precision Σ 1/vᵢ, whose target is the mean by precision: the posterior
        is the same, and its weights are not differences that cancel. Where a noise vanishes in the rounding of the
        kernel's values rows stay as they are.
        """
        noise, rest = self.noise(s2), self.repeated(s2)[0]
        _, first, group = np.unique(self.X, axis=0, return_index=True, return_inverse=True)
        if len(first) == len(noise) or not (noise > EPS * kernel.diag(self.X)).all():
            return self, rest
        order = np.argsort(first)
        first, group = first[order], np.argsort(order)[group.ravel()]
        least = np.full(len(first), np.inf)
        np.minimum.at(least, group, noise)
        share = least[group] / noise
        total = np.bincount(group, share)
        y = np.bincount(group, share * self.y) / total
        spread = float(((self.y - y[group]) ** 2 / noise).sum())
        logs = float(np.log(noise).sum() - np.log(least / total).sum()) + (len(noise) - len(first)) * LOG_2PI
        weight = (s2 + self.extra[first]) / (least / total)
        return Task(self.X[first], y, self.extra[first], weight, self.H[first]), rest - 0.5 * (spread + logs)

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
