"""Lloyd's alternation on a kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.solvers.base import spent

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class KernelLloyd:
    """Labels (n,), J, sweeps, whether no row moved in the last one, and J before each sweep."""

    labels: Codes
    inertia: float
    n_iter: int
    converged: bool
    trace: list[float]


def alternate(K: Matrix, s: Vector, labels: Codes, *, max_iter: int) -> KernelLloyd:
    """Reassign all rows of K (n, n), weights s (n,), to their nearest means until none moves; O(n² k) a sweep.

    A row moves only where another mean is nearer by more than rounding. Labels are 0 … k-1; a cluster that runs empty
    receives the row farthest from its mean, of a cluster with more than one.
    """
    k, rows, diagonal = int(labels.max()) + 1, np.arange(len(K)), K.diagonal()
    rounding = 64 * EPS * float(np.abs(diagonal).max(initial=0.0))
    labels, trace = labels.copy(), []
    for step in range(max_iter + 1):
        D = _distances(K, s, labels, k)
        own = D[rows, labels]
        trace.append(float(s @ own))
        progress.tick(step, max_iter, objective=trace[-1])
        nearest = D.argmin(axis=1)
        moves = own - D[rows, nearest] > rounding
        if not moves.any() or spent(step, max_iter):
            break
        labels[moves] = nearest[moves]
        _filled(labels, D[rows, labels], k)
    return KernelLloyd(labels, trace[-1], step, not bool(moves.any()), trace)


def _distances(K: Matrix, s: Vector, labels: Codes, k: int) -> Matrix:
    """(n, k) squared feature distances to the means of the clusters, none of them empty."""
    means = np.zeros((len(K), k))
    means[np.arange(len(K)), labels] = s / np.bincount(labels, s, k)[labels]
    F = K @ means
    return np.asarray(K.diagonal()[:, None] - 2.0 * F + np.einsum("ic,ic->c", means, F))


def _filled(labels: Codes, own: Vector, k: int) -> None:
    """Give each empty cluster the farthest row of a cluster that has more than one, in place."""
    for c in range(k):
        if (labels == c).any():
            continue
        shared = np.bincount(labels, minlength=k)[labels] > 1
        far = int(np.where(shared, own, -np.inf).argmax())
        labels[far], own[far] = c, 0.0


def seeded(K: Matrix, s: Vector, k: int, how: str, rng: np.random.Generator) -> Codes:
    """(n,) labels 0 … to start from: nearest of D²-weighted draws, or random parts. Fewer than k if rows are equal."""
    n = len(K)
    if how == "random_partition":
        labels = rng.permutation(np.arange(n) % k)
        return np.asarray(labels)
    d = K.diagonal()
    rounding = 64 * EPS * float(np.abs(d).max(initial=0.0))
    at = int(rng.choice(n, p=s / s.sum()))
    best, labels = np.maximum(d - 2.0 * K[at] + d[at], 0.0), np.zeros(n, dtype=np.int64)
    for c in range(1, k):
        mass = s * np.where(best > rounding, best, 0.0)
        if not mass.any():
            break
        at = int(rng.choice(n, p=mass / mass.sum()))
        new = np.maximum(d - 2.0 * K[at] + d[at], 0.0)
        labels[new < best] = c
        best = np.minimum(best, new)
    return np.asarray(np.unique(labels, return_inverse=True)[1].ravel())
