"""Columns of a table as unit vectors, of which only those that a solver asks for are ever formed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.column_moments import column_moments
from ml_core.numerics.jit import compiled

EPS = float(np.finfo(float).eps)
LINE = 8
"""Rows whose cells are gathered together: numbers that a line of the cache holds."""


@compiled(lambda: (np.eye(2), np.ones(2), np.zeros(2), np.ones(2), np.zeros(1, np.int64), np.zeros((1, 2))))
def _unit(X: Matrix, root: Vector, mean: Vector, length: Vector, chosen: Codes, out: Matrix) -> None:
    """Columns `chosen` of X (n, d) as rows of out (k, n): √s (x - mean)/length, `root` (n,) being √s."""
    for start in range(0, len(X), LINE):
        for a in range(len(chosen)):
            j = chosen[a]
            for i in range(start, min(start + LINE, len(X))):
                out[a, i] = root[i] * (X[i, j] - mean[j]) / length[j]


@dataclass
class Columns:
    """The columns of X as z = √s (x - mean)/length, never all copied: products with them, and Gram matrices of some."""

    X: Matrix
    s: Vector
    mean: Vector
    length: Vector
    sure: Vector
    order: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """(k,) the columns taken so far."""
    products: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    """(m, m), m ≥ k, whose first k rows and columns are theirs: it need not be copied for each new one."""
    _rows: Matrix = field(init=False)
    _place: Codes = field(init=False)

    def __post_init__(self) -> None:
        self._rows, self._place = np.empty((0, len(self.X))), np.full(self.X.shape[1], -1)

    @property
    def taken(self) -> Matrix:
        """(n, k) the columns taken so far."""
        return self._rows[: len(self.order)].T

    @property
    def gram(self) -> Matrix:
        """(k, k) their products."""
        return self.products[: len(self.order), : len(self.order)]

    @classmethod
    def of(cls, X: Matrix, s: Vector, center: bool) -> Columns:
        """O(n d). A column without variation has length 0 and never enters."""
        d = X.shape[1]
        mean, sd, constant = column_moments(X, s)
        if not center:
            sd, mean = np.hypot(np.where(constant, 0.0, sd), mean), np.zeros(d)
            constant = sd == 0.0
        length = np.where(constant, 0.0, sd * np.sqrt(s.sum()))
        scale = np.where(constant, 1.0, sd)
        return cls(X, s, mean, length, 4 * EPS * np.sqrt(len(X)) * (1 + np.abs(mean) / scale))

    def correlations(self, r: Vector) -> Vector:
        """(d,) zⱼᵀ√s r, 0 for columns without variation; O(n d)."""
        weighted = self.s * r
        raw = weighted @ self.X - self.mean * weighted.sum()
        return np.divide(raw, self.length, out=np.zeros_like(raw), where=self.length > 0)

    def take(self, chosen: Codes) -> Codes:
        """Places of columns in `order`, `taken` and `gram`, which grow by those that are new; O(n k) each."""
        fresh = chosen[self._place[chosen] < 0]
        if len(fresh):
            old, new = len(self.order), len(self.order) + len(fresh)
            self._reserve(new)
            self._place[fresh], self.order = np.arange(old, new), np.append(self.order, fresh)
            _unit(self.X, np.sqrt(self.s), self.mean, self.length, fresh, self._rows[old:new])
            self.products[old:new, :new] = self._rows[old:new] @ self._rows[:new].T
            self.products[:old, old:new] = self.products[old:new, :old].T
        return self._place[chosen]

    def _reserve(self, k: int) -> None:
        """Room for k columns, growing by half so that a path does not copy them at each penalty."""
        old, room = len(self.order), len(self.products)
        if k <= room:
            return
        room = min(max(k, room + room // 2), self.X.shape[1])
        rows, products = np.empty((room, len(self.X))), np.empty((room, room))
        rows[:old], products[:old, :old] = self._rows[:old], self.gram
        self._rows, self.products = rows, products

    def residual(self, t: Vector, w: Vector) -> Vector:
        """(n,) t - Σⱼ (xⱼ - mean)/length wⱼ; O(n) for each column taken so far."""
        on = np.flatnonzero(w)
        if not len(on):
            return t.copy()
        self.take(on)
        return np.asarray(t - w[self.order] @ self._rows[: len(self.order)] / np.sqrt(self.s))
