"""Growing many trees on resamples, here or on an engine, and their out-of-bag account. No estimator is known here.

Tree t owns two random streams that depend on the forest's seed and on t alone, so the bits of a forest do not depend on
who grows which tree, and its resamples can be drawn again at any time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ml_core import rng
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.parallel import ordered_map, spread_map
from ml_core.progress import pulse, tick
from ml_core.tree import grow as growing
from ml_core.tree.codes import Coded
from ml_core.tree.predict import BLOCK, add_absent, frozen
from ml_core.tree.splits import Rules
from ml_core.tree.structure import NODE

GROUP = 64


@dataclass(frozen=True)
class Resampling:
    """How each tree gets its rows: `draws` of n with replacement from the tree's own stream, or all rows when 0."""

    n: int
    draws: int
    seeds: np.ndarray

    def counts(self, t: int) -> Vector:
        """(n,) how often tree t has each row."""
        out = np.zeros(self.n) if self.draws else np.ones(self.n)
        growing.bootstrap(self.seeds[t, :1].copy(), self.draws, out)
        return out


@dataclass(frozen=True)
class OutOfBag:
    """Mean leaf value of each row over the trees that did not see it (NaN if there is none); error as trees join."""

    proba: Matrix
    seen: Codes
    error: Vector
    coverage: Vector


def resampling(seed: int, trees: int, n: int, draws: int) -> Resampling:
    """Streams of every tree; the first of a pair draws rows, the second features."""
    return Resampling(n, draws, rng.seeds(seed, 2 * trees).reshape(trees, 2))


def grow_trees(
    coded: Coded, labels: np.ndarray, s: Vector, K: int, rules: Rules, plan: Resampling, vote: bool
) -> tuple[list[tuple[np.ndarray, Matrix]], Vector]:
    """[(nodes, values)] per tree, and (d,) importances: decreases of each tree normalised to sum 1, then averaged."""
    grown, total = [], len(plan.seeds)
    for one in spread_map(_grow, range(total), (coded, labels, s, K, rules, plan, vote)):
        grown.append(one)
        tick(len(grown), total, "trees")
    shares = [d / d.sum() if d.sum() > 0 else d for _, _, d in grown]
    mean = np.sum(shares, axis=0)
    return [(nodes, values) for nodes, values, _ in grown], mean / mean.sum() if mean.sum() > 0 else mean


def _grow(
    t: int, coded: Coded, labels: np.ndarray, s: Vector, K: int, rules: Rules, plan: Resampling, vote: bool
) -> tuple[np.ndarray, Matrix, Vector]:
    """Nodes, values and (d,) decreases of tree t."""
    work, state = growing.start_tree(coded, labels, plan.counts(t) * s, K, rules, int(plan.seeds[t, 1]))
    nodes, values = np.empty(min(2 * len(work.row) + 2, 4096), NODE), np.empty((K + 256, K))
    values[:K] = np.eye(K)
    decrease = np.zeros(len(coded.ranks))
    ranks, distinct, start = frozen(coded.ranks), frozen(coded.values), frozen(coded.start)
    while True:
        model = (nodes, values, decrease)
        status = growing.grow(ranks, distinct, start, *model, work, rules, vote, state, growing.CHUNK)
        if status == growing.DONE:
            return nodes[: state[growing.USED]].copy(), values[: state[growing.VALUES]].copy(), decrease
        if status == growing.FULL:
            nodes, values = _roomier(nodes, state[growing.USED]), _roomier(values, state[growing.VALUES])
        pulse()


def _roomier(a: np.ndarray, used: int) -> np.ndarray:
    """The array with twice the room if it is more than half full."""
    return np.concatenate([a, np.empty_like(a)]) if 2 * used > len(a) else a


Forest = tuple[np.ndarray, np.ndarray, Matrix]


def out_of_bag(forest: Forest, X: Matrix, y: Codes, s: Vector, plan: Resampling) -> OutOfBag:
    """Predict each row by the trees whose resample lacks it; O(n T depth) and GROUP·n bytes, rows in parallel."""
    nodes, roots, values = (frozen(a) for a in forest)
    X, y, s = frozen(X), frozen(y), frozen(s)
    total, seen = np.zeros((plan.n, values.shape[1])), np.zeros(plan.n, np.int64)
    curve = np.zeros((len(roots), 2))
    for first in range(0, len(roots), GROUP):
        group = roots[first : first + GROUP]
        absent = np.stack(list(ordered_map(lambda t: plan.counts(t) == 0, range(first, first + len(group)))))
        absent = frozen(absent)

        def block(i: int, group: np.ndarray = group, absent: np.ndarray = absent) -> np.ndarray:
            part, at = np.zeros((len(group), 2)), slice(i, i + BLOCK)
            add_absent(nodes, group, values, X[at], absent[:, at], y[at], s[at], total[at], seen[at], part)
            return part

        curve[first : first + len(group)] = np.sum(list(ordered_map(block, range(0, plan.n, BLOCK))), axis=0)
    with np.errstate(invalid="ignore"):
        return OutOfBag(total / seen[:, None], seen, curve[:, 0] / curve[:, 1], curve[:, 1] / s.sum())
