"""Compiled tree growth against a literal search in exact arithmetic, and the cases that trees get wrong."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_core.tree import grow as growing
from ml_core.tree.codes import encode
from ml_core.tree.predict import frozen, mean_of_trees
from ml_core.tree.splits import COSTS, ENTROPY, GINI, MISCLASSIFICATION, Rules, quality
from ml_core.tree.structure import LEAF, NODE, depths, join, sizes, tree_json, used_features, walk


def grow_one(X, y, s=None, *, cost="gini", m=None, exact=True, vote=False, seed=1, budget=1 << 60, room=None, **stop):
    """One tree on all rows: (nodes, values, decreases)."""
    X, y = np.asarray(X, float), np.asarray(y, dtype=np.int32)
    K, coded = int(y.max()) + 1, encode(X)
    limits = {"min_gain": 0.0, "purity": 1.0, "min_samples_split": 2, "min_samples_leaf": 1, "max_depth": 1 << 40}
    rules = Rules(COSTS[cost], m or X.shape[1], *(limits | stop).values(), exact)
    work, state = growing.start_tree(coded, y, np.ones(len(y)) if s is None else np.asarray(s, float), K, rules, seed)
    nodes, values = np.empty(room or 2 * len(y) + 2, NODE), np.zeros((K + (room or len(y)), K))
    values[:K], decrease = np.eye(K), np.zeros(X.shape[1])
    columns = [frozen(a) for a in (coded.ranks, coded.values, coded.start)]
    while True:
        model = (nodes, values, decrease)
        at = growing.grow(*columns, *model, work, rules, vote, state, budget)
        if at == growing.DONE:
            return nodes[: state[growing.USED]], values[: state[growing.VALUES]], decrease
        if at == growing.FULL:
            nodes, values = np.concatenate([nodes, nodes]), np.concatenate([values, values])


def leaf_values(grown, X):
    nodes, values, _ = grown
    return values[nodes["left"][walk(nodes, 0, np.asarray(X, float))]]


def exact_quality(cost, c):
    w = sum(c)
    if cost == "gini":
        return sum(Fraction(x) ** 2 for x in c) / w
    if cost == "misclassification":
        return Fraction(max(c))
    return math.fsum(float(x) * math.log2(x) for x in c if x > 0) - float(w) * math.log2(w)


def class_weights(y, s, rows, K):
    return [sum((s[i] for i in rows if y[i] == k), Fraction(0)) for k in range(K)]


def reference_split(X, y, s, rows, K, cost, min_leaf):
    """Every cut of every column in order; the first of the best."""
    tie = Fraction(1, 10**11) * sum(s[i] for i in rows) if cost == "entropy" else 0
    found = []
    for j in range(len(X[0])):
        values = sorted({X[i][j] for i in rows})
        for a, b in pairwise(values):
            left, right = [i for i in rows if X[i][j] <= a], [i for i in rows if X[i][j] > a]
            if min(len(left), len(right)) >= min_leaf:
                q = sum(exact_quality(cost, class_weights(y, s, part, K)) for part in (left, right))
                found.append((q, j, a + (b - a) / 2, left, right))
    best = max((f[0] for f in found), default=None)
    return next((f for f in found if f[0] >= best - tie), None)


def reference_tree(X, y, s, K, cost="gini", min_leaf=1):
    """Nested (feature, threshold, left, right) or a tuple of class shares."""

    def node(rows):
        c = class_weights(y, s, rows, K)
        split = None if max(c) == sum(c) else reference_split(X, y, s, rows, K, cost, min_leaf)
        if split is None:
            return tuple(float(x / sum(c)) for x in c)
        _, j, t, left, right = split
        return (j, t, node(left), node(right))

    return node(list(range(len(y))))


def nested(nodes, values, at=0):
    feature, left, threshold = nodes[at].item()
    if feature == LEAF:
        return tuple(values[left].tolist())
    return (feature, threshold, nested(nodes, values, left), nested(nodes, values, left + 1))


def same_tree(a, b):
    if len(a) != 4 or isinstance(a[2], float):
        return len(a) == len(b) and np.allclose(a, b, rtol=0, atol=1e-15)
    return a[:2] == b[:2] and same_tree(a[2], b[2]) and same_tree(a[3], b[3])


tables = st.integers(2, 14).flatmap(
    lambda n: st.tuples(
        st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=n, max_size=n),
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
        st.lists(st.integers(1, 4), min_size=n, max_size=n),
    )
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(tables, st.sampled_from(list(COSTS)), st.integers(1, 3))
def test_trees_equal_the_literal_search(table, cost, min_leaf):
    X, y, s = table
    y = [*y[:-1], 2]
    want = reference_tree(X, y, [Fraction(w) for w in s], 3, cost, min_leaf)
    got = grow_one(X, y, s, cost=cost, min_samples_leaf=min_leaf)
    assert same_tree(nested(*got[:2]), want)


@pytest.mark.parametrize("cost", list(COSTS))
@pytest.mark.parametrize("levels", [2, 12, 1000])
@pytest.mark.parametrize("min_leaf", [1, 4])
def test_large_nodes_equal_the_literal_search(cost, levels, min_leaf):
    r = np.random.default_rng(7)
    X = r.integers(0, levels, (120, 2)).astype(float)
    y = (X[:, 0] > levels / 2).astype(int) + (r.random(120) < 0.3)
    want = reference_tree(X.tolist(), y.tolist(), [Fraction(1)] * 120, int(y.max()) + 1, cost, min_leaf)
    got = grow_one(X, y, cost=cost, min_samples_leaf=min_leaf)
    assert same_tree(nested(*got[:2]), want)


@pytest.mark.parametrize("cost", list(COSTS))
def test_histograms_are_exact_for_few_values(cost):
    r = np.random.default_rng(8)
    X = r.integers(0, 200, (2000, 3)).astype(float)
    y = (X.sum(axis=1) + 60 * r.normal(size=2000) > 300).astype(int)
    a, b = grow_one(X, y, cost=cost), grow_one(X, y, cost=cost, exact=False)
    assert all(np.array_equal(p, q) for p, q in zip(a, b, strict=True))


def test_histograms_of_many_values_still_separate_everything():
    r = np.random.default_rng(9)
    X, y = r.normal(size=(5000, 2)), r.integers(0, 3, 5000)
    grown = grow_one(X, y, exact=False)
    assert np.array_equal(leaf_values(grown, X).argmax(axis=1), y)
    leaf = walk(grown[0], 0, X)
    assert set(leaf) == set(np.flatnonzero(grown[0]["feature"] == LEAF))


def test_integer_weights_are_repeated_rows():
    r = np.random.default_rng(10)
    X, y, s = r.normal(size=(200, 3)), r.integers(0, 3, 200), r.integers(1, 5, 200)
    a, b = grow_one(X, y, s), grow_one(np.repeat(X, s, axis=0), np.repeat(y, s))
    assert same_tree(nested(*a[:2]), nested(*b[:2]))
    assert np.allclose(a[2], b[2], rtol=1e-12)


@pytest.mark.parametrize("factor", [1.0, 0.01, 1e-9, 3e7])
def test_equal_splits_go_to_the_lowest_feature_at_any_scale_of_weights(factor):
    X, y = [[1, 0], [1, 2], [1, 1], [0, 3]], [0, 0, 0, 1]
    for seed in range(8):
        nodes, _, _ = grow_one(X, y, factor * np.ones(4), seed=seed)
        assert nodes[0].item() == (0, 1, 0.5)
        assert len(nodes) == 3


def test_values_a_float32_cannot_tell_apart():
    nodes, _, _ = grow_one([[0.0], [1e-8]], [0, 1])
    assert nodes["threshold"][0] == 5e-9
    grown = grow_one([[1.0], [np.nextafter(1, 2)]], [0, 1])
    assert grown[0]["threshold"][0] == 1.0
    assert np.array_equal(leaf_values(grown, [[1.0], [np.nextafter(1, 2)]]), np.eye(2))


def test_the_largest_and_smallest_floats():
    X = [[-1.7e308], [1.7e308], [5e-324], [0.0], [-0.0]]
    grown = grow_one(X, [0, 1, 2, 3, 3])
    assert np.isfinite(grown[0]["threshold"]).all()
    assert leaf_values(grown, X).argmax(axis=1).tolist() == [0, 1, 2, 3, 3]


def test_identical_rows_stay_together():
    nodes, values, decrease = grow_one([[1.0, 2.0]] * 3, [0, 1, 1])
    assert len(nodes) == 1
    assert np.allclose(values[nodes["left"][0]], [1 / 3, 2 / 3], rtol=0, atol=1e-16)
    assert not decrease.any()


def test_an_impure_node_splits_for_no_gain():
    X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    assert np.array_equal(leaf_values(grow_one(X, y), X).argmax(axis=1), y)
    assert len(grow_one(X, y, min_gain=1e-9)[0]) == 1


def test_more_features_are_drawn_while_all_are_constant():
    X = np.zeros((6, 40))
    X[:, 23] = np.arange(6)
    for seed in range(5):
        nodes, _, _ = grow_one(X, [0, 0, 1, 1, 0, 0], m=1, seed=seed)
        assert set(nodes["feature"]) == {LEAF, 23}


def test_alternating_labels_grow_a_tree_without_recursion():
    y = np.arange(8_000) % 2
    nodes, values, _ = grow_one(np.arange(8_000.0)[:, None], y)
    assert sizes(nodes, np.array([0]))["leaves"] == 8_000
    assert sizes(nodes, np.array([0]))["depth"] > 2_000
    described = tree_json(nodes, 0, values)
    assert len(described) == len(nodes)
    assert np.array_equal(mean_of_trees(nodes, np.array([0]), values, np.arange(8_000.0)[:, None]).argmax(axis=1), y)


@pytest.mark.parametrize("stop", [{"max_depth": 3}, {"min_samples_split": 40}, {"purity": 0.9}, {"min_gain": 0.05}])
def test_stopping_rules(stop):
    r = np.random.default_rng(11)
    X = r.normal(size=(400, 3))
    y = (X[:, 0] + 0.5 * r.normal(size=400) > 0).astype(int)
    nodes, _, _ = grow_one(X, y, **stop)
    at = walk(nodes, 0, X)
    assert 1 < (nodes["feature"] == LEAF).sum() < 100
    assert depths(nodes, np.array([0])).max() <= stop.get("max_depth", 99)
    inner = np.flatnonzero(nodes["feature"] != LEAF)
    for node in inner:
        rows = below(nodes, node, at)
        p = np.bincount(y[rows], minlength=2) / len(rows)
        sides = [y[below(nodes, nodes["left"][node] + side, at)] for side in (0, 1)]
        child = sum(len(t) / len(rows) * (1 - np.sum((np.bincount(t, minlength=2) / len(t)) ** 2)) for t in sides)
        assert len(rows) >= stop.get("min_samples_split", 2)
        assert p.max() < stop.get("purity", 1.0)
        assert 1 - p @ p - child >= stop.get("min_gain", 0.0) - 1e-12


def below(nodes, node, at):
    """Rows whose leaf lies under the node."""
    todo, leaves = [node], []
    for k in todo:
        if nodes["feature"][k] == LEAF:
            leaves.append(k)
        else:
            todo += [nodes["left"][k], nodes["left"][k] + 1]
    return np.flatnonzero(np.isin(at, leaves))


def test_pausing_and_running_out_of_room_change_nothing():
    r = np.random.default_rng(12)
    X, y = np.round(r.normal(size=(700, 4)), 1), r.integers(0, 4, 700)
    whole, paused = grow_one(X, y, m=2), grow_one(X, y, m=2, budget=1, room=8)
    assert all(np.array_equal(a, b) for a, b in zip(whole, paused, strict=True))


def test_growing_inside_the_cache_changes_nothing(monkeypatch):
    r = np.random.default_rng(13)
    X, y = r.normal(size=(3000, 4)), r.integers(0, 2, 3000)
    outside = grow_one(X, y, m=2)
    monkeypatch.setattr(growing, "CACHE_CODES", 400 * 4)
    inside = grow_one(X, y, m=2)
    assert all(np.array_equal(a, b) for a, b in zip(outside, inside, strict=True))


def test_decreases_add_up_to_the_drop_of_the_cost():
    r = np.random.default_rng(14)
    X, y = r.normal(size=(150, 3)), r.integers(0, 3, 150)
    for cost, id_ in COSTS.items():
        grown = grow_one(X, y, cost=cost)
        c = np.bincount(y).astype(float)
        top = {GINI: 150 - (c @ c) / 150, ENTROPY: -(c * np.log2(c / 150)).sum(), MISCLASSIFICATION: 150 - c.max()}[id_]
        assert grown[2].sum() == pytest.approx(top, rel=1e-12)


def test_known_costs():
    def cost(name, *c):
        return 0.0 - quality(COSTS[name], np.array(c, float), float(sum(c))) / sum(c) + (name != "entropy")

    assert cost("entropy", 1, 2) == pytest.approx(0.9182958, abs=5e-8)
    assert cost("entropy", 9, 5) == pytest.approx(0.9402860, abs=5e-8)
    assert cost("gini", 9, 5) == pytest.approx(0.4591837, abs=5e-8)
    split = [((300, 100), (100, 300)), ((200, 400), (200, 0))]
    want = {"misclassification": (0.25, 0.25), "entropy": (1 - 0.1887219, 1 - 0.3112781), "gini": (0.375, 1 / 3)}
    for name, costs in want.items():
        for children, value in zip(split, costs, strict=True):
            assert sum(sum(c) / 800 * cost(name, *c) for c in children) == pytest.approx(value, abs=5e-8)


def test_the_weather_table_asks_overcast_first():
    outlook = list("ssorrrossrsoor")
    humid = [1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1]
    windy = [0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1]
    y = [0, 0, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 0]
    X = np.column_stack([humid, windy, [o == "o" for o in outlook]]).astype(float)
    for column, gain in zip(X.T, (0.1518355, 0.0481270, 0.2260002), strict=True):
        stump = grow_one(column[:, None], y, cost="entropy", max_depth=1)
        assert stump[2][0] / 14 == pytest.approx(gain, abs=5e-8)
    assert grow_one(X, y, cost="entropy")[0][0].item()[0] == 2
    stump = grow_one(X, y, max_depth=1)
    assert 0.4591837 - stump[2].sum() / 14 == pytest.approx(0.3571429, abs=1e-7)


def test_increasing_maps_of_columns_leave_the_partition():
    r = np.random.default_rng(15)
    X, y = r.normal(size=(300, 3)), r.integers(0, 2, 300)
    a, b = grow_one(X, y), grow_one(np.exp(X), y)
    assert np.array_equal(a[0][["feature", "left"]], b[0][["feature", "left"]])
    assert np.array_equal(walk(a[0], 0, X), walk(b[0], 0, np.exp(X)))


def test_a_forest_is_its_trees_side_by_side():
    r = np.random.default_rng(16)
    X = r.integers(0, 4, (90, 4)).astype(float)
    trees = [grow_one(X, np.append(r.integers(0, 3, 89), 2), m=1, seed=s)[:2] for s in range(5)]
    nodes, roots, values = join(trees, 3)
    total = sum(v[n["left"][walk(n, 0, X)]] for n, v in trees)
    assert np.allclose(mean_of_trees(nodes, roots, values, X), total / 5, rtol=0, atol=1e-15)
    assert used_features(nodes, 4).sum() == (nodes["feature"] != LEAF).sum()
    assert sizes(nodes, roots)["depth"].tolist() == [depths(n, np.array([0])).max() for n, _ in trees]


@pytest.mark.parametrize("n", [1, 3, 15, 16, 17, 5000])
def test_any_number_of_rows_gives_each_row_the_same_bits(n):
    r = np.random.default_rng(17)
    X, y = r.normal(size=(5000, 3)), r.integers(0, 3, 5000)
    nodes, roots, values = join([grow_one(X[:300], y[:300], m=1, seed=s, max_depth=6)[:2] for s in range(20)], 3)
    for a in (nodes, roots, values):
        a.flags.writeable = False
    whole = mean_of_trees(nodes, roots, values, X)
    assert np.array_equal(mean_of_trees(nodes, roots, values, X[:n]), whole[:n])


def test_draws_are_uniform():
    out = np.zeros(1000)
    growing.bootstrap(np.array([3], dtype=np.uint64), 1_000_000, out)
    assert out.sum() == 1_000_000
    assert 800 < ((out - 1000) ** 2 / 1000).sum() < 1200
    rows = np.zeros(100)
    growing.bootstrap(np.array([4], dtype=np.uint64), 100, rows)
    assert abs((rows > 0).mean() - 0.6339677) < 0.12


def test_columns_are_ranked_exactly():
    r = np.random.default_rng(18)
    X = np.round(r.normal(size=(500, 3)), 1)
    coded = encode(X)
    for j in range(3):
        values, codes = np.unique(X[:, j], return_inverse=True)
        assert np.array_equal(coded.ranks[j], codes)
        assert np.array_equal(coded.values[coded.start[j] : coded.start[j + 1]], values)
