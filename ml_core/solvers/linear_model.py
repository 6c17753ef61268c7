"""From a solved least-squares system to a linear model in the user's units, with what inference needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.linalg import qr

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.compensated import residual
from ml_core.numerics.singular import graded, lengths
from ml_core.solvers.least_squares import Design, Factor, Powers, design, factorise, refine

MinNorm = Literal["augmented", "centered"]
REFINED_VARIANCES = 2e6
ESTIMABLE = 1e-8
CORRECTIONS = 4


@dataclass(frozen=True)
class LinearFit:
    """f(x) = offset + (x - center)ᵀcoef = intercept + xᵀcoef, one column per output.

    `root` (1 + d, r): Var f(x)/σ² = ‖(1, x - center) root‖²; its first row is 0 without intercept. `deviations`
    (1 + d,) are the standard errors of intercept and coefficients over σ, NaN where not estimable. `rows` (1 + d, r) is
    an orthonormal basis of the estimable directions of (1, (x - center)/scale), empty when all are. `cross` (q, q) are
    the sums of products of the residuals of a fit by normal equations.
    """

    coef: Matrix
    intercept: Vector
    center: Vector
    offset: Vector
    scale: Vector
    root: Matrix
    deviations: Vector
    rank: int
    rss: Vector
    solver: str
    cross: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    top: Vector = field(default_factory=lambda: np.empty(0))
    rows: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    aliased: list[int] = field(default_factory=list)
    n_iter: int = 1
    converged: bool = True
    trace: list[float] = field(default_factory=list)


def solve_orthogonal(
    X: Matrix, Y: Matrix, s: Vector, *, intercept: bool, method: Literal["qr", "svd"] = "qr",
    rcond: float | None = None, min_norm: MinNorm = "augmented", powers: Powers = (),
    tails: tuple[Matrix, Matrix] | None = None,
) -> LinearFit:  # fmt: skip
    """Refined least squares; of many solutions that of least ‖(b, w)‖ ("augmented") or of least ‖w‖ ("centered")."""
    D = design(X, Y, s, intercept=intercept, powers=powers, tails=tails)
    return solve_design(D, method=method, rcond=rcond, min_norm=min_norm)


def solve_design(
    D: Design, *, method: Literal["qr", "svd"] = "qr", rcond: float | None = None, min_norm: MinNorm = "augmented"
) -> LinearFit:
    """The fit of a scaled and shifted system; `solve_orthogonal` says which of many."""
    F = factorise(D, method=method, rcond=rcond)
    intercept, p = D.intercept, len(D.hi)
    x = refine(D, F, (D.target, D.target_lo), np.zeros((p, len(D.target))))
    first = int(intercept)
    w = (x.hi[first:] + x.lo[first:]) * (D.target_scale / D.scale[:, None])
    offset = D.target_shift + (x.hi[0] * D.target_scale if intercept else 0.0)
    b = _intercept(D, x.hi, x.lo) if intercept else np.zeros(len(D.target))
    rows = np.empty((0, 0))
    if F.K.shape[1] < p:
        w, offset = _least_norm(D, F, w, offset, min_norm)
        b = offset - D.shift @ w if intercept else b
        rows = _orthonormal(F.rows)
    deviations = _deviations(D, F, rows)
    root = _padded(F.K / np.concatenate([np.ones(first), D.scale])[:, None], intercept)
    return LinearFit(
        coef=np.ascontiguousarray(w), intercept=b, center=D.shift, offset=offset, scale=D.scale, root=root,
        deviations=deviations, rank=F.K.shape[1], rss=(x.r**2 @ D.s) * D.target_scale**2, solver=method,
        rows=_padded(rows, intercept) if len(rows) else rows,
        aliased=_aliased(F, deviations, first), n_iter=x.n_iter, converged=x.converged, trace=x.trace,
    )  # fmt: skip


def _padded(A: Matrix, intercept: bool) -> Matrix:
    return np.ascontiguousarray(A if intercept else np.vstack([np.zeros((1, A.shape[1])), A]))


def _orthonormal(A: Matrix) -> Matrix:
    """Orthonormal basis of the columns of A, whose rank is full; each row to its own digits."""
    size = lengths(A)
    return graded(A / np.where(size > 0, size, 1.0))[0]


def _intercept(D: Design, hi: Matrix, lo: Matrix) -> Vector:
    """Target shift + b' - Σ (shift/scale)ⱼ zⱼ in double-double: it cancels when the data lie far from the origin."""
    c = np.ascontiguousarray(np.concatenate([[-1.0], D.shift / D.scale])[:, None])
    t = np.ascontiguousarray((D.target_shift / D.target_scale)[:, None])
    out = residual(c, np.zeros_like(c), hi, lo, t, np.zeros_like(t), np.zeros_like(t))
    return np.asarray(out[:, 0] * D.target_scale)


