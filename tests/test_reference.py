"""The reference of the training rows: exact at its points, within its own bound elsewhere, small, mergeable."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ml_core.bundle import load_bundle, save_bundle
from ml_core.errors import InvalidData
from ml_core.preprocessing.reference import MAX_KEPT, POINTS, Levels, Reference, Sketch, points_of
from ml_core.preprocessing.table import Column


def number(values, kind="number"):
    return Column(kind, np.asarray(values, dtype=float))


def words(values):
    return Column("category", np.array(values, dtype=object))


def sketch(values, kind="number"):
    return Reference.of({"a": number(values, kind)}).columns[0]


numbers = st.lists(st.one_of(st.floats(-1e6, 1e6), st.integers(-5, 5).map(float)), min_size=1, max_size=900)


def check_bounds(known, values, x):
    """The counts of the sketch hold the true ones, and are apart by at most its bound."""
    ordered = np.sort(values)
    for (low, high), side in ((known.below(x), "left"), (known.upto(x), "right")):
        true = np.searchsorted(ordered, x, side=side)
        assert ((low <= true) & (true <= high)).all()
        assert (high - low <= known.error_bound * len(values) + 1e-9).all()


@given(numbers, numbers)
@settings(max_examples=80, deadline=None)
def test_counts_are_held_by_their_bounds(values, x):
    known = sketch(values)
    assert known.rows == len(values)
    assert known.range == (min(values), max(values))
    assert len(known.counts) <= POINTS
    check_bounds(known, np.array(values), np.array(x))
    if len(set(values)) <= POINTS:
        assert known.error_bound == 0


@pytest.mark.parametrize("n", [3, 256, 257, 5000, 100_003])
def test_smirnov_distance_of_the_full_sample_is_within_the_bound(n):
    r = np.random.default_rng(n)
    for scale in (1.0, 1.5):
        train, asked = r.standard_cauchy(n), scale * r.standard_cauchy(70)
        known = sketch(train)
        assert known.error_bound <= 1 / (POINTS - 1)
        low = known.largest_gap(asked) / n / 70
        true = stats.ks_2samp(train, asked, method="asymp").statistic
        assert low - 1e-12 <= true <= low + known.error_bound + 1e-12


def test_cells_that_are_empty_are_counted_and_left_out():
    known = sketch([1.0, np.nan, 3.0, np.nan])
    assert (known.rows, known.missing, known.range) == (2, 2, (1.0, 3.0))
    nothing = sketch([np.nan, np.nan])
    assert (nothing.rows, nothing.range, nothing.error_bound) == (0, None, 0.0)
    assert nothing.largest_gap(np.array([1.0])) == 0
    assert [v.tolist() for v in nothing.upto(np.array([1.0, 2.0]))] == [[0, 0], [0, 0]]


@given(numbers, st.lists(numbers, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_more_rows_keep_the_counts_true_and_come_out_again(values, batches):
    known, rows = sketch(values), list(values)
    for batch in batches:
        before, known = known, known.plus(number(batch))
        assert len(known.counts) <= POINTS + 2
        rows += batch
        check_bounds(known, np.array(rows), np.array([*rows, 0.5, -7e6]))
        left = known.minus(number(batch))
        assert left.rows == before.rows
        check_bounds(left, np.array(rows[: -len(batch)]), np.array(rows))
    assert known.range == (min(rows), max(rows))


@pytest.mark.parametrize(("a", "k"), [(9.0, "x"), (-1.0, "x"), (1.5, "x"), (2.0, "z"), (np.nan, "x"), (2.0, "x")])
def test_what_cannot_have_been_among_the_rows_is_not_taken_out(a, k):
    known = Reference.of({"a": number([1.0, 2.0, 3.0]), "k": words(["x", "y", None])})
    table = {"a": number([a]), "k": words([k])}
    if (a, k) == (2.0, "x"):
        left = known.minus(table)
        assert (left.rows, left.columns[0].rows, left.columns[0].range) == (2, 2, (1.0, 3.0))
        assert left.columns[1].levels == ("y",)
    else:
        with pytest.raises(InvalidData, match="cannot have seen"):
            known.minus(table)


def test_levels_are_counted_booleans_too():
    known = Reference.of({"k": words(["b", "a", None, "b"]), "t": number([1, 0, 1, np.nan], "boolean")})
    k, t = known.columns
    assert (k.levels, k.counts.tolist(), k.missing, k.rows, k.others) == (("a", "b"), [1, 2], 1, 3, 0)
    assert (t.levels, t.counts.tolist(), t.missing) == (("false", "true"), [1, 2], 1)
    more = known.plus({"k": words(["c", "b"]), "t": number([0, 0], "boolean")})
    assert (more.rows, more.columns[0].levels, more.columns[0].counts.tolist()) == (6, ("a", "b", "c"), [1, 3, 1])
    assert more.minus({"k": words(["c", "b"]), "t": number([0, 0], "boolean")}).columns[0].levels == ("a", "b")


def test_rare_levels_beyond_a_limit_are_kept_as_others():
    many = [f"w{i}" for i in range(MAX_KEPT + 50)] + ["w7"] * 5
    known = Reference.of({"k": words(many)}).columns[0]
    assert (len(known.levels), known.others, known.rows) == (MAX_KEPT, 50, len(many))
    assert known.counts[known.levels.index("w7")] == 6
    more = known.plus(words(["new", "w7"]))
    assert (more.others, more.rows) == (51, len(many) + 2)
    assert more.minus(words(["new", "w7"])).others == 50


def test_it_is_small_and_the_same_after_a_bundle_and_a_pickle():
    r = np.random.default_rng(0)
    known = Reference.of({"a": number(r.normal(size=50_000)), "k": words(r.choice(["x", "y"], 50_000).tolist())})
    target = io.BytesIO()
    save_bundle(known, target)
    for again in (load_bundle(io.BytesIO(target.getvalue())), pickle.loads(pickle.dumps(known))):
        assert isinstance(again, Reference)
        assert isinstance(again.columns[0], Sketch)
        assert isinstance(again.columns[1], Levels)
        assert (again.rows, again.names, again.types) == (50_000, ("a", "k"), ("number", "category"))
        np.testing.assert_array_equal(again.columns[0].counts, known.columns[0].counts)
    assert len(pickle.dumps(known)) < 8_000


def test_points_hold_the_extremes_whatever_their_number():
    values = np.arange(10_000.0)
    assert points_of(values, 10).tolist() == [0, 1111, 2222, 3333, 4444, 5555, 6666, 7777, 8888, 9999]
    assert points_of(np.ones(9999)).tolist() == [1.0]
