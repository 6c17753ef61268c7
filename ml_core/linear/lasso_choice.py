"""The penalty of a lasso by cross-validation or an information criterion, along a path of warm starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.linear.lasso_problem import Problem
from ml_core.numerics.column_moments import column_moments
from ml_core.parallel import ordered_map
from ml_core.selection.splits import Split, parts_of

if TYPE_CHECKING:
    from ml_core.linear.lasso import Lasso

ENOUGH = 1e-7
"""Duality gap, as a share of Σ s(y - ȳ)², that decides nothing between penalties."""
SMALLEST = 1e-300


def units_of(m: Lasso, X: Matrix, s: Vector) -> Vector:
    """(d,) what the penalty multiplies |wⱼ| with."""
    return column_moments(X, s)[1] if m.standardize else np.ones(X.shape[1])


def held_out(m: Lasso, X: Matrix, Y: Matrix, s: Vector, alphas: Vector) -> Matrix:
    """(k, a) mean squared error of each fold, over outputs, by fits of the other folds; alphas descending.

    Penalties are those beside the mean: with fewer rows they shrink with the weight of the rows.
    """
    def errors(split: Split) -> Vector:
        train, test = split
        share = float(s[train].sum() / s.sum())
        units, out = units_of(m, X[train], s[train]), np.zeros(len(alphas))
        for k in range(Y.shape[1]):
            problem = Problem.make(X[train], Y[train, k], s[train], m.fit_intercept, units, m.alpha_l2_ * share)
            for i, (_, w) in enumerate(problem.path(alphas * share, max(m.tol, ENOUGH), m.max_iter)):
                progress.tick(i, len(alphas), "penalties")
                on = np.flatnonzero(w)
                r = Y[test, k] - problem.offset - (X[np.ix_(test, on)] - problem.Z.mean[on]) @ w[on]
                out[i] += float(s[test] @ r**2) / float(s[test].sum()) / Y.shape[1]
        return out

    parts = parts_of(len(X), m.folds, m.random_state)
    return np.array(list(ordered_map(errors, parts)))


def criterion(m: Lasso, X: Matrix, Y: Matrix, s: Vector, alphas: Vector) -> Vector:
    """(a,) n log(RSS/n) + (2 or log n) · parameters, over outputs, the parameters being the columns with weight."""
    n, out = m._observations(s), np.zeros(len(alphas))
    price = 2.0 if m.choose_alpha == "aic" else float(np.log(n))
    for k in range(Y.shape[1]):
        problem = Problem.make(X, Y[:, k], s, m.fit_intercept, m.units_, m.alpha_l2_)
        for i, (_, w) in enumerate(problem.path(alphas, max(m.tol, ENOUGH), m.max_iter)):
            progress.tick(i, len(alphas), "penalties")
            r = problem.Z.residual(problem.t, w * problem.lengths())
            rss, free = float(s @ r**2), np.count_nonzero(w) + m.fit_intercept
            out[i] += n * np.log(max(rss / n, SMALLEST)) + price * free if n > free + 1 else np.inf
    return out


def chosen(errors: Vector, spread: Vector | None) -> int:
    """Place of the least error, the largest penalty among equals; with a spread, of the first within one of it."""
    best = int(errors.argmin())
    if spread is None:
        return best
    return int(np.flatnonzero(errors <= errors[best] + spread[best])[0])
