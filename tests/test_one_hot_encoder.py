"""The encoder against scikit-learn; unseen levels, the way back, counting levels up and down."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.preprocessing as peer
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_core import naming
from ml_core.bundle import load_bundle, save_bundle
from ml_core.errors import InvalidData
from ml_core.linear.ridge_regression import RidgeRegression
from ml_core.preprocessing.one_hot_encoder import OneHotEncoder
from ml_core.preprocessing.pipeline import Pipeline

C = np.random.default_rng(0).integers(0, [2, 3, 5], size=(50, 3)).astype(float)


@pytest.mark.parametrize("unknown", ["error", "ignore"])
@pytest.mark.parametrize("binary", ["one_column", "two_columns"])
def test_equals_the_peer(binary, unknown):
    ours = OneHotEncoder(binary=binary, unknown=unknown).fit(C)
    drop = "if_binary" if binary == "one_column" else None
    theirs = peer.OneHotEncoder(drop=drop, handle_unknown=unknown, sparse_output=False).fit(C)
    np.testing.assert_array_equal(ours.transform(C), theirs.transform(C))
    if unknown == "ignore" and binary == "two_columns":
        strange = C[:3] + np.array([[7, 0, 0], [0, 9, 0], [0.5, 0.5, 0.5]])
        np.testing.assert_array_equal(ours.transform(strange), theirs.transform(strange))
    np.testing.assert_array_equal(ours.inverse_transform(ours.transform(C)), C)


def test_names_and_table():
    model = OneHotEncoder().fit([[1.0, 0.5], [2.0, 1.5], [3.0, 1.5]])
    assert list(model.get_feature_names_out(["a", "b"])) == ["a=1", "a=2", "a=3", "b=1.5"]
    assert list(model.sizes_) == [3, 1]
    rows = model.diagnostics([[1.0, 0.5]]).tables["levels"].rows
    assert rows[-1] == [1, 1.5, 2.0, pytest.approx(2 / 3)]


def test_an_unseen_level_names_row_and_column():
    model = OneHotEncoder().fit(C)
    with naming.use(["a", "b", "c"]), pytest.raises(InvalidData, match="row 2, column 'b' holds the level 17") as e:
        model.transform([[0, 0, 0], [1, 1, 1], [0, 17, 0], [0, 18, 0]])
    assert [i.pointer for i in e.value.issues] == ["/rows/2/b", "/rows/3/b"]
    report = OneHotEncoder(unknown="ignore").fit(C).diagnostics([[0, 17, 0], [0, 1, 0]])
    assert report.summary["rows_with_unknown_levels"] == 1
    assert report.certificates[0].holds


def test_a_single_column_cannot_tell_unknown_from_the_smaller_level():
    assert [n.code for n in OneHotEncoder(unknown="ignore").fit(C).notices_] == ["unknown_looks_like_a_level"]
    assert not OneHotEncoder(unknown="ignore", binary="two_columns").fit(C).notices_


def test_the_way_back_takes_the_largest_and_refuses_none():
    model = OneHotEncoder().fit(C)
    soft = np.array([[0.7, 0.2, 0.5, 0.3, 0.1, 0.1, 0.6, 0.1, 0.1]])
    np.testing.assert_array_equal(model.inverse_transform(soft), [[1, 1, 2]])
    with pytest.raises(InvalidData, match="row 0 has no positive entry"):
        model.inverse_transform(np.zeros((1, 9)))


def test_too_many_levels_are_refused_with_their_number():
    X = np.arange(2000.0)[:, None]
    with pytest.raises(InvalidData, match="2,000 levels, at most 1,000"):
        OneHotEncoder().fit(X)
    assert OneHotEncoder(max_levels=2000).fit(X).n_features_out_ == 2000


def test_one_level_is_told():
    model = OneHotEncoder().fit(np.ones((3, 1)))
    assert [n.code for n in model.notices_] == ["constant_column"]
    np.testing.assert_array_equal(model.transform([[1.0]]), [[1.0]])


def test_update_brings_levels_and_forget_takes_them():
    A, B = np.array([[1.0], [2.0], [2.0]]), np.array([[3.0], [1.0]])
    model = OneHotEncoder().fit(A)
    assert model.n_features_out_ == 1
    model.update(B)
    assert list(model.get_feature_names_out(["a"])) == ["a=1", "a=2", "a=3"]
    model.forget(B)
    assert list(model.get_feature_names_out(["a"])) == ["a=2"]
    np.testing.assert_array_equal(model.sums_.weights[0], [1, 2])
    with pytest.raises(InvalidData, match="cannot have seen"):
        model.forget([[3.0]])
    with pytest.raises(InvalidData, match="cannot have seen"):
        model.forget([[1.0], [1.0]])
    assert model.n_features_out_ == 1


@given(st.lists(st.lists(st.sampled_from([-1.5, 0.0, 1.0, 2.0, 1e17]), min_size=2, max_size=2), min_size=1))
@settings(max_examples=80, deadline=None)
def test_every_table_comes_back_and_blocks_sum_to_one(rows):
    X = np.array(rows)
    model = OneHotEncoder(binary="two_columns").fit(X)
    Z = model.transform(X)
    assert (Z.sum(axis=1) == 2).all()
    np.testing.assert_array_equal(model.inverse_transform(Z), X)
    assert len(set(model.get_feature_names_out())) == Z.shape[1]


MIXED = [["red", 1.0, "s"], ["blue", 2.0, "m"], ["green", 2.0, "s"], ["red", 5.0, "l"]]


@pytest.mark.parametrize("unknown", ["error", "ignore"])
@pytest.mark.parametrize("kind", [list, np.ndarray])
def test_text_levels_equal_the_peer(unknown, kind):
    X = MIXED if kind is list else np.array(MIXED, dtype=object)
    ours = OneHotEncoder(binary="two_columns", unknown=unknown).fit(X)
    theirs = peer.OneHotEncoder(handle_unknown=unknown, sparse_output=False).fit(np.array(MIXED, dtype=object))
    np.testing.assert_array_equal(ours.transform(X), theirs.transform(np.array(MIXED, dtype=object)))
    assert ours.inverse_transform(ours.transform(X)).tolist() == MIXED
    names = ["c=blue", "c=green", "c=red", "n=1", "n=2", "n=5", "z=l", "z=m", "z=s"]
    assert list(ours.get_feature_names_out(["c", "n", "z"])) == names
    report = ours.diagnostics(X)
    assert report.certificates[0].holds
    assert report.tables["levels"].rows[0][:3] == [0, "blue", 1.0]


def test_text_levels_that_are_new_or_mixed_are_told():
    model = OneHotEncoder().fit(MIXED)
    with naming.use(["c", "n", "z"]), pytest.raises(InvalidData, match="row 1, column 'c' holds the level pink"):
        model.transform([["red", 1.0, "s"], ["pink", 1.0, "s"]])
    with pytest.raises(InvalidData, match="holds the level 3"):
        model.transform([[3.0, 1.0, 7.0]])
    with pytest.raises(InvalidData, match="mixes text and other values: row 1 holds 3"):
        OneHotEncoder().fit([["a"], [3]])
    with pytest.raises(InvalidData, match="NaN"):
        OneHotEncoder().fit([["a", np.nan], ["b", 1.0]])


def test_text_levels_update_forget_and_go_through_pipelines_and_bundles(tmp_path):
    model = OneHotEncoder().fit(MIXED[:2])
    model.update(MIXED[2:])
    whole = OneHotEncoder().fit(MIXED)
    np.testing.assert_array_equal(model.transform(MIXED), whole.transform(MIXED))
    model.forget(MIXED[2:])
    np.testing.assert_array_equal(model.transform(MIXED[:2]), OneHotEncoder().fit(MIXED[:2]).transform(MIXED[:2]))
    with pytest.raises(InvalidData, match="text in some of the rows"):
        model.update([[1.0, 1.0, 1.0]])
    pipe = Pipeline(steps=[OneHotEncoder(), RidgeRegression()]).fit(MIXED, [1.0, 2.0, 3.0, 4.0])
    save_bundle(pipe, tmp_path / "pipe.zip")
    np.testing.assert_array_equal(load_bundle(tmp_path / "pipe.zip").predict(MIXED), pipe.predict(MIXED))
