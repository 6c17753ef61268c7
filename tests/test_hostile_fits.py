"""Hostile tables for every linear and kernel method: a certificate that fails is told, a refusal is a clear error."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ml_core.certificates import FAILED, Certificate, Diagnostics, Notice, with_failures
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.registry import Answer, Function, build, find
from tests.rows import Row

FAMILIES = ("linear", "logistic", "bases", "svm", "gp", "multiclass")
ROWS: list[Row] = [r for m in FAMILIES for r in importlib.import_module(f"tests.rows.{m}").ROWS]
Given = tuple[np.ndarray, Any, Any]


def numeric(y: Any) -> bool:
    return y is not None and np.asarray(y).dtype.kind == "f"


HOSTILE: dict[str, Callable[[np.ndarray, Any], Given]] = {
    "shift 1e8": lambda X, y: (X + 1e8, y, None),
    "scale 1e150": lambda X, y: (X * 1e150, y, None),
    "scale 1e90": lambda X, y: (X * 1e90, y, None),
    "scale 1e-150": lambda X, y: (X * 1e-150, y, None),
    "mixed units": lambda X, y: (X * np.logspace(-6, 6, X.shape[1]), y, None),
    "weights 1e8": lambda X, y: (X, y, np.full(len(X), 1e8)),
    "weights 1e-8": lambda X, y: (X, y, np.full(len(X), 1e-8)),
    "weights mixed": lambda X, y: (X, y, np.logspace(-8, 8, len(X))),
    "duplicates": lambda X, y: (np.repeat(X[::6], 6, axis=0)[: len(X)], y, None),
    "equal rows": lambda X, y: (np.repeat(X[:1], len(X), axis=0), y, None),
    "constant column": lambda X, y: (np.column_stack([X[:, :-1], np.full(len(X), 7.0)]), y, None),
    "column twice": lambda X, y: (np.column_stack([X, X[:, 0]]), y, None),
    "constant target": lambda X, y: (X, np.full(len(X), 3.0) if numeric(y) else y, None),
    "far target": lambda X, y: (X, y * 1e12 + 1e15 if numeric(y) else y, None),
}  # fmt: skip
EXTREMES = {"alpha": (1e-12, 1e12), "C": (1e-12, 1e12), "nu": (1e-12,)}


def untold(row: Row, given: Given, **params: Any) -> list[str]:
    """Fit and diagnose: certificates that fail without a notice, answers that are not finite, refusals of few words."""
    X, y, s = given
    weights = {} if s is None else {"sample_weight": s}
    target = () if y is None else (y,)
    with np.errstate(all="ignore"):
        try:
            model: Any = build({"algorithm": row.name, "params": row.params | params}).fit(X, *target, **weights)
            out = model.diagnostics(X, *target, **weights)
            answers = [np.asarray(getattr(model, q)(X)) for q in ("predict", "transform") if hasattr(model, q)]
        except (InvalidData, InvalidParameter) as refused:
            return [] if len(str(refused)) > 20 else [str(refused)]
    said = [n.message for n in out.warnings if n.code == FAILED]
    silent = [
        f"{c.name} {c.value} beside {c.tolerance}" for c in out.certificates
        if not c.holds and not any(f"certificate {c.name} " in text for text in said)
    ]  # fmt: skip
    return silent + ["not finite" for a in answers if a.dtype.kind == "f" and not np.isfinite(a).all()]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("hostile", list(HOSTILE))
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_no_certificate_fails_in_silence(row: Row, hostile: str) -> None:
    given = HOSTILE[hostile](*row.data())
    if given[2] is None or find(row.name).cls.weighted:
        assert untold(row, given) == []


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_extreme_penalties_are_told_too(row: Row) -> None:
    own = build({"algorithm": row.name, "params": row.params}).get_params(deep=False)
    for name, values in EXTREMES.items():
        if isinstance(own.get(name), float):
            for value in values:
                assert untold(row, (*row.data(), None), **{name: value}) == []


def test_a_failure_is_told_once_and_says_by_how_much() -> None:
    bad, good = Certificate("gap", 2.0, 1.0, "primal less dual"), Certificate("norm", 0.0, 1.0, "of the gradient")
    short = Certificate("rank", 2.0, 3.0, "columns", at_least=True)
    told = with_failures([Notice("other", "text")], [bad, good, short], "do this")
    assert [n.code for n in told] == ["other", FAILED, FAILED]
    assert told[1].message == "certificate gap does not hold: 2 where at most 1 was due (primal less dual)"
    assert "at least 3" in told[2].message
    assert told[1].advice == "do this"
    assert with_failures(told, [bad, good, short], "do that") == told
    assert Diagnostics(certificates=[bad]).warnings == []


def test_functions_tell_failures_too() -> None:
    def call() -> Answer[Notice]:
        return Answer(Notice("a", "b"), (Certificate("gap", 2.0, 1.0, "primal less dual"),))

    answered = Function("f", call, Notice, "", "", (), {})({})
    assert [w["code"] for w in answered["warnings"]] == [FAILED]
