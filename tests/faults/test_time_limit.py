"""Limits of time on the real service: searches end before theirs with an answer, what cannot stop is killed at it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.service import Served, table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the runner uses prctl, /proc and flock of Linux"),
]
SECONDS = 20.0
"""Half of it is kept back for what follows the search, which is little for so few rows."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for all of them, whose loops are compiled."""
    served = Served(tmp_path_factory.mktemp("time") / "data")
    dataset = served.upload(table(200), "few")
    for algorithm in ("logistic_regression", "gaussian_process_classification", "random_forest_classifier"):
        assert served.ended(served.fit(algorithm, dataset)["job"])["state"] == "succeeded"
    yield served
    assert served.stop() == 0


def limited(served: Served, rows: int, algorithm: str, **params: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job when it has ended, and the model."""
    made = served.fit(algorithm, served.upload(table(rows), f"rows{rows}"), {"wall_seconds": SECONDS}, **params)
    job = served.ended(made["job"])
    return job, served.http.get(f"/v1/models/{made['id']}").json()


@pytest.mark.parametrize(("algorithm", "rows", "params"), [
    ("gaussian_process_classification", 500, {"n_restarts": 100, "tol": 1e-12}),
    ("logistic_regression", 150, {"solver": "sgd", "alpha": 1e-3, "tol": 1e-300, "max_iter": 10_000_000}),
], ids=["gp", "sgd"])  # fmt: skip
def test_a_search_that_would_last_is_answered_in_time(
    served: Served, algorithm: str, rows: int, params: dict[str, Any]
) -> None:
    job, model = limited(served, rows, algorithm, **params)
    assert job["state"] == "succeeded", job["error"]
    told = {w["code"]: w["message"] for w in model["warnings"]}
    assert "speed of the machine" in told["time_budget"]
    row = {f"x{j}": 0.25 * j for j in range(6)}
    answer = served.http.post(f"/v1/models/{model['id']}/predict", json={"rows": [row]})
    assert answer.status_code == 200


def test_what_cannot_stop_early_is_killed_at_its_limit(served: Served) -> None:
    job, _ = limited(served, 2000, "random_forest_classifier", n_estimators=20_000)
    assert (job["state"], job["error"]["code"]) == ("failed", "timed_out")