def _least_norm(D: Design, F: Factor, w: Matrix, offset: Vector, min_norm: MinNorm) -> tuple[Matrix, Vector]:
    """Project slopes and value at `shift` on the row space of [1, X] (augmented) or of the centred X.

    Fitted values do not change: what rounding of the projection did to them is solved for, and projected in turn.
    """
    first, u, none = int(D.intercept), D.target_scale / D.scale[:, None], np.zeros_like(D.target)
    Q = _row_basis(D, F, min_norm)
    w, offset = _projected(D, Q, w, offset)
    for _ in range(CORRECTIONS):
        x = np.ascontiguousarray(np.vstack([(offset - D.target_shift) / D.target_scale, w / u])[1 - first :])
        r = residual(D.hi, D.lo, x, np.zeros_like(x), D.target, D.target_lo, none)
        dx = F.K @ ((r * np.sqrt(D.s)) @ F.Q).T
        dw, moved = _projected(D, Q, dx[first:] * u, dx[0] * D.target_scale * first)
        w, offset = w + dw, offset + moved
    return w, offset


def _row_basis(D: Design, F: Factor, min_norm: MinNorm) -> Matrix:
    """Orthonormal basis of the row space of [1, X], or of X where the norm is that of the slopes alone."""
    if not D.intercept:
        return _orthonormal(D.scale[:, None] * F.rows)
    one, rest = np.hsplit(F.rows @ qr(F.rows[:1].T, check_finite=False)[0], [1])  # all of the intercept is in one
    within = D.scale[:, None] * rest[1:]
    if min_norm == "centered":
        return _orthonormal(within)
    first = np.vstack([one[:1], D.scale[:, None] * one[1:] + D.shift[:, None] * one[:1]])
    return _orthonormal(np.hstack([first, np.vstack([np.zeros((1, within.shape[1])), within])]))


def _projected(D: Design, Q: Matrix, w: Matrix, offset: Vector) -> tuple[Matrix, Vector]:
    """Slopes (d, q) and value at `shift` (q,) within the row space of basis Q."""
    if len(Q) == len(w):
        return Q @ (Q.T @ w), offset
    v = Q @ (Q.T @ np.vstack([offset - D.shift @ w, w]))
    return v[1:], v[0] + D.shift @ v[1:]


def _deviations(D: Design, F: Factor, rows: Matrix) -> Vector:
    """Standard errors over σ of intercept and coefficients; refined like the solution when the design is small."""
    p, n = D.hi.shape
    first = int(D.intercept)
    T = np.diag(np.concatenate([np.ones(first), 1.0 / D.scale]))
    if first:
        T[1:, 0] = -D.shift / D.scale
    size = np.abs(T).max(axis=0)
    T = T / size
    if len(rows):
        t = T[:, :first]
        v = np.concatenate([((F.K.T @ t) ** 2).sum(axis=0), (F.K[first:] ** 2).sum(axis=1)])
        lost = np.concatenate([((t - rows @ (rows.T @ t)) ** 2).sum(axis=0), 1 - (rows[first:] ** 2).sum(axis=1)])
        v[lost > 1e-14 * np.concatenate([(t**2).sum(axis=0), np.ones(p - first)])] = np.nan
    elif n * p * p <= REFINED_VARIANCES and _condition(F.K) > 1e3:
        none = np.zeros((p, n))
        r = refine(D, F, (none, none), -T).r
        v = (r * r) @ D.s
    else:
        v = ((F.K.T @ T) ** 2).sum(axis=0)
    out = np.sqrt(v) * size
    return out if first else np.concatenate([[np.nan], out])


def _condition(K: Matrix) -> float:
    """A cheap size of A⁺ for columns of size about 1 per row, so about the condition number over √n."""
    return float(np.sqrt((K * K).sum()) / max(np.sqrt((K * K).sum(axis=0).min(initial=np.inf)), np.finfo(float).tiny))


def _aliased(F: Factor, deviations: Vector, first: int) -> list[int]:
    """Features that are combinations of those the pivots kept; after an SVD, which keeps none, all involved."""
    p, r = F.K.shape
    if r == p:
        return []
    if len(F.kept) == p:
        return [int(j) for j in np.flatnonzero(np.isnan(deviations[1:]))]
    return [int(j) - first for j in np.setdiff1d(np.arange(p), F.kept) if j >= first]
