"""No null without a reason in the same answer, over HTTP."""

from __future__ import annotations

import pytest

from tests.api.test_models import fit, spec

TABLE = "x,z,same,y\n" + "\n".join(f"{i},{i * i % 7},3,{2 * i + i % 3}" for i in range(12)) + "\n"


@pytest.fixture
def table(client):
    return client.post("/v1/datasets", content=TABLE.encode()).json()["id"]


@pytest.mark.parametrize("name", ["linear_regression", "bayesian_linear_regression", "least_mean_squares", "lasso"])
def test_metrics_of_a_target_that_does_not_vary_say_so(name, client, table):
    model = fit(client, estimator=spec(name), dataset=table, target="same", features=["x", "z"])
    assert model["metrics"]["train"]["r2"] is None
    assert [w for w in model["warnings"] if w["code"] == "undefined" and "r2" in w["message"]]
    score = client.post(f"/v1/models/{model['id']}/score", json={"dataset": table}).json()
    assert score["metrics"]["r2"] is None
    assert [text for text in score["warnings"] if text.startswith("r2: null")]


def test_dependent_columns_tell_why_no_condition_number_is_given(client, table):
    body = {"estimator": spec("linear_regression"), "dataset": table, "target": "y", "features": ["x", "same"]}
    report = client.get(fit(client, **body)["links"]["diagnostics"]).json()
    assert report["summary"]["condition_number"] is None
    assert [w for w in report["warnings"] if w["code"] == "undefined" and "condition_number" in w["message"]]


def test_a_budget_beyond_what_a_solver_counts_is_no_error(client):
    given = {"c": [-1.0], "G": [[1.0]], "h": [4.0], "max_iter": 2**60}
    answer = client.post("/v1/functions/linear_programming", json=given)
    assert (answer.status_code, answer.json()["result"]["x"]) == (200, [4.0])


def test_shares_in_place_of_successes_are_told(client):
    cells = "\n".join(f"{i},{3 + i % 5},{0.1 + 0.05 * (i % 9)}" for i in range(20))
    dataset = client.post("/v1/datasets", content=f"x,trials,share\n{cells}\n".encode()).json()["id"]
    binomial = spec("generalized_linear_model", family="binomial", exposure=1)
    model = fit(client, estimator=binomial, dataset=dataset, target="share", features=["x", "trials"])
    assert "fractional_counts" in [w["code"] for w in model["warnings"]]


def test_distributions_without_a_scale_say_why(client):
    dataset = client.post("/v1/datasets", content=b"x,z,y\n1,2,3\n2,5,4\n").json()["id"]
    model = fit(client, estimator=spec("linear_regression"), dataset=dataset, target="y")
    answer = client.post(f"/v1/models/{model['id']}/posterior", json={"rows": [{"x": 1, "z": 2}]}).json()
    assert answer["distributions"][0]["standard_deviation"] is None
    assert [text for text in answer["warnings"] if "standard_deviation" in text and "degrees of freedom" in text]


def test_a_class_called_none_is_no_null(client):
    text = "x,y\n" + "\n".join(f"{i},{['Nones', 'Some'][i % 3 == 0]}" for i in range(30)) + "\n"
    data = client.post("/v1/datasets", content=text.encode()).json()["id"]
    model = fit(client, estimator=spec("bayesian_logistic_regression"), dataset=data, target="y")
    answer = client.post(f"/v1/models/{model['id']}/posterior", json={"rows": [{"x": 3}]}).json()
    assert answer["distributions"][0]["family"] == "categorical"
    assert answer["warnings"] == []
