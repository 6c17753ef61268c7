"""What an update tells of itself: taking the rows out again leads back, for every algorithm that can forget."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from ml_core.certificates import FAILED
from ml_core.errors import InvalidData
from ml_core.registry import algorithms, build
from service.usecases.updates import _after_update

ABLE = [name for name, entry in algorithms().items() if hasattr(entry.cls, "update") and hasattr(entry.cls, "forget")]
ROW_BY_ROW = [name for name, e in algorithms().items() if hasattr(e.cls, "update") and not hasattr(e.cls, "forget")]
BINARY = ("bernoulli_naive_bayes", "beta_bernoulli", "multinomial_naive_bayes", "one_hot_encoder")


def learned(name: str) -> tuple[Any, Any, tuple[Any, ...]]:
    """A model, the same with seven more rows, and these."""
    r = np.random.default_rng(0)
    X = r.normal(size=(67, 3))
    y = X @ [1.0, 2.0, 3.0] + 0.3 * r.normal(size=67)
    model: Any = build({"algorithm": name, "params": algorithms()[name].cls.example_params}, seed=0)
    X = (np.abs(X) > 0.5).astype(float) if name in BINARY else X
    X = X[:, :1] if name == "beta_bernoulli" else X
    t = (y > 0).astype(int) if model.task == "classification" else y if model.supervised else None
    model.fit(X[:60], None if t is None else t[:60])
    rows = (X[60:], None if t is None else t[60:])
    return copy.deepcopy(model), model.update(*rows), rows


@pytest.mark.parametrize("name", [n for n in ABLE if not n.startswith("one_vs_")])
def test_an_update_is_certified_by_its_undoing(name: str) -> None:
    old, new, rows = learned(name)
    out, _ = _after_update(old, new, rows)
    assert [(c.name, c.holds) for c in out.certificates] == [("learned_rows_leave", True)]
    out, _ = _after_update(new, new, rows)
    assert out.certificates[0].holds == (name == "one_hot_encoder")  # whose rows brought no level


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_rows_learned_one_by_one_are_not_judged_by_the_new_ones_alone(name: str) -> None:
    """Five rows of noise, which least squares would fit exactly."""
    old, _, (X, y) = learned(name)
    noise = y if old.task == "classification" else 10.0 * np.random.default_rng(1).normal(size=len(y))
    rows = (X[:5], noise[:5])
    out, _ = _after_update(old, copy.deepcopy(old).update(*rows), rows)
    assert [c.name for c in out.certificates if not c.holds] == []


def test_what_cannot_be_undone_is_told_and_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, rows = learned("linear_regression")

    def refuse(self: Any, *rows: Any) -> None:
        raise InvalidData("too few digits")

    monkeypatch.setattr(type(new), "forget", refuse)
    out, train = _after_update(old, new, rows)
    assert not out.certificates[0].holds
    assert out.certificates[0].meaning.endswith("too few digits")
    assert FAILED in [w.code for w in out.warnings]
    assert train["rows"] == 7
