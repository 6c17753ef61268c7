"""Linear programs by HiGHS, with what proves the outcome: a dual solution, a Farkas certificate or a ray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import linprog

from ml_core.arrays import Matrix, Vector

Status = Literal["optimal", "infeasible", "unbounded", "max_iter"]
HIGHS_ITERATIONS = 2**31 - 1
"""More than HiGHS counts."""


@dataclass(frozen=True)
class Constraints:
    """G x ≤ h, A x = b, low ≤ x ≤ high; low may be -inf, high inf."""

    G: Matrix
    h: Vector
    A: Matrix
    b: Vector
    low: Vector
    high: Vector

    def as_rows(self) -> tuple[Matrix, Vector]:
        """All inequalities as rows: G, then finite lows (-x ≤ -low), then finite highs."""
        eye, below, above = np.eye(len(self.low)), np.isfinite(self.low), np.isfinite(self.high)
        rows = np.vstack([self.G, -eye[below], eye[above]])
        return rows, np.concatenate([self.h, -self.low[below], self.high[above]])

    def split(self, multipliers: Vector) -> tuple[Vector, Vector, Vector]:
        """Multipliers of `as_rows` → those of G (m,), of low (d,) and of high (d,)."""
        m, below, above = len(self.h), np.isfinite(self.low), np.isfinite(self.high)
        low, high = np.zeros(len(self.low)), np.zeros(len(self.low))
        low[below] = multipliers[m : m + below.sum()]
        high[above] = multipliers[m + below.sum() :]
        return multipliers[:m], low, high


@dataclass(frozen=True)
class LinearSolution:
    """Status, x (d,), multipliers λ ≥ 0 of the inequalities as rows and ν of the equalities, or a proof of none.

    `ray`: the objective falls for ever along it. `farkas`: λ ≥ 0 and ν with λᵀrows + νᵀA = 0 and λᵀh + νᵀb < 0.
    """

    status: Status
    x: Vector | None
    inequality: Vector | None
    equality: Vector | None
    n_iter: int
    ray: Vector | None = None
    farkas: tuple[Vector, Vector] | None = None


def linear_program(c: Vector, constraints: Constraints, *, max_iter: int | None = None) -> LinearSolution:
    """Min cᵀx under the constraints."""
    unit = float(np.abs(c).max(initial=0.0)) or 1.0
    found = _highs(c / unit, constraints, max_iter)
    n = int(found.nit)
    if found.status == 0:
        inequality = np.concatenate([
            -found.ineqlin.marginals, found.lower.marginals[np.isfinite(constraints.low)],
            -found.upper.marginals[np.isfinite(constraints.high)],
        ])  # fmt: skip
        return LinearSolution("optimal", found.x, unit * np.maximum(inequality, 0.0), -unit * found.eqlin.marginals, n)
    if found.status == 1:
        return LinearSolution("max_iter", None, None, None, n)
    proof = infeasibility(constraints)
    if proof is not None:
        return LinearSolution("infeasible", None, None, None, n, farkas=proof)
    ray = falling_ray(c / unit, constraints)
    return LinearSolution("unbounded", feasible_point(constraints), None, None, n, ray=ray)


def _highs(c: Vector, k: Constraints, max_iter: int | None = None) -> Any:
    options: dict[str, Any] = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    if max_iter is not None:
        options["maxiter"] = min(max_iter, HIGHS_ITERATIONS)
    bounds = np.column_stack([k.low, k.high])
    return linprog(c, A_ub=k.G, b_ub=k.h, A_eq=k.A, b_eq=k.b, bounds=bounds, method="highs", options=options)


def feasible_point(constraints: Constraints) -> Vector | None:
    """A point that meets the constraints, or None."""
    found = _highs(np.zeros(len(constraints.low)), constraints)
    return np.asarray(found.x) if found.status == 0 else None


def infeasibility(constraints: Constraints) -> tuple[Vector, Vector] | None:
    """Farkas multipliers (λ of the inequalities as rows, ν) that no point can satisfy, or None if none are found.

    Min λᵀh + νᵀb over λᵀrows + νᵀA = 0, 0 ≤ λ ≤ 1, |ν| ≤ 1: negative exactly when the constraints contradict.
    """
    rows, h = constraints.as_rows()
    m, e = len(h), len(constraints.b)
    if m + e == 0:
        return None
    combined = np.hstack([rows.T, constraints.A.T])
    scale = max(1.0, float(np.abs(h).max(initial=0.0)), float(np.abs(constraints.b).max(initial=0.0)))
    found = linprog(np.concatenate([h, constraints.b]) / scale, A_eq=combined, b_eq=np.zeros(len(combined)),
                    bounds=[(0, 1)] * m + [(-1, 1)] * e, method="highs")  # fmt: skip
    if found.status != 0 or found.fun * scale >= -1e-9 * scale:
        return None
    return np.asarray(found.x[:m]), np.asarray(found.x[m:])


def falling_ray(c: Vector, constraints: Constraints, flat: Matrix | None = None) -> Vector | None:
    """A direction, in [-1, 1], that stays feasible for ever and along which cᵀx falls; `flat` d = 0 as well."""
    k = constraints
    low = np.where(np.isfinite(k.low), 0.0, -1.0)
    high = np.where(np.isfinite(k.high), 0.0, 1.0)
    equal = k.A if flat is None else np.vstack([k.A, flat])
    found = linprog(c, A_ub=k.G, b_ub=np.zeros(len(k.h)), A_eq=equal, b_eq=np.zeros(len(equal)),
                    bounds=np.column_stack([low, high]), method="highs")  # fmt: skip
    if found.status != 0 or found.fun >= -1e-9 * max(1.0, float(np.abs(c).max(initial=0.0))):
        return None
    return np.asarray(found.x)


def interior_margin(constraints: Constraints) -> float:
    """The largest t ≤ 1 with rows x + t ≤ h and A x = b: positive when a point satisfies all inequalities strictly."""
    rows, h = constraints.as_rows()
    d = len(constraints.low)
    if not len(h):
        return 1.0 if feasible_point(constraints) is not None else -np.inf
    A = np.hstack([constraints.A, np.zeros((len(constraints.b), 1))])
    found = linprog(np.append(np.zeros(d), -1.0), A_ub=np.hstack([rows, np.ones((len(h), 1))]), b_ub=h, A_eq=A,
                    b_eq=constraints.b, bounds=[(None, None)] * d + [(None, 1.0)], method="highs")  # fmt: skip
    return float(found.x[-1]) if found.status == 0 else -np.inf
