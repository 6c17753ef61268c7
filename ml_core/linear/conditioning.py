"""How well rows determine the coefficients of a linear model: singular values, condition number, aliased columns."""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr

from ml_core.arrays import Matrix, Vector
from ml_core.linear.standard_design import StandardDesign
from ml_core.numerics.singular import lengths, singular

EPS = float(np.finfo(float).eps)
EARLIER = 1e3
"""Columns of one length get lengths that fall by one part in so many, so that pivots prefer those that come first."""


def singular_values(X: Matrix, s: Vector, intercept: bool) -> Vector:
    """Singular values of √S [1, X], without the ones where there is no intercept, descending; O(n d²).

    Each to rounding of itself where columns differ in size alone.
    """
    A = np.hstack([np.ones((len(X), 1)), X]) if intercept else X
    R = qr(np.sqrt(s)[:, None] * A, mode="r", check_finite=False)[0]
    return singular(np.ascontiguousarray(R[: A.shape[1]]))[1]


def condition(sizes: Vector, full: bool) -> float | None:
    """The largest singular value over the least; None where the rank is not `full`, or the ratio is no number."""
    if not full or not sizes[-1] > 0:
        return None
    with np.errstate(over="ignore"):
        ratio = float(sizes[0] / sizes[-1])
    return ratio if np.isfinite(ratio) else None


def weighted_condition(X: Matrix, s: Vector, intercept: bool) -> float | None:
    """That of √S [1, X] where some s are 0 or tiny; None where the rows that are left do not determine all columns."""
    kept = s > 0
    rows, weight = X[kept], s[kept]
    A = np.hstack([np.ones((len(rows), 1)), rows]) if intercept else rows
    if len(A) < A.shape[1]:
        return None
    size = lengths(A, weight)
    unit = np.sqrt(weight)[:, None] * A / np.where(size > 0, size, 1.0)
    least = np.linalg.svd(unit, compute_uv=False)[-1]
    return condition(singular_values(rows, weight, intercept), bool(least > max(A.shape) * EPS))


def aliased(D: StandardDesign, s: Vector) -> list[int]:
    """Columns that are combinations of the others, or constant beside an intercept, the later of equals; O(n d²)."""
    d = len(D.scale)
    if D.rank == d:
        return []
    Z = np.sqrt(s)[:, None] * D.A[:, int(D.intercept) :] @ D.basis.T
    size = lengths(Z) * (1.0 + np.arange(d) / (EARLIER * d))
    pivots = qr(Z / np.where(size > 0, size, 1.0), mode="r", pivoting=True, check_finite=False)[1]
    return sorted(int(j) for j in pivots[D.rank :])
