"""A table in units of its own: centred and scaled columns, aliased ones merged, targets of size 1."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import qr

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.column_moments import column_moments
from ml_core.numerics.singular import singular
from ml_core.solvers.least_squares import EPS, ROUNDINGS


@dataclass(frozen=True)
class StandardDesign:
    """A (n, p): [1,] columns (x - mean)/scale times `basis` (d, k); targets t = (y - shift)/size; rank of the columns.

    A column without variation has a row of zeros in `basis`, so its slope is 0. Where columns are combinations of
    others `basis` is orthonormal over the rest: slopes are the shortest in standard units.
    """

    A: Matrix
    t: Vector
    mean: Vector
    scale: Vector
    basis: Matrix
    shift: float
    size: float
    intercept: bool
    rank: int

    @classmethod
    def of(cls, X: Matrix, y: Vector, s: Vector, intercept: bool, *, merge: bool = True) -> StandardDesign:
        """Of rows with weights s; O(n d²). Without `merge` aliased columns stay (a penalty tells them apart)."""
        mean, sd, constant = column_moments(X, s)
        if not intercept:
            sd, mean = np.hypot(np.where(constant, 0.0, sd), mean), np.zeros(X.shape[1])
            constant = sd == 0.0
        noise = ROUNDINGS * EPS * (1 + np.abs(mean) / np.where(constant, 1.0, sd))
        constant |= noise >= 1.0
        scale = np.where(constant, 1.0, sd)
        kept = np.flatnonzero(~constant)
        Z = (X[:, kept] - mean[kept]) / scale[kept]
        V, rank = _row_space(Z, s, noise[kept]) if len(kept) else (np.empty((0, 0)), 0)
        basis = np.zeros((X.shape[1], rank if merge else len(kept)))
        basis[kept] = V if merge and rank < len(kept) else np.eye(len(kept))
        A = Z @ V if merge and rank < len(kept) else Z
        A = np.hstack([np.ones((len(X), 1)), A]) if intercept else A
        centre, spread, flat = column_moments(y[:, None], s)
        shift = float(centre[0]) if intercept else 0.0
        size = float(spread[0]) if intercept else float(np.hypot(0.0 if flat[0] else spread[0], centre[0]))
        if size == 0.0 or (intercept and flat[0]):
            size = 1.0
        return cls(np.ascontiguousarray(A), (y - shift) / size, mean, scale, basis, shift, size, intercept, rank)

    def tempered(self, l1: float, l2: float) -> StandardDesign:
        """Columns in units in which l1 |w| and l2 w², w in units of X, cost at most 1 at 1; of an unmerged design.

        A penalty by which a column of tiny numbers is as good as absent would overflow, or swamp the search, else.
        """
        grown = np.maximum(1.0, np.maximum(l1, np.sqrt(l2)) / self.scale)
        columns = np.concatenate([np.ones(int(self.intercept)), grown[self.basis.any(axis=1)]])
        return replace(self, A=self.A / columns, scale=self.scale * grown)

    def penalty(self, alpha: float) -> Vector:
        """(p,) of ½ alpha ‖w‖², w in units of X, on the standard unknowns; for designs that were not merged."""
        if alpha == 0:
            return np.zeros(self.A.shape[1])
        with np.errstate(over="ignore"):
            each = np.minimum(alpha * self.lengths() ** 2, 1e150)
        return np.concatenate([np.zeros(int(self.intercept)), each])

    def lengths(self) -> Vector:
        """(p - intercept,) what a standard unknown of an unmerged design is worth in the units of X."""
        return np.asarray(1.0 / self.scale[self.basis.any(axis=1)])

    def unpack(self, w: Vector) -> tuple[Vector, float]:
        """Standard unknowns (p,) → slopes (d,) in units of X and y, and the prediction at `mean`."""
        first = int(self.intercept)
        slopes = self.size * (self.basis @ w[first:]) / self.scale
        return slopes, self.shift + (self.size * float(w[0]) if first else 0.0)

    def rounding(self, w: Vector) -> Vector:
        """(n,) what a residual at w may owe to rounding, in standard units."""
        far = 1 + float((np.abs(self.mean) / self.scale).max(initial=0.0))
        at = np.abs(self.t) + abs(self.shift) / self.size
        return np.asarray(16 * EPS * (far * (np.abs(self.A) @ np.abs(w)) + at))

    def pack(self, slopes: Vector, offset: float) -> Vector:
        """The way back; slopes outside the row space are lost."""
        w = self.basis.T @ (slopes * self.scale) / self.size
        return np.concatenate([[(offset - self.shift) / self.size], w]) if self.intercept else w


def _row_space(Z: Matrix, s: Vector, noise: Vector) -> tuple[Matrix, int]:
    """Orthonormal basis (k, r) of the row space of √s Z, and r; `noise` (k,): what share of a column is rounding.

    Columns are made as long as they are sure, so that none takes others with it.
    """
    sure = noise.min() / noise
    R = qr(np.sqrt(s / s.sum())[:, None] * Z * sure, mode="r", check_finite=False)[0][: Z.shape[1]]
    _, size, V = singular(np.ascontiguousarray(R))
    rank = int((size > max(Z.shape) ** 0.5 * noise.min() * size.max(initial=0.0)).sum())
    if rank == len(sure):
        return np.eye(rank), rank
    return np.ascontiguousarray(qr(V[:, :rank] / sure[:, None], mode="economic", check_finite=False)[0]), rank
