"""One minimiser of many: what all minimisers of a piecewise linear objective share, and a choice that repeats itself.

Rows with multipliers strictly between their bounds lie at their kink for every minimiser; the others stay on their side
of it. Within that polyhedron the choice is the middle of a segment, and of larger ones the point with the least
sum of squared residuals: units of columns, their order, and weights for repeated rows do not change it.

References
----------
Lawson, Hanson (1974), Solving Least Squares Problems, chapter 23 (least distance programming).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lstsq, null_space, qr, solve_triangular
from scipy.optimize import nnls

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.solvers.interior_point import Answer, Kinked

NEAR = 1e-6
SAME = 1e-12
MOST = 1000


@dataclass(frozen=True)
class Face:
    """The minimiser w (p,), the rows that all minimisers pass through, and the dimension of the set of minimisers."""

    w: Vector
    rows: Codes
    dimension: int


def settle(P: Kinked, found: Answer, s: Vector) -> Face:
    """The chosen minimiser, its kinks met to rounding; weights s (n,) count in the sum of squares."""
    w = found.w
    r = P.y - P.A @ w
    place, side = _places(P, r, found.d)
    rows = np.flatnonzero(place)
    goal = np.where(r[rows] >= 0, 1.0, -1.0) * P.eps[rows]
    w = _better(P, w, _met(P, w, rows, goal, side))
    within = np.vstack([P.A[rows], np.eye(len(w))[P.mu > 0]])
    N = null_space(within, rcond=1e-10) if len(within) else np.eye(len(w))
    if not N.shape[1]:
        return Face(w, rows, 0)
    G, h = _sides(P, w, N, side, place)
    move = within_face(P.A @ N, P.y - P.A @ w, s, G, h)
    return Face(w if move is None else _better(P, w, w + N @ move), rows, N.shape[1])


def _places(P: Kinked, r: Vector, d: Vector) -> tuple[np.ndarray, np.ndarray]:
    """(n,) which rows are at a kink with multipliers inside; and the side, 1 above, 0 within ε, -1 below."""
    kink = np.abs(np.abs(r) - P.eps)
    up, down = d / P.up, -d / P.down
    share = np.where(d >= 0, up, down)
    inside = np.where(P.eps > 0, np.minimum(share, 1 - share), 1 - share)
    place = (inside > kink) & (kink < NEAR)
    side = np.where(share > 0.5, np.sign(d), np.where(P.eps > 0, 0.0, np.sign(r)))
    return place, side


def _met(P: Kinked, w: Vector, rows: Codes, goal: Vector, side: np.ndarray) -> Vector:
    """w moved so that the rows are at their kinks exactly, and with a penalty so that the slope is 0 besides."""
    if not len(rows) or len(rows) > MOST:
        return w
    B, b = P.A[rows], P.y[rows] - goal
    for _ in range(2):
        if not (P.mu > 0).any():
            w = w + lstsq(B, b - B @ w, check_finite=False)[0]
            continue
        d = np.where(side > 0, P.up, np.where(side < 0, -P.down, 0.0))
        d[rows] = 0.0
        k = len(rows)
        system = np.block([[np.diag(P.mu), -B.T], [B, np.zeros((k, k))]])
        right = np.concatenate([d @ P.A - P.mu * w, b - B @ w])
        w = w + lstsq(system, right, check_finite=False)[0][: len(w)]
    return w


def _better(P: Kinked, w: Vector, other: Vector) -> Vector:
    """`other` unless it costs more than rounding."""
    value = P.value(w)
    return other if P.value(other) <= value + SAME * (abs(value) + SAME) else w


def _sides(P: Kinked, w: Vector, N: Matrix, side: np.ndarray, place: np.ndarray) -> tuple[Matrix, Vector]:
    """G c ≥ h: no row crosses its kink when w moves by N c."""
    r, T = P.y - P.A @ w, P.A @ N
    G, h = [], []
    for sign in (1.0, -1.0):
        beyond = ~place & (side == sign)
        G.append(-sign * T[beyond])
        h.append((P.eps - sign * r)[beyond])
        within = ~place & (side == 0) & (P.eps > 0)
        G.append(sign * T[within])
        h.append((sign * r - P.eps)[within])
    normals, least = np.vstack(G), np.minimum(np.concatenate(h), 0.0)
    used = np.abs(normals).max(axis=1, initial=0.0) > SAME
    return normals[used], least[used]


def within_face(T: Matrix, r: Vector, s: Vector, G: Matrix, h: Vector) -> Vector | None:
    """c (k,) of the choice among {c: G c ≥ h}, residuals being r - T c; None where it cannot be made."""
    return _middle(G[:, 0], h) if T.shape[1] == 1 else _least_squares(T, r, s, G, h)


def _middle(g: Vector, h: Vector) -> Vector | None:
    """Of the interval {c: g c ≥ h}, None where it is not bounded."""
    if not (g > 0).any() or not (g < 0).any():
        return None
    low, high = (h[g > 0] / g[g > 0]).max(), (h[g < 0] / g[g < 0]).min()
    return np.array([0.5 * (low + high)])


def _least_squares(T: Matrix, r: Vector, s: Vector, G: Matrix, h: Vector) -> Vector | None:
    """argmin over {c: G c ≥ h} of Σ s (r - T c)²."""
    root = np.sqrt(s)
    Q, R = qr(root[:, None] * T, mode="economic", check_finite=False)
    if np.abs(np.diag(R)).min() < NEAR * np.abs(np.diag(R)).max():
        return None
    q = Q.T @ (root * r)
    E = solve_triangular(R, G.T, trans="T", check_finite=False)
    H = h - E.T @ q
    u, _ = nnls(np.vstack([E, H]), np.eye(len(q) + 1)[-1], maxiter=30 * (len(H) + len(q) + 1))
    rest = np.concatenate([E @ u, [H @ u - 1.0]])
    if abs(rest[-1]) < SAME:
        return None
    return np.asarray(solve_triangular(R, q - rest[:-1] / rest[-1], check_finite=False))
