"""Starts, restarts, the exact optimum of a few points and the curve over k, for k-means."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ml_core import parallel
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.progress import tick
from ml_core.rng import generator
from ml_core.solvers.lloyd import Lloyd, lloyd, plus_plus

Start = Literal["kmeans++", "forgy", "random_partition"]
SPREAD_WORK = 2e7
"""Distances times columns of one pass over all restarts from which they are spread."""


def distinct_rows(X: Matrix, order: Codes, k: int) -> Codes:
    """Numbers of the first k pairwise different rows met along `order`, fewer when there are no more."""
    size = 4 * k
    while True:
        _, first = np.unique(X[order[:size]], axis=0, return_index=True)
        if len(first) >= k or size >= len(X):
            return np.asarray(order[np.sort(first)[:k]])
        size *= 4


def start(X: Matrix, s: Vector, k: int, how: Start, rng: np.random.Generator) -> Matrix:
    """(k, d) centres to start from: D² draws, k distinct rows drawn ∝ s, or means of random parts."""
    if how == "kmeans++":
        return plus_plus(X, s, k, rng)
    order = np.argsort(rng.exponential(size=len(X)) / s)
    if how == "forgy":
        return X[distinct_rows(X, order, k)]
    part = rng.integers(k, size=len(X))
    part[order[:k]] = np.arange(k)
    weight = np.bincount(part, weights=s, minlength=k)
    return np.stack([np.bincount(part, weights=s * column, minlength=k) for column in X.T], axis=1) / weight[:, None]


def restarts(
    X: Matrix, s: Vector, k: int, how: Start, *, n_init: int, seed: int, max_iter: int, tol: float
) -> list[Lloyd]:
    """`n_init` runs of Lloyd's alternation, each from its own random stream; the same wherever they run."""
    shared = (X, s, k, how, seed, max_iter, tol)
    if n_init == 1 or n_init * len(X) * X.shape[1] * k < SPREAD_WORK:
        return [_run(i, *shared) for i in range(n_init)]
    return list(parallel.spread_map(_run_alone, range(n_init), shared))


def _run(number: int, X: Matrix, s: Vector, k: int, how: Start, seed: int, max_iter: int, tol: float) -> Lloyd:
    """One restart."""
    return lloyd(X, s, start(X, s, k, how, generator(seed, number)), max_iter=max_iter, tol=tol)


def _run_alone(number: int, *shared: Any) -> Lloyd:
    """One restart on one thread: the restarts are already spread."""
    with parallel.use_threads(1):
        return _run(number, *shared)


def exhaustive(X: Matrix, s: Vector, k: int) -> Lloyd:
    """The least J over all partitions of n rows into at most k parts; O(n k^n), cut where J already exceeds the best.

    Adding row x of weight w to a part of weight W and mean m raises J by w W / (w + W) ‖x - m‖².
    """
    n = len(X)
    best, labels = np.inf, np.zeros(n, dtype=np.int64)
    path, weight, sums = np.zeros(n, dtype=np.int64), np.zeros(k), np.zeros((k, X.shape[1]))
    found = 0

    def place(i: int, used: int, J: float) -> None:
        nonlocal best, labels, found
        if best <= J:
            return
        if i == n:
            best, labels, found = J, path.copy(), found + 1
            tick(found, None, "better partitions", objective=J)
            return
        for c in range(min(used + 1, k)):
            rise = 0.0
            if weight[c] > 0:
                gap = X[i] - sums[c] / weight[c]
                rise = s[i] * weight[c] / (s[i] + weight[c]) * float(gap @ gap)
            before, saved = weight[c], sums[c].copy()
            weight[c], path[i] = weight[c] + s[i], c
            sums[c] += s[i] * X[i]
            place(i + 1, max(used, c + 1), J + rise)
            weight[c], sums[c] = before, saved

    place(0, 0, 0.0)
    used = int(labels.max()) + 1
    centres = np.stack([s[labels == c] @ X[labels == c] / s[labels == c].sum() for c in range(used)])
    J = float(s @ ((X - centres[labels]) ** 2).sum(axis=1))
    return Lloyd(centres, labels, J, 0, [J])


def curve(X: Matrix, s: Vector, most: int, *, n_init: int, seed: int, max_iter: int) -> list[float]:
    """Best J found with 1, 2, …, `most` clusters; never rises: each k also starts from the last centres and a row."""
    values: list[float] = []
    last = (s @ X / s.sum())[None, :]
    for k in range(1, most + 1):
        tick(k, most, "clusters")
        runs = restarts(X, s, k, "kmeans++", n_init=n_init, seed=seed, max_iter=max_iter, tol=0.0)
        grown = lloyd(X, s, last, max_iter=max_iter) if k == 1 else lloyd(X, s, _grown(X, last), max_iter=max_iter)
        best = min([*runs, grown], key=lambda r: r.inertia)
        values.append(best.inertia)
        last = best.centres
    return values


def _grown(X: Matrix, centres: Matrix) -> Matrix:
    """The centres and the row farthest from them."""
    far = np.min([((X - c) ** 2).sum(axis=1) for c in centres], axis=0).argmax()
    return np.vstack([centres, X[far]])
