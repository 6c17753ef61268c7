"""Splits partition the rows, spread the classes, keep groups whole and repeat themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold, StratifiedKFold

from ml_core.errors import InvalidData
from ml_core.selection.splits import by_value, folds, holdout, leave_one_out, whole

FRACTIONS = st.floats(0.01, 0.99)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 60), st.integers(0, 2**40))
def test_folds_partition_the_rows_in_even_parts(data: st.DataObject, n: int, seed: int) -> None:
    k = data.draw(st.integers(2, n))
    y = data.draw(st.one_of(st.none(), st.lists(st.sampled_from("abc"), min_size=n, max_size=n)))
    parts = folds(n, k, seed=seed, y=y)
    assert len(parts) == k
    np.testing.assert_array_equal(np.sort(np.concatenate([v for _, v in parts])), np.arange(n))
    sizes = [len(v) for _, v in parts]
    assert max(sizes) - min(sizes) <= 1
    for train, held in parts:
        np.testing.assert_array_equal(np.setdiff1d(np.arange(n), held), train)
    if y is not None:
        for label in set(y):
            each = [sum(y[i] == label for i in held) for _, held in parts]
            assert max(each) - min(each) <= 1


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 300), FRACTIONS, st.integers(0, 2**40))
def test_a_holdout_takes_its_share_of_every_class(data: st.DataObject, n: int, fraction: float, seed: int) -> None:
    y = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    train, held = holdout(n, fraction, seed=seed, y=y)
    assert len(train) > 0
    assert len(held) > 0
    np.testing.assert_array_equal(np.sort(np.concatenate([train, held])), np.arange(n))
    assert abs(len(held) - fraction * n) <= 1
    for label in set(y.tolist()):
        share = (y == label).sum() * len(held) / n
        assert abs((y[held] == label).sum() - share) <= 1


def test_a_share_that_divides_nothing_is_stratified_too() -> None:
    y = np.repeat([0, 1], [700, 300])
    held = holdout(1000, 0.3, y=y)[1]
    assert np.bincount(y[held]).tolist() == [210, 90]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=3, max_size=60), FRACTIONS, st.integers(0, 99))
def test_groups_are_never_split(groups: list[int], fraction: float, seed: int) -> None:
    g = np.array(groups)
    kinds = len(set(groups))
    if kinds < 2:
        with pytest.raises(InvalidData, match="got"):
            holdout(len(g), fraction, groups=g)
        return
    for train, held in [holdout(len(g), fraction, seed=seed, groups=g), *folds(len(g), kinds, seed=seed, groups=g)]:
        assert not set(g[train]) & set(g[held])
        assert len(train) + len(held) == len(g)
        assert len(held) > 0


def test_leave_one_out_is_as_many_folds_as_rows() -> None:
    assert sorted(v.tolist() for _, v in folds(5, 5)) == [[0], [1], [2], [3], [4]]


def test_the_seed_decides() -> None:
    assert holdout(100, 0.3, seed=5)[1].tolist() == holdout(100, 0.3, seed=5)[1].tolist()
    assert holdout(100, 0.3, seed=5)[1].tolist() != holdout(100, 0.3, seed=6)[1].tolist()


def test_classes_of_any_label_kind_are_spread() -> None:
    for y in (["b"] * 8 + ["a"] * 4, [True] * 8 + [False] * 4, np.repeat(["x", "yy"], [8, 4]).astype(object)):
        for _, held in folds(12, 4, y=y):
            assert len({np.asarray(y)[i] for i in held}) == 2


@pytest.mark.parametrize(("n", "k"), [(5, 6), (5, 1), (0, 2), (1, 2), (5, 0)])
def test_impossible_numbers_of_folds_are_refused(n: int, k: int) -> None:
    with pytest.raises(InvalidData, match="k_fold needs"):
        folds(n, k)


@pytest.mark.parametrize(("n", "fraction"), [(1, 0.5), (0, 0.5), (9, 0.0), (9, 1.0), (9, float("nan"))])
def test_impossible_holdouts_are_refused(n: int, fraction: float) -> None:
    with pytest.raises(InvalidData, match="holdout needs"):
        holdout(n, fraction)


def test_rows_without_a_group_are_refused() -> None:
    for groups in (np.array(["a", None, "b"], dtype=object), np.array([1.0, np.nan, 2.0])):
        with pytest.raises(InvalidData, match="first row 1, belong to no group"):
            folds(3, 2, groups=groups)
    with pytest.raises(InvalidData, match="groups has 2 entries for 3 rows"):
        folds(3, 2, groups=np.array([1, 2]))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 60))
def test_without_shuffle_folds_are_those_of_scikit_learn(data: st.DataObject, n: int) -> None:
    k = data.draw(st.integers(2, n))
    for (train, held), (peer_train, peer) in zip(
        folds(n, k, shuffle=False), KFold(k).split(np.zeros(n)), strict=True
    ):
        np.testing.assert_array_equal(held, peer)
        np.testing.assert_array_equal(train, peer_train)
    y = np.array(sorted([*range(3)] * k + data.draw(st.lists(st.integers(0, 2), max_size=20))))
    for (_, held), (_, peer) in zip(
        folds(len(y), k, y=y, shuffle=False), StratifiedKFold(k).split(y, y), strict=True
    ):
        np.testing.assert_array_equal(held, peer)


def test_without_shuffle_the_last_rows_are_held_out() -> None:
    assert holdout(10, 0.3, shuffle=False)[1].tolist() == [7, 8, 9]
    y = np.array(["a", "b"] * 10)
    assert holdout(20, 0.3, shuffle=False, y=y)[1].tolist() == [14, 15, 16, 17, 18, 19]
    groups = np.array(["z", "z", "a", "a", "k", "k"])
    assert holdout(6, 0.3, shuffle=False, groups=groups)[1].tolist() == [4, 5]
    assert [v.tolist() for _, v in folds(6, 3, shuffle=False, groups=groups)] == [[0, 1], [2, 3], [4, 5]]


def test_each_repetition_draws_other_splits_and_the_first_is_the_usual_one() -> None:
    drawn = [holdout(50, 0.5, seed=3, repeat=r)[1].tolist() for r in range(4)]
    assert drawn[0] == holdout(50, 0.5, seed=3)[1].tolist()
    assert len({tuple(d) for d in drawn}) == 4
    assert drawn == [holdout(50, 0.5, seed=3, repeat=r)[1].tolist() for r in range(4)]
    assert folds(50, 2, seed=3, repeat=1)[0][1].tolist() != folds(50, 2, seed=3)[0][1].tolist()


def test_leave_one_out_takes_each_row_or_each_group() -> None:
    assert [(t.tolist(), v.tolist()) for t, v in leave_one_out(3)] == [([1, 2], [0]), ([0, 2], [1]), ([0, 1], [2])]
    parts = leave_one_out(4, groups=np.array(["b", "a", "b", "c"]))
    assert [v.tolist() for _, v in parts] == [[0, 2], [1], [3]]
    for n, groups in ((1, None), (0, None), (3, np.array([7, 7, 7]))):
        with pytest.raises(InvalidData, match="leave_one_out needs two"):
            leave_one_out(n, groups=groups)


def test_given_folds_are_the_values_in_order_and_may_not_tear_groups() -> None:
    parts = by_value(np.array([3, 1, 3, 2], dtype=object))
    assert [v.tolist() for _, v in parts] == [[1], [3], [0, 2]]
    assert [t.tolist() for t, _ in parts] == [[0, 2, 3], [0, 1, 2], [1, 3]]
    assert len(by_value(["x", "y", "x"], np.array([1, 2, 1]))) == 2
    with pytest.raises(InvalidData, match="the group 1 has rows in several parts"):
        by_value(["x", "y", "x"], np.array([1, 2, 1])[[0, 0, 1]])
    whole(np.array([True, False, True]), np.array(["p", "q", "p"]))
    with pytest.raises(InvalidData, match="the group 'p' has rows"):
        whole(np.array([True, False, False]), np.array(["p", "q", "p"]))
