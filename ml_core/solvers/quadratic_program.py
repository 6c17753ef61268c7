"""Convex quadratic programs: a primal-dual interior point method, finished on the constraints that it finds active.

References
----------
Mehrotra (1992), On the implementation of a primal-dual interior point method, SIAM J. Optimization 2.
Nocedal, Wright (2006), Numerical Optimization, chapter 16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.linalg import LinAlgError, lu_factor, lu_solve

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.solvers.base import spent
from ml_core.solvers.central_path import aim, room

Status = Literal["optimal", "max_iter", "time", "stalled"]
PATIENCE = 15
STAY = 0.995


@dataclass(frozen=True)
class QuadraticSolution:
    """x (d,), λ ≥ 0 of the rows, ν of the equalities, and the trace of the complementarity gap."""

    status: Status
    x: Vector
    inequality: Vector
    equality: Vector
    n_iter: int
    trace: list[float]


@dataclass(frozen=True)
class _Point:
    x: Vector
    z: Vector
    nu: Vector
    t: Vector


def quadratic_program(
    P: Matrix, q: Vector, rows: Matrix, h: Vector, A: Matrix, b: Vector, *, tol: float, max_iter: int
) -> QuadraticSolution:  # fmt: skip
    """`interior_point` in the unit of the objective's largest entry, `polished` where it ended by itself."""
    unit = max(float(np.abs(P).max()), float(np.abs(q).max())) or 1.0
    P, q = P / unit, q / unit
    found = interior_point(P, q, rows, h, A, b, tol=tol, max_iter=max_iter)
    if found.status in ("optimal", "stalled"):
        found = polished(found, P, q, rows, h, A, b)
    return replace(found, inequality=found.inequality * unit, equality=found.equality * unit)


def interior_point(
    P: Matrix, q: Vector, rows: Matrix, h: Vector, A: Matrix, b: Vector, *, tol: float, max_iter: int
) -> QuadraticSolution:  # fmt: skip
    """Min ½ xᵀP x + qᵀx under rows x ≤ h, A x = b, for P positive semidefinite (d, d).

    Predictor and corrector steps until residuals and gap, relative to the data, are ≤ tol. O((d + e + m)³) a step.
    """
    size = 1.0 + max(float(np.abs(v).max(initial=0.0)) for v in (q, h, b))
    at = _begin(P, q, rows, h, A, b)
    trace: list[float] = []
    best, least, since = at, np.inf, 0
    for k in range(max_iter + 1):
        residual = _residual(P, q, rows, h, A, b, at)
        gap = float(at.t @ at.z)
        off = max(float(np.abs(v).max(initial=0.0)) for v in residual)
        trace.append(gap)
        progress.tick(k, max_iter, gap=gap, residual=off)
        merit = max(off / size, gap / (1.0 + abs(float(q @ at.x))))
        best, least, since = (at, merit, 0) if merit < least else (best, least, since + 1)
        ended = None if least <= tol or since > PATIENCE else spent(k, max_iter)
        moved = None if least <= tol or since > PATIENCE or ended else _step(P, rows, A, at, *residual)
        if moved is None or not np.isfinite(moved.x).all():
            status = "optimal" if least <= tol else ended or "stalled"
            return QuadraticSolution(status, best.x, best.z, best.nu, k, trace)
        at = moved
    raise AssertionError("the last step returns")


def _residual(
    P: Matrix, q: Vector, rows: Matrix, h: Vector, A: Matrix, b: Vector, at: _Point
) -> tuple[Vector, Vector, Vector]:
    """Of the dual, of the inequalities and of the equalities."""
    return P @ at.x + q + rows.T @ at.z + A.T @ at.nu, rows @ at.x + at.t - h, A @ at.x - b


def _begin(P: Matrix, q: Vector, rows: Matrix, h: Vector, A: Matrix, b: Vector) -> _Point:
    """The minimum of f + ½ ‖rows x - h‖² on A x = b, slacks and multipliers shifted to be positive."""
    x, nu = _solve(P + rows.T @ rows, A, -q + rows.T @ h, b)
    z = rows @ x - h
    out = []
    for v in (-z, z):
        low = -float(v.min(initial=np.inf))
        out.append(v if low < 0 else v + 1.0 + low)
    return _Point(x, out[1], nu, out[0])


