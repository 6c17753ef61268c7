"""Norms of the residuals of a vector target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from scipy.optimize import linprog, minimize

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Interval
from ml_core.losses.named import Named
from ml_core.numerics.weighted_median import weighted_median


@dataclass(frozen=True)
class Norm(Named):
    """ℓ(η, y) = ‖η - y‖_p for targets y (n, q), p from 1 to "inf": the sum, the length or the largest of the residuals.

    Convex; not differentiable where η = y (slope 0 there), for p = 1 where any residual is 0, and for p = "inf" where
    several are largest (the first counts).
    """

    name = "norm"
    domain = Interval()
    p: Annotated[float, Field(ge=1)] | Literal["inf"] = 2.0
    width: Annotated[int, Field(ge=1, description="q, entries of a target.")] = 1

    convex = True

    @property
    def power(self) -> float:
        """p as a number."""
        return float(self.p)

    def value(self, eta: Matrix, y: Vector) -> Vector:
        """(n,) ‖η - y‖_p."""
        return p_norm(eta - y.reshape(eta.shape), self.power)

    def gradient(self, eta: Matrix, y: Vector) -> Matrix:
        """(n, q) sign(r) (|r| / ‖r‖_p)^(p-1)."""
        r = eta - y.reshape(eta.shape)
        if np.isinf(self.power):
            g = np.zeros_like(r)
            rows, at = np.arange(len(r)), np.abs(r).argmax(axis=1)
            g[rows, at] = np.sign(r[rows, at])
            return g
        size = p_norm(r, self.power)[:, None]
        share = np.divide(np.abs(r), size, out=np.zeros_like(r), where=size > 0)
        return np.asarray(np.sign(r) * share ** (self.power - 1.0))

    def conjugate(self, u: Matrix, y: Vector) -> Vector:
        """u·y where the dual norm of u is at most 1."""
        p = self.power
        dual = np.inf if p == 1.0 else 1.0 if np.isinf(p) else p / (p - 1.0)
        inside = p_norm(u, dual) <= 1 + 1e-12
        return np.where(inside, (u * y.reshape(u.shape)).sum(axis=1), np.inf)

    def start(self, y: Vector, s: Vector) -> Vector:
        """(q,) the median of each entry (p = 1), a linear program ("inf"), else the point of least total distance."""
        Y = y.reshape(len(s), -1)
        if self.power == 1.0 or Y.shape[1] == 1:
            return np.array([weighted_median(column, s) for column in Y.T])
        return _chebyshev(Y, s) if np.isinf(self.power) else self._median_point(Y, s)

    def _median_point(self, Y: Matrix, s: Vector) -> Vector:
        """The best row if its own weight outweighs the pull of the others, else down from beside it; O(n² q)."""
        best = Y[np.argmin([s @ self.value(np.broadcast_to(c, Y.shape), Y) for c in Y])]
        pull = s @ self.gradient(np.broadcast_to(best, Y.shape), Y)
        q = self.power / (self.power - 1.0)
        own = float(s[(best == Y).all(axis=1)].sum())
        if p_norm(pull[None], q)[0] <= own:
            return np.array(best)
        scale = float(np.abs(Y - best).max())

        def f(c: Vector) -> tuple[float, Vector]:
            at = np.broadcast_to(best + scale * c, Y.shape)
            total = s.sum()
            return float(s @ self.value(at, Y) / (total * scale)), np.asarray(s @ self.gradient(at, Y) / total)

        begin = -1e-3 * pull / max(float(np.abs(pull).max()), np.finfo(float).tiny)
        found = minimize(f, begin, jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 1000})
        return np.asarray(best + scale * found.x)


def p_norm(r: Matrix, p: float) -> Vector:
    """(n,) ‖rᵢ‖_p of each row, safe from overflow."""
    size = np.abs(r)
    top = size.max(axis=1)
    if np.isinf(p):
        return np.asarray(top)
    if p == 1.0:
        return np.asarray(size.sum(axis=1))
    share = np.divide(size, top[:, None], out=np.zeros_like(size), where=top[:, None] > 0)
    return np.asarray(top * (share**p).sum(axis=1) ** (1.0 / p))


def _chebyshev(Y: Matrix, s: Vector) -> Vector:
    """Argmin over c of Σ s max_j |c_j - y_j|: a linear program in c and a bound for each row."""
    n, q = Y.shape
    eye = np.tile(np.eye(q), (n, 1))
    bound = np.kron(np.eye(n), np.ones((q, 1)))
    A = np.vstack([np.hstack([eye, -bound]), np.hstack([-eye, -bound])])
    b = np.concatenate([Y.ravel(), -Y.ravel()])
    cost: Any = np.concatenate([np.zeros(q), s / s.sum()])
    found = linprog(cost, A_ub=A, b_ub=b, bounds=[(None, None)] * q + [(0, None)] * n, method="highs")
    return np.asarray(found.x[:q])
