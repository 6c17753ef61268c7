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
from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidData

BLOCK_BYTES = 1 << 19
EPS = float(np.finfo(float).eps)
SLACK = 1e-13
"""Share of a sum that rounding can leave, or take away, when a part of it is subtracted."""
UNSEEN = "the model cannot have seen these rows: without them a variance would be negative"


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
        if not n:
            return cls(0.0, 0, np.zeros(k), np.zeros(k), np.zeros((k, k)))
        block = max(64, BLOCK_BYTES // (8 * k))
        sample = A[:: max(1, n // 1024)]
        pilot = np.where((sample == A[0]).all(axis=0), A[0], sample.mean(axis=0))
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
        return cls(total, n, *two_sum(pilot, shift), gram - total * np.outer(shift, shift))

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets of rows; commutes up to rounding."""
        if not self.rows or not other.rows:
            return self if self.rows else other
        total = self.total + other.total
        delta = (other.mean - self.mean) + (other.rest - self.rest)
        mean, rest = two_sum(self.mean, self.rest + delta * (other.total / total))
        scatter = self.scatter + other.scatter + np.outer(delta, delta) * (self.total * other.total / total)
        return Moments(total, self.rows + other.rows, mean, rest, scatter)

    def subtract(self, other: Moments) -> Moments:
        """Moments without the rows of `other`; InvalidData where these cannot have been among the rows of self.

        The digits that remain are those of the scatter left relative to the scatter that was.
        """
        if not other.rows:
            return self
        total, rows = left_over(self, other)
        delta = (other.mean - self.mean) + (other.rest - self.rest)
        mean, rest = two_sum(self.mean, self.rest - delta * (other.total / total))
        step = (other.mean - mean) + (other.rest - rest)
        scatter = self.scatter - other.scatter - np.outer(step, step) * (total * other.total / self.total)
        return Moments(total, rows, mean, rest, _possible(scatter, np.sqrt(np.diag(self.scatter))))

    def finish(self, ddof: float = 0.0) -> tuple[Vector, Matrix]:
        """Mean (k,) and covariance (k, k) with divisor total - ddof."""
        return self.mean, self.scatter / max(self.total - ddof, EPS)


@portable
@dataclass(frozen=True)
class Counts:
    """Weight of ones and of zeros, arrays of one shape; exact, and exactly undone, for whole weights up to 2⁵³."""

    ones: np.ndarray
    zeros: np.ndarray

    def merge(self, other: Counts) -> Counts:
        """Of both sets of rows."""
        return Counts(self.ones + other.ones, self.zeros + other.zeros)

    def subtract(self, other: Counts) -> Counts:
        """Without the rows of `other`; InvalidData when they hold more than there was, or all of it."""
        ones, zeros = self.ones - other.ones, self.zeros - other.zeros
        slack = 10 * SLACK * (self.ones + self.zeros)
        if (ones < -slack).any() or (zeros < -slack).any() or (ones + zeros <= slack).any():
            raise InvalidData("these rows hold more ones or zeros than the model has seen, or all that it has seen")
        return Counts(swept(ones, slack), swept(zeros, slack))


def swept(rest: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """What is left of sums of weights, with 0 where it is rounding: at most `slack` and no whole number."""
    return np.where((rest <= slack) & (rest != np.floor(rest)), 0.0, np.maximum(rest, 0.0))


def left_over(whole: Any, part: Any) -> tuple[float, int]:
    """Weight and rows of `whole` without `part`; InvalidData when nothing would be left."""
    total, rows = whole.total - part.total, whole.rows - part.rows
    if rows < 1 or total <= SLACK * whole.total:
        raise InvalidData(f"{part.rows} rows of weight {part.total:g} cannot be taken out of {whole.rows} of weight "
                          f"{whole.total:g}: none would be left")  # fmt: skip
    return total, rows


def _possible(scatter: Matrix, size: Vector) -> Matrix:
    """The scatter when it is one, but for rounding relative to what was, `size` (k,) per column; InvalidData if not."""
    unit = np.where(size > 0, size, 1.0)
    C = scatter / unit / unit[:, None]
    if not np.isfinite(C).all() or np.linalg.eigvalsh(C)[0] < -SLACK * len(C):
        raise InvalidData(UNSEEN)
    lost = np.diag(C) <= SLACK
    scatter[lost] = 0.0
    scatter[:, lost] = 0.0
    return scatter


def two_sum(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """The rounded sum and its error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def merged(parts: Iterable[Moments]) -> Moments:
    """Moments of all parts, in the order given."""
    return reduce(Moments.merge, parts)