def _solve(H: Matrix, A: Matrix, f: Vector, g: Vector) -> tuple[Vector, Vector]:
    """[[H, Aᵀ], [A, 0]] (x, ν) = (f, g); least squares where it is singular."""
    K = np.block([[H, A.T], [A, np.zeros((len(A), len(A)))]])
    r = np.concatenate([f, g])
    out = np.linalg.lstsq(K, r, rcond=None)[0]
    return out[: len(f)], out[len(f) :]


def _step(
    P: Matrix, rows: Matrix, A: Matrix, at: _Point, dual: Vector, primal: Vector, equal: Vector
) -> _Point | None:
    """Predictor, centring by its success, corrector; both from one factorisation."""
    m, d, e = len(at.t), len(at.x), len(at.nu)
    K = np.block([
        [P, A.T, rows.T],
        [A, np.zeros((e, e + m))],
        [rows, np.zeros((m, e)), -np.diag(at.t / at.z)],
    ])  # fmt: skip
    K[np.arange(d + e), np.arange(d + e)] += 1e-15 * np.append(np.full(d, 1.0 + np.abs(P).max()), np.full(e, -1.0))
    try:
        factor = lu_factor(K, check_finite=False)
    except (LinAlgError, ValueError):
        return None

    def direction(complement: Vector) -> _Point:
        r = np.concatenate([-dual, -equal, complement / at.z - primal])
        out = lu_solve(factor, r, check_finite=False)
        out += lu_solve(factor, r - K @ out, check_finite=False)
        dx, dnu, dz = out[:d], out[d : d + e], out[d + e :]
        return _Point(dx, dz, dnu, -(complement + at.t * dz) / at.z)

    guess = direction(at.z * at.t)
    if not m:
        return _Point(at.x + guess.x, at.z, at.nu + guess.nu, at.t)
    reach = min(1.0 / STAY, room((at.t, guess.t), (at.z, guess.z)))
    mu = float(at.t @ at.z) / m
    ahead = float((at.t + reach * guess.t) @ (at.z + reach * guess.z)) / m
    move = direction(at.z * at.t + guess.t * guess.z - aim(mu, ahead))
    a = min(1.0, STAY * room((at.t, move.t), (at.z, move.z)))
    return _Point(at.x + a * move.x, at.z + a * move.z, at.nu + a * move.nu, at.t + a * move.t)


def polished(
    found: QuadraticSolution, P: Matrix, q: Vector, rows: Matrix, h: Vector, A: Matrix, b: Vector
) -> QuadraticSolution:
    """The exact solution on the constraints whose multiplier exceeds their slack, where that is better."""
    active = found.inequality > h - rows @ found.x
    x, multipliers = _solve(P, np.vstack([A, rows[active]]), -q, np.concatenate([b, h[active]]))
    inequality = np.zeros(len(h))
    inequality[active] = multipliers[len(b) :]
    better = replace(found, x=x, inequality=np.maximum(inequality, 0.0), equality=multipliers[: len(b)])
    if _violation(better, P, q, rows, h, A, b) <= _violation(found, P, q, rows, h, A, b):
        return replace(better, status="optimal")
    return found


def _violation(s: QuadraticSolution, P: Matrix, q: Vector, rows: Matrix, h: Vector, A: Matrix, b: Vector) -> float:
    return max(float(v) for v in residuals(s.x, s.inequality, s.equality, P, q, rows, h, A, b).values())


def residuals(
    x: Vector, z: Vector, nu: Vector, P: Matrix, q: Vector, rows: Matrix, h: Vector, A: Matrix, b: Vector
) -> dict[str, float]:
    """The four Karush-Kuhn-Tucker conditions as distances from them, in the units of the data."""
    slack = h - rows @ x
    found = {
        "stationarity": np.abs(P @ x + q + rows.T @ z + A.T @ nu).max(initial=0.0),
        "primal_feasibility": max((-slack).max(initial=0.0), np.abs(A @ x - b).max(initial=0.0)),
        "dual_feasibility": (-z).max(initial=0.0),
        "complementary_slackness": np.abs(z * slack).max(initial=0.0),
    }
    return {name: float(v) + 0.0 for name, v in found.items()}
