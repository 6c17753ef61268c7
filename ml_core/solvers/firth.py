"""Firth's penalised likelihood of two classes: logistic loss less half the log determinant of the information.

f(v) = Σᵢ sᵢ (log(1 + e^ηᵢ) - yᵢ ηᵢ) - ½ log det Zᵀ diag(sᵢ pᵢ(1 - pᵢ)) Z, η = Z v: Jeffreys' prior. With the leverages
h of the weighted design, ∇f = -Zᵀ(s(y - p) + h(½ - p)). f rises in every direction, so a minimum exists also where
classes are separable, and it is the same in any units of the columns.

Source: Firth (1993), Bias reduction of maximum likelihood estimates, Biometrika 80; Heinze, Schemper (2002), A solution
to the problem of separation in logistic regression, Statistics in Medicine 21.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space, solve_triangular
from scipy.optimize import brentq

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.stable import expit
from ml_core.solvers.base import Solution
from ml_core.solvers.lbfgs import lbfgs
from ml_core.solvers.newton import inverse

ROUGH = 1e-7
BRACKETS = 60
CLOSE = 1e-8


@dataclass(frozen=True)
class Firth:
    """The objective: design Z (n, p) of full column rank, targets y of 0 and 1, weights s (each a number of rows)."""

    Z: Matrix
    y: Vector
    s: Vector

    def value_gradient(self, v: Vector) -> tuple[float, Vector]:
        """f, ∇f; infinite where the information vanishes."""
        eta = self.Z @ v
        p, L, U = self._factors(eta)
        if L is None:
            return np.inf, np.zeros_like(v)
        h = np.square(U).sum(axis=0)
        loss = float(self.s @ (np.logaddexp(0.0, eta) - self.y * eta))
        return loss - float(np.log(np.diag(L)).sum()), -self.Z.T @ (self.s * (self.y - p) + h * (0.5 - p))

    def loss(self, v: Vector) -> float:
        """The loss without the penalty."""
        eta = self.Z @ v
        return float(self.s @ (np.logaddexp(0.0, eta) - self.y * eta))

    def information(self, v: Vector) -> Matrix:
        """Zᵀ diag(s p(1 - p)) Z, (p, p)."""
        p = expit(self.Z @ v)
        return (self.Z.T * (self.s * p * (1.0 - p))) @ self.Z

    def leverages(self, v: Vector) -> Vector:
        """(n,) diagonal of the hat matrix of the weighted design."""
        return np.asarray(np.square(self._factors(self.Z @ v)[2]).sum(axis=0))

    def _factors(self, eta: Vector) -> tuple[Vector, Matrix | None, Matrix]:
        """p, the Cholesky factor L of the information (None where it has none), and L⁻¹ Zᵀ diag(√weight)."""
        p = expit(eta)
        B = np.sqrt(self.s * p * expit(-eta))[:, None] * self.Z
        try:
            L = np.linalg.cholesky(B.T @ B)
        except np.linalg.LinAlgError:
            return p, None, B.T
        return p, L, np.asarray(solve_triangular(L, B.T, lower=True, check_finite=False))

    def minimise(self, v: Vector, *, tol: float, max_iter: int) -> Solution:
        """From v on, by L-BFGS in the metric of the information there; O(n p²) a step."""
        return lbfgs(self.value_gradient, v, tol=tol, max_iter=max_iter, solve=inverse(self.information(v)))

    def held(self, c: Vector, value: float, start: Vector) -> Solution:
        """The minimiser with cᵀv = value; `start` tells where to look."""
        N = null_space(c[None])
        at = start + c * ((value - float(c @ start)) / float(c @ c))
        if not N.size:
            return Solution(at, 0, True, "gradient", [self.value_gradient(at)[0]])

        def inside(u: Vector) -> tuple[float, Vector]:
            f, g = self.value_gradient(at + N @ u)
            return f, N.T @ g

        H = N.T @ self.information(start) @ N
        found = lbfgs(inside, np.zeros(N.shape[1]), tol=ROUGH, max_iter=200, solve=inverse(H))
        return Solution(at + N @ found.w, found.n_iter, found.converged, found.reason, found.trace)

    def profile(self, c: Vector, best: Vector, rise: float, width: float) -> tuple[float, float]:
        """Where cᵀv lets the least f rise by `rise` over its minimum at `best`; `width` is a first guess."""
        f, centre = self.value_gradient(best)[0], float(c @ best)

        def side(sign: float) -> float:
            at = [best]

            def gap(t: float) -> float:
                found = self.held(c, centre + sign * t, at[0])
                at[0] = found.w
                return float(max(found.trace[-1] - f, 0.0) ** 0.5 - rise**0.5)

            return centre + sign * _root(gap, width)

        return side(-1.0), side(1.0)


def _root(gap: Callable[[float], float], guess: float) -> float:
    """The t > 0 with gap(t) = 0, gap(0) < 0: doubled until it is passed, then Brent's method.

    A fit found again from elsewhere differs by rounding, so that the ends keep the signs they were taken for.
    """
    low, high, known = 0.0, guess, {0.0: -1.0}

    def once(t: float) -> float:
        if t not in known:
            known[t] = gap(t)
        return known[t]

    for _ in range(BRACKETS):
        if once(high) >= 0:
            return float(brentq(once, low, high, xtol=CLOSE * high, rtol=CLOSE))
        low, high = high, 2.0 * high
    return np.inf
