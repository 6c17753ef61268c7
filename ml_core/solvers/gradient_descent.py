"""Iterative least squares in the mean form f(w) = Σ sᵢ(yᵢ - mᵢᵀw)² / (2 Σ s), by descent or Newton's method.

Gradient descent converges exactly when 0 < step < 2/λ_max of the Hessian H = MᵀSM/Σs, and from w = 0 it ends in the
minimiser of least norm. Newton's method needs one step, f being quadratic. All start at 0.

References
----------
Nocedal, Wright (2006), Numerical Optimization, chapters 2–3. Bottou, Curtis, Nocedal (2018), Optimization methods for
large-scale machine learning, SIAM Review 60(2). Polyak, Juditsky (1992), SIAM J. Control Optim. 30(4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh

from ml_core.arrays import Matrix, Vector
from ml_core.solvers.base import Solution
from ml_core.solvers.first_order import Sweep, descend
from ml_core.solvers.lms_epoch import lms_epoch
from ml_core.solvers.newton import newton
from ml_core.solvers.updates import Steepest

POWER = 0.75
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Quadratic:
    """The problem: M (n, p), y (n,), s (n,); with n ≥ p gradients come from the Gram matrix, O(p²) not O(n p)."""

    M: Matrix
    y: Vector
    s: Vector
    H: Matrix
    c: Vector
    top: float
    hessian_cost = 0.0

    @classmethod
    def of(cls, M: Matrix, y: Vector, s: Vector) -> Quadratic:
        """Form c = MᵀSy/Σs, f(0) and, when n ≥ p, H."""
        total = s.sum()
        H = (M.T * s) @ M / total if len(M) >= M.shape[1] else np.empty((0, 0))
        return cls(M, y, s, H, (s * y) @ M / total, float(0.5 * (s @ y**2) / total))

    def value_gradient(self, w: Vector) -> tuple[float, Vector]:
        """f(w) = f(0) + ½ wᵀ(g - c) and g = H w - c."""
        product = self.H @ w if len(self.H) else (self.s * (self.M @ w)) @ self.M / self.s.sum()
        g = product - self.c
        return self.top + float(0.5 * w @ (g - self.c)), g

    def second(self, w: Vector) -> tuple[float, Vector, Matrix]:
        """Also H."""
        H = self.H if len(self.H) else (self.M.T * self.s) @ self.M / self.s.sum()
        return *self.value_gradient(w), H

    def curvature(self) -> float:
        """λ_max of H, by the smaller of the two Gram matrices."""
        if len(self.H):
            return float(eigvalsh(self.H)[-1])
        root = self.M * np.sqrt(self.s / self.s.sum())[:, None]
        return float(eigvalsh(root @ root.T)[-1])


def minimise(
    problem: Quadratic, method: str, *, step: float | None, max_iter: int, tol: float, seed: int
) -> Solution:
    """By gradient_descent, sgd or newton, until the largest gradient (newton: the distance) is `tol` of that at 0."""
    zero = np.zeros(len(problem.c))
    if method == "newton":
        return newton(problem, zero, tol=max(tol * (2 * problem.top) ** 0.5, TINY), max_iter=max_iter)
    goal = tol * float(np.abs(problem.c).max(initial=0.0))
    if method == "gradient_descent":
        rate = 1.0 / max(problem.curvature(), TINY) if step is None else step
        return descend(problem.value_gradient, zero, Steepest(), rate=rate, tol=goal, max_iter=max_iter)
    return _sgd(problem, zero, step, goal, max_iter, seed)


def _sgd(problem: Quadratic, zero: Vector, step: float | None, goal: float, max_iter: int, seed: int) -> Solution:
    """One row at a time; the answer is the best average of an epoch. `max_iter` epochs.

    The first step is at most 1/max ‖mᵢ‖² sᵢ unless given, so that no single row overshoots; steps shrink.
    """
    M, y, n = np.ascontiguousarray(problem.M), problem.y, len(problem.y)
    s = problem.s * (n / problem.s.sum())
    rate = 1.0 / max(float((s * (M * M).sum(axis=1)).max()), TINY) if step is None else step

    def run(w: Vector, mean: Vector, order: np.ndarray, t: int, first: float) -> float:
        return lms_epoch(M, y, s, w, mean, order.astype(np.int64), t, first, 10.0 * n, POWER, False)

    sweep = Sweep(run, n, seed)
    return descend(problem.value_gradient, zero, Steepest(), rate=rate, tol=goal, max_iter=max_iter, draws=sweep)
