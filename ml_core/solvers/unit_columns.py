"""Columns of a table as unit vectors, of which only those that a solver asks for are ever formed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.numerics.column_moments import column_moments

EPS = float(np.finfo(float).eps)


@dataclass
class Columns:
    """The columns of X as z = √s (x - mean)/length, never all copied: products with them, and Gram matrices of some."""

    X: Matrix
    s: Vector
    mean: Vector
    length: Vector
    sure: Vector
    place: dict[int, int] = field(default_factory=dict)
    _taken: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    _gram: Matrix = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def taken(self) -> Matrix:
        """(n, k) the columns taken so far."""
        return self._taken[:, : len(self.place)]

    @property
    def gram(self) -> Matrix:
        """(k, k) their products."""
        return self._gram[: len(self.place), : len(self.place)]

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

    def take(self, chosen: np.ndarray) -> np.ndarray:
        """Places of columns in `taken` (n, k) and `gram` (k, k), which grow by those that are new; O(n k) each."""
        fresh = [int(j) for j in chosen if int(j) not in self.place]
        if fresh:
            old, new = len(self.place), len(self.place) + len(fresh)
            self._reserve(new)
            Z = np.sqrt(self.s)[:, None] * (self.X[:, fresh] - self.mean[fresh]) / self.length[fresh]
            self.place.update({j: old + i for i, j in enumerate(fresh)})
            self._taken[:, old:new] = Z
            self._gram[:new, old:new] = self._taken[:, :new].T @ Z
            self._gram[old:new, :old] = self._gram[:old, old:new].T
        return np.array([self.place[int(j)] for j in chosen], dtype=np.int64)

    def _reserve(self, k: int) -> None:
        """Room for k columns, growing by half so that a path does not copy them at each penalty."""
        old, room = len(self.place), self._gram.shape[0]
        if k <= room:
            return
        room = min(max(k, room + room // 2), self.X.shape[1])
        taken, gram = np.empty((len(self.X), room), order="F"), np.empty((room, room))
        if old:
            taken[:, :old], gram[:old, :old] = self.taken, self.gram
        self._taken, self._gram = taken, gram

    def residual(self, t: Vector, w: Vector) -> Vector:
        """(n,) t - Σⱼ (xⱼ - mean)/length wⱼ; O(n) for each column taken so far."""
        on = np.flatnonzero(w)
        if not len(on):
            return t.copy()
        at = self.take(on)
        here = np.zeros(len(self.place))
        here[at] = w[on]
        return np.asarray(t - self.taken @ here / np.sqrt(self.s))
