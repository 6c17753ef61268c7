"""Greedy growth of one classification tree over ranked columns, compiled and resumable.

Explicit stack, the smaller child first, so the stack never holds more than log2 n nodes. Once a node is small enough
its rows are copied side by side, and its whole subtree is grown inside the cache.
"""

from __future__ import annotations

import numpy as np

from ml_core.numerics.jit import compiled, merged, read_only
from ml_core.tree.borrow import borrowed
from ml_core.tree.codes import Coded
from ml_core.tree.splits import BINS, Rules, Work, best_split, borrow, draw, quality
from ml_core.tree.structure import LEAF, NODE

DONE, PAUSED, FULL = 0, 1, 2
STACK, USED, VALUES, INSIDE = 0, 1, 2, 3
CACHE_CODES = 1 << 17
DENSE_CELLS = 1 << 18
CHUNK = 1 << 24


@merged
def middle(a, b):  # type: ignore[no-untyped-def]
    """Threshold t between neighbouring values, a ≤ t < b, so that x ≤ t tells them apart even if one ulp apart."""
    t = a + (b - a) / 2.0
    if not np.isfinite(t):
        t = a / 2.0 + b / 2.0
    if a <= t < b:
        return t
    return a


@merged
def partition(column, work, start, n, cut):  # type: ignore[no-untyped-def]
    """Move the rows with code < cut to the front, in order: (rows on the left, their largest code, the least right)."""
    row, label, weight = work.row, work.label, work.weight
    left, right = start, 0
    below, above = np.int64(-1), np.int64(1) << 40
    for i in range(start, start + n):
        r, y, s = row[i], label[i], weight[i]
        c = np.int64(column[r])
        row[left], label[left], weight[left] = r, y, s
        work.spare_row[right], work.spare_label[right], work.spare_weight[right] = r, y, s
        if c < cut:
            left += 1
            below = max(below, c)
        else:
            right += 1
            above = min(above, c)
    for i in range(right):
        row[left + i] = work.spare_row[i]
        label[left + i] = work.spare_label[i]
        weight[left + i] = work.spare_weight[i]
    return left - start, below, above


@merged
def count(work, start, n):  # type: ignore[no-untyped-def]
    """Class weights of the node into work.counts[0]: (total weight, largest class)."""
    c = work.counts[0]
    c[:] = 0.0
    for i in range(start, start + n):
        c[work.label[i]] += work.weight[i]
    w, top = 0.0, 0
    for k in range(len(c)):
        w += c[k]
        if c[k] > c[top]:
            top = k
    return w, top


@merged
def set_leaf(nodes, values, work, state, node, w, top, vote):  # type: ignore[no-untyped-def]
    """Leaf with the posterior of its rows; pure leaves and votes share the first K rows of `values`."""
    c = work.counts[0]
    nodes[node].feature = LEAF
    nodes[node].threshold = 0.0
    if vote or c[top] >= w:
        nodes[node].left = top
        return
    at = state[VALUES]
    nodes[node].left = at
    for k in range(len(c)):
        values[at, k] = c[k] / w
    state[VALUES] += 1


@merged
def push_children(stack, state, left, start, n, n_left, depth):  # type: ignore[no-untyped-def]
    """The larger child first, so that the smaller one is grown first."""
    at = state[STACK]
    first = 0 if n_left >= n - n_left else 1
    for side in (first, 1 - first):
        stack[at, 0] = start + side * n_left
        stack[at, 1] = n_left if side == 0 else n - n_left
        stack[at, 2] = left + side
        stack[at, 3] = depth + 1
        at += 1
    state[STACK] = at


@merged
def move_inside(codes, work, start, n):  # type: ignore[no-untyped-def]
    """Copy the node's codes side by side into work.local and renumber its rows 0 … n-1."""
    for j in range(codes.shape[0]):
        for i in range(n):
            work.local[j, i] = codes[j, work.row[start + i]]
    for i in range(n):
        work.row[start + i] = i


