"""Linear and quadratic programs and Lagrange multipliers, as functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from scipy.linalg import eigvalsh, null_space

from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost
from ml_core.certificates import Certificate, Notice
from ml_core.losses.arguments import Numbers
from ml_core.params import RealMatrix, RealVector
from ml_core.progress import deadline
from ml_core.registry import Answer, function
from ml_core.solvers.linear_program import (
    Constraints,
    falling_ray,
    feasible_point,
    infeasibility,
    interior_margin,
    linear_program,
)
from ml_core.solvers.program_report import (
    LARGEST,
    Equal,
    High,
    Limits,
    Low,
    ProgramReport,
    Rows,
    Sides,
    constraints_of,
    solved,
    unsolved,
    wrong,
)
from ml_core.solvers.quadratic_program import quadratic_program

SLACK = 1e-10
Linear = Annotated[RealVector, Field(min_length=1, description="(d,) linear part of the objective.")]
Symmetric = Annotated[RealMatrix, Field(description="(d, d) symmetric.")]


def _size(v: Any) -> float:
    return float(np.size(v)) if v is not None else 0.0


def cost(**arguments: Any) -> Cost:
    """About 30 factorisations of the unknowns, equalities and rows together."""
    d = _size(arguments.get("c") if "c" in arguments else arguments.get("q"))
    bounds = 2.0 * d if arguments.get("low") is not None or arguments.get("high") is not None else 0.0
    m = d + _size(arguments.get("h")) + _size(arguments.get("b")) + bounds
    return Cost(flops=20.0 * m**3 + 1e6, memory_bytes=40.0 * m * m)


@function(
    "linear_programming",
    example={"c": [-1.0, -2.0], "G": [[1.0, 1.0], [1.0, -1.0]], "h": [4.0, 2.0], "low": [0.0, 0.0]},
    cost=cost,
)
def linear_programming(
    *,
    c: Linear,
    G: Rows = None,
    h: Limits = None,
    A: Equal = None,
    b: Sides = None,
    low: Low = None,
    high: High = None,
    maximise: Annotated[bool, Field(description="Maximise cᵀx; multipliers are those of minimising -cᵀx.")] = False,
    max_iter: Annotated[int | None, Field(ge=0, description="Most pivots.")] = None,
) -> Answer[ProgramReport]:
    """Min cᵀx under G x ≤ h, A x = b, low ≤ x ≤ high (x is free unless bounded), by HiGHS.

    An optimum comes with multipliers that prove it (duality gap 0); an infeasible program with a combination of its
    constraints that no x can satisfy (Farkas), an unbounded one with a ray.

    References
    ----------
    Huangfu, Hall (2018), Parallelizing the dual revised simplex method, Mathematical Programming Computation 10.
    Boyd, Vandenberghe (2004), Convex Optimization, chapter 5.
    """
    if np.abs(c).max() > LARGEST:
        raise wrong("c", f"c holds a number beyond {LARGEST:g}; use another unit")
    k = constraints_of(len(c), G, h, A, b, low, high)
    sign = -1.0 if maximise else 1.0
    found = linear_program(sign * c, k, max_iter=max_iter)
    if found.status == "optimal":
        assert found.x is not None  # noqa: S101 - comes with the status
        assert found.inequality is not None  # noqa: S101
        assert found.equality is not None  # noqa: S101
        report, checks = solved(np.zeros((len(c), len(c))), sign * c, k, found.x, found.inequality, found.equality,
                                status="optimal", n_iter=found.n_iter, sign=sign)  # fmt: skip
        return Answer(report, checks)
    return Answer(*unsolved(k, sign * c, status=found.status, n_iter=found.n_iter, x=found.x, ray=found.ray,
                            farkas=found.farkas))  # fmt: skip


def _symmetric(P: Matrix, d: int) -> Matrix:
    if P.shape != (d, d):
        raise wrong("P", f"P has the shape {P.shape}, q has {d} entries; P must be {d} × {d}")
    if np.abs(P - P.T).max() > SLACK * np.abs(P).max():
        raise wrong("P", "P must be symmetric; (P + Pᵀ)/2 is the same function")
    return np.asarray(0.5 * (P + P.T))


@function(
    "quadratic_programming",
    example={"P": [[2.0, 0.0], [0.0, 2.0]], "q": [-2.0, -5.0], "G": [[1.0, 2.0]], "h": [3.0], "low": [0.0, 0.0]},
    cost=cost,
)
def quadratic_programming(
    *,
    P: Symmetric,
    q: Linear,
    G: Rows = None,
    h: Limits = None,
    A: Equal = None,
    b: Sides = None,
    low: Low = None,
    high: High = None,
    tol: Annotated[float, Field(gt=0, description="Residuals and gap, relative to the data.")] = 1e-10,
    max_iter: Annotated[int, Field(ge=1, le=1000, description="Most interior point steps.")] = 100,
    seconds: Annotated[float | None, Field(gt=0, description="Time budget.")] = None,
) -> Answer[ProgramReport]:
    """Min ½ xᵀP x + qᵀx under G x ≤ h, A x = b, low ≤ x ≤ high, for P positive semidefinite.

    The dual is max over λ ≥ 0, ν of min over x of L = f + λᵀ(G x - h) + νᵀ(A x - b); it never exceeds the primal (weak
    duality) and meets it where some x satisfies every inequality strictly (Slater), which is checked. A primal-dual
    interior point method, finished by solving for the active constraints.

    References
    ----------
    Nocedal, Wright (2006), Numerical Optimization, chapter 16.
    Boyd, Vandenberghe (2004), Convex Optimization, chapter 5.
    """
    if max(np.abs(q).max(), np.abs(P).max(initial=0.0)) > LARGEST:
        raise wrong("q", f"P or q holds a number beyond {LARGEST:g}; use another unit")
    P, k = _symmetric(P, len(q)), constraints_of(len(q), G, h, A, b, low, high)
    values = eigvalsh(P)
    if values[0] < -1e-9 * max(1.0, float(np.abs(values).max())):
        raise wrong("P", f"P has the negative eigenvalue {values[0]:.3g}: the program is not convex")
    rows, limits = k.as_rows()
    point = feasible_point(k)
    if point is None:
        return Answer(*unsolved(k, q, status="infeasible", n_iter=0, farkas=infeasibility(k)))
    ray = falling_ray(q, k, P)
    if ray is not None:
        return Answer(*unsolved(k, q, status="unbounded", n_iter=0, x=point, ray=ray))
    with np.errstate(all="ignore"), deadline(seconds):
        found = quadratic_program(P, q, rows, limits, k.A, k.b, tol=tol, max_iter=max_iter)
    report, checks = solved(P, q, k, found.x, found.inequality, found.equality, status=found.status,
                            n_iter=found.n_iter)  # fmt: skip
    return Answer(report, checks, _slater(k, values))


def _slater(k: Constraints, values: Vector) -> tuple[Notice, ...]:
    margin = interior_margin(k)
    out = [
        Notice("slater", f"some x satisfies all inequalities with {margin:.3g} to spare: strong duality holds")
        if margin > 1e-9 else
        Notice("no_slater", "no x satisfies all inequalities strictly; they are affine, so the gap is 0 nevertheless, "
               "but multipliers may be unbounded")
    ]  # fmt: skip
    if values[0] <= 1e-12 * max(1.0, float(np.abs(values).max())):
        out.append(Notice("not_strictly_convex", "P is singular: several x may attain the minimum"))
    return tuple(out)


@dataclass(frozen=True)
class StationaryPoint:
    """x, multipliers of A x = b, objective, the kind of point, and the curvatures (ascending) along the constraints."""

    x: Numbers
    multipliers: Numbers
    objective: float
    kind: Literal["minimum", "maximum", "saddle", "degenerate", "only_point"]
    curvatures: Numbers
    lagrangian: str


@function("lagrange_multipliers", example={"P": [[1.0, 0.0], [0.0, 1.0]], "A": [[1.0, 1.0]], "b": [1.0]})
def lagrange_multipliers(
    *,
    P: Symmetric,
    q: Annotated[RealVector | None, Field(description="(d,) linear part; default 0.")] = None,
    A: Annotated[RealMatrix, Field(description="(e, d) left sides of A x = b.")],
    b: Annotated[RealVector, Field(description="(e,) right sides.")],
    sign: Annotated[
        Literal["plus", "minus"], Field(description="L = f + λᵀ(A x - b), or minus.")
    ] = "plus",
) -> Answer[StationaryPoint]:
    """Stationary point of ½ xᵀP x + qᵀx on A x = b: [[P, Aᵀ], [A, 0]] (x, λ) = (-q, b).

    P may be indefinite; the curvatures of f along the constraints tell a minimum from a maximum or a saddle. λ
    tells the change of the optimum per unit of b. `quadratic_programming` takes inequalities too, and
    `point_to_hyperplane` is the nearest point of a plane.

    References
    ----------
    Nocedal, Wright (2006), Numerical Optimization, section 16.1.
    """
    d = len(P)
    P = _symmetric(P, d)
    f = np.zeros(d) if q is None else q
    if len(f) != d or A.shape != (len(b), d):
        raise wrong("A", f"P is {d} × {d}, q has {len(f)} entries, A the shape {A.shape}, b {len(b)} entries")
    K = np.block([[P, A.T], [A, np.zeros((len(b), len(b)))]])
    r = np.concatenate([-f, b])
    found = np.linalg.lstsq(K, r, rcond=None)[0]
    found += np.linalg.lstsq(K, r - K @ found, rcond=None)[0]
    x, nu = found[:d], found[d:]
    size = 1.0 + float(np.abs(r).max()) + float(np.abs(K).max() * np.abs(found).max())
    feasible = np.abs(A @ x - b).max(initial=0.0)
    stationary = np.abs(P @ x + f + A.T @ nu).max()
    if max(feasible, stationary) > 1e-8 * size:
        exact = np.linalg.lstsq(A, b, rcond=None)[0]
        if np.abs(A @ exact - b).max(initial=0.0) > 1e-8 * size:
            raise wrong("b", "no x satisfies A x = b: the equations contradict each other")
        raise wrong("P", "f has no stationary point on A x = b: it is linear and sloping along a flat direction")
    kind, values, notes = _kind(P, A)
    value = StationaryPoint(x, nu if sign == "plus" else -nu, float(0.5 * x @ P @ x + f @ x), kind, values,
                            f"f {'+' if sign == 'plus' else '-'} λᵀ(A x - b)")  # fmt: skip
    return Answer(value, (
        Certificate("feasibility", float(feasible) / size, 1e-10, "A x = b (relative)"),
        Certificate("stationarity", float(stationary) / size, 1e-10, "∇f is a combination of the rows of A (relative)"),
    ), notes)  # fmt: skip


def _kind(P: Matrix, A: Matrix) -> tuple[Any, Vector, tuple[Notice, ...]]:
    """The kind of a stationary point by the curvatures of f along the null space of A."""
    Z = null_space(A) if len(A) else np.eye(len(P))
    notes = []
    if np.linalg.matrix_rank(A) < len(A):
        notes.append(Notice("dependent_constraints", "rows of A are dependent: the shortest multipliers are given, "
                            "others serve as well", "drop dependent rows"))  # fmt: skip
    if not Z.shape[1]:
        return "only_point", np.zeros(0), tuple(notes)
    values = eigvalsh(Z.T @ P @ Z)
    flat = 1e-10 * max(float(np.abs(values).max()), float(np.abs(P).max()), 1e-300)
    if values[0] > flat:
        return "minimum", values, tuple(notes)
    if values[-1] < -flat:
        return "maximum", values, tuple(notes)
    if values[0] < -flat and values[-1] > flat:
        return "saddle", values, tuple(notes)
    notes.append(Notice("degenerate", "f is flat along a direction of the constraints: the shortest of many points"))
    return "degenerate", values, tuple(notes)


@dataclass(frozen=True)
class PlaneDistance:
    """The nearest point, the distance, its sign (the side of the plane the normal points to is positive), and λ."""

    nearest: Numbers
    distance: float
    signed_distance: float
    multiplier: float


@function("point_to_hyperplane", example={"point": [3.0, 4.0], "normal": [1.0, 1.0], "offset": 1.0})
def point_to_hyperplane(
    *,
    point: Annotated[RealVector, Field(min_length=1, description="(d,) point p.")],
    normal: Annotated[RealVector, Field(description="(d,) normal a, not 0.")],
    offset: Annotated[float, Field(description="c of the plane aᵀx = c.")] = 0.0,
) -> Answer[PlaneDistance]:
    """The point of aᵀx = c nearest to p: x = p - λ a with λ = (aᵀp - c)/‖a‖², distance |aᵀp - c|/‖a‖.

    Lagrange's conditions of min ½ ‖x - p‖² on the plane, with L = f + λ(aᵀx - c).

    References
    ----------
    Boyd, Vandenberghe (2004), Convex Optimization, section 8.1.
    """
    if len(normal) != len(point) or not normal.any():
        raise wrong("normal", f"normal needs {len(point)} entries that are not all 0")
    unit = float(np.abs(normal).max())
    a, c = normal / unit, offset / unit
    length = float(np.sqrt(a @ a))
    signed = float(a @ point - c) / length
    x = point - signed * (a / length)
    value = PlaneDistance(x, abs(signed), signed, signed / (length * unit))
    size = 1.0 + abs(c) + float(np.abs(a) @ np.abs(point))
    return Answer(value, (
        Certificate("feasibility", abs(float(a @ x - c)) / size, 1e-12, "the point lies on the plane (relative)"),
    ))  # fmt: skip
