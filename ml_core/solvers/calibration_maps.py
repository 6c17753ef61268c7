"""Non-decreasing maps from scores to probabilities: Platt's sigmoid, a temperature, an isotonic step function."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, isotonic_regression

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.stable import expit, softmax

STEPS = 100
LARGEST = 1e6


def platt(f: Vector, y: Vector, s: Vector) -> tuple[float, float]:
    """(a, b) of P = 1/(1 + exp(-(a f + b))), a ≥ 0, by likelihood with Platt's targets (N₊+1)/(N₊+2) and 1/(N₋+2).

    f (n,) scores, y (n,) 0/1, s (n,) weights, which count as rows. Where the best slope is negative it is 0 instead.

    Source: Lin, Lin, Weng (2007), A note on Platt's probabilistic outputs for support vector machines, Machine
    Learning 68: Newton with backtracking on a stable form of the likelihood.
    """
    plus, minus = float(s[y > 0].sum()), float(s[y <= 0].sum())
    t = np.where(y > 0, (plus + 1) / (plus + 2), 1 / (minus + 2))
    rate = float(s @ t / s.sum())
    constant = 0.0, float(np.log(rate / (1 - rate)))
    middle, spread = float(np.average(f, weights=s)), float(np.sqrt(np.average((f - f.mean()) ** 2, weights=s)))
    if spread <= 1e-12 * max(abs(middle), 1e-300):
        return constant
    Z = np.column_stack([(f - middle) / spread, np.ones(len(f))])
    v = _newton(Z, t, s, np.array([0.0, constant[1]]))
    if v[0] <= 0:
        return constant
    return float(v[0] / spread), float(v[1] - v[0] * middle / spread)


def _newton(Z: Matrix, t: Vector, s: Vector, v: Vector) -> Vector:
    """Minimise Σ s (softplus(z) - t z), z = Z v."""

    def cost(v: Vector) -> float:
        z = Z @ v
        return float(s @ (np.logaddexp(0.0, z) - t * z))

    now = cost(v)
    for _ in range(STEPS):
        p = expit(Z @ v)
        g = Z.T @ (s * (p - t))
        H = (Z * (s * p * (1 - p))[:, None]).T @ Z
        H.flat[::3] += 1e-12 * (np.trace(H) + 1e-300)
        d = np.linalg.solve(H, -g)
        step = 1.0
        while step > 1e-10 and cost(v + step * d) > now + 1e-4 * step * float(g @ d):
            step *= 0.5
        if step <= 1e-10 or abs(float(g @ d)) <= 1e-24 * max(1.0, now):
            break
        v = v + step * d
        now = cost(v)
    return v


def isotonic(f: Vector, y: Vector, s: Vector) -> tuple[Vector, Vector]:
    """Knots (m,) and non-decreasing shares (m,) of least squares; equal scores share one value. O(n log n)."""
    knots, place = np.unique(f, return_inverse=True)
    weight = np.bincount(place, s)
    shares = isotonic_regression(np.bincount(place, s * y) / weight, weights=weight).x
    ends = np.flatnonzero(np.r_[True, np.diff(shares) != 0] | np.r_[np.diff(shares) != 0, True])
    return knots[ends], np.clip(shares[ends], 0.0, 1.0)


def temperature(F: Matrix, y: Codes, s: Vector) -> float:
    """a = 1/T ≥ 0 of P = softmax(a F) by likelihood; F (n, K). At most LARGEST over the spread of the scores."""
    rows = np.arange(len(F))
    top = LARGEST / max(float(np.ptp(F)), 1e-300)

    def slope(a: float) -> float:
        return float(s @ ((softmax(a * F) * F).sum(axis=1) - F[rows, y]))

    if slope(0.0) >= 0:
        return 0.0
    if slope(top) <= 0:
        return top
    return float(brentq(slope, 0.0, top, xtol=1e-15, rtol=1e-14))
