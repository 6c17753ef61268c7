"""Models that are functions of sums over rows: the sums of two sets of rows merge, and a set can be taken out again.

The sums are kept centred (count, mean, scatter about the mean), so that an offset of the data costs no digits, and
merged by the pairwise formula of Chan, Golub and LeVeque: with δ the difference of the means,

    scatter = scatter₁ + scatter₂ + n₁n₂/(n₁+n₂) δδᵀ.

`Moments.of(chunk)`, `merge`, `subtract` and `finish` make a model updatable, forgetful, out-of-core and spreadable.

References
----------
Chan, Golub, LeVeque (1983), Algorithms for computing the sample variance, The American Statistician 37(3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidData

BLOCK_BYTES = 1 << 19
EPS = float(np.finfo(float).eps)


@portable
@dataclass(frozen=True)
class Moments:
    """Weighted count Σs, rows seen, mean (k,) and scatter Σ s (a-mean)(a-mean)ᵀ (k, k) of rows a (k,).

    `rest` holds what rounding took from the mean; without it, merging data far from the origin would lose digits.
    """

    total: float
    rows: int
    mean: Vector
    rest: Vector
    scatter: Matrix

    @classmethod
    def of(cls, A: Matrix, s: Vector | None = None) -> Moments:
        """Moments of the rows of A (n, k), weights s (n,); blocks stay in cache, O(n k²)."""
        n, k = A.shape
        block = max(64, BLOCK_BYTES // (8 * k))
        pilot = np.asarray(A[:: max(1, n // 1024)].mean(axis=0))
        gram, first, total = np.zeros((k, k)), np.zeros(k), 0.0
        for i in range(0, n, block):
            B = A[i : i + block] - pilot
            if s is None:
                total += len(B)
                first += B.sum(axis=0)
            else:
                w = s[i : i + block]
                total += float(w.sum())
                first += w @ B
                B *= np.sqrt(w)[:, None]
            gram += B.T @ B
        shift = first / total
        return cls(total, n, *_sum(pilot, shift), gram - total * np.outer(shift, shift))

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets of rows; commutes up to rounding."""
        total = self.total + other.total
        delta = (other.mean - self.mean) + (other.rest - self.rest)
        mean, rest = _sum(self.mean, self.rest + delta * (other.total / total))
        scatter = self.scatter + other.scatter + np.outer(delta, delta) * (self.total * other.total / total)
        return Moments(total, self.rows + other.rows, mean, rest, scatter)

    def subtract(self, other: Moments) -> Moments:
        """Moments without the rows of `other`, which must be among those of self. Loses digits when little is left."""
        total, rows = self.total - other.total, self.rows - other.rows
        if rows < 1 or total <= EPS * self.total:
            raise InvalidData(f"{other.rows} rows cannot be taken out of {self.rows}: none would be left")
        delta = (other.mean - self.mean) + (other.rest - self.rest)
        mean, rest = _sum(self.mean, self.rest - delta * (other.total / total))
        step = mean - other.mean + (rest - other.rest)
        scatter = self.scatter - other.scatter - np.outer(step, step) * (total * other.total / self.total)
        size = np.maximum(np.diag(scatter), 0.0)
        np.fill_diagonal(scatter, size)
        return Moments(total, rows, mean, rest, scatter)

    def finish(self, ddof: float = 0.0) -> tuple[Vector, Matrix]:
        """Mean (k,) and covariance (k, k) with divisor total - ddof."""
        return self.mean, self.scatter / max(self.total - ddof, EPS)


def _sum(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """The rounded sum and its error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def merged(parts: Iterable[Moments]) -> Moments:
    """Moments of all parts, in the order given."""
    return reduce(Moments.merge, parts)
