"""Loss ∘ linear predictor as one objective, summed over row blocks that stay in cache; X is never copied.

Unknowns are V (D, q) in standardised columns z = (x - mean)/scale, the intercept in the last row: solvers see a well
scaled problem and answers return in the units of X. Partial sums follow fixed row ranges, whatever the threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.losses.base import TwiceSmooth
from ml_core.parallel import ordered_map, row_ranges
from ml_core.solvers.leverage_sample import squared_lengths, systematic
from ml_core.solvers.weighted_products import add_products, blocks, room_for

BLOCK = 1 << 18
CHUNKS = 8
CHUNK_CELLS = 1 << 19
SAMPLE = 8192
OFFSET = 8.0
NEAR_ONE = 10  # powers of two
EXTREME = 1e60
TINY = 1e-15


@dataclass(frozen=True)
class Columns:
    """Centre and scale per column, (d,); `direct`: raw blocks are accurate enough and need no standardising."""

    mean: Vector
    scale: Vector
    constant: Vector
    direct: bool

    @classmethod
    def of(cls, X: Matrix, s: Vector, centre: bool) -> Columns:
        """From every n/8192-th row (scales need not be exact), and from all rows where those show no spread."""
        every = max(1, len(X) // SAMPLE)
        mean, scale = _moments(X[::every], s[::every], centre)
        flat = np.flatnonzero(scale <= TINY * np.abs(mean))
        if len(flat) and len(X) > SAMPLE:
            mean[flat], scale[flat] = _moments(X[:, flat], s, centre)
        return cls.scaled(mean, scale)

    @classmethod
    def scaled(cls, mean: Vector, scale: Vector) -> Columns:
        """Of centres and deviations from them; a column without spread keeps its unit."""
        constant = scale <= TINY * np.abs(mean)
        scale = np.where(constant, 1.0, scale)
        near = bool((np.abs(mean) <= OFFSET * scale).all())
        mild = bool(((scale < EXTREME) & (scale > 1 / EXTREME)).all())
        return cls(mean, scale, constant.astype(np.float64), near and mild)


def _moments(X: Matrix, s: Vector, centre: bool) -> tuple[Vector, Vector]:
    """Weighted mean (0 unless `centre`) and root mean square deviation from it, safe from overflow."""
    top = np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
    Y = X / top
    w = s / s.sum()
    mean = w @ Y if centre else np.zeros(X.shape[1])
    mean = np.where(Y.min(axis=0) == Y.max(axis=0), Y[0] * centre, mean)
    return mean * top, np.sqrt(w @ np.square(Y - mean)) * top


def unit_of(s: Vector) -> float:
    """The power of two next to the mean weight where that is far from 1, else 1: solvers stop in standard errors."""
    power = round(float(np.log2(s.mean())))
    return 2.0**power if abs(power) > NEAR_ONE else 1.0


class LinearObjective:
    """f(V) = Σᵢ sᵢ ℓ(z̃ᵢᵀV, yᵢ) + ½ alpha ‖W‖², W the slopes in the units of X; the intercept b is free.

    With `penalize_bias` the penalty is ½ alpha (‖W‖² + ‖b‖²), b the intercept at X = 0: b = uᵀV, u the last row of
    `to_raw`. Cost of a gradient O(n D q), of a Hessian O(n D² q²/2).
    """

    def __init__(
        self, X: Matrix, y: Vector, s: Vector, loss: TwiceSmooth, *, alpha: float = 0.0, fit_intercept: bool = True,
        columns: Columns | None = None, penalize_bias: bool = False,
    ) -> None:  # fmt: skip
        self.X, self.y, self.s, self.loss, self.alpha, self.fit_intercept = X, y, s, loss, alpha, fit_intercept
        self.columns = columns or Columns.of(X, s, fit_intercept)
        self.l2 = np.zeros(X.shape[1] + fit_intercept)
        if alpha > 0:
            with np.errstate(over="ignore", divide="ignore"):
                self.l2[: X.shape[1]] = np.minimum(alpha / np.square(self.columns.scale), np.finfo(float).max ** 0.5)
        self.penalize_bias = penalize_bias and fit_intercept and alpha > 0
        self.bias = alpha**0.5 * self.to_raw[-1] if self.penalize_bias else None

    @property
    def shape(self) -> tuple[int, int]:
        """(D, q)."""
        return self.X.shape[1] + self.fit_intercept, self.loss.width

    @property
    def size(self) -> int:
        """Number of unknowns D q."""
        return self.shape[0] * self.shape[1]

    @property
    def hessian_cost(self) -> float:
        """Time of a pass with Hessian in passes without, as measured for 10 to 200 columns and 1 to 20 predictors."""
        D, q = self.shape
        return 2.0 + D / 32 if q == 1 else 3.0 + D * q / 24

    def zero(self) -> Vector:
        """The starting point 0, flat."""
        return np.zeros(self.size)

    def thin(self, factor: int) -> LinearObjective:
        """An estimate of this objective from every `factor`-th row on average, those far from the centre first."""
        rows, chance = systematic(self.s * (1.0 + self._lengths()), len(self.X) // factor)
        return LinearObjective(
            self.X[rows], self.y[rows], self.s[rows] / chance, self.loss, alpha=self.alpha,
            fit_intercept=self.fit_intercept, columns=self.columns, penalize_bias=self.penalize_bias,
        )  # fmt: skip

    def in_units_of(self, unit: float) -> LinearObjective:
        """This objective over `unit`: the same minimiser, of weights that lie near 1."""
        return LinearObjective(self.X, self.y, self.s / unit, self.loss, alpha=self.alpha / unit,
                               fit_intercept=self.fit_intercept, columns=self.columns,
                               penalize_bias=self.penalize_bias)  # fmt: skip

    def pack(self, W: Matrix, b: Vector, at: Vector | float = 0.0) -> Vector:
        """Slopes (q, d) in the units of X and predictors (q,) at the point `at` (d,) → flat unknowns."""
        V = W.T * self.columns.scale[:, None]
        return np.vstack([V, b + W @ (self.columns.mean - at)]).ravel() if self.fit_intercept else V.ravel()

    def unpack(self, v: Vector, at: Vector | float = 0.0) -> tuple[Matrix, Vector]:
        """The way back; the slope of a constant column is 0 if b is free."""
        d = self.X.shape[1]
        V = v.reshape(self.shape)
        idle = (self.columns.constant[:, None] > 0) & (not self.penalize_bias)
        slopes = np.where(idle, 0.0, V[:d] / self.columns.scale[:, None])
        W = np.ascontiguousarray(slopes.T)
        return W, V[d] - W @ (self.columns.mean - at) if self.fit_intercept else np.zeros(len(W))

    @cached_property
    def to_raw(self) -> Matrix:
        """T (D, D) with (slopes, intercept) = T V; covariances follow as T C Tᵀ."""
        D, d = self.shape[0], self.X.shape[1]
        T = np.eye(D)
        T[np.arange(d), np.arange(d)] = 1.0 / self.columns.scale
        if self.fit_intercept:
            T[d, :d] = -self.columns.mean / self.columns.scale
        return T

    def predictor(self, v: Vector) -> Matrix:
        """(n, q) η."""
        W, c = self._slopes(v)
        return np.vstack([self._rows(slice(a, b)) @ W + c for a, b in self._blocks(0, len(self.X)) or [(0, 0)]])

    def standardised(self) -> Matrix:
        """Z̃ (n, D), a copy of all rows in standardised columns, 1 last with an intercept."""
        Z, d = np.ones((len(self.X), self.shape[0])), self.X.shape[1]
        np.subtract(self.X, self.columns.mean, out=Z[:, :d])
        Z[:, :d] /= self.columns.scale
        return Z

    def value_gradient(self, v: Vector) -> tuple[float, Vector]:
        """f and its gradient, flat."""
        f, g, _ = self._sum(v, second=False)
        return f, g

    def second(self, v: Vector) -> tuple[float, Vector, Matrix]:
        """f, gradient and Hessian (Dq, Dq)."""
        f, g, H = self._sum(v, second=True)
        assert H is not None  # noqa: S101 - asked for
        return f, g, H

    def curvature_change(self, rows: np.ndarray, before: Matrix, after: Matrix) -> Matrix:
        """(Dq, Dq) by which the Hessian changes where predictors of some rows go from `before` to `after` (m, q)."""
        D, q = self.shape

        def change(piece: slice) -> np.ndarray:
            at, total = rows[piece], room_for(q, D)
            C = self.loss.all(after[piece], self.y[at])[2] - self.loss.all(before[piece], self.y[at])[2]
            add_products(total, self._rows(at), C, self.s[at], D)
            return total

        total = room_for(q, D)
        for part in ordered_map(change, row_ranges(len(rows), D * q)):
            total += part
        return self._flat(total)

    def partial_gradient(self, v: Vector, rows: np.ndarray) -> Vector:
        """Unbiased estimate of the gradient from some rows, flat."""
        Z = (self.X[rows] - self.columns.mean) / self.columns.scale
        V, d = v.reshape(self.shape), self.X.shape[1]
        eta = Z @ V[:d] + (V[d] if self.fit_intercept else 0.0)
        r = self.loss.gradient(eta, self.y[rows]) * (self.s[rows] * (len(self.X) / len(rows)))[:, None]
        G = np.vstack([Z.T @ r, r.sum(axis=0)]) if self.fit_intercept else Z.T @ r
        return (G + self._pull(V)).ravel()

    def _pull(self, V: Matrix) -> Matrix:
        """(D, q) slopes of the penalty."""
        pull = self.l2[:, None] * V
        return pull if self.bias is None else pull + np.outer(self.bias, self.bias @ V)

    def _blocks(self, start: int, stop: int) -> list[tuple[int, int]]:
        D, q = self.shape
        rows = max(32, BLOCK // (D * q))
        return [(a, min(a + rows, stop)) for a in range(start, stop, rows)]

    def _lengths(self) -> Vector:
        """(n,) ‖z‖², cut off at n d, which it could not exceed if the scales were exact."""
        X, mean, scale, most = self.X, self.columns.mean, self.columns.scale, float(self.X.size)
        pieces = ordered_map(lambda at: squared_lengths(X[at], mean, scale, most), row_ranges(*X.shape))
        return np.concatenate(list(pieces))

    def _rows(self, at: slice | np.ndarray) -> Matrix:
        if self.columns.direct:
            return self.X[at]
        Z = self.X[at] - self.columns.mean
        Z /= self.columns.scale
        return Z

    def _slopes(self, v: Vector) -> tuple[Matrix, Vector]:
        """Slopes (d, q) and intercepts (q,) of rows as `_rows` gives them."""
        if self.columns.direct:
            W, b = self.unpack(v)
            return W.T, b
        V, d = v.reshape(self.shape), self.X.shape[1]
        return V[:d], V[d] if self.fit_intercept else np.zeros(V.shape[1])

    def _sum(self, v: Vector, *, second: bool) -> tuple[float, Vector, Matrix | None]:
        n, (D, q) = len(self.X), self.shape
        count = CHUNKS if self.X.size * q > CHUNK_CELLS else 1
        edges = [n * i // count for i in range(count + 1)]
        slopes = self._slopes(v)
        parts = ordered_map(lambda r: self._chunk(r[0], r[1], slopes, second), pairwise(edges))
        f, G, H = next(parts)
        for fi, Gi, Hi in parts:
            f, G = f + fi, G + Gi
            H += Hi
        V = v.reshape(D, q)
        pull = self._pull(V)
        f += 0.5 * float((V * pull).sum())
        G = (self.to_raw.T @ G if self.columns.direct else G) + pull
        return f, G.ravel(), self._penalised(self._flat(H)) if second else None

    def _flat(self, H: np.ndarray) -> Matrix:
        """A sum of products of raw rows as one matrix (Dq, Dq) over standardised rows, in the order of the unknowns."""
        D, q = self.shape
        parts = blocks(H, q, D)
        if self.columns.direct:
            parts = self.to_raw.T @ parts @ self.to_raw
        return np.ascontiguousarray(parts.transpose(2, 0, 3, 1).reshape(D * q, D * q))

    def _penalised(self, H: Matrix) -> Matrix:
        """With the penalty's part."""
        q = self.loss.width
        H.flat[:: len(H) + 1] += np.repeat(self.l2, q)
        if self.bias is not None:
            H += np.kron(np.outer(self.bias, self.bias), np.eye(q))
        return H

    def _chunk(
        self, start: int, stop: int, slopes: tuple[Matrix, Vector], second: bool
    ) -> tuple[float, Matrix, np.ndarray]:
        """Sums of value, gradient (D, q) and Hessian, as `room_for` lays it out, over a range of rows."""
        D, q = self.shape
        f, G, H = 0.0, np.zeros((D, q)), room_for(q, D) if second else np.zeros(0)
        d, (W, c) = self.X.shape[1], slopes
        for a, b in self._blocks(start, stop):
            Z, y, s = self._rows(slice(a, b)), self.y[a:b], self.s[a:b]
            eta = (W.T @ Z.T).T + c
            if second:
                value, r, C = self.loss.all(eta, y)
                add_products(H, Z, C, s, D)
            else:
                value, r = self.loss.value_gradient(eta, y)
            r = r * s[:, None]
            f += float(s @ value)
            G[:d] += (r.T @ Z).T
            G[d:] += r.sum(axis=0)
        return f, G, H
