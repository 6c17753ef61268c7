"""Kernels of the difference of two rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import AfterValidator, Field, WithJsonSchema
from scipy.spatial.distance import cdist

from ml_core.arrays import Matrix, Vector
from ml_core.errors import InvalidParameter
from ml_core.kernels.base import Kernel, Pull
from ml_core.kernels.distances import (
    BLOCK,
    EPS,
    EXPANSION_COLUMNS,
    EXPANSION_ERROR,
    fast_squared_distances,
    median_distance,
    squared_distances,
)
from ml_core.kernels.traces import nearer, row_gaps, weighted_gaps
from ml_core.numerics.exponential import decayed, gaussian_of_products
from ml_core.parallel import team

PRODUCT_COLUMNS = 6
SPREAD_ROWS = 1500
NEAR = 0.01
SHORT = 1e100
TWO_PI = 2.0 * np.pi


def _positive(value: Any) -> Any:
    """None, a positive number, or a list of them (one per column) as a tuple."""
    several = isinstance(value, (list, tuple, np.ndarray))
    each = [v.item() if isinstance(v, np.generic) else v for v in value] if several else [value]
    if value is None:
        return None
    legal = all(isinstance(v, (int, float)) and not isinstance(v, bool) and 0 < v < np.inf for v in each)
    if not legal or not each:
        raise ValueError("expected a positive number, a list of positive numbers (one per column), or null")
    return tuple(map(float, each)) if several else float(each[0])


_POSITIVE = {"type": "number", "exclusiveMinimum": 0}
Length = Annotated[
    Any,
    AfterValidator(_positive),
    WithJsonSchema({"anyOf": [_POSITIVE, {"type": "array", "items": _POSITIVE, "minItems": 1}, {"type": "null"}]}),
]


LengthScale = Annotated[
    Length, Field(description="Length in units of the columns; a list has one per column; null: median distance.")
]


class Radial(Kernel):
    """A function of the scaled distance r = ‖(x - z) / length‖; a family gives `_of(A, B)` on scaled rows."""

    stationary = True
    homogeneous = True
    bounded = True

    @abstractmethod
    def _of(self, A: Matrix, B: Matrix) -> Matrix:
        """(n, m) values for rows in units of the length."""

    @abstractmethod
    def _short(self, r2: Matrix) -> Matrix:
        """1 - k(r²) without cancellation."""

    def ranks(self, A: Matrix, B: Matrix) -> Matrix:
        """r², of which k falls: it orders also rows so near or far that their k round to one value."""
        return squared_distances(*self._scaled(A, B))

    def distances_of(self, ranks: Matrix) -> Matrix:
        """2 (1 - k)."""
        return np.asarray(2.0 * self._short(ranks))

    def squared_distances(self, A: Matrix, B: Matrix) -> Matrix:
        """2 (1 - k) without cancellation."""
        return self.distances_of(self.ranks(A, B))

    @abstractmethod
    def _inverse_length(self) -> Any:
        """What rows are multiplied by: a number, a tuple with one per column, or None while the data must give it."""

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        return self._of(*self._scaled(A, B))

    def _scaled(self, A: Matrix, B: Matrix) -> tuple[Matrix, Matrix]:
        """Rows in units of the length, perhaps less a common row; one array twice when A is B."""
        scale = self._scale(A, B)
        A, B = nearer(A, B, scale)
        S = A * scale
        return S, S if A is B else B * scale

    def _scale(self, A: Matrix, B: Matrix) -> np.ndarray:
        """What rows are multiplied by to be in units of the length."""
        per = self._inverse_length()
        if per is None:
            raise InvalidParameter(f"the length of kernel {self.name!r} is left to the data: call resolved(X) first")
        if isinstance(per, tuple) and len(per) != A.shape[1]:
            raise InvalidParameter(f"kernel {self.name!r} has {len(per)} lengths, the rows have {A.shape[1]} columns")
        scale = np.asarray(per)
        largest = max(1.0, *(float(np.abs(M).max(initial=0.0)) for M in (A, B))) if scale.max() > SHORT else 1.0
        if float(scale.max()) > float(np.finfo(float).max) / largest:
            raise InvalidParameter(f"rows up to {largest:.3g} in units of the length of kernel {self.name!r} overflow; "
                                   "take a longer length")  # fmt: skip
        return scale

    def diag(self, A: Matrix) -> Vector:
        """Ones."""
        return np.ones(len(A))


@dataclass(frozen=True)
class Lengths(Radial):
    """A radial kernel of `length_scale`: a family gives `_profile(r²)`, its values and -2 dk/dr²."""

    length_scale: LengthScale = 1.0
    learnable: ClassVar[tuple[str, ...]] = ("length_scale",)

    @property
    def homogeneous(self) -> bool:  # type: ignore[override]
        """Whether every column has the same length."""
        return not isinstance(self.length_scale, tuple)

    def _inverse_length(self) -> Any:
        scale = self.length_scale
        if isinstance(scale, tuple):
            return tuple(1 / v for v in scale)
        return None if scale is None else 1 / scale

    @abstractmethod
    def _profile(self, r2: Matrix, slope: bool) -> tuple[Matrix, Matrix | None]:
        """k(r²), which may be written over r², and -2 dk/dr² if `slope`."""

    def _of(self, A: Matrix, B: Matrix) -> Matrix:
        return self._values(A, B, False)[0]

    def _values(self, S: Matrix, T: Matrix, slope: bool) -> tuple[Matrix, Matrix | None]:
        """`_profile` of all pairs of scaled rows; of rows with themselves, one triangle in strips, on threads."""
        if len(S) == 1:
            return self._profile(row_gaps(S, T), slope)
        if S is not T or S.shape[1] >= EXPANSION_COLUMNS:
            return self._profile(fast_squared_distances(S, T), slope)
        n = len(S)
        k, g = self._profile(squared_distances(S[:1], S[:1]), slope)
        K = np.empty((n, n))
        G = K if g is k or g is None else np.empty((n, n))

        def strip(i: int) -> None:
            j = min(i + BLOCK, n)
            k, g = self._profile(squared_distances(S[i:j], S[:j]), slope)
            K[i:j, :j], K[:i, i:j] = k, k[:, :i].T
            if G is not K and g is not None:
                G[i:j, :j], G[:i, i:j] = g, g[:, :i].T

        with team(n >= SPREAD_ROWS) as each:
            each(strip, range(0, n, BLOCK))
        return K, G

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        S, T = self._scaled(A, B)
        K, G = self._values(S, T, True)
        assert G is not None  # noqa: S101 - asked for
        return K, lambda W: self._lengths_pull(weighted_gaps(W, G, S, T, gram))

    def _lengths_pull(self, gaps: Vector) -> Vector:
        """From Σᵢⱼ Wᵢⱼ Gᵢⱼ (sᵢ - tⱼ)² per column (d,): ∂k/∂log length = -2 dk/dr² (x - z)²/length²."""
        return gaps if isinstance(self.length_scale, tuple) else np.array([gaps.sum()])

    def _filled(self, X: Matrix) -> Self:
        """With the median distance where length_scale is None."""
        return replace(self, length_scale=median_distance(X)) if self.length_scale is None else self


@dataclass(frozen=True)
class RBFKernel(Lengths):
    """exp(-‖x - z‖² / (2 length_scale²)), the Gaussian kernel; longer is smoother and more biased."""

    name = "rbf"

    def _short(self, r2: Matrix) -> Matrix:
        return np.asarray(-np.expm1(-0.5 * r2))

    def _profile(self, r2: Matrix, slope: bool) -> tuple[Matrix, Matrix | None]:
        K = decayed(r2, -0.5)
        return K, K

    def against(self, B: Matrix) -> Callable[[Matrix], Matrix]:
        """In many columns by inner products about the mean of B, in place, where that is good enough."""
        if B.shape[1] < PRODUCT_COLUMNS:
            return super().against(B)
        centre = B.mean(axis=0)
        Q = B - centre
        Q *= self._scale(Q, Q)
        q = 0.5 * np.einsum("ij,ij->i", Q, Q)
        limit = EXPANSION_ERROR / (8 * EPS) - q.max(initial=0.0)

        def values(A: Matrix) -> Matrix:
            P = A - centre
            P *= self._scale(P, P)
            p = 0.5 * np.einsum("ij,ij->i", P, P)
            if not p.max(initial=0.0) <= limit:
                return self(A, B)
            D = P @ Q.T
            gaussian_of_products(D, p, q)
            return D

        return values


@dataclass(frozen=True)
class ExponentialKernel(Radial):
    """exp(-theta ‖x - z‖): continuous, nowhere smooth sample paths."""

    name = "exponential"
    learnable = ("theta",)
    theta: Annotated[
        float | None, Field(gt=0, allow_inf_nan=False, description="Inverse length; null: 1 / median distance.")
    ] = 1.0

    def _inverse_length(self) -> Any:
        return self.theta

    def _of(self, A: Matrix, B: Matrix) -> Matrix:
        return decayed(cdist(A, B), -1.0)

    def _short(self, r2: Matrix) -> Matrix:
        return np.asarray(-np.expm1(-np.sqrt(r2)))

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        S, T = self._scaled(A, B)
        r = cdist(S, T)
        K = decayed(r.copy(), -1.0)
        return K, lambda W: np.array([-np.einsum("ij,ij,ij->", W, K, r)])

    def _filled(self, X: Matrix) -> ExponentialKernel:
        """With 1 / median distance where theta is None."""
        return replace(self, theta=1.0 / median_distance(X)) if self.theta is None else self


def _turns(a: Vector) -> tuple[Vector, Vector]:
    """Sine and cosine of 2π a; whole turns are dropped first, exactly, so that far columns keep their digits."""
    angle = TWO_PI * np.fmod(a, 1.0)
    return np.sin(angle), np.cos(angle)


@dataclass(frozen=True)
class TrigonometricKernel(Kernel):
    """Σⱼ ∫₀^2π cos(t (xⱼ - zⱼ)) dt = Σⱼ sin(2π Dⱼ)/Dⱼ, D = x - z; a column with D = 0 adds 2π.

    sin 2π(x - z) comes from the sines and cosines of x and z, n + m per column instead of n m; where |D| < 0.01 that
    difference would lose digits and the sine is taken of D itself.
    """

    name = "trigonometric"
    stationary = True
    bounded = True

    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        out = np.zeros((len(A), len(B)))
        for a, b in zip(A.T, B.T, strict=True):
            sa, ca, sb, cb = _turns(a) + _turns(b)
            for i in range(0, len(out), BLOCK):
                rows = slice(i, i + BLOCK)
                gap = a[rows, None] - b
                near = np.abs(gap) < NEAR
                wave = sa[rows, None] * cb - ca[rows, None] * sb
                terms = wave / np.where(near, 1.0, gap)
                terms[near] = TWO_PI * np.sinc(2.0 * np.abs(gap[near]))
                out[rows] += terms
        return out

    def diag(self, A: Matrix) -> Vector:
        """2π d."""
        return np.full(len(A), TWO_PI * A.shape[1])
