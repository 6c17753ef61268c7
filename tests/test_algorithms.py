"""Registry × checks × row: a registered algorithm without a row fails here."""

from __future__ import annotations

import pytest

from ml_core.registry import algorithms, functions
from tests.checks import CHECKS
from tests.rows import all_rows

ROWS = {row.name: row for row in all_rows()}


def test_every_algorithm_has_exactly_one_row():
    assert sorted(r.name for r in all_rows()) == list(algorithms())


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", ROWS)
def test_algorithm(name, check):
    check(ROWS[name])
    assert True


@pytest.mark.parametrize("name", list(functions()))
def test_function_example_computes_and_is_documented(name):
    f = functions()[name]
    out = f(f.example)
    assert out["result"]
    assert set(f.output_schema()["properties"]) == set(out["result"])
    assert f.summary
    assert f.description
    assert f.input_schema()["properties"]
