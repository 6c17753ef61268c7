"""What single rows do to a likelihood that is linear in its unknowns: leverage, residuals, Cook's distance.

Source: Pregibon (1981), Logistic regression diagnostics, Annals of Statistics 9(4); McCullagh, Nelder (1989),
Generalized Linear Models, sections 2.4 and 12.5–12.7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Diagnostics, Table
from ml_core.linear.glm_families import FAMILIES, Family
from ml_core.losses.squared import Squared
from ml_core.selection.left_out import copies
from ml_core.solvers.linear_objective import LinearObjective
from ml_core.solvers.newton import inverse

BLOCK = 1 << 14
CELLS = 1 << 20
SHOWN = 20
DRAWN = 1000
FULL = 1e-10
COLUMNS = ("target", "fitted", "pearson_residual", "deviance_residual", "leverage", "studentized_residual",
           "cook_distance")  # fmt: skip


@dataclass(frozen=True)
class Fitted:
    """Rows of a fit, of each one copy: targets and means per unit of exposure E, predictors η, all (n,)."""

    family: Family
    target: Vector
    eta: Vector
    exposure: Vector
    dispersion: float
    parameters: float

    @property
    def mean(self) -> Vector:
        """(n,) fitted means."""
        return self.family.mean(self.eta)

    def curvature(self) -> Vector:
        """(n,) expected ∂²ℓ/∂η² of one copy."""
        loss = Squared() if self.family.relative else self.family.loss
        return np.asarray(self.exposure * loss.curvature(self.eta[:, None], self.target)[:, 0, 0])

    def residuals(self) -> tuple[Vector, Vector]:
        """Pearson's residuals and those of the deviance."""
        off, unit = self.family.off(self.target, self.eta), np.maximum(self.family.deviance(self.target, self.eta), 0.0)
        root = np.sqrt(self.exposure)
        return root * off, np.sign(off) * root * np.sqrt(unit)


def put_rows(out: Diagnostics, f: Fitted, design: Callable[[slice], Matrix], covariance: Matrix) -> None:
    """Summary, residuals, and the rows of largest Cook's distance; O(n p²) in blocks of rows.

    h = c zᵀ H⁻¹ z with the curvature c of one copy, studentized residual r/√(φ(1 - h)) of Pearson's r, and Cook's
    distance r² h/(φ p (1 - h)²): about how far the estimate moves, in squared standard errors over p, without one copy
    of the row.
    """
    n, spread = len(f.target), np.empty(len(f.target))
    for a in range(0, n, BLOCK):
        Z = design(slice(a, a + BLOCK))
        spread[a : a + BLOCK] = np.einsum("ij,ij->i", Z @ covariance, Z)
    h = f.curvature() * np.maximum(spread, 0.0)
    r, d = f.residuals()
    rest = np.where(1 - h > FULL, 1 - h, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        studentized = r / np.sqrt(f.dispersion * rest)
        cook = r**2 * h / (f.dispersion * max(f.parameters, 1.0) * rest**2)
    _put(out, f.eta, (f.target, f.mean, r, d, h, studentized, cook))


def _put(out: Diagnostics, place: Vector, columns: tuple[Vector | None, ...]) -> None:
    """Summary, table and curve of the figures that COLUMNS names; `place` (n,) is where the curve shows a row.

    None stands for a figure that this kind of fit does not have.
    """
    figures = {name: v for name, v in zip(COLUMNS, columns, strict=True) if v is not None}
    r, d, h, cook = (figures[c] for c in ("pearson_residual", "deviance_residual", "leverage", "cook_distance"))
    out.summary |= {"largest_leverage": float(h.max()), "largest_cook_distance": _largest(cook)}
    if "studentized_residual" in figures:
        out.summary["largest_studentized_residual"] = _largest(np.abs(figures["studentized_residual"]))
    order = np.argsort(-np.where(np.isnan(cook), -1.0, cook), kind="stable")[:SHOWN]
    rows = [[int(i), *(float(v[i]) if np.isfinite(v[i]) else None for v in figures.values())] for i in order]
    out.tables["influential_rows"] = Table(("row", *figures), rows)
    some = slice(None, None, -(-len(h) // DRAWN))
    out.curves["residuals"] = {"x": place[some], "pearson": r[some], "deviance": d[some]}


def _design(problem: LinearObjective, some: slice) -> Matrix:
    """Rows in the units of the flat unknowns."""
    Z = (problem.X[some] - problem.columns.mean) / problem.columns.scale
    return np.hstack([Z, np.ones((len(Z), int(problem.fit_intercept)))])


def put_class_rows(out: Diagnostics, problem: LinearObjective, v: Vector, *, precise: bool) -> None:
    """The same of a logistic or softmax fit; a row is one copy, or all of a lighter or `precise` one."""
    each = copies(problem.s, precise=precise)[0]
    if problem.loss.width > 1:
        _put_multinomial_rows(out, problem, v, each)
        return
    eta, parameters = problem.predictor(v)[:, 0], float(out.summary["parameters"] or 0)
    f = Fitted(FAMILIES["binomial", "logit"], problem.y, eta, each, 1.0, parameters)
    put_rows(out, f, lambda some: _design(problem, some), inverse(problem.second(v)[2])(np.eye(problem.size)))


def _put_multinomial_rows(out: Diagnostics, problem: LinearObjective, v: Vector, each: Vector) -> None:
    """Of a softmax fit, target and fitted being the class's number and its probability; O(n (D q)²) in blocks.

    With M = Zᵢ H⁻¹ Zᵢᵀ and the curvature V of one copy, (q, q), the leverage is tr(V M); Cook's distance is
    uᵀ M u / p, u = (I - V M)⁻¹ r with the slopes r of the loss. Pearson's residual is √Σₖ (yₖ - pₖ)²/pₖ, the deviance's
    √(2ℓ): both without a sign. Source: Lesaffre, Albert (1989), Multiple-group logistic regression diagnostics, Applied
    Statistics 38.
    """
    n, (D, q) = len(problem.y), problem.shape
    C = inverse(problem.second(v)[2])(np.eye(problem.size)).reshape(D, q, D, q)
    value, slope, curve = problem.loss.all(problem.predictor(v), problem.y)
    slope, curve = slope * each[:, None], curve * each[:, None, None]
    h, cook = np.empty(n), np.empty(n)
    many = max(1, CELLS // (problem.size * q))
    for a in range(0, n, many):
        Z, r = _design(problem, slice(a, a + many)), slope[a : a + many, :, None]
        M = np.einsum("nd,dkel,ne->nkl", Z, C, Z, optimize=True)
        B = curve[a : a + many] @ M
        h[a : a + many] = np.trace(B, axis1=1, axis2=2)
        alone = np.linalg.eigvals(B).real.max(axis=1) >= 1 - FULL
        B[alone] = 0.0
        u = np.linalg.solve(np.eye(q) - B, r)
        moved = (u.transpose(0, 2, 1) @ M @ u)[:, 0, 0] / max(float(out.summary["parameters"] or 0), 1.0)
        cook[a : a + many] = np.where(alone, np.nan, moved)
    own = np.exp(-value)
    with np.errstate(over="ignore"):
        off, value = np.sqrt(each * np.expm1(value)), each * value
    _put(out, own, (problem.y, own, off, np.sqrt(2 * value), h, None, cook))


def _largest(values: Vector) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None
