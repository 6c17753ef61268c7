"""Compiled descent through a forest. Several rows (or trees, for a single row) go down in step to hide latency.

Every entry point sees read-only arrays (`frozen`), as a memory-mapped model has, so that one compilation serves all.
Each row adds its trees in their order: how rows are divided among threads or calls never changes a bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ml_core.arrays import Matrix
from ml_core.numerics.jit import compiled, inner, read_only
from ml_core.parallel import ordered_map
from ml_core.tree.structure import NODE

LANES = 16
BLOCK = 4096
SERIAL = 1 << 17


def frozen(a: Any) -> Any:
    """The array, or a read-only view of it."""
    if a.flags.writeable:
        a = a.view()
        a.flags.writeable = False
    return a


@inner
def descend(nodes, X, row, at, m):  # type: ignore[no-untyped-def]
    """Move the lanes at[:m] from their nodes to leaves; lane i carries row row[i] of X."""
    busy = True
    while busy:
        busy = False
        for lane in range(m):
            node = nodes[at[lane]]
            feature = node.feature
            if feature >= 0:
                at[lane] = np.uint64(node.left + np.int64(X[row[lane], feature] > node.threshold))
                busy = True


def _warm_sum() -> tuple[Any, ...]:
    nodes = np.zeros(1, NODE)
    nodes["feature"] = -1
    return (*read_only(nodes, np.zeros(1, np.int64), np.eye(2), np.zeros((1, 2))), np.zeros((1, 2)))


@inner
def add_values(nodes, values, row, at, m, out):  # type: ignore[no-untyped-def]
    """Add each lane's leaf value to its row of out (n, K), in the order of the lanes."""
    for lane in range(m):
        leaf = nodes[at[lane]].left
        for k in range(out.shape[1]):
            out[row[lane], k] += values[leaf, k]


@inner
def add_tree(nodes, root, values, X, rows, m, row, at, out):  # type: ignore[no-untyped-def]
    """Add one tree's leaf values to out for the m rows listed; a lane that reaches its leaf takes the next row."""
    width = min(LANES, m)
    taken = width
    for lane in range(width):
        row[lane] = rows[lane]
        at[lane] = root
    while width > 0:
        lane = 0
        while lane < width:
            node = nodes[at[lane]]
            feature = node.feature
            if feature >= 0:
                at[lane] = np.uint64(node.left + np.int64(X[row[lane], feature] > node.threshold))
                lane += 1
                continue
            for k in range(out.shape[1]):
                out[row[lane], k] += values[node.left, k]
            if taken < m:
                row[lane] = rows[taken]
                at[lane] = root
                taken += 1
            else:
                width -= 1
                row[lane] = row[width]
                at[lane] = at[width]


@compiled(_warm_sum)
def sum_leaves(nodes, roots, values, X, out):  # type: ignore[no-untyped-def]
    """Add to out (n, K) the leaf value of every tree for every row of X (n, d)."""
    n, T = len(out), len(roots)
    row, at = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64)
    if n < LANES:
        for i in range(n):
            row[:] = i
            for first in range(0, T, LANES):
                m = min(LANES, T - first)
                at[:m] = roots[first : first + m]
                descend(nodes, X, row, at, m)
                add_values(nodes, values, row, at, m, out)
        return
    rows = np.arange(n).astype(np.uint64)
    for t in range(T):
        add_tree(nodes, np.uint64(roots[t]), values, X, rows, n, row, at, out)


def mean_of_trees(nodes: np.ndarray, roots: np.ndarray, values: Matrix, X: Matrix) -> Matrix:
    """(n, K) mean over trees of the leaf values; O(n T depth), blocks of rows in parallel when there is enough work."""
    out = np.zeros((len(X), values.shape[1]))
    forest = (frozen(nodes), frozen(roots), frozen(values), frozen(X))
    if len(X) <= BLOCK and len(X) * len(roots) <= SERIAL:
        sum_leaves(*forest, out)
    else:
        size = min(BLOCK, max(LANES, len(X) // 8))
        list(ordered_map(lambda i: sum_leaves(*forest[:3], forest[3][i : i + size], out[i : i + size]),
                         range(0, len(X), size)))  # fmt: skip
    out /= len(roots)
    return out


def _warm_oob() -> tuple[Any, ...]:
    return (
        *read_only(*_warm_sum()[:4], np.ones((1, 1), np.bool_), np.zeros(1, np.int64), np.ones(1)),
        np.zeros((1, 2)), np.zeros(1, np.int64), np.zeros((1, 2)),
    )  # fmt: skip


@compiled(_warm_oob)
def add_absent(nodes, roots, values, X, absent, y, s, total, seen, curve):  # type: ignore[no-untyped-def]
    """Out-of-bag sums: trees `roots` (T,) add to total (n, K) and seen (n,) for the rows that `absent` (T, n) marks.

    curve (T, 2) receives the weight of the wrong and of the covered rows after each tree; ties go to the lower class.
    """
    n = len(total)
    row, at, rows = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64), np.empty(n, np.uint64)
    best = np.zeros(n, np.int64)
    wrong, covered = 0.0, 0.0
    for i in range(n):
        if seen[i] > 0:
            best[i] = np.argmax(total[i])
            covered += s[i]
            wrong += s[i] * (best[i] != y[i])
    for t in range(len(roots)):
        m = 0
        for i in range(n):
            rows[m] = i
            m += absent[t, i]
        add_tree(nodes, np.uint64(roots[t]), values, X, rows, m, row, at, total)
        for j in range(m):
            r = rows[j]
            if seen[r] == 0:
                covered += s[r]
            else:
                wrong -= s[r] * (best[r] != y[r])
            best[r] = np.argmax(total[r])
            wrong += s[r] * (best[r] != y[r])
            seen[r] += 1
        curve[t, 0] += wrong
        curve[t, 1] += covered
