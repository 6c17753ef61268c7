"""Sums over rows that keep all their digits: weight, mean, and a triangular root of the scatter instead of the scatter.

With D the centred rows, R from D = QR has RᵀR = DᵀD, but the condition of D where DᵀD has its square. Two sets of rows
merge by factoring what their roots and the step between their means stack up to (tall-skinny QR):

    [R₁; R₂; √(n₁n₂/n) δᵀ] = Q R,      RᵀR = R₁ᵀR₁ + R₂ᵀR₂ + n₁n₂/n δδᵀ.

Rows Z are taken out by RᵀR = Sᵀ(I - PᵀP)S with S the root that was and Z = P S: I - PᵀP has no negative eigenvalue when
the rows were there, and its least one says which share of the information in some direction is left.

References
----------
Demmel, Grigori, Hoemmen, Langou (2012), Communication-optimal parallel and sequential QR, SIAM J. Sci. Comput. 34(1).
Björck (1996), Numerical Methods for Least Squares Problems, SIAM, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, svd

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidData
from ml_core.numerics.singular import lengths
from ml_core.statistics import EPS, UNSEEN, Moments, left_over, two_sum

LEAST_SHARE = 1e-11
"""Information about a direction, relative to what was, below which forgetting leaves nothing but rounding."""


@portable
@dataclass(frozen=True)
class Triangle:
    """Weight Σs, rows, mean + rest (k,), the largest |a| per column (k,), and R (r, k), r ≤ k, with RᵀR the scatter.

    Of sums about 0 (`centred` false) the mean is 0 and RᵀR = Σ s a aᵀ.
    """

    total: float
    rows: int
    mean: Vector
    rest: Vector
    top: Vector
    root: Matrix
    centred: bool = True

    @classmethod
    def of(cls, A: Matrix, s: Vector, *, centred: bool = True) -> Triangle:
        """Of the rows of A (n, k), weights s (n,); O(n k²). A column that is constant has scatter 0 exactly."""
        total, nothing = float(s.sum()), np.zeros(A.shape[1])
        top = np.maximum(A.max(axis=0), -A.min(axis=0))
        if not centred:
            return cls(total, len(A), nothing, nothing, top, reduced(A * np.sqrt(s)[:, None]), False)
        D = A - A[0]
        shift = s @ D / total
        D -= shift
        D[:, np.ptp(D, axis=0) <= 2 * EPS * top] = 0.0
        rest = s @ D / total
        D -= rest
        D *= np.sqrt(s)[:, None]
        return cls(total, len(A), *two_sum(A[0], shift + rest), top, reduced(D))

    @classmethod
    def of_scatter(cls, m: Moments) -> Triangle:
        """Of moments, with the digits that their scatter has; O(k³)."""
        size = np.sqrt(np.diag(m.scatter))
        unit = np.where(size > 0, size, 1.0)
        values, V = np.linalg.eigh(m.scatter / unit / unit[:, None])
        root = reduced(np.sqrt(np.maximum(values, 0.0))[:, None] * V.T) * unit
        return cls(m.total, m.rows, m.mean, m.rest, np.abs(m.mean) + size, root)

    def merge(self, other: Triangle) -> Triangle:
        """Of both sets of rows."""
        total = self.total + other.total
        delta = (other.mean - self.mean) + (other.rest - self.rest)
        mean, rest = two_sum(self.mean, self.rest + delta * (other.total / total))
        step = np.sqrt(self.total * (other.total / total)) * delta
        root = reduced(np.vstack([self.root, other.root, step] if self.centred else [self.root, other.root]))
        return Triangle(total, self.rows + other.rows, mean, rest, np.maximum(self.top, other.top), root, self.centred)

    def subtract(self, other: Triangle) -> Triangle:
        """Without the rows of `other`; InvalidData where these cannot have been there, or what is left is not known.

        The root keeps the digits of the one that was, less those of the share of information left.
        """
        total, rows = left_over(self, other)
        delta = (other.mean - self.mean) + (other.rest - self.rest)
        mean, rest = two_sum(self.mean, self.rest - delta * (other.total / total))
        step = np.sqrt(self.total * (other.total / total)) * delta
        out = np.vstack([other.root, step]) if self.centred else other.root
        return Triangle(total, rows, mean, rest, self.top, _downdated(self.root, out, self.top), self.centred)

    def norms(self) -> Vector:
        """(k,) √(Σ s (a - mean)²)."""
        return lengths(self.root)


def reduced(A: Matrix) -> Matrix:
    """R (min(n, k), k) with RᵀR = AᵀA: upper triangular, or A itself where it has no more rows than columns."""
    if len(A) <= A.shape[1]:
        return A
    return np.ascontiguousarray(qr(A, mode="r", overwrite_a=True, check_finite=False)[0][: A.shape[1]])


def _downdated(root: Matrix, rows: Matrix, top: Vector) -> Matrix:
    """A root of rootᵀroot - rowsᵀrows, by the singular value decomposition of the root in its own units."""
    size = np.sqrt((root**2).sum(axis=0))
    unit = np.where(size > 0, size, np.maximum(top, np.finfo(float).tiny))
    _, values, Vt = svd(root / unit, full_matrices=False, check_finite=False)
    kept = values > max(root.shape) * EPS * values[0]
    S, V = values[kept], Vt[kept]
    Z = rows / unit
    P = Z @ V.T / S
    outside = np.abs(Z - (P * S) @ V).max(initial=0.0)
    share, W = np.linalg.eigh(np.eye(len(S)) - P.T @ P)
    if outside > 1e-9 or share.min(initial=0.0) < -LEAST_SHARE:
        raise InvalidData(UNSEEN)
    if share.min(initial=1.0) < LEAST_SHARE:
        raise InvalidData("without these rows, a direction of the columns would be determined by rounding alone: fit "
                          "the rows that are to stay")  # fmt: skip
    return reduced(np.sqrt(share)[:, None] * (W.T * S) @ V * unit)
