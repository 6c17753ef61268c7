"""A fit whose time is up before its searches are is answered with the best so far; this runner kills nobody."""

from __future__ import annotations

import pytest

from service.usecases.pace import Pace
from tests.api.test_chunks import BAYES, SMALL, body, small_chunks, table, upload  # noqa: F401 - a fixture
from tests.api.test_models import DROP, MEASURES, fit, spec

NOW = {"limits": {"wall_seconds": 1e-3}}
SLOW = spec("logistic_regression", solver="gradient_descent", alpha=1e-3, max_iter=100_000, tol=1e-12)


def told(model):
    return {w["code"]: w for w in model["warnings"]}


def test_a_late_fit_and_its_validation_are_answered_and_told(client, penguins):
    asked = {"estimator": SLOW, "dataset": penguins, "target": "species", "features": MEASURES, **DROP}
    model = fit(client, **asked, **NOW, validation={"method": "k_fold", "k": 3})
    report = client.get(model["links"]["diagnostics"]).json()
    assert {"time_budget", "not_converged", "certificate_fails"} <= told(model).keys()
    assert "more time" in told(model)["not_converged"]["advice"]
    assert not all(c["holds"] for c in report["certificates"])
    held = model["metrics"]["validation"]
    assert 0.0 <= held["accuracy"] <= 1.0
    assert len(held["folds"]) == 3
    row = dict.fromkeys(MEASURES, 40.0)
    answer = client.post(f"/v1/models/{model['id']}/predict", json={"rows": [row]})
    assert answer.status_code == 200


def test_enough_time_is_not_mentioned(client, penguins):
    asked = {"estimator": spec("logistic_regression"), "dataset": penguins, "target": "species", "features": MEASURES}
    assert "time_budget" not in told(fit(client, **asked, **DROP))


def test_a_late_fit_in_chunks_is_answered_and_told(client):
    estimator = spec("logistic_regression", solver="lbfgs", tol=1e-12)
    model = fit(client, **body(upload(client, table()), target="k", features=["a", "b"], estimator=estimator,
                               limits=SMALL | NOW["limits"]))  # fmt: skip
    assert {"time_budget", "not_converged"} <= told(model).keys()


@pytest.mark.parametrize(("wall", "rest"), [(1.0, 0.5), (10.0, 5.0), (30.0, 10.0), (3600.0, 360.0)])
def test_what_is_left_for_the_rest(wall, rest):
    begun = Pace.of(0.0).until
    assert begun + wall - rest <= Pace.of(wall).until <= begun + wall - rest + 1.0
