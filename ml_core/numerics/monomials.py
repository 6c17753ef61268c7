"""Monomials of columns, each one multiplication from an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ml_core.arrays import Codes, Matrix, Vector
from ml_core.bundle import portable
from ml_core.numerics.jit import compiled, read_only, read_only_views


@portable
@dataclass(frozen=True)
class Monomials:
    """Which monomials of d columns there are, (k,) each: monomial = monomial `parent` · column `variable`.

    A parent of -1 is the constant 1, which has variable -1 where it is itself a monomial. `power` is the exponent of
    `variable` in the monomial, `degree` the sum of all exponents. Parents come first.
    """

    parent: Codes
    variable: Codes
    power: Codes
    degree: Codes

    @classmethod
    def graded(cls, d: int, degree: int, *, constant: bool, distinct: bool = False) -> Monomials:
        """All of total degree `degree` at most, by degree, then lexicographic; `distinct` has no power above 1."""
        none = np.zeros(0, dtype=np.int64)
        level = cls(none, none, none, none)._with(-1, -1, 0, 0)
        out, first = [level] if constant else [], 0 if constant else -1
        for k in range(1, degree + 1):
            low = np.maximum(level.variable + (distinct and k > 1), 0)
            counts = d - low
            parent = np.repeat(np.arange(len(low)), counts)
            variable = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(low, counts)
            same = variable == level.variable[parent]
            power = np.where(same, level.power[parent] + 1, 1)
            made = cls(parent + first, variable, power, np.full(len(parent), k))
            first = first + len(level.parent) if k > 1 or constant else 0
            out, level = [*out, made], made
        return cls(*(np.concatenate([getattr(m, f) for m in out]) for f in ("parent", "variable", "power", "degree")))

    @classmethod
    def boxed(cls, d: int, most: int) -> Monomials:
        """All whose exponents are `most` at most each, the last column's exponent changing slowest; constant first."""
        none = np.zeros(0, dtype=np.int64)
        m = cls(none, none, none, none)._with(-1, -1, 0, 0)
        for j in range(d):
            block, degree = len(m.parent), m.degree
            for k in range(1, most + 1):
                start = block * (k - 1)
                m = m._with(np.arange(start, start + block), j, k, degree + k)
        return m

    def _with(self, parent: int | Codes, variable: int, power: int, degree: int | Codes) -> Monomials:
        new = np.broadcast_arrays(*(np.atleast_1d(v) for v in (parent, variable, power, degree)))
        old = (self.parent, self.variable, self.power, self.degree)
        return Monomials(*(np.concatenate([a, b]).astype(np.int64) for a, b in zip(old, new, strict=True)))

    def __len__(self) -> int:
        return len(self.parent)

    def of(self, X: Matrix, first: Vector, factor: Vector) -> Matrix:
        """(n, k) values at the rows of X: `first` (n,) instead of 1, times `factor` (k,) at each multiplication."""
        out = np.empty((len(X), len(self)))
        X, parent, variable, factor, first = read_only_views(X, self.parent, self.variable, factor, first)
        products(X, parent, variable, factor, first, out)
        return out

    def exponents(self, d: int) -> Codes:
        """(k, d) exponents of the columns."""
        E = np.zeros((len(self), d), dtype=np.int64)
        for level in range(1, int(self.degree.max(initial=0)) + 1):
            at = np.flatnonzero(self.degree == level)
            inner = at[self.parent[at] >= 0]
            E[inner] = E[self.parent[inner]]
            E[at, self.variable[at]] += 1
        return E

    def names(self, inputs: Sequence[str]) -> list[str]:
        """Names such as `a^2 b`; the constant is `1`."""
        out: list[str] = []
        for k, (variable, power) in enumerate(zip(self.variable.tolist(), self.power.tolist(), strict=True)):
            if variable < 0:
                out.append("1")
                continue
            before = k
            for _ in range(power):
                before = int(self.parent[before])
            own = inputs[variable] if power == 1 else f"{inputs[variable]}^{power}"
            out.append(own if before < 0 or self.variable[before] < 0 else f"{out[before]} {own}")
        return out


def _warm() -> tuple[np.ndarray, ...]:
    one = np.zeros(1, dtype=np.int64)
    return (*read_only(np.ones((2, 1)), one - 1, one, np.ones(1), np.ones(2)), np.empty((2, 1)))


@compiled(_warm)
def products(X: Matrix, parent: Codes, variable: Codes, factor: Vector, first: Vector, out: Matrix) -> None:
    """out[i, k] = (out[i, parent], or first[i] without one) · X[i, variable] · factor[k]; O(n k)."""
    for i in range(X.shape[0]):
        for k in range(parent.shape[0]):
            value = first[i] if parent[k] < 0 else out[i, parent[k]]
            if variable[k] >= 0:
                value *= X[i, variable[k]] * factor[k]
            out[i, k] = value
