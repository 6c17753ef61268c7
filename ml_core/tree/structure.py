"""A grown forest as three flat arrays, and what can be read off them.

`nodes` is a structured array (feature, left, threshold): row x goes to node `left` when x[feature] ≤ threshold, else to
`left + 1`. A leaf has feature -1 and its `left` is a row of `values`. Tree t's root is node `roots[t]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ml_core.arrays import Codes, Matrix

NODE = np.dtype([("feature", np.int32), ("left", np.int32), ("threshold", np.float64)])
LEAF = -1


def join(trees: list[tuple[np.ndarray, Matrix]], shared: int) -> tuple[np.ndarray, np.ndarray, Matrix]:
    """(nodes, values) of each tree → one forest (nodes, roots, values); the first `shared` values are common to all."""
    roots = np.concatenate([[0], np.cumsum([len(nodes) for nodes, _ in trees])]).astype(np.int64)
    nodes = np.concatenate([nodes for nodes, _ in trees])
    first = np.cumsum([shared] + [len(values) - shared for _, values in trees])
    for t, at in enumerate(roots[:-1]):
        own = nodes[at : roots[t + 1]]
        leaf = own["feature"] == LEAF
        own["left"] += np.where(leaf, np.where(own["left"] < shared, 0, first[t] - shared), at).astype(np.int32)
    values = np.concatenate([trees[0][1][:shared], *[v[shared:] for _, v in trees]])
    return nodes, roots[:-1], values


def depths(nodes: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """(N,) number of questions from each node's root to it; level by level, no recursion."""
    out = np.zeros(len(nodes), dtype=np.int32)
    level = roots[nodes["feature"][roots] != LEAF]
    while len(level):
        child = nodes["left"][level].astype(np.int64)
        out[child] = out[child + 1] = out[level] + 1
        both = np.concatenate([child, child + 1])
        level = both[nodes["feature"][both] != LEAF]
    return out


def sizes(nodes: np.ndarray, roots: np.ndarray) -> dict[str, np.ndarray]:
    """Per tree: number of leaves and largest depth, each (T,)."""
    leaf = nodes["feature"] == LEAF
    return {
        "leaves": np.add.reduceat(leaf, roots, dtype=np.int64),
        "depth": np.maximum.reduceat(depths(nodes, roots), roots),
    }


def used_features(nodes: np.ndarray, d: int) -> np.ndarray:
    """(d,) in how many nodes each feature is asked."""
    asked = nodes["feature"][nodes["feature"] != LEAF]
    return np.bincount(asked, minlength=d)


def tree_json(nodes: np.ndarray, root: int, values: Matrix) -> list[dict[str, Any]]:
    """One tree as a flat list of nodes, parents before children, children by position; depth costs no recursion."""
    order, out = [int(root)], []
    for at in order:
        feature, left, threshold = nodes[at].item()
        if feature == LEAF:
            out.append({"value": values[left].tolist()})
        else:
            k = len(order)
            order += [left, left + 1]
            out.append({"feature": feature, "threshold": threshold, "left": k, "right": k + 1})
    return out


def walk(nodes: np.ndarray, root: int, X: Matrix) -> Codes:
    """(n,) leaf node of each row by the definition, in numpy: the reference for the compiled descent."""
    at = np.full(len(X), root, dtype=np.int64)
    while True:
        inside = np.flatnonzero(nodes["feature"][at] != LEAF)
        if not len(inside):
            return at
        here = nodes[at[inside]]
        at[inside] = here["left"] + (X[inside, here["feature"]] > here["threshold"])
