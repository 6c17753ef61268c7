"""The least largest residual: a linear program over the few rows that matter, which grow until no other row does.

min over w, t of t with |yᵢ - aᵢᵀw| ≤ hᵢ t. At the optimum p + 1 rows reach the bound (unless fewer suffice), and their
multipliers prove it: for any d with Aᵀd = 0 and Σ hᵢ|dᵢ| ≤ 1, yᵀd ≤ t.

References
----------
Cheney (1966), Introduction to Approximation Theory, chapter 2 (the exchange algorithm).
Huangfu, Hall (2018), Parallelizing the dual revised simplex method, Math. Programming Computation 10 (HiGHS).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lstsq, null_space
from scipy.optimize import linprog

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.solvers.optimal_face import within_face

ROUNDS = 200
FINE = 1e-10
SLACK = 1e-11


@dataclass(frozen=True)
class Minimax:
    """w (p,), the least bound t, rows at it with multipliers d (k,), whether w is the only one, rounds, convergence."""

    w: Vector
    t: float
    rows: Codes
    d: Vector
    unique: bool
    n_iter: int
    converged: bool
    trace: list[float]


def minimax(A: Matrix, y: Vector, h: Vector, s: Vector) -> Minimax:
    """Of A (n, p) with full column rank, y (n,) and h (n,) > 0; y and A are expected near unit size.

    Of many solutions it is the middle of a segment, else that with the least Σ s r².
    """
    p = A.shape[1]
    w = lstsq(A / h[:, None], y / h, check_finite=False)[0]
    batch, trace = 4 * (p + 1), []
    size = np.abs(y - A @ w) / h
    chosen, least, best = _worst(size, batch), float(size.max()), w
    for step in range(1, ROUNDS + 1):
        w, t, d = _program(A[chosen], y[chosen], h[chosen])
        w, t = _polished(A[chosen], y[chosen], h[chosen], w, t, d)
        size = np.abs(y - A @ w) / h
        trace.append(t)
        progress.tick(step, None, "rounds", objective=t, excess=float(size.max() - t))
        least, best = min((least, best), (float(size.max()), w), key=lambda pair: pair[0])
        size[chosen] = 0.0
        out = np.flatnonzero(size > t + SLACK * (1.0 + t))
        if not len(out) or progress.late():
            break
        chosen = np.union1d(chosen, out[_worst(size[out], batch)])
    on = np.flatnonzero(np.abs(d) > FINE)
    rows = chosen[on]
    if len(out):  # time is over
        return Minimax(best, t, rows, d[on], True, step, False, trace)
    N = null_space(A[rows], rcond=1e-10) if len(rows) else np.eye(p)
    if t <= SLACK:
        w, N = lstsq(A, y, check_finite=False)[0], N[:, :0]
    if N.shape[1]:
        w = _chosen(A, y, h, s, w, t, rows, N)
    return Minimax(w, t, rows, d[on], not N.shape[1], step, not len(out), trace)


def _chosen(A: Matrix, y: Vector, h: Vector, s: Vector, w: Vector, t: float, rows: Codes, N: Matrix) -> Vector:
    """One of the solutions w + N c, which keep the residuals of `rows`."""
    T, r, other = A @ N, y - A @ w, np.ones(len(y), dtype=bool)
    other[rows] = False
    other &= np.abs(T).max(axis=1) > SLACK
    G, room = T[other], h[other] * t
    bounds = np.minimum(np.concatenate([r[other] - room, -r[other] - room]), 0.0)
    move = within_face(T, r, s, np.vstack([G, -G]), bounds)
    if move is None:
        return w
    new = w + N @ move
    return new if (np.abs(y - A @ new) / h).max() <= t + SLACK * (1 + t) else w


def _worst(size: Vector, count: int) -> Codes:
    """Places of the largest, earlier ones first among equals."""
    return np.asarray(np.sort(np.argsort(-size, kind="stable")[:count]))


def _program(A: Matrix, y: Vector, h: Vector) -> tuple[Vector, float, Vector]:
    """w, t and multipliers (m,) by the dual simplex method."""
    m, p = A.shape
    rows = np.vstack([np.hstack([-A, -h[:, None]]), np.hstack([A, -h[:, None]])])
    options = {"primal_feasibility_tolerance": FINE, "dual_feasibility_tolerance": FINE}
    found = linprog(np.eye(p + 1)[-1], A_ub=rows, b_ub=np.concatenate([-y, y]), method="highs-ds", options=options,
                    bounds=[(None, None)] * p + [(0.0, None)])  # fmt: skip
    if found.x is None:
        raise FloatingPointError(f"the linear program of {m} rows was not solved: {found.message}")
    d = -found.ineqlin.marginals
    return found.x[:p], float(found.x[p]), d[:m] - d[m:]


def _polished(A: Matrix, y: Vector, h: Vector, w: Vector, t: float, d: Vector) -> tuple[Vector, float]:
    """The rows with multipliers meet the bound to rounding; kept where no other row suffers."""
    on = np.flatnonzero(np.abs(d) > FINE)
    if not len(on):
        return w, t
    B = np.hstack([A[on], (np.sign(d[on]) * h[on])[:, None]])
    x = np.concatenate([w, [t]])
    for _ in range(2):
        x = x + lstsq(B, y[on] - B @ x, check_finite=False)[0]
    worst = float((np.abs(y - A @ x[:-1]) / h).max())
    return (x[:-1], max(float(x[-1]), 0.0)) if worst <= float((np.abs(y - A @ w) / h).max()) + SLACK else (w, t)


def lower_bound(A: Matrix, y: Vector, h: Vector, w: Vector, found: Minimax) -> float:
    """What no largest residual can go below, charged for what rounding leaves of Aᵀd = 0."""
    d = found.d / max(float(h[found.rows] @ np.abs(found.d)), 1.0)
    return float(y[found.rows] @ d - np.abs(d @ A[found.rows]) @ np.abs(w))
