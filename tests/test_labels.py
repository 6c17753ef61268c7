"""Labels of any JSON type: which are the same, how keys spell them, and that fits and functions take them all."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ml_core import registry
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.labels import distinct, spellings
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.svm.soft_margin_svm import SoftMarginSVM

X = np.array([1.0, 2, 3, 4, 5, 6, 7, 8])[:, None]
SECOND = np.array([0, 0, 1, 0, 1, 0, 1, 1], dtype=bool)
KINDS: list[tuple[Any, Any]] = [(False, True), (0, 1), (-1, 1), (0.5, 2.5), (0.0, 1.0), ("a", "b"), ("1", "true")]


def call(name: str, **arguments: Any) -> Any:
    return registry.functions()[name](arguments)["result"]


def test_true_is_not_one_but_whole_floats_are_integers() -> None:
    assert distinct([1, "a", True, None, 1.0, "a", False]) == [None, False, True, 1, "a"]
    assert [type(v) for v in distinct([1, True])] == [bool, int]


def test_a_key_spells_a_label_as_json_does() -> None:
    for label in (True, 3, 0.25, np.bool_(False), np.float64(2.0), np.int64(7)):
        assert json.dumps(getattr(label, "item", lambda label=label: label)()) in spellings(label)
    assert "2" in spellings(2.0)
    assert spellings("true") == {"true"}


@pytest.mark.parametrize(("first", "second"), KINDS)
def test_classes_of_every_kind_fit_alike_and_are_weighted_by_key(first: Any, second: Any) -> None:
    y = np.where(SECOND, second, first)
    plain = LogisticRegression().fit(X, SECOND.astype(int), sample_weight=np.where(SECOND, 3.0, 1.0))
    name = second if isinstance(second, str) else json.dumps(second)
    for weights in ({name: 3.0}, {second: 3.0}):
        model = LogisticRegression(class_weight=weights).fit(X, y)
        assert model.classes_.tolist() == [first, second]
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        SoftMarginSVM(class_weight=weights).fit(X, y)
    with pytest.raises(InvalidParameter, match="the labels are"):
        LogisticRegression(class_weight={"c": 2.0}).fit(X, y)


def test_numbers_that_hardly_recur_are_a_continuous_target() -> None:
    with pytest.raises(InvalidData, match="different numbers in 8 rows"):
        LogisticRegression().fit(X, np.arange(8) + 0.5)
    assert len(LogisticRegression(alpha=1.0).fit(X, np.arange(8) // 2 + 0.5).classes_) == 4


def test_functions_take_mixed_labels() -> None:
    found = call("zero_one_loss", prediction=[None, "a", 1, True, 1.0], y=[None, "b", True, True, 1])
    assert found["value"] == [0, 1, 1, 0, 0]
    assert found["classes"] == [None, True, 1, "a", "b"]
    found = call("asymmetric_loss_matrix", prediction=[True, 1], y=[1, 1], matrix=[[0.0, 2.0], [5.0, 0.0]],
                 classes=[True, 1])  # fmt: skip
    assert found["value"] == [2, 0]
    assert call("hinge_loss", scores=[2.0, 2.0], y=[1, "no"], positive=1)["value"] == [0, 3]
    assert call("hinge_loss", scores=[2.0, 2.0], y=[True, True])["value"] == [0, 0]
    assert call("hinge_loss", scores=[2.0, 2.0], y=[False, False])["value"] == [3, 3]
    assert call("roc_curve", y=[1, "b", 1, "b"], scores=[0.1, 0.9, 0.2, 0.8])["auc"] == 1.0
    found = call("categorical_cross_entropy", scores=[[0.5, 0.25, 0.25]], y=[True], classes=[None, True, 1])
    assert found["value"][0] == pytest.approx(np.log(4), rel=1e-15)
