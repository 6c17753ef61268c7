"""Registry × checks × row: a registered algorithm without a row fails here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ml_core.registry import algorithms, functions
from tests.checks import CHECKS
from tests.rows import all_rows

ROWS = {row.name: row for row in all_rows()}


def test_every_algorithm_has_exactly_one_row():
    assert sorted(r.name for r in all_rows()) == list(algorithms())


def test_the_files_that_rows_name_exist():
    named = {name for row in all_rows() for name in re.findall(r"tests/\w+\.py", row.no_oracle)}
    assert not [name for name in named if not (Path(__file__).parents[1] / name).exists()]


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
