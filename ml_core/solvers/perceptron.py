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
from ml_core.numerics.jit import compiled, read_only
from ml_core.rng import generator
from ml_core.solvers.centres import frozen

Mode = Literal["cyclic", "stochastic", "batch"]
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


def _warm() -> tuple[Any, ...]:
    X, t = read_only(np.ones((2, 1)), np.ones(2))
    return X, t, t, np.arange(2), np.zeros(2), 1.0, 1.0


@compiled(_warm)
def correct(
    X: Matrix, t: Vector, s: Vector, order: Codes, w: Vector, bias: float, eta: float
) -> tuple[int, float, float]:
    """One pass in the given order: where t(x·w + b) ≤ 0, w ← w + η s t x, in place; corrections, Σ s and Σ s²."""
    d = X.shape[1]
    mistakes, moved, squares = 0, 0.0, 0.0
    for k in range(order.shape[0]):
        i = order[k]
        f = w[d] * bias
        for j in range(d):
            f += w[j] * X[i, j]
        if t[i] * f <= 0.0:
            step = eta * s[i] * t[i]
            for j in range(d):
                w[j] += step * X[i, j]
            w[d] += step * bias
            mistakes += 1
            moved += s[i]
            squares += s[i] * s[i]
    return mistakes, moved, squares


def batch_step(X: Matrix, t: Vector, s: Vector, w: Vector, bias: float, eta: float) -> tuple[int, float, float]:
    """w ← w + η Σ s t x over all rows on the wrong side, in place; how `correct` counts, as one correction."""
    wrong = wrong_side(X, t, w, bias)
    if not wrong.any():
        return 0, 0.0, 0.0
    step = eta * (s * t)[wrong]
    w[:-1] += step @ X[wrong]
    w[-1] += step.sum() * bias
    total = float(s[wrong].sum())
    return 1, total, total * total


def wrong_side(X: Matrix, t: Vector, w: Vector, bias: float) -> np.ndarray:
    """(n,) whether t(x·w + b) ≤ 0: rows on the boundary are not classified."""
    return np.asarray(t * (X @ w[:-1] + bias * w[-1]) <= 0)


def one_pass(
    X: Matrix, t: Vector, s: Vector, w: Vector, *, mode: Mode, bias: float, eta: float, rng: np.random.Generator | None
) -> tuple[int, float, float]:
    """One epoch, in place: rows in their order, n rows drawn with replacement, or one step of the whole batch."""
    if mode == "batch":
        return batch_step(X, t, s, w, bias, eta)
    n = len(X)
    order = np.arange(n) if mode == "cyclic" or rng is None else rng.integers(n, size=n)
    X, t, s = frozen(X, t, s)
    return correct(X, t, s, order.astype(np.int64), w, bias, eta)


def perceptron(
    X: Matrix, t: Vector, s: Vector, start: Vector, *, mode: Mode, bias: float, eta: float, max_epochs: int, seed: int,
    path: int,
) -> Run:  # fmt: skip
    """Epochs until no row (signs t, weights s) is on the wrong side, or `max_epochs`; O(n d) each.

    In every mode the risk Σ s [-t f]₊ may rise by a step, so that nothing is concluded from a rise.
    """
    w, total = start.copy(), float(s.sum())
    error = float(s[wrong_side(X, t, w, bias)].sum()) / total
    pocket, best, errors = w.copy(), error, [error]
    mistakes, moved, squares, epoch = 0, 0.0, 0.0, 0
    while error > 0 and epoch < max_epochs:
        rng = generator(seed, path, epoch) if mode == "stochastic" else None
        m, a, b = one_pass(X, t, s, w, mode=mode, bias=bias, eta=eta, rng=rng)
        mistakes, moved, squares, epoch = mistakes + m, moved + a, squares + b, epoch + 1
        error = float(s[wrong_side(X, t, w, bias)].sum()) / total
        errors.append(error)
        if error < best:
            pocket, best = w.copy(), error
        progress.tick(epoch, max_epochs, "epochs", error=error)
    return Run(w, pocket, best, mistakes, epoch, error == 0, moved, squares, errors)


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
