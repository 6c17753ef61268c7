"""Lloyd's alternation for k-means with exact distances and Hamerly's bounds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled, inner, read_only
from ml_core.progress import late, tick
from ml_core.solvers.centres import BLOCK, LANES, blocks, columns, frozen, own, plus_plus, squared_distances, squares

__all__ = ["Lloyd", "lloyd", "plus_plus"]


@dataclass(frozen=True)
class Lloyd:
    """Where one start ended: `labels` are nearest to `centres`, `inertia` is J at them, `trace` its fall.

    `relocated` counts farthest rows moved into empty clusters; `converged` says that the last pass moved no row (then
    each centre is the mean of its rows) or that the centres moved less than `tol` allows.
    """

    centres: Matrix
    labels: Codes
    inertia: float
    n_iter: int
    trace: list[float] = field(default_factory=list)
    relocated: int = 0
    converged: bool = True


@inner
def _two_nearest(acc, k, home):  # type: ignore[no-untyped-def]
    """Number and value of the least of acc[:k], `home` (or the lowest number) winning ties, and the next value."""
    best, least, second = home, acc[home] if home >= 0 else np.inf, np.inf
    for c in range(k):
        if acc[c] < least:
            second, least, best = least, acc[c], c
        elif acc[c] < second and c != best:
            second = acc[c]
    return max(best, 0), least, second


@inner
def _add(X, i, amount, c, weight, sums):  # type: ignore[no-untyped-def]
    """Row i joins cluster c with this amount of weight."""
    weight[c] += amount
    for j in range(X.shape[1]):
        sums[c, j] += amount * X[i, j]


def _warm_sweep():  # type: ignore[no-untyped-def]
    X, s = read_only(np.ones((2, 5)), np.ones(2))
    return (X, s, np.ones((5, LANES)), np.ones((3, 5)), np.ones((3, 3)), np.full(2, -1), np.zeros((2, 2)), True,
            np.zeros(3), np.zeros((3, 5)))  # fmt: skip


@compiled(_warm_sweep)
def _sweep(X, s, Ct, C, bounds, labels, reach, exact, weight, sums):  # type: ignore[no-untyped-def]
    """Assign a block; a tied row stays. Returns (J, rows that changed).

    `bounds` (3, k): half the gap from each centre to the next, its own last move, the largest last move of the others.
    `reach` (n, 2): a row's distance to its centre is at most the first, to any other at least the second (Hamerly).
    weight (k,) and sums (k, d) receive the clusters' totals when `exact`, else their changes, and J is 0.
    """
    acc, J, changed, clear = np.empty(Ct.shape[1]), 0.0, 0, 0.0
    slack = 1 - (1e-12 + 4 * X.shape[1] * 2.3e-16)
    for i in range(X.shape[0]):
        home = labels[i]
        best, least = home, np.inf
        if home >= 0:
            reach[i, 0] += bounds[1, home]
            reach[i, 1] -= bounds[2, home]
            clear = slack * max(reach[i, 1], bounds[0, home])
            if exact or reach[i, 0] >= clear:
                least = own(X, i, C, home)
                reach[i, 0] = np.sqrt(least)
        if home < 0 or reach[i, 0] >= clear:
            squares(X, i, Ct, acc)
            best, least, second = _two_nearest(acc, C.shape[0], home)
            reach[i, 0], reach[i, 1] = np.sqrt(least), slack * np.sqrt(second)
            labels[i] = best
            changed += best != home
        if exact:
            J += s[i] * least
            _add(X, i, s[i], best, weight, sums)
        elif best != home:
            _add(X, i, s[i], best, weight, sums)
            _add(X, i, -s[i], home, weight, sums)
    return J, changed


class _Run:
    """The state of one start: labels and bounds of the rows, totals of the clusters."""

    def __init__(self, X: Matrix, s: Vector, C: Matrix) -> None:
        self.X, self.s, self.C = X, s, C
        self.labels, self.reach = np.full(len(X), -1), np.zeros((len(X), 2))
        self.square = float(s @ np.einsum("ij,ij->i", X, X))
        self.moved, self.weight, self.sums = np.zeros(len(C)), np.zeros(len(C)), np.zeros(C.shape)
        self.relocated = 0
        self.fresh = True
        self.sweep(exact=True)

    def sweep(self, *, exact: bool) -> int:
        """Assign all rows and set J; `exact` recomputes J and the totals, else they follow from what changed."""
        X, s, C, Ct = self.X, self.s, self.C, columns(self.C)
        k, bounds = len(C), self._bounds()

        def block(at: int) -> tuple[float, int, Vector, Matrix]:
            r, weight, sums = slice(at, at + BLOCK), np.zeros(k), np.zeros(C.shape)
            found = _sweep(X[r], s[r], Ct, C, bounds, self.labels[r], self.reach[r], exact, weight, sums)
            return (*found, weight, sums)

        J, changed, weight, sums = zip(*blocks(block, len(X), C.size), strict=True)
        self.weight = np.sum(weight, axis=0) + (0.0 if exact else self.weight)
        self.sums = np.sum(sums, axis=0) + (0.0 if exact else self.sums)
        expanded = self.square + float(self.weight @ (C * C).sum(axis=1) - 2 * (C * self.sums).sum())
        self.J = float(sum(J)) if exact else max(expanded, 0.0)
        self.fresh = exact or (self.fresh and not any(changed))
        return int(sum(changed))

    def _bounds(self) -> Matrix:
        k, moved = len(self.C), (1 + 1e-12) * self.moved
        gaps = np.sqrt(squared_distances(self.C, self.C)) + np.diag(np.full(k, np.inf))
        two = np.sort(np.concatenate([[0.0], moved]))[-2:]
        return np.stack([0.5 * gaps.min(axis=1), moved, np.where(moved == two[1], two[0], two[1])])

    def step(self) -> None:
        """Centres to the means of their rows."""
        members = np.bincount(self.labels, minlength=len(self.C))
        if not members.all():
            self._fill(members)
        weight = np.where(members > 0, self.weight, 1.0)[:, None]
        C = np.where(members[:, None] > 0, self.sums / weight, self.C)
        self.moved, self.C = np.sqrt(((C - self.C) ** 2).sum(axis=1)), C

    def _fill(self, members: Codes) -> None:
        """Move the row farthest from its centre into each empty cluster; the giver keeps at least one."""
        near = ((self.X - self.C[self.labels]) ** 2).sum(axis=1)
        for c in np.flatnonzero(members == 0):
            i = int(np.where(members[self.labels] > 1, near, -1.0).argmax())
            if near[i] <= 0 or members[self.labels[i]] < 2:
                break
            giver, near[i], self.reach[i] = self.labels[i], 0.0, (np.inf, 0.0)
            self.labels[i], members[c], members[giver] = c, 1, members[giver] - 1
            for q in (giver, c):
                mine = self.labels == q
                self.weight[q], self.sums[q] = self.s[mine].sum(), self.s[mine] @ self.X[mine]
            self.relocated += 1


def assigned(X: Matrix, s: Vector, centres: Matrix) -> tuple[float, Codes, Vector, Matrix, Matrix]:
    """J, nearest centres (n,), and the clusters' weights (k,) and sums (k, d); the lower number wins a tie.

    The last value (n, 2) is each row's distance to its centre and a lower bound of that to any other.
    """
    X, s = frozen(X, s)
    run = _Run(X, s, np.array(centres, dtype=np.float64, order="C"))
    return run.J, run.labels, run.weight, run.sums, run.reach


def lloyd(X: Matrix, s: Vector, centres: Matrix, *, max_iter: int = 300, tol: float = 0.0) -> Lloyd:
    """Alternate means and nearest means from `centres` until no row moves; O(n k d) a pass, less once bounds bite.

    J = Σᵢ sᵢ ‖xᵢ - c_{zᵢ}‖² never rises. `tol` > 0 stops earlier, when Σ‖Δc‖² ≤ tol · (mean variance of a column).
    The final J is exact; the trace between is expanded, so X should be centred. Equal bits for every number of
    threads. Hamerly (2010), Making k-means even faster.
    """
    X, s = frozen(X, s)
    run = _Run(X, s, np.array(centres, dtype=np.float64, order="C"))
    allowed = tol * float(np.mean(s @ (X - s @ X / s.sum()) ** 2) / s.sum()) if tol > 0 else 0.0
    trace, exact, converged = [run.J], False, False
    for step in range(1, max_iter + 1):
        run.step()
        fresh = run.fresh
        quiet = run.sweep(exact=exact) == 0 or float(run.moved @ run.moved) <= allowed
        trace.append(run.J)
        tick(step, max_iter, objective=run.J)
        converged = quiet and exact and fresh
        if converged or late():
            break
        exact = quiet
    if not converged:
        run.moved[:] = 0.0
        run.sweep(exact=True)
        trace[-1] = run.J
    return Lloyd(run.C, run.labels, run.J, len(trace) - 1, trace, run.relocated, converged)
