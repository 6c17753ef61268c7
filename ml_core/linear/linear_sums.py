"""Least squares from sums over rows: a triangular root of [X, Y] gives the fit, one more pass its last digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cholesky

from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidData
from ml_core.numerics.compensated import normal_residual, residual, two_diff
from ml_core.numerics.totals import Total
from ml_core.numerics.triangle import Triangle, reduced
from ml_core.solvers.least_squares import EPS, ROUNDINGS, Design, triangular_inverse
from ml_core.solvers.linear_model import LinearFit
from ml_core.solvers.normal_equations import solve_normal
from ml_core.statistics import two_sum

if TYPE_CHECKING:
    from ml_core.linear.linear_regression import LinearRegression

FAST_ENTRIES = 4096
"""Cells from which a well-conditioned table is seen through its Gram matrix."""


@portable
@dataclass(frozen=True)
class LinearSums:
    """The triangle of [X, Y], about 0 without intercept; how many columns are X's, and whether the target was 1-d."""

    triangle: Triangle
    columns: int
    single: bool

    @classmethod
    def of(cls, X: Matrix, y: Vector | Matrix, s: Vector, intercept: bool) -> LinearSums:
        """Of the rows; O(n (d + q)²)."""
        return cls(Triangle.of(np.column_stack([X, y]), s, centred=intercept), X.shape[1], y.ndim == 1)

    def merge(self, other: LinearSums) -> LinearSums:
        """Of both sets of rows."""
        return LinearSums(self.triangle.merge(self._like(other)), self.columns, self.single)

    def subtract(self, other: LinearSums) -> LinearSums:
        """Without the rows of `other`; InvalidData when they cannot have been there or leave nothing determined."""
        return LinearSums(self.triangle.subtract(self._like(other)), self.columns, self.single)

    def _like(self, other: LinearSums) -> Triangle:
        q, given = (len(s.triangle.mean) - s.columns for s in (self, other))
        if q != given:
            raise InvalidData(f"the model has {q} targets, these rows have {given}")
        return other.triangle

    def design(self) -> Design:
        """Few rows with the sums of all: the square root of the weight at the mean, then the root of the scatter."""
        t, d = self.triangle, self.columns
        n, spread = np.sqrt(t.total), t.norms() / np.sqrt(t.total)
        flat = spread <= ROUNDINGS * EPS * t.top
        scale = np.where(flat, 1.0, 2.0 ** np.frexp(spread)[1])
        A = np.where(flat, 0.0, t.root) / scale
        mean = np.where(flat, 0.0, n * t.rest / scale)
        hi = np.vstack([mean[:d], A[:, :d]]).T if t.centred else A[:, :d].T
        target = np.vstack([mean[d:], A[:, d:]]).T if t.centred else A[:, d:].T
        if t.centred:
            hi = np.vstack([n * np.eye(1, hi.shape[1]), hi])
        noise = np.divide(ROUNDINGS * t.top, spread, out=np.zeros(len(spread)), where=~flat)[:d]
        noise = np.maximum(max(t.rows, len(hi)), np.append(0.0, noise) if t.centred else noise)
        hi, target = np.ascontiguousarray(hi), np.ascontiguousarray(target)
        return Design(
            hi, np.zeros_like(hi), target, np.zeros_like(target), s=np.ones(hi.shape[1]), shift=t.mean[:d],
            scale=scale[:d], target_shift=t.mean[d:], target_scale=scale[d:], noise=noise, intercept=t.centred,
        )  # fmt: skip

    def size(self) -> float:
        """‖√S [1, X]‖ in the Frobenius norm, without the ones when there is no intercept."""
        t, d = self.triangle, self.columns
        with np.errstate(over="ignore"):
            return float(np.sqrt((t.norms()[:d] ** 2).sum() + t.total * ((t.mean[:d] ** 2).sum() + t.centred)))


