"""The dual of Crammer and Singer's support vector machine: sweeps over rows, ended by the system of the free entries.

max over α (n, K) of  Σᵢ αᵢ_yᵢ - ½ ‖αᵀX‖²,  Σᵣ αᵢᵣ = 0,  αᵢᵣ ≤ capᵢ [r = yᵢ]. Sweeps raise it row by row, all classes of
a row at once; what they approach only slowly, the optimum over the entries off their bounds, is a linear system of
the size of the free entries, at most about K d.

Source: Keerthi, Sundararajan, Chang, Hsieh, Lin (2008), A sequential dual method for large scale multi-class linear
SVMs, KDD.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.stable import slacks
from ml_core.solvers.base import spent
from ml_core.solvers.constrained import Constrained
from ml_core.solvers.crammer_singer_sweeps import sweep_classes
from ml_core.solvers.free_set import Curvature, Free, Step, newton_on_free, too_many

FIRST = 0.1
FEWER = 0.2
WORK = 1e9
MOST_ROUNDS = 300
MOST_FREE = 4000
STEPS = 100
Index = np.ndarray


@dataclass(frozen=True)
class CommonMargin:
    """α (n, K), rounds over the rows, the largest violation of a row's conditions, dual values and gaps."""

    alpha: Matrix
    n_iter: int
    violation: float
    trace: list[float]
    gaps: list[float]


def crammer_singer(X: Matrix, y: Codes, cap: Vector, classes: int, *, tol: float, max_iter: int,
                   seed: int = 0) -> CommonMargin:  # fmt: skip
    """Solve until no row's conditions are violated by more than tol, in units of a score, or for max_iter rounds."""
    n = len(X)
    alpha, W = np.zeros((n, classes)), np.zeros((classes, X.shape[1]))
    square = np.maximum(np.einsum("ij,ij->i", X, X), np.finfo(float).tiny)
    order, live, count = np.arange(n), np.tile(np.arange(classes), (n, 1)), np.full(n, classes)
    state = np.array([n, max(1.0, tol), 1.0 + seed % (1 << 40)])
    each = int(np.clip(WORK / (X.size * classes), 5, MOST_ROUNDS))
    done, worst, stage, trace, gaps = 0, np.inf, max(tol, FIRST), [], []
    while worst > tol and not spent(done, max_iter):
        rounds, _ = sweep_classes(X, y, cap, square, alpha, W, order, live, count, state,
                                  stage, min(each, max_iter - done))  # fmt: skip
        done += rounds
        for polish in (False, True):
            if polish and not _polish(X, y, cap, alpha, W):
                break
            W[...] = alpha.T @ X
            G = ahead(X @ W.T, y)
            worst = violation(G, y, cap, alpha)
            primal, dual = objectives(G, y, cap, alpha, W)
            trace.append(dual)
            gaps.append(primal - dual)
            progress.tick(done, max_iter, "rounds", dual_objective=dual, duality_gap=gaps[-1])
            if worst > stage:
                break
        if worst <= stage:
            stage = max(tol, min(stage, worst) * FEWER)
            state[:2] = n, stage
    return CommonMargin(alpha, done, worst, trace, gaps)


def ahead(F: Matrix, y: Codes) -> Matrix:
    """Scores (n, K) with the margin: 1 more for every class but the row's own."""
    G = F + 1.0
    G[np.arange(len(F)), y] -= 1.0
    return np.asarray(G)


def violation(G: Matrix, y: Codes, cap: Vector, alpha: Matrix) -> float:
    """Largest difference of a row's highest score (with the margin, G) and the lowest whose α may rise."""
    bound = np.zeros_like(alpha)
    bound[np.arange(len(y)), y] = cap
    low = np.where(alpha < bound, G, np.inf).min(axis=1)
    return max(0.0, float((G.max(axis=1) - low).max()))