@merged
def grow_node(codes, values_of, start_of, nodes, values, importance, work, rules, vote, state, task):  # type: ignore[no-untyped-def]
    """Split one node and push its children, or make it a leaf."""
    start, n, node, depth = task
    w, top = count(work, start, n)
    c = work.counts[0]
    if c[top] < rules.purity * w and c[top] < w and n >= rules.min_samples_split and depth < rules.max_depth:
        q, feature, cut = best_split(codes, work, rules, start, n, w)
        gain = (q - quality(rules.cost, c, w)) / w
        if feature >= 0 and gain >= rules.min_gain - 1e-12:
            n_left, below, above = partition(codes[feature], work, start, n, cut)
            base = start_of[feature]
            nodes[node].feature = feature
            nodes[node].left = state[USED]
            nodes[node].threshold = middle(values_of[base + below], values_of[base + above])
            importance[feature] += max(gain, 0.0) * w
            push_children(work.stack, state, state[USED], start, n, n_left, depth)
            state[USED] += 2
            return
    set_leaf(nodes, values, work, state, node, w, top, vote)


def _warm_grow() -> tuple[object, ...]:
    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
    coded = Coded(X.T.astype(np.uint32).copy(), np.array([0.0, 1.0, 2.0, 0.0, 1.0]), np.array([0, 3, 5]))
    rules = Rules(0, 1, 0.0, 1.0, 2, 1, 9, False)
    labels = np.array([0, 1, 0], dtype=np.int32)
    work, state = start_tree(coded, labels, np.ones(3), 2, rules, 1)
    model = (np.empty(8, NODE), np.eye(9, 2), np.zeros(2))
    return (*read_only(coded.ranks, coded.values, coded.start), *model, work, rules, False, state, 1)


def start_tree(
    coded: Coded, labels: np.ndarray, weights: np.ndarray, K: int, rules: Rules, seed: int
) -> tuple[Work, np.ndarray]:
    """Scratch of one tree over the rows of positive weight, and the state of its growth with the root on the stack."""
    d = len(coded.ranks)
    row = np.flatnonzero(weights > 0).astype(np.int32)
    n = len(row)
    room = min(n, max(BINS, CACHE_CODES // d)) if d <= 8 * rules.max_features else 0
    cells = min(max(BINS, DENSE_CELLS // K), int(coded.distinct.max()) + 1) if rules.exact else BINS
    work = Work(
        row, labels[row], weights[row],
        np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n),
        np.empty(n, np.uint32), np.empty(n, np.uint64),
        np.zeros((3, K)), np.zeros(max(cells, BINS) * K), np.zeros(max(cells, BINS), np.int64),
        np.arange(d, dtype=np.int32), np.empty((d, room), np.uint32), np.zeros((130, 4), np.int64),
        np.array([seed], dtype=np.uint64),
    )  # fmt: skip
    state = np.array([1, 1, K, -1], dtype=np.int64)
    work.stack[0] = (0, n, 0, 0)
    return work, state


@merged
def grow_on(codes, values_of, start_of, nodes, values, importance, work, rules, vote, state, budget):  # type: ignore[no-untyped-def]
    """The loop of `grow`, on borrowed arrays."""
    room = work.local.shape[1]
    while state[STACK] > 0:
        if budget <= 0:
            return PAUSED
        if state[USED] + 2 > len(nodes) or state[VALUES] + 1 > len(values):
            return FULL
        state[STACK] -= 1
        at = state[STACK]
        start, n, node, depth = work.stack[at, 0], work.stack[at, 1], work.stack[at, 2], work.stack[at, 3]
        if at < state[INSIDE]:
            state[INSIDE] = -1
        if state[INSIDE] < 0 and n <= room:
            move_inside(codes, work, start, n)
            state[INSIDE] = at
        here = work.local if state[INSIDE] >= 0 else codes
        task = (start, n, node, depth)
        grow_node(here, values_of, start_of, nodes, values, importance, work, rules, vote, state, task)
        budget -= n * rules.max_features
    return DONE


@compiled(_warm_grow)
def grow(codes, values_of, start_of, nodes, values, importance, work, rules, vote, state, budget):  # type: ignore[no-untyped-def]
    """Grow until the stack is empty (DONE), about `budget` codes were read (PAUSED) or an array has no room (FULL).

    The coded columns are read-only, as they are where they are mapped from a file: one compilation serves all.
    """
    return grow_on(
        borrowed(codes), borrowed(values_of), borrowed(start_of), borrowed(nodes), borrowed(values),
        borrowed(importance), borrow(work), rules, vote, borrowed(state), budget,
    )  # fmt: skip


@compiled(lambda: (np.array([1], dtype=np.uint64), 3, np.zeros(3)))
def bootstrap(rng, draws, out):  # type: ignore[no-untyped-def]
    """Add to out (n,) how often each row is drawn in `draws` draws with replacement."""
    for _ in range(draws):
        out[draw(rng, len(out))] += 1.0
