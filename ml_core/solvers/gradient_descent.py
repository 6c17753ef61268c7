"""Iterative least squares in the mean form f(w) = Σ sᵢ(yᵢ - mᵢᵀw)² / (2 Σ s): gradient, stochastic gradient, Newton.

Gradient descent converges exactly when 0 < step < 2/λ_max of the Hessian H = MᵀSM/Σs, and from w = 0 it ends in the
minimiser of least norm. Newton's method needs one step, f being quadratic. All start at 0 and stop when the gradient
is below `tol` times its size at 0.

References
----------
Nocedal, Wright (2006), Numerical Optimization, chapters 2–3. Bottou, Curtis, Nocedal (2018), Optimization methods for
large-scale machine learning, SIAM Review 60(2). Polyak, Juditsky (1992), SIAM J. Control Optim. 30(4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh, lstsq

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.rng import generator
from ml_core.solvers.base import Reason, Solution
from ml_core.solvers.lms_epoch import lms_epoch

GROWTH = 1e6
POWER = 0.75


@dataclass(frozen=True)
class Quadratic:
    """The problem: M (n, p), y (n,), s (n,); with n ≥ p gradients come from the Gram matrix, O(p²) not O(n p)."""

    M: Matrix
    y: Vector
    s: Vector
    H: Matrix
    c: Vector

    @classmethod
    def of(cls, M: Matrix, y: Vector, s: Vector) -> Quadratic:
        """Form c = MᵀSy/Σs and, when n ≥ p, H."""
        total = s.sum()
        H = (M.T * s) @ M / total if len(M) >= M.shape[1] else np.empty((0, 0))
        return cls(M, y, s, H, (s * y) @ M / total)

    def gradient(self, w: Vector) -> Vector:
        """H w - c."""
        if len(self.H):
            return self.H @ w - self.c
        return (self.s * (self.M @ w)) @ self.M / self.s.sum() - self.c

    def value(self, w: Vector, gradient: Vector) -> float:
        """f(w) = f(0) + ½ wᵀ(gradient - c)."""
        return float(0.5 * (self.s @ self.y**2) / self.s.sum() + 0.5 * w @ (gradient - self.c))

    def curvature(self) -> float:
        """λ_max of H, by the smaller of the two Gram matrices."""
        if len(self.H):
            return float(eigvalsh(self.H)[-1])
        root = self.M * np.sqrt(self.s / self.s.sum())[:, None]
        return float(eigvalsh(root @ root.T)[-1])


def gradient_descent(problem: Quadratic, *, step: float | None, max_iter: int, tol: float) -> Solution:
    """w ← w - step·∇f(w), step 1/λ_max unless given. A step of 2/λ_max or more ends as "diverged"."""
    rate = 1.0 / max(problem.curvature(), np.finfo(float).tiny) if step is None else step
    w = np.zeros(len(problem.c))
    g = problem.gradient(w)
    trace = [problem.value(w, g)]
    goal, limit = tol * np.linalg.norm(g), GROWTH * (trace[0] + 1.0)
    for i in range(1, max_iter + 1):
        if np.linalg.norm(g) <= goal:
            return Solution(w, i - 1, True, "gradient", trace)
        moved = w - rate * g
        g = problem.gradient(moved)
        trace.append(problem.value(moved, g))
        if not trace[-1] < limit:
            return Solution(w, i, False, "diverged", trace[:-1])
        w = moved
        progress.tick(i, max_iter, objective=trace[-1])
    return _last(w, max_iter, bool(np.linalg.norm(g) <= goal), trace)


def _last(w: Vector, n_iter: int, done: bool, trace: list[float]) -> Solution:
    reason: Reason = "gradient" if done else "max_iter"
    return Solution(w, n_iter, done, reason, trace)


def newton(problem: Quadratic, *, max_iter: int, tol: float) -> Solution:
    """w ← w - H⁺∇f(w); the second step only mends the rounding of the first."""
    H = problem.H if len(problem.H) else (problem.M.T * problem.s) @ problem.M / problem.s.sum()
    w = np.zeros(len(problem.c))
    g = problem.gradient(w)
    trace, goal = [problem.value(w, g)], tol * np.linalg.norm(g)
    for i in range(1, max_iter + 1):
        if np.linalg.norm(g) <= goal:
            return Solution(w, i - 1, True, "gradient", trace)
        moved = w - lstsq(H, g, check_finite=False, lapack_driver="gelsd")[0]
        h = problem.gradient(moved)
        if i > 1 and np.linalg.norm(h) >= np.linalg.norm(g):
            return Solution(w, i - 1, False, "step", trace)
        w, g = moved, h
        trace.append(problem.value(w, g))
        progress.tick(i, max_iter, objective=trace[-1])
    return _last(w, max_iter, bool(np.linalg.norm(g) <= goal), trace)


def sgd(problem: Quadratic, *, step: float | None, max_iter: int, tol: float, seed: int) -> Solution:
    """One row at a time, order drawn anew each epoch; the answer is the best average of an epoch. `max_iter` epochs.

    The first step is at most 1/max ‖mᵢ‖² sᵢ unless given, so that no single row overshoots.
    """
    M, y, n = np.ascontiguousarray(problem.M), problem.y, len(problem.y)
    s = problem.s * (n / problem.s.sum())
    rate = 1.0 / max(float((s * (M * M).sum(axis=1)).max()), np.finfo(float).tiny) if step is None else step
    w, mean, best = np.zeros(M.shape[1]), np.zeros(M.shape[1]), np.zeros(M.shape[1])
    size = np.linalg.norm(problem.gradient(best))
    trace, goal, low = [problem.value(best, problem.gradient(best))], tol * size, size
    for epoch in range(1, max_iter + 1):
        order = generator(seed, epoch).permutation(n).astype(np.int64)
        lms_epoch(M, y, s, w, mean, order, (epoch - 1) * n, rate, 10.0 * n, POWER, False)
        if not np.abs(w).max() < 1e150:
            return Solution(best, epoch, False, "diverged", trace)
        g = problem.gradient(mean)
        trace.append(problem.value(mean, g))
        if np.linalg.norm(g) < low:
            low, best = np.linalg.norm(g), mean.copy()
        progress.tick(epoch, max_iter, "epochs", objective=trace[-1])
        if low <= goal:
            return Solution(best, epoch, True, "gradient", trace)
    return Solution(best, max_iter, False, "max_iter", trace)
