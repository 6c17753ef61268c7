"""The answer to a linear or quadratic program, with what proves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Notice
from ml_core.errors import InvalidParameter, Issue
from ml_core.losses.arguments import Numbers
from ml_core.params import RealMatrix, RealVector
from ml_core.solvers.linear_program import Constraints
from ml_core.solvers.quadratic_program import residuals

LARGEST = 1e50
NEAR = 1e-3
"""Distance from 0, in the unit of x, within which terms of an optimum at 0 are not judged by their own size."""
Rows = Annotated[RealMatrix | None, Field(description="(m, d) left sides of G x ≤ h.")]
Limits = Annotated[RealVector | None, Field(description="(m,) right sides.")]
Equal = Annotated[RealMatrix | None, Field(description="(e, d) left sides of A x = b.")]
Sides = Annotated[RealVector | None, Field(description="(e,) right sides.")]
Low = Annotated[list[float | None] | None, Field(description="(d,) lower bounds of x, null where there is none.")]
High = Annotated[list[float | None] | None, Field(description="(d,) upper bounds of x, null where there is none.")]


@dataclass(frozen=True)
class ProgramReport:
    """Status (optimal, infeasible, unbounded, max_iter, time or stalled), solution, multipliers and proofs.

    Multipliers belong to L = f + λᵀ(G x - h) + νᵀ(A x - b) + … of the minimised form, those of inequalities and bounds
    are ≥ 0: minus the change of the optimum per unit of the limit. `gap` = objective - `dual_objective`. `kkt` are the
    distances from the four optimality conditions. `ray`: x can go along it for ever, improving. `farkas`: multipliers
    (of G x ≤ h, lower and upper bounds, A x = b) under which the constraints add up to a contradiction.
    """

    status: str
    x: Numbers | None
    objective: float | None
    dual_objective: float | None
    gap: float | None
    inequality_multipliers: Numbers | None
    equality_multipliers: Numbers | None
    low_multipliers: Numbers | None
    high_multipliers: Numbers | None
    active: list[int]
    kkt: dict[str, float] | None
    iterations: int
    ray: Numbers | None
    farkas: dict[str, Any] | None


def wrong(name: str, message: str) -> InvalidParameter:
    """InvalidParameter about one argument."""
    return InvalidParameter(message, [Issue(f"/{name}", "shape", message)])


def constraints_of(d: int, G: Any, h: Any, A: Any, b: Any, low: Any, high: Any) -> Constraints:
    """Checked constraints on d unknowns."""
    pairs = []
    for left, right, names in ((G, h, ("G", "h")), (A, b, ("A", "b"))):
        if (left is None) != (right is None):
            raise wrong(names[left is not None], f"give {names[0]} and {names[1]} together")
        L = np.zeros((0, d)) if left is None else left
        r = np.zeros(0) if right is None else right
        if L.shape != (len(r), d):
            raise wrong(names[0], f"{names[0]} has the shape {L.shape}; {len(r)} × {d} is expected")
        pairs += [L, r]
    ends = []
    for name, given, none in (("low", low, -np.inf), ("high", high, np.inf)):
        values = np.full(d, none) if given is None else np.array([none if v is None else v for v in given])
        if len(values) != d:
            raise wrong(name, f"{name} has {len(values)} entries; {d} are expected")
        ends.append(values)
    for value in (*pairs, *(v[np.isfinite(v)] for v in ends)):
        if np.abs(value).max(initial=0.0) > LARGEST:
            raise wrong("h", f"a constraint holds a number beyond {LARGEST:g}; use another unit")
    if (ends[0] > ends[1]).any():
        raise wrong("low", f"low exceeds high at {int(np.flatnonzero(ends[0] > ends[1])[0])}")
    return Constraints(*pairs, *ends)


def solved(
    P: Matrix, q: Vector, k: Constraints, x: Vector, z: Vector, nu: Vector, *, status: str, n_iter: int,
    sign: float = 1.0,
) -> tuple[ProgramReport, tuple[Certificate, ...]]:  # fmt: skip
    """Report and certificates of a solution x with multipliers z of the inequalities as rows and ν."""
    rows, h = k.as_rows()
    objective = float(0.5 * x @ P @ x + q @ x)
    pull = q + rows.T @ z + k.A.T @ nu
    y = np.linalg.lstsq(P, -pull, rcond=None)[0] if P.any() else np.zeros(len(q))
    dual = float(0.5 * y @ P @ y + pull @ y - z @ h - nu @ k.b)
    kkt = residuals(x, z, nu, P, q, rows, h, k.A, k.b)
    each, low, high = k.split(z)
    slack = h - rows @ x
    force = float(max(np.abs(q).max(), np.abs(P @ x).max())) or 1.0
    terms = float(np.abs(q) @ np.abs(x) + np.abs(x @ P) @ np.abs(x) + z @ np.abs(h) + np.abs(nu) @ np.abs(k.b))
    terms = max(terms, NEAR * force)
    size = {
        "stationarity": force,
        "primal_feasibility": 1.0 + float(np.abs(h).max(initial=0.0)) + float(np.abs(k.b).max(initial=0.0)),
        "dual_feasibility": 1.0 + float(np.abs(z).max(initial=0.0)),
        "complementary_slackness": terms,
    }
    meaning = {
        "stationarity": "∇f + multipliers · constraint normals = 0", "primal_feasibility": "the constraints hold",
        "dual_feasibility": "multipliers of inequalities are ≥ 0",
        "complementary_slackness": "each multiplier or its slack is 0",
    }  # fmt: skip
    active = np.flatnonzero(slack[: len(k.h)] <= 1e-7 * size["primal_feasibility"]).tolist()
    report = ProgramReport(
        status, x, sign * objective, sign * dual, objective - dual, each, nu, low, high, active, kkt, n_iter, None, None
    )
    checks = [Certificate(name, v / size[name], 1e-8, f"{meaning[name]} (relative)") for name, v in kkt.items()]
    checks.append(Certificate("duality_gap", abs(objective - dual) / terms, 1e-8,
                              "objective and dual objective agree, so neither can be improved (relative to the "
                              "size of their terms)"))  # fmt: skip
    return report, tuple(checks)


def unsolved(
    k: Constraints, c: Vector, *, status: str, n_iter: int, x: Vector | None = None, ray: Vector | None = None,
    farkas: tuple[Vector, Vector] | None = None,
) -> tuple[ProgramReport, tuple[Certificate, ...], tuple[Notice, ...]]:  # fmt: skip
    """Report, proof and notice of a program without optimum."""
    rows, h = k.as_rows()
    checks, named = [], None
    if farkas is not None:
        z, nu = farkas
        each, low, high = k.split(z)
        named = {"inequality": each.tolist(), "low": low.tolist(), "high": high.tolist(), "equality": nu.tolist()}
        left = float(np.abs(rows.T @ z + k.A.T @ nu).max(initial=0.0))
        checks = [
            Certificate("farkas_combination", left, 1e-8, "the combined left sides are 0"),
            Certificate("farkas_value", float(z @ h + nu @ k.b), 0.0, "the combined limits are negative: 0 ≤ negative"),
        ]
    if ray is not None:
        off = max(float((rows @ ray).max(initial=0.0)), float(np.abs(k.A @ ray).max(initial=0.0)))
        checks = [
            Certificate("ray_feasibility", off, 1e-8, "the ray never leaves the constraints"),
            Certificate("ray_slope", float(c @ ray), 0.0, "the objective falls along the ray"),
        ]
    advice = {"infeasible": "drop or relax a constraint that farkas weighs", "unbounded": "bound x along the ray"}
    notice = Notice(status, f"the program has no optimum: {status}", advice.get(status, "raise the budget"))
    report = ProgramReport(status, x, None, None, None, None, None, None, None, [], None, n_iter, ray, named)
    return report, tuple(checks), (notice,)
