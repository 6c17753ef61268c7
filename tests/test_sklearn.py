"""scikit-learn's own estimator checks over the registry; only the two error classes that it looks for are aliased."""

from __future__ import annotations

import warnings

import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks, validation

from ml_core import errors
from ml_core.registry import build
from tests.rows import all_rows

SKIPS = {
    "check_array_api_input": "needs SCIPY_ARRAY_API, an experimental mode of scipy",
}


@pytest.mark.parametrize("row", all_rows(), ids=lambda r: r.name)
def test_check_estimator(row, monkeypatch):
    monkeypatch.setattr(estimator_checks, "NotFittedError", errors.NotFittedError)
    monkeypatch.setattr(validation, "NotFittedError", errors.NotFittedError)
    monkeypatch.setattr(estimator_checks, "DataConversionWarning", errors.DataConversionWarning)
    estimator = build({"algorithm": row.name, "params": row.params | row.sklearn_params})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's checks warn on purpose, among others that we do not inherit
        results = estimator_checks.check_estimator(
            estimator, on_fail=None, on_skip=None, expected_failed_checks=row.expected
        )
    failed = {r["check_name"]: repr(r["exception"]) for r in results if r["status"] == "failed"}
    assert not failed
    skipped = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "skipped"}
    unexplained = {k: v for k, v in skipped.items() if k not in SKIPS}
    assert not unexplained
    surplus = [c for c in row.expected if not any(r["check_name"] == c and r["status"] == "xfail" for r in results)]
    assert not surplus, f"these checks pass after all: {surplus}"
    assert len(results) > 30


@pytest.mark.parametrize("row", all_rows(), ids=lambda r: r.name)
def test_clone_keeps_parameters(row):
    estimator = build({"algorithm": row.name, "params": row.params})
    assert repr(clone(estimator)) == repr(estimator)
