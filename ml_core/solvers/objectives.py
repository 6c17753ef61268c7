"""Objectives to try optimisers on: quadratics, Rosenbrock's valley, and mean losses of linear predictors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import eigvalsh

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import Smooth, TwiceSmooth
from ml_core.solvers.newton import newton

EXACT = 1e-13
SLACK = 1e-12


class Objective(Protocol):
    """f with its slopes and what is known of its shape."""

    @property
    def size(self) -> int:
        """Unknowns d."""

    @property
    def rows(self) -> int:
        """Terms that f is the mean of; 0 if it is no mean."""

    @property
    def convex(self) -> bool:
        """Whether f is convex."""

    @property
    def hessian_cost(self) -> float:
        """0: every step may have its own Hessian."""

    def value_gradient(self, w: Vector) -> tuple[float, Vector]:
        """f, ∇f."""

    def second(self, w: Vector) -> tuple[float, Vector, Matrix]:
        """f, ∇f, ∇²f."""

    def partial(self, w: Vector, rows: np.ndarray) -> Vector:
        """∇ of the mean over some rows."""

    def diagonal(self, w: Vector, rows: np.ndarray | None) -> Vector:
        """(d,) of the Gauss-Newton matrix of some rows, or of all."""

    def range(self) -> tuple[float, float]:
        """Least and largest curvature anywhere, (μ, L); 0 and infinity where there is no bound."""

    def optimum(self) -> tuple[Vector, float] | None:
        """A minimiser and the minimum, where they are known or Newton's method finds them."""


class Whole:
    """An objective that is no mean of rows."""

    rows = 0
    hessian_cost = 0.0

    def partial(self, w: Vector, rows: np.ndarray) -> Vector:
        """Never asked for: there are no rows."""
        raise IndexError("the objective has no rows")

    def diagonal(self: Objective, w: Vector, rows: np.ndarray | None) -> Vector:
        """|∂²f/∂wⱼ²|."""
        return np.abs(np.diag(self.second(w)[2]))


@dataclass(frozen=True)
class QuadraticForm(Whole):
    """f(w) = ½ wᵀA w - bᵀw for a symmetric A (d, d)."""

    A: Matrix
    b: Vector

    @property
    def size(self) -> int:
        """Order of A."""
        return len(self.b)

    @cached_property
    def spectrum(self) -> Vector:
        """Eigenvalues, ascending."""
        return np.asarray(eigvalsh(self.A))

    @property
    def convex(self) -> bool:
        """Whether no eigenvalue is negative beyond rounding."""
        return bool(self.spectrum[0] >= -SLACK * np.abs(self.spectrum).max())

    def value_gradient(self, w: Vector) -> tuple[float, Vector]:
        """f, A w - b."""
        Aw = self.A @ w
        return float(0.5 * w @ Aw - self.b @ w), Aw - self.b

    def second(self, w: Vector) -> tuple[float, Vector, Matrix]:
        """Also A."""
        return *self.value_gradient(w), self.A

    def range(self) -> tuple[float, float]:
        """The extreme eigenvalues."""
        return max(float(self.spectrum[0]), 0.0), float(np.abs(self.spectrum).max())

    def optimum(self) -> tuple[Vector, float] | None:
        """A⁺b, where f is convex and bounded below."""
        if not self.convex:
            return None
        w: Vector = np.asarray(np.linalg.lstsq(self.A, self.b, rcond=None)[0], dtype=np.float64)
        if np.abs(self.A @ w - self.b).max() > 1e-8 * np.abs(self.b).max(initial=0.0):
            return None
        return w, self.value_gradient(w)[0]


@dataclass(frozen=True)
class Rosenbrock(Whole):
    """f(w) = Σⱼ 100 (wⱼ₊₁ - wⱼ²)² + (1 - wⱼ)²: a bent valley, not convex, least at (1, …, 1)."""

    size: int = 2
    convex = False

    def value_gradient(self, w: Vector) -> tuple[float, Vector]:
        """f, ∇f."""
        bend, off = w[1:] - w[:-1] ** 2, 1.0 - w[:-1]
        g = np.zeros_like(w)
        g[1:] = 200.0 * bend
        g[:-1] -= 400.0 * w[:-1] * bend + 2.0 * off
        return float(100.0 * bend @ bend + off @ off), g

    def second(self, w: Vector) -> tuple[float, Vector, Matrix]:
        """Also the tridiagonal ∇²f."""
        d = np.zeros_like(w)
        d[:-1] = 1200.0 * w[:-1] ** 2 - 400.0 * w[1:] + 2.0
        d[1:] += 200.0
        side = -400.0 * w[:-1]
        return *self.value_gradient(w), np.diag(d) + np.diag(side, 1) + np.diag(side, -1)

    def range(self) -> tuple[float, float]:
        """No bounds."""
        return 0.0, np.inf

    def optimum(self) -> tuple[Vector, float] | None:
        """(1, …, 1), 0."""
        return np.ones(self.size), 0.0