def sums_of_normal(fit: LinearFit, y: Vector | Matrix, s: Vector, intercept: bool) -> LinearSums:
    """The sums behind a well-conditioned fit by normal equations, without another look at the rows.

    K = `fit.root` is the inverse of the triangle of [1, X - center]; the targets are what the fit explains and the root
    of the products of its residuals.
    """
    first, total, d = 0 if intercept else 1, float(s.sum()), len(fit.center)
    R = triangular_inverse(np.ascontiguousarray(fit.root[first:]))
    cross = 0.5 * (fit.cross + fit.cross.T)
    try:
        left = cholesky(cross, check_finite=False)
    except LinAlgError:
        values, V = np.linalg.eigh(cross)
        left = reduced(np.sqrt(np.maximum(values, 0.0))[:, None] * V.T)
    step = R[0, 1:] / R[0, 0] if intercept else np.zeros(d)
    A = R[1:, 1:] if intercept else R
    root = np.vstack([np.hstack([A, A @ fit.coef]), np.hstack([np.zeros((len(left), len(step))), left])])
    mean, rest = two_sum(fit.center, step)
    y_mean, y_rest = two_sum(fit.offset, step @ fit.coef) if intercept else (0.0 * fit.offset, 0.0 * fit.offset)
    triangle = Triangle(total, len(s), np.concatenate([mean, y_mean]), np.concatenate([rest, y_rest]), fit.top, root,
                        intercept)  # fmt: skip
    return LinearSums(triangle, d, y.ndim == 1)


def fast_sums(X: Matrix, y: Vector | Matrix, s: Vector, intercept: bool) -> LinearSums:
    """Of the rows, through their Gram matrix where the condition of the columns allows it; O(n d (d + q))."""
    if X.size > FAST_ENTRIES and len(X) > X.shape[1] + 1:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            fit = solve_normal(X, y.reshape(len(X), -1), s, intercept=intercept)
        if fit is not None:
            return sums_of_normal(fit, y, s, intercept)
    return LinearSums.of(X, y, s, intercept)


@dataclass(frozen=True)
class Slope(Total):
    """[1, X - center]ᵀS r (1 + d, q) and Σ s r² (q,) at the fitted coefficients."""

    gradient: Matrix
    rss: Vector


@dataclass(frozen=True)
class SlopePart:
    """The part whose total is `Slope`, residuals and products in double-double."""

    model: LinearRegression

    def __call__(self, X: Matrix, y: Vector | Matrix, s: Vector) -> Slope:
        """Of the rows of X."""
        m, Y = self.model, y.reshape(len(X), -1)
        hi, lo = map(np.ascontiguousarray, two_diff(X.T, m.center_[:, None]))
        th, tl = map(np.ascontiguousarray, two_diff(Y.T, m.offset_[:, None]))
        w, nothing = np.ascontiguousarray(m.weights_), np.zeros_like(m.weights_)
        r = residual(hi, lo, w, nothing, th, tl, np.zeros_like(th))
        rest = residual(hi, lo, w, nothing, th, tl, r)
        if m.fit_intercept:
            hi, lo = np.vstack([np.ones((1, len(X))), hi]), np.vstack([np.zeros((1, len(X))), lo])
        none = np.zeros((len(hi), len(r)))
        g = -normal_residual(hi, lo, s, r, none) - normal_residual(hi, lo, s, rest, none)
        return Slope(g if m.fit_intercept else np.vstack([np.zeros((1, len(r))), g]), r**2 @ s)


def corrected(m: LinearRegression, slope: Slope) -> float:
    """Move the coefficients by the Newton step of the slope; its size relative to the largest change of f it makes."""
    dx = m.root_ @ (m.root_.T @ slope.gradient)
    m.weights_, m.offset_ = m.weights_ + dx[1:], m.offset_ + dx[0]
    m.rss_ = np.maximum(slope.rss - (dx * slope.gradient).sum(axis=0), 0.0)
    size = np.abs(m.weights_).max(axis=1, initial=0.0)
    return float((np.abs(dx[1:]).max(axis=1, initial=0.0) / np.where(size > 0, size, 1.0)).max(initial=0.0))
