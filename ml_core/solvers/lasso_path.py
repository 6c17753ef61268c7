"""Lasso fits for descending penalties, each from the last: what one has computed the next one uses.

Tall tables with a gap to reach are walked on the Gram matrix of all columns, so that a penalty costs nothing that
grows with the rows. Otherwise residuals and correlations are carried on, and the strong rule says which columns the
next penalty may need: a penalty costs about one product with the table.

Source: Friedman, Hastie, Tibshirani (2010), Regularization paths for generalized linear models via coordinate descent,
Journal of Statistical Software 33(1); Tibshirani and others (2012), Strong rules for discarding predictors in
lasso-type problems, JRSS B 74(2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.parallel import team
from ml_core.solvers.base import Solution
from ml_core.solvers.coordinate_descent import NEAR, State, advance
from ml_core.solvers.gram_descent import descend
from ml_core.solvers.unit_columns import Columns

BLOCK = 1_000_000
"""Cells of the table that are centred at once."""
PARTS, LEAST = 8, 64
"""Most pieces of a block for the threads, and rows or columns of the smallest: fixed so that bits are."""
PATIENCE = 500
"""Rounds after which the linear systems of the signs take over: descent creeps where columns nearly depend."""
WORTH = 30
"""Columns per penalty up to which all their products cost less than the passes over the table that they save."""


def path(
    Z: Columns, t: Vector, c: Vector, bounds: Matrix, mu: Vector, *, tol: float, max_iter: int
) -> Iterator[Solution]:
    """Weights for each row of `bounds` (a, d), descending; otherwise as `coordinate_descent.lasso`.

    The Gram matrix of all columns, d² numbers, is at most half of the table.
    """
    n, d = Z.X.shape
    if tol > NEAR and 2 * d <= n and d <= WORTH * len(bounds):
        yield from _on_products(Z, t, c, bounds, mu, tol, max_iter)
        return
    at, last = State.of(Z, t, None, c), None
    for bound in bounds:
        strong = np.abs(at.g - mu * at.w) >= 2 * bound - (bound if last is None else last)
        first = np.flatnonzero(strong & (Z.length > 0))
        yield advance(Z, t, bound, mu, at, tol=tol, max_iter=max_iter, first=first)
        last = bound


def products(Z: Columns) -> Matrix:
    """(d, d) of all columns, 0 for those without variation; O(n d²), a block of rows at a time."""
    n, d = Z.X.shape
    step = max(d, BLOCK // d)
    scale = np.divide(1.0, Z.length, out=np.zeros(d), where=Z.length > 0)
    G, rows = np.zeros((d, d)), np.empty((min(step, n), d))

    def centre(at: slice) -> None:
        part = np.subtract(Z.X[a + at.start : a + at.stop], Z.mean, out=rows[at])
        part *= scale
        part *= np.sqrt(Z.s[a + at.start : a + at.stop])[:, None]

    def strip(at: slice) -> None:
        V, before = U[:, at], slice(at.start)
        G[at, at] += V.T @ V
        G[at, before] += V.T @ U[:, before]

    with team(n * d > BLOCK) as each:
        for a in range(0, n, step):
            U = rows[: n - a]
            each(centre, _parts(len(U)))
            each(strip, _parts(d)[::-1])
    for at in _parts(d):
        G[: at.start, at] = G[at, : at.start].T
    return G


def _parts(n: int) -> list[slice]:
    many = min(max(n // LEAST, 1), PARTS)
    return [slice(i, j) for i, j in pairwise(n * k // many for k in range(many + 1))]


def _on_products(
    Z: Columns, t: Vector, c: Vector, bounds: Matrix, mu: Vector, tol: float, max_iter: int
) -> Iterator[Solution]:
    G = products(Z)
    w, q = np.zeros(len(c)), np.zeros(len(c))
    for bound in bounds:
        used, gap = descend(G, c, bound, mu, Z.sure, w, q, 0.5 * tol, min(max_iter, PATIENCE))
        if gap <= 0.5 * tol:
            yield Solution(w.copy(), used, True, "gap")
            continue
        found = advance(Z, t, bound, mu, State.of(Z, t, w, c), tol=tol, max_iter=max(max_iter - used, 0))
        w, q = found.w.copy(), G @ found.w
        yield replace(found, n_iter=found.n_iter + used)