@dataclass(frozen=True)
class MeanLoss:
    """f(W) = Σ sᵢ ℓ(W x̃ᵢ, yᵢ) / Σ s + ½ alpha ‖slopes‖²; x̃ (n, D) ends in 1 with an intercept, which is free.

    Unknowns are W (q, D), flat.
    """

    loss: Smooth
    X: Matrix
    y: Vector
    s: Vector
    alpha: float
    intercept: bool
    hessian_cost = 0.0

    @property
    def size(self) -> int:
        """Unknowns q D."""
        return self.X.shape[1] * self.loss.width

    @property
    def rows(self) -> int:
        """Rows n."""
        return len(self.X)

    @property
    def convex(self) -> bool:
        """Where the loss is."""
        return self.loss.convex

    @cached_property
    def l2(self) -> Vector:
        """(qD,) alpha, 0 for intercepts."""
        each = np.full(self.X.shape[1], self.alpha)
        if self.intercept:
            each[-1] = 0.0
        return np.tile(each, self.loss.width)

    def eta(self, w: Vector, X: Matrix) -> Matrix:
        """(n, q) predictors."""
        return X @ w.reshape(self.loss.width, -1).T

    def value_gradient(self, w: Vector) -> tuple[float, Vector]:
        """f, ∇f."""
        value, r = self.loss.value_gradient(self.eta(w, self.X), self.y)
        share = self.s / self.s.sum()
        G = (r * share[:, None]).T @ self.X
        return float(share @ value + 0.5 * self.l2 @ (w * w)), G.ravel() + self.l2 * w

    def partial(self, w: Vector, rows: np.ndarray) -> Vector:
        """∇ of the mean over some rows, weighted so that its expectation is ∇f."""
        share = self.s[rows] / (self.s.mean() * len(rows))
        r = self.loss.gradient(self.eta(w, self.X[rows]), self.y[rows]) * share[:, None]
        return np.asarray((r.T @ self.X[rows]).ravel() + self.l2 * w)

    def second(self, w: Vector) -> tuple[float, Vector, Matrix]:
        """f, ∇f, ∇²f; needs a loss with curvature."""
        f, g = self.value_gradient(w)
        C = self._curvature(w, None) * (self.s / self.s.sum())[:, None, None]
        H = np.einsum("nij,na,nb->iajb", C, self.X, self.X, optimize=True).reshape(self.size, self.size)
        return f, g, H + np.diag(self.l2)

    def diagonal(self, w: Vector, rows: np.ndarray | None) -> Vector:
        """(qD,) of the Gauss-Newton matrix."""
        X, s = (self.X, self.s) if rows is None else (self.X[rows], self.s[rows])
        C = np.diagonal(self._curvature(w, rows), axis1=1, axis2=2) * (s / s.sum())[:, None]
        return np.asarray((np.maximum(C, 0.0).T @ (X * X)).ravel() + self.l2)

    def range(self) -> tuple[float, float]:
        """From the loss's bound and the Gram matrix; the least is alpha, or exact where the curvature is constant."""
        values = eigvalsh((self.X.T * (self.s / self.s.sum())) @ self.X + np.diag(self.l2[: self.X.shape[1]]) / max(
            self.loss.curvature_bound, np.finfo(float).tiny))  # fmt: skip
        top = float(self.loss.curvature_bound * values[-1])
        if getattr(self.loss, "name", "") == "squared":
            return max(float(values[0]), 0.0), top
        return (0.0 if self.intercept or not self.convex else self.alpha), top

    def optimum(self) -> tuple[Vector, float] | None:
        """By Newton's method, where the loss is convex with a curvature and the minimum exists."""
        if not self.convex or not isinstance(self.loss, TwiceSmooth):
            return None
        found = newton(self, np.zeros(self.size), tol=EXACT, max_iter=100, report=False)
        f, g = self.value_gradient(found.w)
        return (found.w, f) if found.converged and np.abs(g).max() <= 1e-8 * max(1.0, abs(f)) else None

    def _curvature(self, w: Vector, rows: np.ndarray | None) -> np.ndarray:
        if not isinstance(self.loss, TwiceSmooth):
            raise TypeError("the loss has no curvature")
        X, y = (self.X, self.y) if rows is None else (self.X[rows], self.y[rows])
        return self.loss.curvature(self.eta(w, X), y)
