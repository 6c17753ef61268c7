"""docs/conventions.md is true: each question has its row, each test that a row names exists and runs."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from ml_core.registry import algorithms, build, find, functions
from tests.checks import CHECKS
from tests.rows import data

ROOT = Path(__file__).parent.parent
TABLE = re.findall(r"^\| (\S+) \| (.+?) \| ([^|]+) \|$", (ROOT / "docs" / "conventions.md").read_text(), re.M)[2:]
QUESTIONS = [
    *(f"X{k:02d}" for k in (1, 4, 5, 6, 14, 17, 18, 20, 21, 30, 31, 44, 60, 61, 62, 63, 64, 65, 66, 67, 72, 73, 81, 82,
                            83, 88, 89, 90, 100, 101, 103, 108, 112)),
    *(f"24.{k}" for k in (1, 2, 4, 6, 7, 9, 10, 11, 13, 16, 17, 18)),
    *(f"25.{k}" for k in (1, 2, 3, 6, 7, 8, 9, 10, 12)),
    *(f"PT{k:02d}" for k in (*range(1, 14), 42, 44)),
    *(f"27.{k}" for k in (1, 3, 4, 5, 6, 12, 16, 17, 19, 20, 21)),
]  # fmt: skip


@cache
def runnable(file: str) -> set[str]:
    """Functions of a test file that nothing skips or expects to fail."""
    if file == "checks":
        return {check.__name__ for check in CHECKS}
    tree = ast.parse((ROOT / "tests" / f"{file}.py").read_text())
    marks = re.compile(r"mark\.(skip|xfail)")
    return {f.name for f in tree.body if isinstance(f, ast.FunctionDef)
            and not any(marks.search(ast.unparse(d)) for d in f.decorator_list)}  # fmt: skip


def test_every_question_has_its_row_in_order() -> None:
    assert [key for key, _, _ in TABLE] == QUESTIONS


@pytest.mark.parametrize(("key", "says", "held"), TABLE, ids=lambda v: v if re.fullmatch(r"[\w.]+", v) else "")
def test_the_tests_that_hold_it_exist(key: str, says: str, held: str) -> None:
    assert says.strip()
    for named in held.split(";"):
        file, name = named.strip().split(": ")
        assert name in runnable(file), f"{key}: {file} has no {name} that runs"


def test_no_inverse_is_formed() -> None:
    files = [*(ROOT / "ml_core").rglob("*.py"), *(ROOT / "service").rglob("*.py")]
    assert len(files) > 400
    found = [str(f) for f in files if re.search(r"\blinalg\.(inv|pinv)\(|\bimport .*\b(inv|pinv)\b", f.read_text())]
    assert found == []


def test_programs_certify_each_condition_of_their_optimum() -> None:
    given = {"P": [[2.0, 0.0], [0.0, 2.0]], "q": [-2.0, -5.0], "G": [[1.0, 2.0]], "h": [3.0]}
    out = functions()["quadratic_programming"](given)
    names = {c["name"] for c in out["certificates"] if c["holds"]}
    assert names >= {"stationarity", "primal_feasibility", "dual_feasibility", "complementary_slackness", "duality_gap"}
    assert np.dot(given["G"][0], out["result"]["x"]) <= 3.0 + 1e-9
    free = optimize.minimize(lambda x: x @ x - 2 * x[0] - 5 * x[1], np.zeros(2)).x
    assert np.dot(given["G"][0], free) > 3.0  # so an answer that forgets the constraint is another one
    assert functions()["linear_programming"]({"c": [1.0], "low": [2.0]})["result"]["x"] == pytest.approx([2.0])


def test_two_classes_of_softmax_are_logistic_regression() -> None:
    X, y = data.binary()
    for parametrization in ("full", "reference"):
        params = {"alpha": 0.0, "parametrization": parametrization}
        both, one = (build({"algorithm": name, "params": more}).fit(X, y)  # type: ignore[attr-defined]
                     for name, more in (("softmax_regression", params), ("logistic_regression", {})))  # fmt: skip
        np.testing.assert_allclose(both.predict_proba(X), one.predict_proba(X), atol=1e-9)
        rows = np.asarray(both.coef_)
        np.testing.assert_allclose(rows[-1] - (rows[0] if len(rows) == 2 else 0), np.ravel(one.coef_), rtol=1e-7)


CLASSIFIERS = {name: a.cls for name, a in algorithms().items() if a.cls.task == "classification"}
SCORED = [name for name, cls in CLASSIFIERS.items() if hasattr(cls, "decision_function") and cls.accepts == "real"]


@pytest.mark.parametrize("name", SCORED)
def test_a_score_of_zero_is_the_second_class(name: str) -> None:
    """Rows that mirror each other, and a query in the middle: a score of exactly 0 wherever nothing rounds."""
    X = np.array([[-2.0, 1], [-2, -1], [-1, 1], [-1, -1], [1, 1], [1, -1], [2, 1], [2, -1]])
    model: Any = build(find(name).example()).fit(X, np.repeat(["a", "b"], 4))  # type: ignore[attr-defined]
    score = float(model.decision_function([[0.0, 0.0]])[0])
    assert model.predict([[0.0, 0.0]]) == ["b" if score >= 0 else "a"]
    if name in ("centroid_classifier", "least_squares_classifier", "perceptron", "linear_discriminant_analysis"):
        assert score == 0
