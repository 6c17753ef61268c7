"""Classifiers made of binary machines that share one kernel: fit, decide, report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from itertools import combinations
from typing import Annotated, Any

import numpy as np

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import Scores, Weighted
from ml_core.certificates import Diagnostics
from ml_core.errors import InvalidData
from ml_core.kernels import Kernel, LinearKernel
from ml_core.kernels.precomputed import needs_all_rows
from ml_core.kernels.weighted import weighted_sums
from ml_core.parallel import ordered_map
from ml_core.solvers.kernel_rows import KernelRows
from ml_core.solvers.smo_run import MOST_FREE
from ml_core.svm import report
from ml_core.svm.machine import Machine, Solving, sides
from ml_core.svm.shared_gram import SharedGram


class KernelMachines(Weighted, Scores, Classifier):
    """Binary machines between pairs of classes, or of each class against the rest; a subclass trains one of them."""

    queue = "long"
    complexity = "O(n² d) and more; prediction O(support vectors · d) per row"
    tags = ("non_parametric", "direct", "high_capacity", "kernel", "maximum_margin")
    largest = SQUARES
    min_rows = 2

    kernel_: Kernel
    support_: Annotated[Codes, "(m,) support vectors among the rows of positive weight"]
    support_vectors_: Annotated[Matrix, "(m, d)"]
    dual_coef_: Annotated[Matrix, "(machines, m) α y of each machine"]
    intercept_: Annotated[Vector, "(machines,) b; with a linear kernel the score at x = 0"]
    class_weight_: Annotated[Vector, "(K,) factor on the bounds of each class's rows"]
    machines_: list[Machine]
    n_iter_: Annotated[int, "steps on pairs of the machine that took most"]
    n_rows_: int

    multiclass: str
    tol: float
    max_iter: int

    @abstractmethod
    def _train(self, pair: tuple[int, int], where: Codes, sign: Vector, weight: Vector, rows: KernelRows, how: Solving,
               gram: Matrix | None) -> Machine:  # fmt: skip
        """One machine over the rows `where` with signs ±1 and weights."""

    def _pairs(self) -> list[tuple[int, int]]:
        K = len(self.classes_)
        if K == 2:
            return [(0, 1)]
        return list(combinations(range(K), 2)) if self.multiclass == "one_vs_one" else [(-1, k) for k in range(K)]

    def _train_all(self, X: Matrix, y: Codes, w: Vector, how: Solving) -> None:
        """Every machine over rows X, and the union of their support vectors."""
        whole = KernelRows(self.kernel_, X)
        share = SharedGram(whole, y, self._pairs())

        def one(pair: tuple[int, int]) -> Machine:
            where, sign = sides(y, *pair)
            rows = whole if pair[0] < 0 else whole.subset(where)
            return self._train(pair, where, sign, w[where], rows, how, share.of(pair, rows))

        self._machines(one, X)

    def _machines(self, one: Callable[[tuple[int, int]], Machine], X: Matrix) -> None:
        self.machines_, pairs = [], self._pairs()
        for found in ordered_map(one, pairs):
            self.machines_.append(found)
            progress.tick(len(self.machines_), len(pairs), "machines")
        self._gather(X)

    def _gather(self, X: Matrix) -> None:
        self.n_rows_ = X.shape[0]
        used = [np.arange(X.shape[0])] if needs_all_rows(self.kernel_) else [m.rows for m in self.machines_]
        self.support_ = np.unique(np.concatenate(used))
        self.dual_coef_ = np.zeros((len(self.machines_), len(self.support_)))
        for row, m in zip(self.dual_coef_, self.machines_, strict=True):
            row[np.searchsorted(self.support_, m.rows)] = m.beta
        self._keep(X)
        self.n_iter_ = max(1, *(m.n_iter for m in self.machines_), 1)
        late = [m for m in self.machines_ if not m.converged]
        if late:
            self._note_short(f"{len(late)} of {len(self.machines_)} machines stopped before their rule was met; "
                             "their duality gaps are in the diagnostics",
                             "standardise the columns, raise max_iter or lower C")  # fmt: skip
        if any(m.interval > 0 for m in self.machines_):
            self._note("intercept_interval", "no support vector lies on the margin, so any intercept of an interval is "
                       "optimal; its middle was taken")  # fmt: skip

    def _keep(self, X: Matrix) -> None:
        """What the scores are made of."""
        self.support_vectors_ = X[self.support_]
        self.intercept_ = self._offsets()

    def _offsets(self) -> Vector:
        """(machines,) b of the rows as the kernel sees them."""
        return np.array([m.b for m in self.machines_])

    def _slopes(self) -> Matrix | None:
        """(machines, d) w of a linear kernel, per unit of the columns; else None."""
        return self._inside_slopes()

    def _inside_slopes(self) -> Matrix | None:
        """(machines, d) w of a linear kernel, of the rows as the kernel sees them: the solver's where it has one."""
        if type(self.kernel_) is not LinearKernel:
            return None
        if all(m.w is not None for m in self.machines_):
            return np.array([m.w for m in self.machines_])
        return np.asarray(self.dual_coef_ @ self.support_vectors_)

    def _machine_scores(self, X: Matrix) -> Matrix:
        """(n, machines) f(x)."""
        slopes = self._inside_slopes()
        if slopes is not None:
            return np.asarray(X @ slopes.T + self._offsets())
        return weighted_sums(self.kernel_, X, self.support_vectors_, self.dual_coef_.T) + self._offsets()

    def _scores(self, X: Matrix) -> Matrix | Vector:
        f, K = self._machine_scores(self._inside(X)), len(self.classes_)
        if K == 2:
            return f[:, 0]
        return f if self.multiclass == "one_vs_rest" else votes(f, self._pairs(), K)

    def _inside(self, X: Matrix) -> Matrix:
        """Rows as the kernel sees them."""
        return X

    def _evidence(self, X: Matrix, y: Codes, w: Vector) -> list[report.Evidence]:
        if X.shape[0] != self.n_rows_ or not self._knows(X):
            raise InvalidData("the certificate of a support vector machine is about its training rows; give these, in "
                              "their order")  # fmt: skip
        f, labels, out = self._machine_scores(X), [str(c) for c in self.classes_], []
        for k, m in enumerate(self.machines_):
            where, sign = sides(y, m.negative, m.positive)
            beta = np.zeros(X.shape[0])
            beta[m.rows] = m.beta
            names = (labels[m.negative] if m.negative >= 0 else "rest", labels[m.positive])
            out.append(self._judge(names, where, sign, m.cap * w[where], sign * beta[where], f[where, k],
                                   float(self.intercept_[k]), self.tol,
                                   self._size(k, X, beta, f[:, k])))  # fmt: skip
        return out

    def _size(self, k: int, X: Matrix, beta: Vector, f: Vector) -> report.Size:
        """‖w‖² = Σ βᵢ (f(xᵢ) - b) of machine k."""
        b = self.machines_[k].b
        square = max(0.0, float(beta @ (f - b)))
        return report.Size(b, square, square, float(np.abs(beta).sum()) + float(np.abs(f).max(initial=0.0)))

    def _judge(self, *args: Any) -> report.Evidence:
        return report.Evidence(*args)

    def _knows(self, X: Matrix) -> bool:
        """Whether these are the training rows, as far as can be told."""
        S = self.support_vectors_
        return bool(np.abs(X[self.support_] - S).max(initial=0.0) <= 1e-9 * np.abs(X).max())

    def _report(self, X: Matrix, y: Codes, w: Vector) -> Diagnostics:
        out = report.diagnostics(self._evidence(X, y, w), [(m.n_iter, m.converged) for m in self.machines_])
        if len(self.machines_) == 1:
            out.traces["dual_objective"] = self.machines_[0].dual_trace
            out.traces["duality_gap"] = self.machines_[0].gap_trace
        slopes = self._slopes()
        if slopes is not None:
            out.matrices["coef"] = slopes
        out.summary["kernel_evaluations"] = sum(m.evaluations for m in self.machines_)
        out.summary["support_vectors"] = int(np.count_nonzero(self.dual_coef_.any(axis=0)))
        return out


def votes(f: Matrix, pairs: list[tuple[int, int]], K: int) -> Matrix:
    """(n, K) votes of the pairs, plus less than a third of a vote by the sum of a class's scores, to break ties."""
    won, sums = np.zeros((len(f), K)), np.zeros((len(f), K))
    for column, (a, b) in zip(f.T, pairs, strict=True):
        up = column >= 0
        won[:, b] += up
        won[:, a] += ~up
        sums[:, b] += column
        sums[:, a] -= column
    return np.asarray(won + sums / (3.0 * (np.abs(sums) + 1.0)))


def kernel_cost(n: int, d: int, k: int, size: int) -> Cost:
    """Half of all kernel values, and steps on pairs; the row cache, the system of free variables, support vectors."""
    free = float(min(n, MOST_FREE))
    memory = min(24.0 * n * n, float(size)) + 16.0 * free * free + 16.0 * n * (d + k)
    return Cost(flops=0.5 * n * n * (2.0 * d + 30.0), memory_bytes=memory)
