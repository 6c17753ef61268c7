"""The perceptron's corrections of w by rows on the wrong side, and the margin that bounds their number.

References
----------
Novikoff (1962), On convergence proofs on perceptrons, Symposium on the Mathematical Theory of Automata 12.
Gallant (1990), Perceptron-based learning algorithms, IEEE Transactions on Neural Networks 1(2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import nnls

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.jit import compiled, inner, read_only, regrouped
from ml_core.rng import generator
from ml_core.solvers.base import spent
from ml_core.solvers.centres import frozen

Mode = Literal["cyclic", "stochastic", "batch"]
TOGETHER = 1_000_000
"""Cells that are visited between two looks at whether to go on."""
MOST_MARGIN_ROWS = 2000
"""Rows up to which the widest margin is found; its search keeps their products."""


@dataclass(frozen=True)
class Run:
    """Weights (d + 1,), the bias last: those at the end, and those with the least weight of rows on the wrong side.

    `mistakes` are the corrections made. `moved` and `squares` are the sums of their row weights and of the squares of
    these (of a batch step the weights of its rows together), `errors` the share of wrong rows after each epoch.
    """

    last: Vector
    pocket: Vector
    error: float
    mistakes: int
    epochs: int
    converged: bool
    moved: float
    squares: float
    errors: list[float]


@regrouped
def _score(x: Vector, w: Vector, bias: float) -> float:
    """x·w + b."""
    f = w[-1] * bias
    for j in range(len(x)):
        f += w[j] * x[j]
    return f


@inner
def _correct(X: Matrix, t: Vector, s: Vector, order: Codes, w: Vector, bias: float, eta: float, made: Vector) -> None:
    """One pass in the given order: where t(x·w + b) ≤ 0, w ← w + η s t x; `made` counts corrections, Σ s and Σ s²."""
    d = X.shape[1]
    for i in order:
        if t[i] * _score(X[i], w, bias) <= 0.0:
            step = eta * s[i] * t[i]
            for j in range(d):
                w[j] += step * X[i, j]
            w[d] += step * bias
            made[0] += 1.0
            made[1] += s[i]
            made[2] += s[i] * s[i]


@inner
def _together(X: Matrix, t: Vector, s: Vector, w: Vector, bias: float, eta: float, made: Vector) -> None:
    """w ← w + η Σ s t x over all rows on the wrong side, counted as one correction of their weight."""
    d, total = X.shape[1], 0.0
    step = np.zeros(d + 1)
    for i in range(len(X)):
        if t[i] * _score(X[i], w, bias) <= 0.0:
            for j in range(d):
                step[j] += s[i] * t[i] * X[i, j]
            step[d] += s[i] * t[i] * bias
            total += s[i]
    if total > 0.0:
        for j in range(d + 1):
            w[j] += eta * step[j]
        made[0] += 1.0
        made[1] += total
        made[2] += total * total


@inner
def _equal(a: Vector, b: Vector) -> bool:
    return bool((a == b).all())


@inner
def _wrong(X: Matrix, t: Vector, s: Vector, w: Vector, bias: float) -> float:
    """The weight of the rows with t(x·w + b) ≤ 0."""
    out = 0.0
    for i in range(len(X)):
        if t[i] * _score(X[i], w, bias) <= 0.0:
            out += s[i]
    return out


def _warm() -> tuple[Any, ...]:
    X, t, order = read_only(np.ones((2, 1)), np.ones(2), np.zeros((1, 2), np.int64))
    return X, t, t, order, False, np.zeros(2), 1.0, 1.0, np.zeros(2), np.zeros(1), np.zeros(4), np.zeros(2), 0


@compiled(_warm)
def _epochs(
    X: Matrix, t: Vector, s: Vector, orders: Codes, batch: bool, w: Vector, bias: float, eta: float, pocket: Vector,
    errors: Vector, made: Vector, mark: Vector, first: int,
) -> int:  # fmt: skip
    """Epochs until no row is on the wrong side, at most one for each entry of `errors`, in place; how many.

    It ends too when w comes back to `mark`, the weights after the last epoch (from `first` on) whose number is a power
    of 2; with `first` -1 there is no mark.

    `orders` (e, n) are their rows, the last for all that follow; with `batch` a step of all rows together. `errors`
    become the weights of wrong rows after each; `pocket` the weights w after the best where that is below errors[0].
    """
    best = errors[0]
    for e in range(len(errors)):
        if batch:
            _together(X, t, s, w, bias, eta, made)
        else:
            _correct(X, t, s, orders[min(e, len(orders) - 1)], w, bias, eta, made)
        errors[e] = _wrong(X, t, s, w, bias)
        if errors[e] < best:
            best = errors[e]
            pocket[:] = w
        if errors[e] == 0.0:
            return e + 1
        if first >= 0 and _equal(w, mark):
            made[3] = 1.0
            return e + 1
        number = first + e + 1
        if first >= 0 and number & (number - 1) == 0:
            mark[:] = w
    return len(errors)


@compiled(lambda: (*read_only(np.ones((2, 1)), np.ones(2)), np.ones(2), np.zeros(2), 1.0))
def _wrong_weight(X: Matrix, t: Vector, s: Vector, w: Vector, bias: float) -> float:
    return _wrong(X, t, s, w, bias)


def wrong_share(X: Matrix, t: Vector, s: Vector, w: Vector, bias: float) -> float:
    """The share of the weight s (n,) with t(x·w + b) ≤ 0: rows on the boundary are not classified."""
    X, t, s, w = frozen(X, t, s, w)
    return float(_wrong_weight(X, t, s, w, bias)) / float(s.sum())


@dataclass(frozen=True)
class Rows:
    """Signed rows as the epochs take them: X (n, d), t = ±1, weights s (n,), bias 1 or 0, and how w is corrected."""

    X: Matrix
    t: Vector
    s: Vector
    mode: Mode
    bias: float
    eta: float

    def epochs(self, w: Vector, pocket: Vector, most: int, below: float, orders: Codes | None = None,
               mark: Vector | None = None, first: int = -1) -> Passed:  # fmt: skip
        """At most `most` epochs, in place; `pocket` follows where wrong rows weigh less than `below`.

        With `mark` they end where w comes back to earlier weights; `first` is the number of epochs before.
        """
        X, t, s, orders = frozen(self.X, self.t, self.s, np.arange(len(self.X))[None] if orders is None else orders)
        errors, made = np.full(most, below), np.zeros(4)
        done = _epochs(X, t, s, orders, self.mode == "batch", w, self.bias, self.eta, pocket, errors, made,
                       w.copy() if mark is None else mark, first)  # fmt: skip
        moved, squares, repeated = float(made[1]), float(made[2]), bool(made[3])
        return Passed(errors[:done], int(made[0]), moved, squares, repeated)


@dataclass(frozen=True)
class Passed:
    """Weights of wrong rows after each epoch, corrections, sums of their weights and squares, whether w came back."""

    wrong: Vector
    mistakes: int
    moved: float
    squares: float
    repeated: bool


def perceptron(rows: Rows, start: Vector, *, max_epochs: int, seed: int, path: int) -> Run:
    """Epochs until no row is on the wrong side, `max_epochs`, or time is over; O(n d) each.

    In every mode the risk Σ s [-t f]₊ may rise by a step, so that nothing is concluded from a rise. A cyclic order that
    comes back to earlier weights would repeat them for ever: after that rows are drawn.
    """
    n, total = len(rows.X), float(rows.s.sum())
    w, pocket = start.copy(), start.copy()
    errors = [wrong_share(rows.X, rows.t, rows.s, w, rows.bias)]
    mistakes, moved, squares, epoch = 0, 0.0, 0.0, 0
    mark, repeats = w.copy(), False
    while errors[-1] > 0 and not spent(epoch, max_epochs):
        most = min(max_epochs - epoch, max(1, TOGETHER // rows.X.size))
        orders, watched = None, rows.mode == "cyclic" and not repeats
        if rows.mode == "stochastic" or repeats:
            orders = np.array([generator(seed, path, epoch + e).integers(n, size=n) for e in range(most)])
        given = (mark, epoch) if watched else (None, -1)
        found = rows.epochs(w, pocket, most, min(errors) * total, orders, *given)
        repeats = repeats or found.repeated
        errors += (found.wrong / total).tolist()
        mistakes, moved, squares = mistakes + found.mistakes, moved + found.moved, squares + found.squares
        epoch += len(found.wrong)
        progress.tick(epoch, max_epochs, "epochs", error=errors[-1])
    return Run(w, pocket, min(errors), mistakes, epoch, errors[-1] == 0, moved, squares, errors)


def margin(Z: Matrix, w: Vector) -> float:
    """The least z·w/‖w‖ over the rows; -inf where w = 0."""
    size = float(np.linalg.norm(w))
    return float((Z @ w).min()) / size if size > 0 else -np.inf


def widest_margin(Z: Matrix, w: Vector) -> float:
    """The largest margin of any direction over rows Z (n, D) = t (x, 1), which `w` separates; at least that of w.

    The shortest v with Zv ≥ 1 by least-distance programming, for at most 2,000 rows; never more than is attained.
    """
    own = margin(Z, w)
    if len(Z) > MOST_MARGIN_ROWS:
        return own
    unit = float(np.sqrt((Z * Z).sum(axis=1).max()))
    E = np.vstack([Z.T / unit, np.ones(len(Z))])
    f = np.zeros(len(E))
    f[-1] = 1.0
    r = E @ nnls(E, f)[0] - f
    return max(own, margin(Z, -r[:-1] / r[-1])) if r[-1] < 0 else own