def objectives(G: Matrix, y: Codes, cap: Vector, alpha: Matrix, W: Matrix) -> tuple[float, float]:
    """Primal and dual from scores with the margin G (n, K): the dual is Σ αᵢ_yᵢ - ½‖W‖², for Σᵣ αᵢᵣ = 0."""
    rows = np.arange(len(G))
    half, own = 0.5 * float((W * W).sum()), alpha[rows, y]
    slack = slacks(G.max(axis=1) - G[rows, y], own < cap, float(np.abs(G).max()))
    return half + float(cap @ slack), float(own.sum()) - half


def _polish(X: Matrix, y: Codes, cap: Vector, alpha: Matrix, W: Matrix) -> bool:
    """The optimum over the entries off their bounds; False when there are none or too many."""
    bound = np.zeros_like(alpha)
    bound[np.arange(len(y)), y] = cap
    free = alpha < bound
    free[free.sum(axis=1) < 2] = False
    row, label = np.nonzero(free)
    rows, group = np.unique(row, return_inverse=True)
    if not 1 <= len(row) - len(rows) <= min(MOST_FREE, X.shape[1] * alpha.shape[1]):
        return False
    f = Free(Differences(X, row, label), -ahead(X @ W.T, y)[row, label], alpha[row, label], np.full(len(row), -np.inf),
             bound[row, label], group)  # fmt: skip
    newton_on_free(f, STEPS)
    alpha[row, label] = f.beta
    return True


class Differences(Curvature):
    """K of entries (row, label): xᵢ·xⱼ where the labels are equal, else 0; groups are rows.

    Within a row, entries move against its first: K of these differences has full rank where the optimum is unique. An
    entry that is free no more is a constraint on them.
    """

    def __init__(self, X: Matrix, row: Index, label: Index) -> None:
        self.X, self.row, self.label, self.classes = X[row], row, label, int(label.max()) + 1
        self.system: Constrained | None = None

    def step(self, on: Index, v: Vector, own: Index) -> Step | None:
        """O(m³) for m differences with a new factor, else O(m²)."""
        found = self._again(on, v)
        if found is None:
            self._factor(on, own)
            found = self._again(on, v)
        return None if found is None else (found, False)

    def _factor(self, on: Index, own: Index) -> None:
        begins = np.concatenate([[True], own[1:] != own[:-1]])
        self.on, self.begins, self.which = on, begins, np.cumsum(begins) - 1
        self.first, self.other = on[begins][self.which[~begins]], on[~begins]
        m = len(self.other)
        A, U, each = self.X[self.other], np.zeros((m, self.classes)), np.arange(m)
        U[each, self.label[self.other]], U[each, self.label[self.first]] = 1.0, -1.0
        self.out = np.empty(0, dtype=np.int64)
        self.system = Constrained((A @ A.T) * (U @ U.T), np.empty((m, 0))) if m else None

    def _again(self, on: Index, v: Vector) -> Vector | None:
        if self.system is None or not self.system.definite:
            return None
        here = np.isin(self.on, on, assume_unique=True)
        gone = np.flatnonzero(~here)
        if too_many(gone, self.on):
            return None
        fresh = np.setdiff1d(gone, self.out, assume_unique=True)
        if len(fresh):
            self.system.add(self._constraints(fresh))
            self.out = np.concatenate([self.out, fresh])
        moves = self.system.solve(v[self.other] - v[self.first])
        if moves is None:
            return None
        d = np.zeros(len(self.on))
        d[~self.begins] = moves
        d[self.begins] = -np.bincount(self.which[~self.begins], moves, int(self.begins.sum()))
        return d[here]

    def _constraints(self, gone: Index) -> Matrix:
        """(m, len(gone)) a column per entry: its difference, or for the first of a row the sum of all, stands still."""
        E = np.zeros((len(self.other), len(gone)), order="F")
        place = np.cumsum(~self.begins) - 1
        for k, i in enumerate(gone):
            E[(self.which[~self.begins] == self.which[i]) if self.begins[i] else place[i], k] = 1.0
        return E

    def times(self, on: Index, d: Vector) -> Vector:
        """O(m d)."""
        W = np.zeros((self.classes, self.X.shape[1]))
        for label in range(self.classes):
            at = np.flatnonzero(self.label[on] == label)
            W[label] = d[at] @ self.X[on[at]]
        return np.einsum("ij,ij->i", self.X, W[self.label])
